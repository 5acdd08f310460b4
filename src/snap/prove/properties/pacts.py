"""Contracts that speak of two threads: `pairs=` of one call, `calls=` of two.

Input: how threads return from such functions, and what the walk knows behind their calls (`Pact`).  Output:
obligations, and what holds of two threads that are compared (disjoint.py asks).  Invariant: a fact is an instance of a
condition that is among the obligations.

When two threads are in one call: their unit made it, at one place of the text, which was passed once since they last
were in step.  So it is for two units that are in one entry of a scope, if the call came before the entry: what a loop
around it assigns is another number behind the loop (loops.py), so an index that is made of what the call returned is
of the same iteration as the call.  With `disjoint=True`, for any entries, the call must stand in no loop.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from snap._compiler.analysis.exact.conditions import atoms_of, both, either, equal, negated
from snap._compiler.analysis.exact.ladder import NO, NoModel
from snap._compiler.analysis.exact.logic import FALSE, TRUE, Cond
from snap._compiler.analysis.exact.renaming import Renaming
from snap._compiler.analysis.exact.terms import Atom, Poly
from snap._compiler.ir.contracts import Condition
from snap._compiler.ir.types import Level, Privilege
from snap._compiler.walk.contracts import meant
from snap._compiler.walk.sites import Pact, Site
from snap._compiler.walk.where import Attributes, Elements
from snap.diag.error import Label
from snap.prove.properties import draws
from snap.prove.properties.context import ProofContext
from snap.prove.verdict import Obligation, Property, Verdict

PactSide = tuple[Site | Pact, Renaming]


# ---- what has to be shown -------------------------------------------------------------------------------------------


def obligations(c: ProofContext) -> list[Obligation]:
    found: dict[tuple, Obligation] = {}
    calls: dict[int, list[Pact]] = {}
    for end in c.found.ends:
        calls.setdefault(end.called.number, []).append(end)
    for ends in calls.values():
        for a, b in itertools.product(ends, ends):
            for one in a.called.contract.pairs:
                _note(
                    found,
                    _shown(
                        c, a, b, one, f"of two threads in one call of `{a.called.function.name}`", _one_call(c, a, b)
                    ),
                )
    for a, b in itertools.product(c.found.ends, c.found.ends):
        if _alike(a, b):
            for one in a.called.contract.calls:
                _note(found, _shown(c, a, b, one, f"of two calls of `{a.called.function.name}`", _two_calls(c, a, b)))
    return list(found.values())


def _note(found: dict[tuple, Obligation], o: Obligation) -> None:
    """Keep the worst obligation of each place."""
    key = o.what, o.span
    if key not in found or found[key].verdict is Verdict.PROVED:
        found[key] = o


def _one_call(c: ProofContext, a: Pact, b: Pact) -> tuple[Sequence[PactSide], list[Cond], Privilege | None]:
    """Return what is known of two threads that return from one call."""

    def shared(atom: Atom) -> bool:
        return atom.per.at_least(a.called.by) and atom.depth <= a.called.depth

    first, second = _renamed(c, ("pairs", a.called.by, a.called.depth), shared)
    other = negated(equal(first.poly(c.walk.thread), second.poly(c.walk.thread)))
    together = [equal(first.poly(a.called.unit), second.poly(b.called.unit)), other]
    return ((a, first), (b, second)), together, a.called.by


def _two_calls(c: ProofContext, a: Pact, b: Pact) -> tuple[Sequence[PactSide], list[Cond], Privilege | None]:
    """Return what is known of two threads of different units, each of which returns from a call of its own."""
    first, second = _renamed(c, "calls", lambda atom: atom.per.level is Level.GRID and atom.depth == 0)
    return ((a, first), (b, second)), [_two_units(c, a, first, b, second)], None


def _renamed(c: ProofContext, key: object, shared: Any) -> tuple[Renaming, Renaming]:
    known = c.notes.get(("returning", key))
    if known is None:
        known = c.notes["returning", key] = (Renaming(c.terms, 1, shared), Renaming(c.terms, 2, shared))
    return known  # type: ignore[return-value]


def _shown(c: ProofContext, a: Pact, b: Pact, one: Condition, of: str, known: tuple) -> Obligation:
    what = f"{of}, `{one.text}`"
    sides, told, outer = known
    others = () if a.span == b.span else (Label(b.span, "and this"),)
    if a.trusted or b.trusted:
        place = a.span if a.trusted else b.span
        return Obligation(Property.CONTRACT, Verdict.UNKNOWN, what, place, "it is not looked at", others=others)
    (_, first), (_, second) = sides
    goal = _says(c, one, _put(a.names, first), _put(b.names, second))
    asked = [side.cond(fact) for end, side in sides for fact in (*c.facts, *end.path)]
    asked += [*told, *facts(c, outer, min(a.count, b.count), a.called.depth if outer is not None else -1, sides)]
    asked += [*draws.facts(c, outer, sides), negated(goal)]
    answer = c.ladder.solve(asked) if goal != FALSE else None
    if answer is NO:
        return Obligation(Property.CONTRACT, Verdict.PROVED, what, a.span, "shown for every launch")
    reason = (
        "the solvers do not decide it"
        if isinstance(answer, NoModel)
        else "what is known where it returns does not tell"
    )
    help = 'return inside of `with trust("why"):` what only you can know'
    return Obligation(Property.CONTRACT, Verdict.UNKNOWN, what, a.span, reason, others=others, help=help)


# ---- what is known --------------------------------------------------------------------------------------------------


def facts(c: ProofContext, outer: Privilege | None, count: int, depth: int, sides: Sequence[PactSide]) -> list[Cond]:
    """Return what holds of two threads.  outer: they are of one unit of it, and what was settled when there were so
    many atoms, with so many loops around, is of one time for both (depth -1: of any time); None: they are of any two
    blocks.
    """
    found: list[Cond] = []
    (one, first), (other, second) = sides
    used = [{a for a in atoms_of(site.path, site.index) if not a.defined} for site in (one, other)]
    for p in c.found.pacts:
        for q in c.found.pacts:
            if p.fresh & used[0] and q.fresh & used[1]:
                if p is q and outer is not None and p.count <= count and (depth < 0 or p.called.depth == depth):
                    found += _in_one_call(c, outer, p, first, second)
                if _alike(p, q):
                    found += _in_two_calls(c, p, first, q, second)
    return found


def _in_one_call(c: ProofContext, outer: Privilege, p: Pact, first: Renaming, second: Renaming) -> Iterator[Cond]:
    together = TRUE if p.called.by.at_least(outer) else _same_unit(c, p, first, p, second)
    a, b = _put(p.names, first), _put(p.names, second)
    for one in p.called.contract.pairs:
        yield from _instances(c, one, a, b, together)


def _in_two_calls(c: ProofContext, p: Pact, first: Renaming, q: Pact, second: Renaming) -> Iterator[Cond]:
    apart = _two_units(c, p, first, q, second)
    a, b = _put(p.names, first), _put(q.names, second)
    for one in p.called.contract.calls:
        yield from _instances(c, one, a, b, apart)


def _instances(c: ProofContext, one: Condition, a: Any, b: Any, where: Cond) -> Iterator[Cond]:
    """Either of the two may be the first."""
    for fact in (_says(c, one, a, b), _says(c, one, b, a)):
        if fact != FALSE:
            yield either(negated(where), fact)


def _alike(p: Pact, q: Pact) -> bool:
    """Calls of one function, with the same memory."""
    same = p.called.function.name == q.called.function.name and p.called.contract == q.called.contract
    one, other = (x.called.memory for x in (p, q))
    sizes = len(one.roots) == len(other.roots) and len(one.captured) == len(other.captured)
    return bool(p.called.contract.calls) and same and sizes and all(a is b for a, b in zip(one.roots, other.roots))


def _same_unit(c: ProofContext, p: Pact, first: Renaming, q: Pact, second: Renaming) -> Cond:
    places = [c.walk.block, *((c.walk.cluster,) if c.walk.cluster is not None else ())]
    here = [equal(first.poly(place), second.poly(place)) for place in places]
    return both(*here, equal(first.poly(p.called.unit), second.poly(q.called.unit)))


def _two_units(c: ProofContext, p: Pact, first: Renaming, q: Pact, second: Renaming) -> Cond:
    """Return which have the same part of their memory."""
    captured = zip(p.called.memory.captured, q.called.memory.captured)
    return both(
        negated(_same_unit(c, p, first, q, second)), *(equal(first.poly(a), second.poly(b)) for a, b in captured)
    )


def _says(c: ProofContext, one: Condition, a: Any, b: Any) -> Cond:
    return meant(c.terms, one, dict(zip(one.params, (a, b))))


def _put(names: Any, side: Renaming) -> Any:
    """Return what one of the two threads calls so."""
    if isinstance(names, Poly):
        return side.poly(names)
    if isinstance(names, Elements):
        return Elements(_put(one, side) for one in names)
    if isinstance(names, dict):
        return Attributes({name: _put(one, side) for name, one in names.items()})
    return side.cond(names) if isinstance(names, tuple) else names
