"""From a model of the solvers to a launch that the CPU machine confirms.

Input: conditions under which something goes wrong.  Output: a `Launch` in which the machine has seen it, or None.
Invariant: nothing is called refuted for which the machine did not report a fault of that kind at that place, in that
array: of two accesses in one line, and of one that several calls make, each with an array of its own, it is that one.
Non-goals: what depends on what is in memory: arrays hold zeros.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from snap.analysis.exact.ladder import NoModel, TermModel
from snap.analysis.exact.models import evaluated
from snap.analysis.exact.terms import Cond, Poly, at_least, equal, number
from snap.diag.span import Span
from snap.prove.context import ProofContext
from snap.prove.verdict import Launch

# The most that a parameter, the number of blocks, and an array's length may be: small launches first.
SIZES = ((2, 2, 64), (8, 2, 256), (64, 4, 4096), (1024, 8, 1 << 16))
MOST_RUNS = 16  # of a kernel


def confirmed(
    c: ProofContext, conds: Iterable[Cond], kinds: tuple[str, ...], places: Iterable[Span], arrays: Iterable[str] = ()
) -> Launch | None:
    """kinds: how the machine names what it should see; places: where, all of them; arrays: in which, by one of its
    names.
    """
    if c.task.run is None:
        return None
    tried: set[Launch] = set()
    for launch in _launches(c, list(conds)):
        if launch not in tried:
            tried.add(launch)
            shown = seen(c, launch, kinds, places, arrays)
            if shown is not None:
                return shown
    return None


def seen(
    c: ProofContext, launch: Launch, kinds: tuple[str, ...], places: Iterable[Span], arrays: Iterable[str] = ()
) -> Launch | None:
    """The launch, if the machine sees in it what it should."""
    runs = c.notes.setdefault("runs", 0)
    if c.task.run is None or not isinstance(runs, int) or runs >= MOST_RUNS:
        return None
    c.notes["runs"] = runs + 1
    found = c.task.run(launch)
    if found is None or found[0] not in kinds or not set(places) <= set(found[2]):
        return None
    named = tuple(arrays)
    if named and not any(f"`{name}`" in found[1] or f"`{name}[" in found[1] for name in named):
        return None
    return replace(launch, seen=found[1])


def _launches(c: ProofContext, conds: list[Cond]) -> Iterator[Launch]:
    for most, blocks, length in SIZES:
        small: list[Cond] = []
        for name, p in c.names.items():
            end = blocks if name == "blocks" else length if name.startswith("len(") else most
            small += [at_least(number(end), p), at_least(p, -end)]
        known = [*conds, *small]
        found = c.ladder.solve(known)
        if not isinstance(found, NoModel):
            yield launch_of(c, _smallest(c, known, found))


def _smallest(c: ProofContext, known: list[Cond], found: TermModel) -> TermModel:
    """The same with one number after the other as near to zero as it can be: blocks, arguments, lengths.  So the launch
    does not depend on which model a solver finds first.
    """
    for p in sorted(c.names.values(), key=lambda p: p is not c.walk.blocks):
        model = c.ladder.solve([*known, at_least(p, 0)])
        sign = 1 if not isinstance(model, NoModel) else -1
        found = found if isinstance(model, NoModel) else model
        low, high = 0, sign * _at(p, found)
        while low < high:
            middle = (low + high) // 2
            model = c.ladder.solve([*known, at_least(p * sign, 0), at_least(number(middle), p * sign)])
            if isinstance(model, NoModel):
                low = middle + 1
            else:
                found, high = model, min(middle, sign * _at(p, model))
        known = [*known, equal(p, sign * high)]
    return found


def _at(p: Poly, model: TermModel) -> int:
    return evaluated(p, {**{atom: max(atom.low, min(0, atom.high)) for atom in p.atoms}, **model})


def launch_of(c: ProofContext, model: TermModel) -> Launch:
    shaped = {f"len({name})" for name, root in c.found.roots.items() if root.shape is not None}
    given = [(name, _at(p, model)) for name, p in c.names.items() if name != "blocks" and name not in shaped]
    return Launch(_at(c.walk.blocks, model), tuple(given))
