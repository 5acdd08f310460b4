"""Loops of the walk (evaluate.py): run out, or with a counter and what holds in every iteration.

Input: a loop, and the state of the walk.  Output: the walk, behind it.  Invariant: in the body, every variable that the
loop assigns is what it is at the start of some iteration: `entry + step * trip` where the body adds the same amount on
every path, else any number of its type for which those of the candidates hold that are kept by the body (`CANDIDATES`;
what holds on entry and is kept by each iteration holds in all of them).  Non-goals: whether a loop ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from snap._compiler.analysis.evaluate import computed
from snap._compiler.analysis.exact import kinds
from snap._compiler.analysis.exact.conditions import at_least, atoms_of, below, both, either, equal, negated
from snap._compiler.analysis.exact.logic import FALSE, TRUE, Cond
from snap._compiler.analysis.exact.renaming import Renaming
from snap._compiler.analysis.exact.terms import Poly, number
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.effects import assigned
from snap._compiler.ir.integers import held_by
from snap._compiler.ir.types import I32, Scalar
from snap._compiler.ir.walk import expressions, statements, ways_out
from snap._compiler.walk import arrays
from snap._compiler.walk.sites import NONE, Arithmetic, Loop
from snap._compiler.walk.state import Key, Value, WalkState, is_bool, of_integers
from snap._compiler.walk.ways import straight

MOST_TRIPS, MOST_COPIES, MOST_ROUNDS = 64, 256, 5
MOST_CHOICES = 8  # of memory, one after the other, that are followed way by way
FOREVER = 1 << 63
FEW, MANY = 64, 1 << 20  # what a loop's iteration may add, as a number

# What may hold of a variable in every iteration, given what it was on entry.
CANDIDATES: tuple[Callable[[Poly, Poly], Cond], ...] = (
    lambda v, entry: at_least(v, 0),
    lambda v, entry: at_least(v, 1),
    lambda v, entry: at_least(entry, v),
    lambda v, entry: at_least(v, entry),
)
# The same of a bool, of which all hold on entry: a loop that only sets it leaves it set, one that only clears it clear.
OF_BOOLS: tuple[Callable[[Cond, Cond], Cond], ...] = (
    lambda v, entry: either(negated(entry), v),
    lambda v, entry: either(negated(v), entry),
)


@dataclass(slots=True)
class Carried:
    """A variable that a loop assigns.  step: what each iteration adds; None where that is not one amount.  most: no
    iteration adds more than any of these.
    """

    var: ir.Var
    entry: Value
    step: Poly | None = None
    most: tuple[Poly, ...] = ()
    holds: tuple[Callable[[Any, Any], Cond], ...] = ()
    group: int = -1  # the arithmetic that its form rests on


def counted(w: WalkState, s: ir.For) -> None:
    """`for`: Python's range."""
    s = replace(s, body=straight(s.body))
    given = [w.value(e) for e in (s.start, s.stop, s.step)]
    for v in given:
        w.use(v)
    start, stop, step = (v.term if isinstance(v.term, Poly) else w.any_index() for v in given)
    out, carried = ways_out(s.body), _carried(w, s.body)
    bounds = [p.value for p in (start, stop, step)]
    if bounds[2] == 0:
        return
    if None not in bounds:
        trips = range(*bounds)  # type: ignore[arg-type]
        if not trips:
            return
        many = bool(trips[MOST_TRIPS:]) or w.repeated * len(trips) > MOST_COPIES
        many = many or len(trips) > MOST_CHOICES and _chooses(s.body, carried)
        if not out and not many and (carried or _shifts(s.body) or _looks_up(w, s.body) or len(trips) == 1):
            _run_out(w, s, trips)
            return
    _with_counter(w, s, carried, start, stop, step)


def _run_out(w: WalkState, s: ir.For, trips: range) -> None:
    w.repeated *= len(trips)
    for n in trips:
        w.vars[w.frame, s.var.uid] = Value(number(n))
        w.test(TRUE, s.span)
        w.body(s.body)
    w.repeated //= len(trips)


def _with_counter(w: WalkState, s: ir.For, carried: dict[Key, Carried], start: Poly, stop: Poly, step: Poly) -> None:
    ways = ways_out(s.body)
    trip = w.terms.base(kinds.TRIP, 0, _last(start, stop, step), s.var.privilege, w.depth + 1, f"trip of {s.var.name}")
    at = start + step * trip
    runs = _runs(at, stop, step)

    of = s.var.type
    assert isinstance(of, Scalar)

    def head() -> None:
        w.vars[w.frame, s.var.uid] = Value(at)
        w.test(runs, s.span)
        w.fact(Value(both(*_within(at, start, step), runs)))
        low, high = held_by(of)
        least, most = (at + step).span()
        if least < low or most > high:
            w.use(Value(None, frozenset((w.arithmetic(at + step, of, s.span),))))

    full = all(isinstance(way, ir.Continue) for way in ways)  # all iterations come that the loop's condition would have
    loop = Loop(trip, full, None, s.span)
    _iterate(w, Iteration(carried, head, lambda: _passed(w, s.body), loop, s.body))
    trips = loop.trips = _trips(w, start, stop, step)
    if trips is None or not loop.full:
        trips = w.terms.base(kinds.TRIP, 0, FOREVER, s.var.privilege, w.depth, f"trips of {s.var.name}")
    _behind(w, carried, trips, any(isinstance(way, ir.Break) for way in ways))


def _trips(w: WalkState, start: Poly, stop: Poly, step: Poly) -> Poly | None:
    """Return how many iterations the bounds allow; None where the step is no number."""
    n = step.value
    if n is None or n == 0:
        return None
    distance = stop - start if n > 0 else start - stop
    return w.terms.most(w.terms.floor(distance + abs(n) - 1, abs(n)), number(0))


def _last(start: Poly, stop: Poly, step: Poly) -> int:
    """No iteration has a greater number, by the ranges of the bounds alone."""
    n = step.value
    if n is None or n == 0:
        return FOREVER
    most = stop.span()[1] - start.span()[0] if n > 0 else start.span()[1] - stop.span()[0]
    return max((most - 1) // abs(n), 1)


def _within(at: Poly, start: Poly, step: Poly) -> list[Cond]:
    """Between the bounds: what follows from the counter, said once more for those who do not multiply."""
    low = step.span()[0]
    return [at_least(at, start)] if low >= 0 and step.value is None else []


def _runs(at: Poly, stop: Poly, step: Poly) -> Cond:
    """An iteration begins."""
    up, down = both(at_least(step, 1), below(at, stop)), both(at_least(number(-1), step), below(stop, at))
    return either(up, down)


def repeated(w: WalkState, s: ir.While) -> None:
    """`while`: as long as its condition is known, it is run out."""
    s = replace(s, body=straight(s.body))
    ways, copies = ways_out((*s.pre, *s.body)), w.repeated
    if not ways:
        for _ in range(MOST_TRIPS):
            runs = _decided(w, s)
            if runs is None or runs and w.repeated > MOST_COPIES:
                break
            w.inline(s.pre)
            w.value(s.cond)
            if not runs:
                w.repeated = copies
                return
            w.test(TRUE, s.span)
            w.repeated += copies
            w.body(s.body)
    w.repeated = copies
    carried = _carried(w, (*s.pre, *s.body))
    per = w.at.place.privilege
    trip = w.terms.base(kinds.TRIP, 0, FOREVER, per, w.depth + 1, "trip")

    def body() -> list[Cond]:
        w.inline(s.pre)
        cond = w.value(s.cond)
        if isinstance(cond.term, tuple):
            w.test(cond.term, s.span)
        return _passed(w, s.body, cond)

    loop = Loop(trip, False, None, s.span)
    _iterate(w, Iteration(carried, lambda: None, body, loop, (*s.pre, *s.body)))
    breaks = any(isinstance(way, ir.Break) for way in ways)
    _behind(w, carried, w.terms.base(kinds.TRIP, 0, FOREVER, per, w.depth, "trips"), breaks)
    if not breaks:
        w.dry += 1
        w.inline(s.pre)
        cond = w.value(s.cond)
        w.dry -= 1
        if isinstance(cond.term, tuple):  # it holds for all threads behind the loop, and guards nothing
            w.use(cond)
            w.define(negated(cond.term))


def _decided(w: WalkState, s: ir.While) -> bool | None:
    """Return whether another iteration begins, where that is known.  Nothing is recorded: what is not run out is walked
    with a counter, from here on.
    """
    before, mark = dict(w.vars), len(w.path)
    w.dry += 1
    w.inline(s.pre)
    cond = w.value(s.cond).term
    w.dry -= 1
    w.vars = before
    del w.path[mark:]
    return True if cond == TRUE else False if cond == FALSE else None


def _passed(w: WalkState, body: ir.Body, *given: Value) -> list[Cond]:
    """Walk the body where these hold.  Return what is known at its end."""
    mark = len(w.path)
    for v in given:
        w.fact(v)
    w.inline(body)
    known = w.path[mark:]
    del w.path[mark:]
    return known


# ---- what iterations carry ------------------------------------------------------------------------------------------


def _carried(w: WalkState, body: ir.Body) -> dict[Key, Carried]:
    """The variables of outside that it assigns."""
    inside = {s.var.uid for s in statements(body) if isinstance(s, (ir.Declare, ir.For))}
    found: dict[Key, Carried] = {}
    for s in statements(body):
        for var in assigned(s):
            if var.uid in inside:
                continue
            for key, element in arrays.keys(w, var):
                found[key] = Carried(element, w.vars[key])
            key = w.frame, var.uid
            if key in w.vars and (computed(var.type) or is_bool(var.type)):
                found[key] = Carried(var, w.vars[key])
            elif key in w.vars and of_integers(var.type):
                found[key] = Carried(var, w.vars[key], group=_group(w))
    return found


def _chooses(body: ir.Body, carried: dict[Key, Carried]) -> bool:
    """Tell whether memory decides what iterations carry: run out, each of them doubles the ways that lead there."""
    names = {c.var.uid for c in carried.values()}
    return any(
        isinstance(s, ir.If)
        and any(isinstance(e, ir.Load) for e in expressions(s))
        and any(var.uid in names for inner in statements((s,)) for var in assigned(inner))
        for s in statements(body)
    )


def _shifts(body: ir.Body) -> bool:
    """Tell whether the body shifts by what is no number: by the counter, most likely."""
    return any(
        isinstance(e, ir.Binary) and e.op in ("<<", ">>") and not isinstance(e.right, ir.Const)
        for s in statements(body)
        for e in expressions(s)
    )


def _looks_up(w: WalkState, body: ir.Body) -> bool:
    """Tell whether the body reads elements of arrays that are followed."""
    return any(
        isinstance(e, ir.Elem) and any(True for _ in arrays.keys(w, e.array.var))
        for s in statements(body)
        for e in expressions(s)
    )


@dataclass(slots=True)
class Iteration:
    """Describe any iteration of a loop.  carried: the variables of outside that it assigns; head, body: walk what comes
    before its condition holds, and behind; body returns what is known at its end.  text: of both.
    """

    carried: dict[Key, Carried]
    head: Callable[[], None]
    body: Callable[[], list[Cond]]
    loop: Loop
    text: ir.Body


def _iterate(w: WalkState, any_: Iteration) -> None:
    """Walks the body once, for any iteration."""
    carried, loop, text = any_.carried, any_.loop, any_.text
    trip, outside, unsure, settled = loop.trip, w.around, w.unsure, len(w.terms.atoms)
    w.depth += 1
    w.around = (*outside, loop)
    if carried:
        _learn(w, any_)
    mark, before = len(w.path), dict(w.vars)
    ways = {type(way) for way in ways_out(text)}
    if ir.Break in ways and ir.Continue not in ways:
        _went_on(w, trip, settled, _tried(w, any_)[2][len(w.out.facts) + mark :])
    w.unsure = unsure
    _set(w, carried, trip)
    any_.head()
    any_.body()
    for key, c in carried.items():
        if c.group >= 0:  # what a `continue` brings along was assigned on the way
            ends = w.vars[key].deps | (w.stored.get(key, NONE) if ir.Continue in ways else NONE)
            w.out.aliases[c.group] = w.out.aliases.get(c.group, NONE) | ends
    del w.path[mark:]
    w.vars = before
    w.around, w.unsure = outside, unsure
    w.depth -= 1


def _went_on(w: WalkState, trip: Poly, settled: int, known: list[Cond]) -> None:
    """Define that what is known at the end of the body held in the iteration before, if there was one.  That has a
    number of its own, and everything else in these conditions was settled before the loop.
    """
    (counter,) = trip.atoms
    inside = {c: [atom for atom in atoms_of([c]) if not atom.defined] for c in known}
    of = [c for c, atoms in inside.items() if counter in atoms and all(atom.number < settled for atom in atoms)]
    if of:
        last = w.terms.base(counter.kind, 0, counter.high, counter.per, counter.depth, "trip before")
        renamed = Renaming(w.terms).put({counter: last})
        w.define(either(equal(trip, 0), both(equal(last, trip - 1), *map(renamed.cond, of))))


def _set(w: WalkState, carried: dict[Key, Carried], trip: Poly) -> dict[Key, Poly]:
    """The variables at the start of an iteration.  Returns those that are atoms of their own."""
    free: dict[Key, Poly] = {}
    for key, c in carried.items():
        entry = c.entry.term
        deps = c.entry.deps | ({c.group} if c.group >= 0 else frozenset())
        if c.step is not None and isinstance(entry, Poly):
            w.vars[key] = Value(entry + c.step * trip, deps)
            continue
        v = w.anything(c.var.type, c.var.privilege, c.var.name)
        w.vars[key] = Value(v.term, deps)
        if isinstance(v.term, Poly):
            free[key] = v.term
        if type(v.term) is type(entry) and isinstance(entry, (Poly, tuple)):
            for candidate in c.holds:
                w.define(candidate(v.term, entry))
        if isinstance(v.term, Poly) and isinstance(entry, Poly):
            for most in c.most:
                w.define(at_least(entry + most * trip, v.term))
    return free


def _behind(w: WalkState, carried: dict[Key, Carried], trips: Poly, breaks: bool) -> None:
    """The variables behind the loop."""
    if breaks:
        for key, c in carried.items():  # on the way out, too, it may have been assigned
            v = w.anything(c.var.type, c.var.privilege, c.var.name)
            w.vars[key] = Value(v.term, v.deps | c.entry.deps | w.stored.get(key, frozenset()))
        return
    _set(w, carried, trips)


def _learn(w: WalkState, any_: Iteration) -> None:
    """Learn how each iteration changes the variables, by walks that record nothing."""
    carried, trip = any_.carried, any_.loop.trip
    if any(isinstance(way, ir.Continue) for way in ways_out(any_.text)):
        for c in carried.values():  # any numbers; the arithmetic in them counts
            c.group = _group(w)
        return
    settled = len(w.terms.atoms)
    free, ends, known = _tried(w, any_)
    for key, c in carried.items():
        end, start = ends[key].term, free.get(key)
        if isinstance(end, Poly) and start is not None:
            step = end - start
            if all(a.number < settled and a not in trip.atoms for a in atoms_of([], [step]) if not a.defined):
                c.step = step
                c.group = _group(w)
            elif computed(c.var.type):
                assert isinstance(c.var.type, Scalar)
                c.most = _most(w, step, known, settled, c.var.type)
    left = {key: c for key, c in carried.items() if c.step is None and (computed(c.var.type) or is_bool(c.var.type))}
    for c in left.values():
        entry = c.entry.term
        if isinstance(entry, tuple):
            c.holds, c.group = OF_BOOLS, _group(w)
        elif isinstance(entry, Poly):
            known = [*w.out.facts, *w.path]
            tried = (*CANDIDATES, *_ends_of(ends[key].term, settled))
            c.holds = tuple(one for one in tried if w.ladder.follows(known, one(entry, entry)))
            c.group = _group(w)
    for _ in range(MOST_ROUNDS):
        if not any(c.holds for c in left.values()):
            return
        _, ends, known = _tried(w, any_)
        if not _kept(w, left, ends, known):
            return
    for c in left.values():
        c.holds = ()


def _ends_of(end: Any, settled: int) -> list[Callable[[Poly, Poly], Cond]]:
    """Return candidates for what an iteration leaves the variable below, by what it is made of: `at % size` is below
    `size`, min(at, last) no more than `last`, if these are numbers of outside.
    """
    found: dict[tuple[Poly, int], None] = {}
    for atom in atoms_of([], [end]) if isinstance(end, Poly) else ():
        parts = atom.parts[1:] if atom.kind is kinds.MOD else atom.parts if atom.kind is kinds.MIN else ()
        for p in parts:
            if p.value is None and all(one.number < settled for one in atoms_of([], [p])):
                found[p, 1 if atom.kind is kinds.MOD else 0] = None
    return [_below(p, less) for p, less in list(found)[:MOST_ROUNDS]]


def _below(p: Poly, less: int) -> Callable[[Poly, Poly], Cond]:
    return lambda v, _: at_least(p, v + less)


def _most(w: WalkState, step: Poly, known: list[Cond], settled: int, of: Scalar) -> tuple[Poly, ...]:
    """Return what an iteration adds at most: a number, and what variables of outside are, or quotients by numbers in
    `where=`, a few of them.  Nothing, where one iteration may go through all numbers of the type: a byte that is read
    anew each time.
    """
    most = max(p.span()[1] for p in _leaves(step))
    low, high = held_by(of)
    if high - low <= most <= MANY:
        return ()
    found = (number(max(most, 0)),) if most <= MANY else ()
    if most <= FEW or not w.ladder.follows(known, at_least(step, 0)):
        return found
    outside = [v.term for v in w.vars.values() if isinstance(v.term, Poly) and v.term.value is None]
    outside += [Poly({(atom,): 1}) for atom in atoms_of(w.out.facts) if atom.kind is kinds.FLOOR]
    times = math.gcd(*step.terms.values())  # each of its iterations may add 2: then it is twice a variable, at most
    once = Poly({mono: k // times for mono, k in step.terms.items()})
    for x in dict.fromkeys(outside):
        if all(atom.number < settled for atom in atoms_of([], [x])) and w.ladder.follows(known, at_least(x, once)):
            found = (*found, x * times)
    return found[:MOST_ROUNDS]


def _leaves(p: Poly, deep: int = 4) -> list[Poly]:
    """Return what a polynomial is by each way of its choices: it is one of these."""
    for mono in p.terms:
        if deep and len(mono) == 1 and mono[0].kind in (kinds.ITE, kinds.MIN, kinds.MAX):
            x, y = mono[0].parts[-2:]
            rest, k = p - Poly({mono: p.terms[mono]}), p.terms[mono]
            return [*_leaves(rest + x * k, deep - 1), *_leaves(rest + y * k, deep - 1)]
    return [p]


def _group(w: WalkState) -> int:
    """Return a number for arithmetic that is met later."""
    w.out.arithmetic.append(Arithmetic(number(0), I32, (), w.function.span))
    return len(w.out.arithmetic) - 1


def _kept(w: WalkState, left: dict[Key, Carried], ends: dict[Key, Value], known: list[Cond]) -> bool:
    """Drops the candidates that an iteration does not keep; whether any was dropped."""
    dropped = False
    for key, c in left.items():
        end, entry = ends[key].term, c.entry.term
        if not isinstance(entry, (Poly, tuple)):
            continue
        kept = tuple(one for one in c.holds if type(end) is type(entry) and w.ladder.follows(known, one(end, entry)))
        dropped, c.holds = dropped or len(kept) < len(c.holds), kept
    return dropped


def _tried(w: WalkState, any_: Iteration) -> tuple[dict[Key, Poly], dict[Key, Value], list[Cond]]:
    """One walk that records nothing: the variables at its start and at its end, and what is known at its end."""
    before, mark = dict(w.vars), len(w.path)
    w.dry += 1
    free = _set(w, any_.carried, any_.loop.trip)
    any_.head()
    runs = any_.body()
    ends, known = dict(w.vars), [*w.out.facts, *w.path, *runs]
    w.dry -= 1
    w.vars = before
    del w.path[mark:]
    return free, ends, known
