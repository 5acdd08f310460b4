"""The property init: nothing is read before it is written.

Input: a `Task`.  Output: `Findings`: one obligation for each place that reads shared memory, or a variable that was
declared without a value.  Invariant: where all are proved, and races, order and bounds are, each such read finds what
somebody wrote, in every launch.  Non-goals: what was written last; global memory, which the launch brings.

A read that its own thread has made right, on the way to it and by the same index, is shown by looking; others by sets
(covered_sets.py), or where products stand in the indices by the solvers.
"""

from __future__ import annotations

from dataclasses import replace

from snap._compiler.analysis.exact.conditions import at_least, atoms_of, below, both, equal, from_memory, negated
from snap._compiler.analysis.exact.ladder import NO
from snap._compiler.analysis.exact.logic import Cond
from snap._compiler.analysis.exact.renaming import NotFollowed, Substitution
from snap._compiler.analysis.exact.terms import Atom, Poly, number
from snap._compiler.analysis.solvers.allowance import NotReached, check
from snap.diag.error import Label
from snap.prove import Task
from snap.prove.properties.context import ProofContext, context
from snap.prove.properties.covered import Before, Touch, before, nearest, plainly, touches
from snap.prove.properties.covered_sets import Beyond, Sets, limited
from snap.prove.properties.goals import shown
from snap.prove.replay import as_example, launch_of, seen
from snap.prove.verdict import Findings, Launch, Obligation, Property, Resting, Verdict, not_reached

PATIENCE = 8  # so often isl may give a kernel's sets up: then it is not asked any more
NEAREST = 2  # writes that come before, which are asked about by themselves first
LAST = 2  # of earlier iterations, so many are tried
OTHERS = "what other threads have written is there when it is read (the properties races and order)"


def init(task: Task) -> Findings:
    c = context(task)
    places: dict[tuple, list[Touch]] = {}
    writes: dict[object, list[Touch]] = {}
    for one in touches(c):
        if one.writes:
            writes.setdefault(one.store, []).append(one)
        if one.reads:
            places.setdefault((one.name, one.span), []).append(one)
    found, others = [], False
    for group in places.values():
        o, by_others = _place(c, group, writes)
        found.append(o)
        others = others or by_others
    rests = (Resting(OTHERS, (Property.RACES, Property.ORDER)),) if others else ()
    return Findings(tuple(found), c.assumed, rests)


def _place(c: ProofContext, reads: list[Touch], writes: dict[object, list[Touch]]) -> tuple[Obligation, bool]:
    """One obligation for each place.  With whether others' writes are among those that it counts on."""
    what = f"`{shown(reads[0].span)}` is written before it is read"
    try:
        return _asked(c, what, reads, writes)
    except NotReached:
        return not_reached(Property.INIT, what, reads[0].span), False


def _asked(
    c: ProofContext, what: str, reads: list[Touch], writes: dict[object, list[Touch]]
) -> tuple[Obligation, bool]:
    first, others = reads[0], False
    for read in reads:
        check()
        if not read.known:
            return Obligation(Property.INIT, Verdict.UNKNOWN, what, read.span, "CUDA text is not looked into"), False
        ways = before(read, writes.get(read.store, []))
        if plainly(read, ways):
            continue
        others = others or not read.own
        sets = by_sets(c, read, ways)
        if sets is None or sets.left is None or not sets.left.empty:
            if not by_solver(c, read, ways):
                return _open(c, read, what, ways, sets), others
    return Obligation(Property.INIT, Verdict.PROVED, what, first.span, "shown for every launch"), others


# ---- the questions --------------------------------------------------------------------------------------------------


def by_sets(c: ProofContext, read: Touch, ways: list[Before]) -> Sets | None:
    """Return what isl leaves of the read; None where it cannot be asked.  Writes that reach what memory decides come in
    only where the others do not do: each takes many pieces away, and most kernels fill their memory first.  Nor do
    writes that are far away, where the nearest ones do.
    """
    clear = [b for b in ways if not b.write.vague]
    found: Sets | None = None
    rounds = [(nearest(clear), True), (clear, True), (clear, False)] if clear else []
    if len(clear) > NEAREST:
        rounds.insert(0, (clear[:NEAREST], True))
    if len(clear) < len(ways) or not ways:
        rounds.append((ways, False))
    for some, coarse in rounds:
        found = _subtracted(c, read, some, coarse)
        if found is not None and found.left is not None and found.left.empty:
            break
    return found


def _subtracted(c: ProofContext, read: Touch, ways: list[Before], coarse: bool) -> Sets | None:
    failed = c.notes.setdefault("sets", 0)
    if isinstance(failed, int) and failed >= PATIENCE:
        return None
    try:
        sets = Sets(c, read, ways, coarse)
    except Beyond:
        return None
    covered = c.notes.setdefault("covered", {})
    assert isinstance(covered, dict)
    key = sets.key()
    if key in covered:
        return covered[key]
    with limited():
        sets.solve()
    if sets.left is None and not coarse:
        c.notes["sets"] = failed + 1 if isinstance(failed, int) else 1
    if sets.left is not None and sets.left.empty:
        covered[key] = sets
    return sets


def by_solver(c: ProofContext, read: Touch, ways: list[Before]) -> bool:
    """Writes of the thread itself, in the same iteration, or in the one for which the indices agree: whether one of
    them was certainly made, by the same index.  The indices may have products.
    """
    known = [*c.facts, *read.path]
    missed: list[Cond] = []
    for b in ways:
        w = b.write
        if b.self and w.like(read) and w.rank == read.rank and all(a >= n for a, n in zip(w.sizes, read.sizes)):
            missed += [negated(made) for made in _made(c, read, b)]
    return bool(missed) and c.ladder.solve([*known, *missed]) is NO


def _made(c: ProofContext, read: Touch, b: Before) -> list[Cond]:
    """Conditions under which the thread has made this write by the index that is read, each for iterations of the loops
    around the write that are named by the read: a number that an index of the write is, or counts from, is what makes
    it equal to the read's; an earlier iteration that no index names is one of the last ones.  That the iterations came,
    what the path says for these numbers tells, together with the ranges of the counters, which are not said there again
    (`range(4)` leaves nothing to ask); if nothing leaves a loop early; and nothing else in it may be of these
    iterations alone.
    """
    w = b.write
    guards = [one for one in w.path if one not in c.found.defines]
    loops = w.when.loops[b.same :]
    trips = [atom for loop in loops for atom in loop.trip.atoms]
    inside = [atom for atom in atoms_of(guards, w.index) if not atom.defined]
    if not all(loop.full for loop in loops) or any(not (atom in trips or b.shared(atom)) for atom in inside):
        return []
    named: dict[Atom, Poly] = {}
    for i, j in zip(w.index, read.index):
        mine = [atom for atom in atoms_of([], [i]) if atom in trips]
        if len(mine) == 1 and i.terms.get((mine[0],)) == 1:
            rest = i - Poly({(mine[0],): 1})
            if mine[0] not in atoms_of([], [rest]):
                named.setdefault(mine[0], j - rest)
    found = []
    for back in range(1, LAST + 1) if b.earlier and trips[0] not in named else (0,):
        chosen = {atom: named.get(atom, number(0)) for atom in trips}
        if back:
            chosen[trips[0]] = loops[0].trip - back
        came = [one for atom, p in chosen.items() for one in (at_least(p, atom.low), at_least(number(atom.high), p))]
        came += [below(chosen[trips[0]], loops[0].trip)] if b.earlier else []
        then = Substitution(c.terms).put(chosen)
        try:
            same = [equal(then.poly(i), j) for i, j in zip(w.index, read.index)]
            found.append(both(*came, *map(then.cond, guards), *same))
        except NotFollowed:
            pass
    return found


# ---- answers --------------------------------------------------------------------------------------------------------


# A launch that keeps what the kernel declares, and fails, refutes it.  Where nothing is declared, a precondition that
# would do is offered first.
def _open(c: ProofContext, read: Touch, what: str, ways: list[Before], sets: Sets | None) -> Obligation:
    need = ""
    if sets is not None:
        with limited():
            need = sets.needs()
    wrong = None if need and c.task.where is None else _refuted(c, read, sets)
    if wrong is not None:
        return wrong
    written = list(dict.fromkeys(b.write.span for b in ways))
    others = tuple(Label(span, "written here") for span in written[:3] if span != read.span)
    reason = "what is written before is not known to be all that is read"
    help = "say what is known of the arguments with `where=`, or of a value with `assert`; or fill all of it first"
    if need:
        reason = f"it holds where {need}"
    elif not written:
        reason = "no write that is certainly made comes before it"
        help = "write it first, on every way that leads here"
    needs = (need,) if need else ()
    found = Obligation(Property.INIT, Verdict.UNKNOWN, what, read.span, reason, others=others, help=help, needs=needs)
    with limited():
        point = None if sets is None else next(iter(sets.points()), None)
        return found if point is None else replace(found, example=as_example(c, point))
    return found


def _refuted(c: ProofContext, read: Touch, sets: Sets | None) -> Obligation | None:
    """Only with a launch in which the CPU machine has seen it."""
    launch: Launch | None = None
    with limited():
        for point in () if sets is None else sets.points():
            launch = seen(c, launch_of(c, point), ("uninitialized",), (read.span,), (read.name,))
            if launch is not None:
                break
    if launch is None:
        return None
    what = f"`{shown(read.span)}` is read before it is written"
    help = (
        "write it on every way that leads here, or read it under the condition of the write;"
        " or exclude such launches with `where=`"
    )
    data = bool(launch.data) or from_memory(read.path, read.index)
    return Obligation(Property.INIT, Verdict.REFUTED, what, read.span, launch.seen, help=help, launch=launch, data=data)
