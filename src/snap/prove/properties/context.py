"""One kernel, walked once for all properties.

Input: a `Task`.  Output: `ProofContext`: what the walk found, what every launch keeps, and the solvers.  It is kept in
the task's memo.  Invariant: the facts hold in every launch that keeps `where=`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from snap._compiler.analysis.exact import kinds, logic
from snap._compiler.analysis.exact.conditions import at_least, equal, simple
from snap._compiler.analysis.exact.ladder import Ladder
from snap._compiler.analysis.exact.logic import TRUE, Cond
from snap._compiler.analysis.exact.renaming import Renaming
from snap._compiler.analysis.exact.terms import ZERO, Atom, Poly, Terms, number
from snap._compiler.frontend.printer import expression
from snap._compiler.ir.depth import deep
from snap._compiler.ir.types import GRID1, Level
from snap._compiler.walk import cells
from snap._compiler.walk.evaluate import Walk
from snap._compiler.walk.sites import Walked
from snap._compiler.walk.state import LaunchFacts, Value
from snap._compiler.walk.where import (
    Elements,
    WhereReader,
    conditions,
    divisible,
    equalities,
    multiples,
    refine,
    solved,
)
from snap.diag.span import Span
from snap.prove import Task
from snap.prove.verdict import Unused


@dataclass(slots=True)
class ProofContext:
    """names: what a precondition can speak of, by the words for it: parameters, `len(x)`, `blocks`.  trusted: what else
    was taken for granted on the way.  divisors: numbers by which `where=` divides, and which may be negative.
    unused: conditions of `where=` that no proof uses.  needed: with what `where=` does not say, indices are inside: a
    launch that is to show something else keeps it.
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
    unused: tuple[Unused, ...] = ()
    needed: list[Cond] = field(default_factory=list)

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
    walk, facts, where = _begun(task, LaunchFacts(most=task.most))
    whole, same = multiples(facts, names_of(walk)), equalities(facts, names_of(walk))
    if whole or same:  # a number that is a multiple of 8 is 8 times another one: then quotients by 8 are no unknowns
        walk, facts, where = _begun(task, LaunchFacts(whole, same, most=task.most))
    refine(facts)
    if where is not None and where.divisors:  # by what is known to be positive, `where=` divides without cases
        ranges = {name: p.span() for name, p in walk.out.params.items()}
        walk, facts, where = _begun(task, LaunchFacts(whole, same, ranges, task.most))
        refine(facts)
    refine([c for c in walk.out.facts if c[0] == logic.GE and len(c[1].terms) == 1])  # extents are not negative
    walk.terms.tighten()
    walk.out.facts += facts
    _blocks_solved(walk, facts)
    _multiplied(walk)
    walk.out.facts[:] = [c for c in walk.out.facts if simple(c) != TRUE]  # what ranges say by now
    names = names_of(walk)
    assumed: list[str] = [] if task.blocks is None else [f"`blocks={task.blocks}` (checked at every launch)"]
    if task.where is not None:
        for one in conditions(task.where[0].body):
            not_used = where is not None and any(one is left for left, _ in where.left_out)
            assumed.append(f"where {expression(one)} (checked at every launch{', and not used' * not_used})")
    found = walk.run()
    assumed += [f"the assertion in line {span.line} holds (checked when it runs)" for span in found.asserted]
    made = ProofContext(task, walk.terms, walk.ladder, walk, found, names, tuple(dict.fromkeys(assumed)))
    made.unused = () if where is None else tuple(Unused(expression(e), why, e.span) for e, why in where.left_out)
    made.trusted.update({cells.ASSUMED.format(name): None for name in found.cells})
    divisors = [] if where is None else where.divisors
    made.divisors = {expression(e): e.span for y, e in divisors if not walk.ladder.follows(found.facts, at_least(y, 1))}
    return made


def _begun(task: Task, told: LaunchFacts) -> tuple[Walk, list[Cond], WhereReader | None]:
    """A walk that has not begun, what `where=` says of its numbers, and how it was read."""
    walk = Walk(task.typed, Ladder(Terms()), told)
    walk.alone = task.alone
    fixed = _fixed(walk, task.blocks)
    if task.where is None:
        return walk, fixed, None
    tree, outside = task.where
    grid = {"grid": Elements(walk.extents[axis] for axis in sorted(walk.extents))} if walk.extents else {}
    where = WhereReader(walk.terms, {**outside, **grid, **task.constants, **names_of(walk)})
    return walk, [*fixed, *where.facts(tree.body)], where


def _fixed(walk: Walk, blocks: int | tuple[int, ...] | None) -> list[Cond]:
    """Return what a number in `blocks=` says: a launch with another one is refused (host/launch.py)."""
    if blocks is None:
        return []
    grid = blocks if isinstance(blocks, tuple) else (blocks,)
    shape = [equal(extent, grid[axis]) for axis, extent in walk.extents.items() if len(grid) > max(walk.extents)]
    return [c for c in (equal(walk.blocks, math.prod(grid)), *shape) if c != TRUE]


def _blocks_solved(walk: Walk, facts: list[Cond]) -> None:
    """Put a number in the place of the number of blocks, if an equation gives it."""
    groups = next((atom for atom in walk.blocks.atoms if atom.kind is kinds.GROUPS), None)
    found = None if groups is None else solved(facts, groups)
    if groups is not None and found is not None:
        _put(walk, {groups: found})


def _multiplied(walk: Walk) -> None:
    """Put a product in the place of a number that is a multiple of another one: then their quotient is not an unknown,
    and what is divided by the other and multiplied again is what it was.
    """
    while (found := divisible(walk.out.facts)) is not None:
        atom, divisor, quotient = found
        least, most = divisor.span()
        low, high = -(-atom.low // most), atom.high // least
        times = walk.terms.base(kinds.ANY, low, high, GRID1, name=f"{atom} / {divisor}")
        _put(walk, {atom: divisor * times, quotient: times})


def _put(walk: Walk, instead: dict[Atom, Poly]) -> None:
    """Numbers of the launch are what others say that they are, before anything is walked."""
    known = Renaming(walk.terms).put(instead)
    for atom, p in instead.items():
        walk.terms.tell(p, atom.low, atom.high)
    limits = [c for a, p in instead.items() for c in (at_least(p, a.low), at_least(number(a.high), p))]
    walk.blocks = known.poly(walk.blocks)
    walk.out.facts[:] = [c for c in (*map(known.cond, walk.out.facts), *limits) if c not in (TRUE, (logic.EQ, ZERO))]
    walk.out.params.update({name: known.poly(p) for name, p in walk.out.params.items()})
    walk.extents.update({axis: known.poly(p) for axis, p in walk.extents.items()})
    for values in (walk.vars, walk.initial):
        values.update({key: _renamed(known, v) for key, v in values.items()})
    for root in walk.out.roots.values():
        root.shape = None if root.shape is None else tuple(map(known.poly, root.shape))
        root.length = None if root.length is None else known.poly(root.length)
        root.bytes = known.poly(root.bytes)


def _renamed(known: Renaming, v: Value) -> Value:
    return Value(known.poly(v.term), v.deps) if isinstance(v.term, Poly) else v


def names_of(walk: Walk) -> dict[str, Poly]:
    """Return what a launch is given."""
    names = {**walk.out.params, "blocks": walk.blocks} if "blocks" not in walk.out.params else dict(walk.out.params)
    names.update((f"grid[{axis}]", walk.extents[axis]) for axis in sorted(walk.extents))
    for name, root in walk.out.roots.items():
        length = root.elements(walk.terms)
        if length is not None:
            names[f"len({name})"] = length
    return names
