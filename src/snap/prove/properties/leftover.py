"""Elements that no unit gets, because a view's number does not divide the extent.

Input: what the walk found: views that divide a dimension by a number (`Divided`).  Output: obligations of the property
views.  Invariant: one is proved where the number divides the extent in every launch, or where some unit may touch what
is left over: then it is handed out, as with a guard in the last part.  It is asked where both are numbers of the launch
(the same for all threads, and in every iteration); of an array without a shape only where `where=` says by an equation
how long it is, since one that is only long enough may be longer than what the kernel is for.  Non-goals: whether the
part of an element is used; indices of a part beyond its extents, which *bounds* shows to be inside of the array.
"""

from __future__ import annotations

from snap._compiler.analysis.exact import kinds, logic
from snap._compiler.analysis.exact.conditions import at_least, equal, negated
from snap._compiler.analysis.exact.ladder import NO
from snap._compiler.analysis.exact.logic import Cond, each
from snap._compiler.analysis.exact.terms import Poly
from snap._compiler.ir.types import Level
from snap._compiler.walk.sites import Divided, Site
from snap.prove.properties.context import ProofContext
from snap.prove.properties.extents import sizes
from snap.prove.properties.goals import shown
from snap.prove.replay import example
from snap.prove.verdict import Obligation, Property, Verdict


def left_over(c: ProofContext) -> list[Obligation]:
    """One obligation for each view, and each dimension that it divides, by the first place where one is open."""
    found: dict[tuple, Obligation] = {}
    for one in c.found.divided:
        key = one.root.name, one.span, one.dimension
        known = found.get(key)
        if (known is None or known.verdict is Verdict.PROVED) and _asked(c, one):
            found[key] = _decided(c, one)
    return list(found.values())


def _asked(c: ProofContext, one: Divided) -> bool:
    """Return whether both numbers are the launch's, and the extent is one that the kernel counts on."""
    atoms = {atom for p in (one.extent, one.by) for atom in (p.atoms | p.inside)}
    if any(atom.per.level is not Level.GRID or atom.depth for atom in atoms) or c.terms.span(one.by)[0] < 1:
        return False
    if one.root.shape is not None or one.extent != one.root.length:
        return True
    lengths = {atom for atom in one.extent.atoms if atom.kind is kinds.LENGTH}
    said = (fact[1].atoms for fact in each(c.facts) if fact[0] == logic.EQ)
    return not lengths or any(not lengths.isdisjoint(atoms) for atoms in said)


def _decided(c: ProofContext, one: Divided) -> Obligation:
    what = f"`{shown(one.span)}` hands out every element of `{one.root.name}`"
    if one.root.shape is not None and len(one.root.shape) > 1:
        what += f", in dimension {one.dimension}"
    parts = c.terms.divide(one.extent, one.by)
    divides = equal(one.extent, parts * one.by)
    known = [*c.facts, *one.path]
    rest = [*known, negated(divides)]
    answer = c.ladder.solve(rest)
    if answer is NO:
        return Obligation(Property.VIEWS, Verdict.PROVED, what, one.span, "it divides the extent in every launch")
    through = [s for s in c.found.sites if s.root is one.root and any(e.handle is one.handle for e in s.chain)]
    if not through or any(_touches(c, s, one, parts * one.by, rest) for s in through):
        return Obligation(Property.VIEWS, Verdict.PROVED, what, one.span, "a unit may get what is left over")
    return Obligation(
        Property.VIEWS,
        Verdict.UNKNOWN,
        what,
        one.span,
        "what is left over is in no part, and no unit touches it",
        help="let the number divide the extent; or leave the rest out: `views.upto(n) >> ...`",
        needs=_needs(c, one, [*known, divides]),
        example=example(c, rest, answer),
    )


def _touches(c: ProofContext, s: Site, one: Divided, whole: Poly, rest: list[Cond]) -> bool:
    """Return whether an access may touch what is left over; of one that sees other elements nobody knows."""
    if s.elem != s.root.obj.elem or s.shape != s.root.shape or len(s.index) <= one.dimension:
        return True
    last = s.index[one.dimension] + (sizes(s)[one.dimension] - 1)
    return c.ladder.solve([*rest, *s.path, at_least(last, whole)]) is not NO


def _needs(c: ProofContext, one: Divided, divided: list[Cond]) -> tuple[str, ...]:
    """In the words of `where=`: that it divides the extent, if it does so in some launch."""
    extent = next((name for name, p in c.names.items() if p == one.extent), None)
    by = next((name for name, p in c.names.items() if p == one.by), None)
    by = by if one.by.value is None else str(one.by.value)
    if extent is None or by is None or c.ladder.solve(divided) is NO:
        return ()
    return (f"{extent} % {by} == 0",)
