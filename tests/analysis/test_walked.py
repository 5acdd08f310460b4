"""What a walk leaves behind is as often there as it is executed: accesses, tests, meetings, statements; of typed programs and of synchronized ones."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
from corpus import OK, kernels_of

from snap import *
from snap._compiler.analysis.exact import kinds
from snap._compiler.analysis.exact.ladder import Ladder
from snap._compiler.analysis.exact.terms import Terms, evaluated, holds
from snap._compiler.ir.synced import MBarrierWait, PointKind, Sync
from snap._compiler.ir.types import BLOCK1
from snap._compiler.ir.walk import statements
from snap._compiler.walk.evaluate import Walk
from snap._compiler.walk.sites import Walked

T, MOST = 32, 12


def walked(function) -> Walked:
    return Walk(function, Ladder(Terms())).run()


def times(found: Walked, path, loops, thread: int, n: int) -> int:
    """How often a thread comes there, by all numbers of iterations that their ranges and the path allow."""
    given = {}
    for atom in found.terms.atoms:
        if not atom.defined and not atom.name.startswith("trip"):
            given[atom] = {kinds.THREAD: thread, kinds.BLOCK: 0, kinds.GROUPS: 1, kinds.LENGTH: 4096}.get(atom.kind, n)
    counters = [next(iter(loop.trip.atoms)) for loop in loops if loop.trip.value is None]
    return sum(all(holds(c, {**given, **dict(zip(counters, at))}) for c in path) for at in product(*(range(min(MOST, atom.high + 1)) for atom in counters)))


def loads(found: Walked, thread: int, n: int) -> Counter:
    return sum((Counter({s.root.name: times(found, s.path, s.when.loops, thread, n)}) for s in found.sites if s.kind.reads), Counter())


@kernel(threads=T, where=lambda n: 0 <= n <= 9)
def counted(x: ptr(const(float), (4096,)), y: ptr(const(float), (4096,)), z: ptr(const(float), (4096,)), out: ptr(float, (4096,)), n: int):
    with each(thread, out, disjoint=out) as t:
        total: float = 0.0
        for i in range(n):
            for j in range(i, n, 2):
                total += x[t + j]
            if t < i:
                total += y[t]
        for k in range(3):
            total += z[k] if t > 4 and n > k else 0.0
        out[t] = total


@pytest.mark.parametrize("thread, n", [(0, 0), (0, 1), (3, 5), (4, 6), (31, 9)])
def test_an_access_is_there_as_often_as_it_is_executed(thread, n):
    one = counted._the_one({})
    want = Counter({
        "x": sum(len(range(i, n, 2)) for i in range(n)),
        "y": sum(thread < i for i in range(n)),
        "z": sum(thread > 4 and n > k for k in range(3)),
    })  # fmt: skip
    for function in (one.typed, one.synced):
        found = walked(function)
        assert loads(found, thread, n) == +want
        tests = sum(times(found, (*test.path, test.cond), test.when.loops, thread, n) for test in found.tests)
        assert tests == n + want["x"] + want["y"] + 3


def test_a_while_loop_that_is_run_out_in_part_is_recorded_once():
    """The first two iterations are known; the one that memory decides is walked once, with a counter."""

    @kernel(threads=T)
    def k(x: ptr(const(int), (64,)), out: ptr(int, (64,))):
        with each(thread, out, disjoint=out) as t:
            i = 0
            while i < 2 or x[i % 64] > 0:
                i += 1
            out[t] = i

    found = walked(k._the_one({}).typed)
    assert [s.root.name for s in found.sites] == ["x", "out"] and [len(test.when.loops) for test in found.tests] == [0, 0, 1]


def test_a_side_that_is_not_chosen_is_not_executed():
    @kernel(threads=T)
    def k(x: ptr(const(int), (64,)), out: ptr(int, (64,))):
        with each(thread, out, disjoint=out) as t:
            i = 3
            if i < 2 and x[t] > 0:
                out[t] = 1
            out[t + 32] = x[t] if i < 2 else 0

    assert [s.root.name for s in walked(k._the_one({}).typed).sites] == ["out"]


def test_how_many_elements_a_copy_reads_is_evaluated_once():
    @kernel(threads=T)
    def k(x: ptr(const(float), (128,)), m: ptr(const(int), (1,)), out: ptr(float4, (32,))):
        with each(block, out):
            s: shared(float4[T])
            with each(thread, s) as t:
                async_copy(s[t], x.view(float4)[t], elements=m[0])
            with each(thread, out) as t:
                out[t] = s[t]

    assert [s.root.name for s in walked(k._the_one({}).typed).sites] == ["m", "x", "s", "s", "out"]


@pytest.mark.parametrize("start, step, trips", [(0, 1, 7), (2, 3, 2), (0, 2, 4)])
def test_a_loop_knows_how_often_it_runs(start, step, trips):
    @kernel(threads=T, where=lambda n: 0 <= n <= 100)
    def k(x: ptr(const(float), (4096,)), out: ptr(float, (4096,)), n: int):
        with each(thread, out, disjoint=out) as t:
            for i in range(start, n, step):
                if x[i] > 0.0:
                    out[t] = x[i]
            for i in range(n):
                if x[i] > 2.0:
                    break
                out[t] = x[i] + 1.0

    found = walked(k._the_one({}).typed)
    (n_atom,) = found.params["n"].atoms
    first, second = dict.fromkeys(s.when.loops[0] for s in found.sites)
    assert first.full and evaluated(first.trips, {n_atom: 7}) == trips
    assert not second.full and evaluated(second.trips, {n_atom: 7}) == 7  # at most
    assert first.span != second.span


def test_a_step_that_is_no_number_tells_nothing():
    @kernel(threads=T, where=lambda n: 1 <= n <= 100)
    def k(out: ptr(float, (4096,)), n: int):
        with each(thread, out, disjoint=out) as t:
            for i in range(0, 64, n):
                out[t] += 1.0

    assert [loop.trips for s in walked(k._the_one({}).typed).sites for loop in s.when.loops] == [None, None]


def test_where_threads_meet():
    @kernel(threads=T * 2)
    def k(x: ptr(const(int), (64,)), out: ptr(int, (64,))):
        with each(block, out):
            s: shared(int[64])
            with each(thread, s) as t:
                s[t] = x[t]
            some = False
            with each(thread, out) as t:
                out[t] = s[63 - t]

    one = k._the_one({})
    assert not walked(one.typed).meetings
    assert [(m.kind, m.participants) for m in walked(one.synced).meetings] == [(PointKind.BLOCK, BLOCK1)]


PROGRAMS = [program for program in OK if program.path.stem in ("tree_reduce", "reduces", "histogram", "lookback_scan", "sgemm_pipelined", "zero_fill")]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.path.stem)
def test_synchronized_programs_do_what_typed_ones_do(program):
    """The same accesses, in the same places, and a meeting for each point that was put in."""
    for k in kernels_of(program.namespace()).values():
        one = k._the_one({})
        found = [walked(one.typed), walked(one.synced)]
        first, second = (Counter((s.kind, s.root.name, str(s.index), s.span) for s in one.sites) for one in found)
        assert first == second
        points = [s for s in statements(one.synced.body) if isinstance(s, (Sync, MBarrierWait))]
        assert {m.span for m in found[1].meetings} >= {s.span for s in points}
        assert {w.statement for w in found[1].work} >= {s for s in statements(one.synced.body) if isinstance(s, Sync)}
