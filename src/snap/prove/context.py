"""One kernel, walked once for all properties.

Input: a `Task`.  Output: `ProofContext`: what the walk found, what every launch keeps, and the solvers.  It is kept in
the task's memo.  Invariant: the facts hold in every launch that keeps `where=`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from snap.diag.span import Span
from snap.frontend.text import expression
from snap.ir.depth import deep
from snap.ir.types import Level
from snap.prove import Task, cells
from snap.prove.evaluate import Walk
from snap.prove.ladder import Ladder
from snap.prove.sites import Walked
from snap.prove.terms import TRUE, Cond, Poly, Terms, at_least, equal, number
from snap.prove.where import WhereReader, conditions, equalities, multiples, refine, solved


@dataclass(slots=True)
class ProofContext:
    """names: what a precondition can speak of, by the words for it: parameters, `len(x)`, `blocks`.  trusted: what else
    was taken for granted on the way.  divisors: numbers by which `where=` divides, and which may be negative.
    """

    task: Task
    terms: Terms
    ladder: Ladder
    walk: Walk
    found: Walked
    names: dict[str, Poly]
    assumed: tuple[str, ...] = ()
    trusted: dict[str, None] = field(default_factory=dict)
    notes: dict[object, object] = field(default_factory=dict)
    divisors: dict[str, Span] = field(default_factory=dict)

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


def context(task: Task) -> ProofContext:
    found = task.memo.get("context")
    if found is None:
        with deep():
            found = task.memo["context"] = _made(task)
    return found


def _made(task: Task) -> ProofContext:
    walk, facts, where = _begun(task, {}, {})
    whole, same = multiples(facts, names_of(walk)), equalities(facts, names_of(walk))
    if whole or same:  # a number that is a multiple of 8 is 8 times another one: then quotients by 8 are no unknowns
        walk, facts, where = _begun(task, whole, same)
    refine(facts)
    if where is not None and where.divisors:  # by what is known to be positive, `where=` divides without cases
        ranges = {name: p.span() for name, p in walk.out.params.items()}
        walk, facts, where = _begun(task, whole, same, ranges)
        refine(facts)
    walk.terms.tighten()
    walk.out.facts += facts
    _blocks_solved(walk, facts)
    names = names_of(walk)
    assumed: list[str] = [] if task.blocks is None else [f"`blocks={task.blocks}` (checked at every launch)"]
    if task.where is not None:
        for one in conditions(task.where[0].body):
            unused = "" if where is None or one not in where.left_out else ", and not used"
            assumed.append(f"where {expression(one)} (checked at every launch{unused})")
    found = walk.run()
    assumed += [f"the assertion in line {span.line} holds (checked when it runs)" for span in found.asserted]
    made = ProofContext(task, walk.terms, walk.ladder, walk, found, names, tuple(dict.fromkeys(assumed)))
    made.trusted.update({cells.ASSUMED.format(name): None for name in found.cells})
    divisors = [] if where is None else where.divisors
    made.divisors = {expression(e): e.span for y, e in divisors if not walk.ladder.follows(found.facts, at_least(y, 1))}
    return made


def _begun(
    task: Task, whole: dict[str, int], same: dict[str, str], ranges: dict[str, tuple[int, int]] | None = None
) -> tuple[Walk, list[Cond], WhereReader | None]:
    """A walk that has not begun, what `where=` says of its numbers, and how it was read."""
    walk = Walk(task.typed, Ladder(Terms()), whole, same, ranges)
    walk.alone = task.alone
    fixed = _fixed(walk, task.blocks)
    if task.where is None:
        return walk, fixed, None
    tree, outside = task.where
    where = WhereReader(walk.terms, {**outside, **task.constants, **names_of(walk)})
    return walk, [*fixed, *where.facts(tree.body)], where


def _fixed(walk: Walk, blocks: int | tuple[int, ...] | None) -> list[Cond]:
    """What a number in `blocks=` says: a launch with another one is refused (runtime/launch.py)."""
    if blocks is None:
        return []
    grid = blocks if isinstance(blocks, tuple) else (blocks,)
    shape = [equal(extent, grid[axis]) for axis, extent in walk.extents.items() if len(grid) > max(walk.extents)]
    return [c for c in (equal(walk.blocks, math.prod(grid)), *shape) if c != TRUE]


def _blocks_solved(walk: Walk, facts: list[Cond]) -> None:
    """WhereReader an equation gives the number of blocks, it is no unknown."""
    groups = next((atom for atom in walk.blocks.atoms if atom.kind == "groups"), None)
    found = None if groups is None else solved(facts, groups)
    if groups is None or found is None:
        return
    known = walk.terms.side(0, lambda atom: True)
    known.put(groups, found)
    walk.blocks = known.poly(walk.blocks)
    walk.out.facts[:] = [known.cond(c) for c in walk.out.facts]
    walk.out.facts += [at_least(found, groups.low), at_least(number(groups.high), found)]


def names_of(walk: Walk) -> dict[str, Poly]:
    """What a launch is given."""
    names = {**walk.out.params, "blocks": walk.blocks} if "blocks" not in walk.out.params else dict(walk.out.params)
    for name, root in walk.out.roots.items():
        length = root.length if root.shape is None else root.shape[0]
        if length is not None:
            names[f"len({name})"] = length
    return names
