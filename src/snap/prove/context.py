"""One kernel, walked once for all properties.

Input: a `Task`.  Output: `Context`: what the walk found, what every launch keeps, and the solvers.  It is kept in the
task's memo.  Invariant: the facts hold in every launch that keeps `where=`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from snap.diag.span import Span
from snap.frontend.text import expression
from snap.ir.depth import deep
from snap.ir.types import Level
from snap.prove import Task
from snap.prove.evaluate import Walk
from snap.prove.ladder import Ladder
from snap.prove.sites import Walked
from snap.prove.terms import Cond, Poly, Terms
from snap.prove.where import Where, refine


@dataclass(slots=True)
class Context:
    """names: what a precondition can speak of, by the words for it: parameters, `len(x)`, `blocks`."""

    task: Task
    terms: Terms
    ladder: Ladder
    walk: Walk
    found: Walked
    names: dict[str, Poly]
    assumed: tuple[str, ...] = ()
    notes: dict[str, object] = field(default_factory=dict)

    @property
    def facts(self) -> list[Cond]:
        return self.found.facts

    @property
    def cluster(self) -> int:
        place = self.task.typed.place
        return place.known(Level.BLOCK) if place.held(Level.CLUSTER) is not None else 1

    @property
    def span(self) -> Span:
        return self.task.typed.span


def context(task: Task) -> Context:
    found = task.memo.get("context")
    if found is None:
        with deep():
            found = task.memo["context"] = _made(task)
    return found


def _made(task: Task) -> Context:
    terms = Terms()
    ladder = Ladder(terms)
    walk = Walk(task.typed, ladder)
    names = names_of(walk)
    assumed: list[str] = []
    if task.where is not None:
        tree, outside = task.where
        known = {**outside, **task.constants, **names}
        where = Where(terms, known)
        facts = where.facts(tree.body)
        refine(facts)
        walk.out.facts += facts
        items = tree.body.items if type(tree.body).__name__ == "Sequence" else (tree.body,)
        assumed += [f"where {expression(one)} (checked at every launch)" for one in items]
    found = walk.run()
    assumed += [f"the assertion in line {span.line} holds (checked when it runs)" for span in found.asserted]
    return Context(task, terms, ladder, walk, found, names, tuple(dict.fromkeys(assumed)))


def names_of(walk: Walk) -> dict[str, Poly]:
    """What a launch is given."""
    names = {**walk.out.params, "blocks": walk.blocks} if "blocks" not in walk.out.params else dict(walk.out.params)
    for name, root in walk.out.roots.items():
        length = root.length if root.shape is None else root.shape[0]
        if length is not None:
            names[f"len({name})"] = length
    return names
