"""Order of roles that do not go on at one pace: stages pass by k, tiles leave one by one; and what is made wrong in one place is refused."""

from __future__ import annotations

import functools
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import mutations
import numpy as np
import pytest

from snap import *
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.types import BLOCK1, BOOL, I32, THREAD1, Space
from snap._compiler.ir.walk import statements
from snap.machine import MachineError, run_adversarial
from snap.prove.order.goal import order
from snap.prove.order.outline import added_by, quiet
from snap.prove.order.pairs import Open
from snap.prove.order.phases import _whenever
from snap.prove.order.sites import NamedScope, Questions
from snap.prove.order.values import Known

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "sync"))
from sync.hopper_programs import PROGRAMS  # noqa: E402

X = np.arange(32 * 12, dtype=np.int32)
ARGS = (X, np.zeros(32 * 4, np.int32), 4, 3)


@kernel(threads=96)
def sums(x: ptr(const(int)), y: ptr(int), m: int, n: int):
    with each(block, y):
        parts: pipeline(shared(int[32]), 2)
        done: pipeline(shared(int[32]), 2)
        total: int @ thread[1] = 0
        fill, add, leave = roles(32, 32, 32)
        for t in range(m):
            with stage(done) as d:
                with add(), each(thread):
                    total = 0
                for k in range(n):
                    with stage(parts) as p:
                        with fill(p), each(thread, p) as i:
                            p[i] = x[32 * (t * n + k) + i]
                        with add(p), each(thread) as i:
                            total += p[31 - i]
                with add(d), each(thread, d) as i:
                    d[i] = total
                with leave(d), each(thread, y) as i:
                    y[32 * t + i] = d[31 - i]


def function() -> synced.Function:
    return sums._the_one({}).synced


def goes_wrong(mutant, args=ARGS, blocks=1, seeds=6) -> bool:
    for seed in range(seeds):
        races: list = []
        try:
            run_adversarial(mutant, [a.copy() if isinstance(a, np.ndarray) else a for a in args], blocks, seed, races)
        except MachineError:
            return True
        if races:
            return True
    return False


def test_two_paces_are_shown():
    y = np.zeros(32 * 4, np.int32)
    sums[1](X, y, 4, 3)
    assert (y.reshape(4, 32) == X.reshape(4, 3, 32).sum(1)).all()
    assert order(function()).verdict == "ordered"


def test_what_is_made_wrong_in_one_place_is_refused():
    assert not [text for text, mutant in mutations.mutants(function()) if order(mutant).verdict == "ordered"]


def early(s):
    """An arrival before what it tells of."""
    if isinstance(s, ir.Claim) and isinstance(s.body[-1], synced.MBarrierArrive) and isinstance(s.body[0], synced.MBarrierWait):
        yield "arrives at once", (replace(s, body=(s.body[0], s.body[-1], *s.body[1:-1])),)


@pytest.mark.parametrize("name", ("sums", "relay"))
def test_an_arrival_tells_of_nothing_behind_it(name):
    """Each role has its own copy of the counters: that the walk comes to one role behind the other says nothing of their numbers."""
    made = PROGRAMS["relay"]() if name == "relay" else (sums, ARGS, None, 1)
    mutants = [mutant for _, mutant in mutations.edited(made[0]._the_one({}).synced, early)]
    assert len(mutants) >= 2
    for mutant in mutants:
        found = order(mutant)
        assert found.open and goes_wrong(mutant, made[1], made[3])


def test_who_waits_in_an_iteration_for_what_comes_at_its_end_is_noticed():
    """Who adds waits, before it adds, until the sum of the same tile has left: nothing but the circle within one tile shows it."""
    waits = [s for s in statements(function().body) if isinstance(s, synced.MBarrierWait) and s.barrier.name == "done_empty"]
    own = replace(waits[0], phase=waits[0].phase.left)  # of this tile, not of that two before

    def at_the_top(s):
        if isinstance(s, ir.For) and s.var.name == "k" and "parts_empty" in {x.barrier.name for x in statements(s.body) if isinstance(x, synced.MBarrierArrive)}:
            yield "waits for its own", (own, s)

    def behind(s):
        if isinstance(s, synced.MBarrierWait) and s.barrier.name == "done_empty" and s.phase != own.phase:
            yield "nor behind", ()

    [(_, more)] = mutations.edited(function(), at_the_top)
    [(_, wrong)] = mutations.edited(more, behind)
    assert goes_wrong(wrong)
    assert any("for itself" in stuck.why for stuck in order(wrong).stuck)


def test_roles_that_go_round_less_often_are_noticed():
    """One role has a tile less, or leaves the loop early."""

    def shorter(s):
        if isinstance(s, ir.For) and s.var.name == "t":
            yield "one less", (replace(s, stop=ir.Binary("-", s.stop, ir.Const(1, I32, span=s.span), I32, span=s.span)),)
            last = ir.Compare("==", ir.Read(s.var, I32, span=s.span), ir.Const(2, I32, span=s.span), BOOL, span=s.span)
            yield "left early", (replace(s, body=(ir.If(last, (ir.Break(span=s.span),), (), span=s.span), *s.body)),)

    mutants = [*mutations.edited(function(), shorter)]
    assert len(mutants) == 6
    for text, mutant in mutants:
        assert order(mutant).verdict != "ordered", text


# ---- what all roles compute --------------------------------------------------------------------------------------------------------------


@functools.cache
def counted_by_a_call():
    @device(block)
    def many(ends: ptr(const(int)) @ grid[1], n: int) -> int:
        found = 0
        for g in range(n):
            found += ends[g]
        return found

    @kernel(threads=64)
    def copies(ends: ptr(const(int)), x: ptr(const(int)), y: ptr(int), n: int):
        with each(block, y):
            parts: pipeline(shared(int[32]), 2)
            fill, leave = roles(32, 32)
            tiles = many(ends, n)
            for t in range(tiles):
                with stage(parts) as p:
                    with fill(p), each(thread, p) as i:
                        p[i] = x[32 * t + i]
                    with leave(p), each(thread, y) as i:
                        y[32 * t + i] = p[31 - i]

    return copies


def test_what_roles_compute_by_a_call_is_the_same():
    """Of the same arguments and of memory that nobody writes; not where one role counts another array or number, or where somebody may write."""
    whole = counted_by_a_call()._the_one({}).synced
    assert order(whole).verdict == "ordered"

    def another(s):
        if isinstance(s, ir.Call):
            view, n = s.args
            yield "memory that changes", (replace(s, args=(replace(view, obj=replace(view.obj, const=False)), n)),)
            yield "another number", (replace(s, args=(view, ir.Const(3, I32, span=s.span))),)

    mutants = [*mutations.edited(whole, another)]
    assert len(mutants) == 4
    for text, mutant in mutants:
        assert any("as many arrive" in stuck.why for stuck in order(mutant).stuck), text


# ---- loops without synchronization -------------------------------------------------------------------------------------------------------


@kernel(threads=64)
def shifted(x: ptr(int), n: int):
    with each(block, x):
        s: shared(int[128])
        with each(thread, s) as t:
            s[t] = t
        for k in range(n):
            with each(thread, x) as t:
                x[64 * k + t] = s[63 - t]
            with each(thread, s) as t:
                s[t] = k


def test_a_loop_without_barriers_is_compared_with_itself():
    """Iterations, and what stands before the loop: without a barrier that is needed, both are open."""
    whole = shifted._the_one({}).synced
    assert order(whole).verdict == "ordered"
    loop = next(s for s in statements(whole.body) if isinstance(s, ir.For))
    assert not quiet(loop.body)
    bare = whole
    while any(isinstance(s, synced.Sync) for s in statements(bare.body)):
        bare = next(mutations.drop_points(bare))[1]
    assert quiet(next(s for s in statements(bare.body) if isinstance(s, ir.For)).body)
    started = [loop[0] == "start" for pair in order(bare).open for loop, _, _ in pair.ages]
    assert any(started) and not all(started)


def test_scopes_of_two_loops_are_two_entries():
    """Units of a partition do not meet in one entry of its scope; the loop of one role is not that of another."""
    asked = Questions(Known(), 64, 32, [32], 1)
    first, again, other = (
        SimpleNamespace(space=Space.SHARED, scopes=(NamedScope(((), 7), (), THREAD1, (((), loop, ()),), False, "p"),)) for loop in (1, 1, 2)
    )
    assert asked._owner(first, again, ()) == THREAD1
    assert asked._owner(first, other, ()) == asked._owner(first, again, ((((), 1, ()), 1, True),)) == BLOCK1


def test_all_distances_at_once():
    """What is asked instead of several questions holds of at least as much."""
    loop, before = ((), 3, ()), ("start", ((), 4, ()))
    pairs = [Open(None, None, ages, "order", None) for ages in (((loop, 2, True), (before, 0, True)), ((loop, 1, True),), ((loop, 3, False),))]
    assert _whenever(pairs).ages == ((loop, 1, False),)


@functools.cache
def now_and_then():
    """A tile is copied where the call of the iteration before has said so."""

    @device(block)
    def wanted(ends: ptr(const(int)) @ grid[1], t: int) -> int:
        if ends[t] > 0:
            return 1
        return 0

    @kernel(threads=64)
    def copies(ends: ptr(const(int)), x: ptr(const(int)), y: ptr(int), n: int):
        with each(block, y):
            parts: pipeline(shared(int[32]), 2)
            fill, leave = roles(32, 32)
            flag = 0
            for t in range(n):
                if flag == 1:
                    with stage(parts) as p:
                        with fill(p), each(thread, p) as i:
                            p[i] = x[32 * t + i]
                        with leave(p), each(thread, y) as i:
                            y[32 * t + i] = p[31 - i]
                flag = wanted(ends, t)

    return copies


def test_what_a_call_gives_in_a_loop_is_not_what_was_there_before():
    function = now_and_then()._the_one({}).synced
    assert order(function).verdict == "ordered"
    for text, mutant in (*mutations.drop_points(function), *mutations.drop_arrives(function)):
        assert order(mutant).verdict != "ordered", text


@kernel(threads=128, where=lambda C, n, blocks: (0 <= n <= 2**20, blocks <= 2**16))
def some_tiles(C: ptr(float, (n, 64, 32)), n: int, every: int):
    with each(block):
        tiles, acc = pipeline(shared(float[64, 32], swizzle=128), 2), registers(float[64])
        for t in strided(block, shape=n):
            if t < every:
                for k in unroll(range(2)):
                    with stage(tiles) as c, each(warpgroup, c):
                        store_acc(c, acc, first=32 * k)
                        async_reduce(C, c, at=(t, 0, 0), op="add")


def test_iterations_that_fill_all_slots_or_none():
    """Which slot comes next is known, though not how many iterations have filled any; with one store more in flight it is not enough."""
    function = some_tiles._the_one({}).synced
    assert order(function).verdict == "ordered"
    later = [order(mutant) for text, mutant in mutations.change_waits(function) if "1" in text]
    assert later and {found.verdict for found in later} == {"unknown"}
    assert added_by(function.body, -1) == (0, 0)


def of(uid: int, *by: int) -> tuple[ir.Stmt, ...]:
    at = function().span
    var = ir.Var(uid, "k", I32, BLOCK1, span=at)
    more = lambda n: ir.Binary("+", ir.Read(var, I32, span=at), ir.Const(n, I32, span=at), I32, span=at)  # noqa: E731
    return tuple(ir.Assign(ir.VarTarget(var, span=at), more(n), span=at) for n in by)


@pytest.mark.parametrize("then, other, behind, found", [
    ((4,), (), (), (0, 4)),
    ((2, 2), (6,), (1,), (7, 2)),
    ((3,), (3,), (), (3, 0)),
    ((4,), (1,), (), (1, 3)),
])  # fmt: skip
def test_what_ways_add(then, other, behind, found):
    """A number, and a multiple of another one that depends on the way."""
    at = function().span
    either = ir.If(ir.Const(True, BOOL, span=at), of(1, *then), of(1, *other), span=at)
    assert added_by((either, *of(1, *behind)), 1) == found
    assert added_by((either, ir.Break(span=at)), 1) is None
