"""Copies in the background: they arrive when they like, and whatever meets one in flight is a race."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from corpus import TESTS, Program
from machine import build as b

from snap import *
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.engines import Wait
from snap._compiler.ir.synced import AsyncCommit, PointKind, Sync, SyncPoint
from snap._compiler.ir.types import I32, THREAD1
from snap._compiler.ir.walk import statements
from snap.machine import MachineError, run_adversarial, run_reference

SEEDS = range(12)
T = 64
WITHIN = b.block_place(T)
ME = b.thread_id(T, within=WITHIN)
NEXT = b.binary("%", b.binary("+", ME, b.const(1)), b.const(T))
PRODUCTS = Program(TESTS / "ok" / "sgemm_pipelined.py").namespace()
PROGRAMS = Program(TESTS / "ok" / "async_copies.py").namespace()


def synced(k):
    return k._specialized({}).synced


def product():
    """Arguments of a matrix product of one block, and the result."""
    rng = np.random.default_rng(1)
    x, y = rng.integers(-4, 5, (32, 40)).astype(np.float32), rng.integers(-4, 5, (40, 32)).astype(np.float32)
    return [x, y, np.zeros((32, 32), np.float32), 32, 32, 40], x @ y


def chain():
    """Arguments of `next_fill`, and the result."""
    x = np.random.default_rng(2).integers(-9, 9, 6 * T).astype(np.int32)
    out = np.zeros(T, np.int32)
    for tile in x.reshape(6, T):
        out = out * 3 + np.roll(tile, -1)
    return [x, np.zeros(T, np.int32), 6], out


def own():
    x = np.arange(T, dtype=np.int32)
    return [x, np.zeros(T, np.int32)], x + 1


def looked_up():
    x = np.random.default_rng(3).permutation(T).astype(np.int32)
    return [x, np.zeros(T, np.int32), 3], x[x[x]]


def sized():
    x = np.random.default_rng(4).integers(-9, 9, 8 * T).astype(np.float32)
    return [x, np.zeros(T, np.float32), 50], x.reshape(T, 8)[(np.arange(T) + 1) % 50] @ np.arange(1, 9, dtype=np.float32)


CASES = {"three_stages": (PRODUCTS, product), "two_stages": (PRODUCTS, product), "own": (PROGRAMS, own), "before_loop": (PROGRAMS, looked_up),
         "sizes": (PROGRAMS, sized), "next_fill": (PROGRAMS, chain)}


def fresh(args):
    return [a.copy() if isinstance(a, np.ndarray) else a for a in args]


def written(args):
    """The last array is the result."""
    return [a for a in args if isinstance(a, np.ndarray)][-1]


def races(function, args, seeds=SEEDS, enough=1):
    found = []
    for seed in seeds:
        run_adversarial(function, fresh(args), 1, seed, found)
        if len(found) >= enough:
            break
    return found


# ---- as inferred -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_inferred_waits_are_enough(name):
    namespace, case = CASES[name]
    args, result = case()
    mine = fresh(args)
    run_reference(namespace[name]._specialized({}).typed, mine, 1)
    np.testing.assert_array_equal(written(mine), result)
    for seed in SEEDS if "stages" not in name else range(5):
        mine, found = fresh(args), []
        run_adversarial(synced(namespace[name]), mine, 1, seed, found)
        assert not found, found[0].message
        np.testing.assert_array_equal(written(mine), result)


def test_a_thread_that_reads_its_own_copy_waits_alone():
    point, = PROGRAMS["own"].syncs()
    assert point.kind == "thread" and point.participants == THREAD1 and point.younger("copy") == 0


def test_one_wait_and_one_barrier_an_iteration():
    for name, pending in (("three_stages", 1), ("two_stages", 0)):
        point, end = PRODUCTS[name].syncs()
        assert end.kind == "thread" and end.reason.startswith("written (cp.async)") and "gone when its block exits" in end.reason
        assert point.kind == "block" and point.younger("copy") == pending


# ---- mutants ---------------------------------------------------------------------------------------------------------------------------------


def rewritten(function, change):
    """`change` gives, for each statement (its parts already changed), the statements in its place."""

    def body(old):
        return tuple(new for s in old for new in change(statement(s)))

    def statement(s):
        match s:
            case ir.If():
                return replace(s, then=body(s.then), other=body(s.other))
            case ir.While():
                return replace(s, pre=body(s.pre), body=body(s.body))
            case ir.For() | ir.Group() | ir.Partition() | ir.Claim():
                return replace(s, body=body(s.body))
            case ir.Split():
                return replace(s, cases=tuple(replace(case, body=body(case.body)) for case in s.cases))
            case _:
                return s

    return replace(function, body=body(function.body))


def of_waits(**parts):
    """A change of every point that waits for copies."""

    def change(s):
        if isinstance(s, Sync) and s.point.younger("copy") is not None:
            s = replace(s, point=replace(s.point, **{name: part(s.point) if callable(part) else part for name, part in parts.items()}))
        return [s]

    return change


def commits_dropped(s):
    return [] if isinstance(s, AsyncCommit) else [s]


def slots_modulo(n):
    """Stages taken from the first n slots only."""

    def change(s):
        match s:
            case ir.Declare(ir.Var(temp=True), ir.Binary("%", right=ir.Const()) as slot) if s.var.name.endswith("_slot"):
                return [replace(s, init=replace(slot, right=replace(slot.right, value=n)))]
        return [s]

    return change


ONE_MORE = of_waits(waits=lambda point: ((Wait.COPIES, point.younger("copy") + 1),))
NO_BARRIER = of_waits(kind=PointKind.THREAD, participants=THREAD1)
NO_WAIT = of_waits(waits=())
CHANGES = {"one more in flight": ONE_MORE, "no commit": commits_dropped, "no barrier": NO_BARRIER, "no wait": NO_WAIT,
           "one slot": slots_modulo(1), "two slots": slots_modulo(2)}
COMMON = ("one more in flight", "no commit", "no barrier", "no wait")
MUTANTS = [(name, what) for name in CASES for what in COMMON if (name, what) != ("own", "no barrier")]
MUTANTS += [("three_stages", "two slots"), ("two_stages", "one slot")]


@pytest.mark.parametrize("name, what", MUTANTS)
def test_mutant_is_found(name, what):
    namespace, case = CASES[name]
    good = synced(namespace[name])
    mutant = rewritten(good, CHANGES[what])
    assert mutant != good
    found = races(mutant, case()[0])
    assert found
    if what != "no barrier":
        race = next(race for race in found if race.in_flight)
        assert race.first.kind == "copy to" and "in flight" in race.message


def test_the_rewriter_changes_nothing_by_itself():
    f = synced(PRODUCTS["three_stages"])
    assert rewritten(f, lambda s: [s]) == f
    assert any(isinstance(s, AsyncCommit) for s in statements(f.body))


def test_long_logs_keep_what_is_in_flight(monkeypatch):
    monkeypatch.setattr("snap.machine.schedule.races._FLUSH", 300)
    f, (args, _) = synced(PROGRAMS["next_fill"]), chain()
    assert not races(f, args)
    for change in (ONE_MORE, NO_BARRIER, commits_dropped):
        assert races(rewritten(f, change), args)


# ---- by hand ---------------------------------------------------------------------------------------------------------------------------------


def wait(pending, line=8):
    point = SyncPoint(0, PointKind.THREAD, THREAD1, "s", "for the test", b.at(line), b.at(line), ((Wait.COPIES, pending),), span=b.at(line))
    return Sync(point, WITHIN, span=b.at(line))


COMMIT = AsyncCommit(span=b.SPAN)
BARRIER = b.sync(within=WITHIN)


def copied(*after, read=ME, source=ME):
    """s[me] = x[source], in the background; `after`; out[me] = s[read] on line 9.  Values of x and out."""
    s, x, out = b.shared("s", I32, T), b.array("x", I32), b.array("out", I32)
    copy = ir.AsyncCopy(b.access(s, ME, line=3), b.access(x, source, line=4), span=b.at(3))
    after = [step(s, x) if callable(step) else step for step in after]
    load = [] if read is None else [b.store(out, ME, b.load(s, read, line=9), line=9)]
    return b.kernel([x, out], [b.declare_shared(s), copy, *after, *load], smem=4 * T, within=WITHIN, threads=T)


def values():
    return [np.arange(T, dtype=np.int32), np.zeros(T, np.int32)]


def test_what_orders_a_copy():
    assert not races(copied(COMMIT, wait(0)), values())
    assert not races(copied(COMMIT, wait(0), BARRIER, read=NEXT), values())
    assert not races(copied(COMMIT, COMMIT, wait(1)), values())  # an empty group is a group


@pytest.mark.parametrize("after, read", [
    ((), ME), ((COMMIT,), ME), ((wait(0),), ME), ((wait(0), COMMIT), ME), ((COMMIT, wait(1)), ME),
    ((COMMIT, BARRIER), ME), ((COMMIT, BARRIER), NEXT), ((COMMIT, BARRIER, wait(0)), NEXT), ((COMMIT, wait(0)), NEXT),
])
def test_what_does_not(after, read):
    for seed in range(4):
        race = races(copied(*after, read=read), values(), seeds=[seed])[0]
        assert race.object == "s" and {race.first.span.line, race.second.span.line} == {3, 9}
        if read is ME:
            assert race.in_flight and race.first.thread == race.second.thread == race.index


def test_the_block_waits_for_what_nobody_reads():
    for after in ((COMMIT,), (), (wait(0), COMMIT)):
        assert [race.reason for race in races(copied(*after, read=None), values())] == ["exit"]
    assert not races(copied(COMMIT, wait(0), read=None), values())


def test_a_write_meets_a_copy():
    overwrite = lambda s, x: b.store(s, ME, b.const(1), line=6)  # noqa: E731
    race = races(copied(overwrite, COMMIT, wait(0)), values())[0]
    assert race.in_flight and (race.first.kind, race.second.kind) == ("copy to", "write")
    assert not races(copied(COMMIT, wait(0), overwrite), values())


def test_the_source_must_stay_until_the_copy_has_arrived():
    overwrite = lambda s, x: b.store(x, ME, b.const(-1), line=6)  # noqa: E731
    early = copied(overwrite, COMMIT, wait(0))
    race = races(early, values())[0]
    assert race.object == "x" and race.in_flight and (race.first.kind, race.second.kind) == ("copy from", "write")
    assert not races(copied(COMMIT, wait(0), overwrite), values())
    read = lambda s, x: b.store(s, ME, b.load(x, ME, line=6), line=6)  # noqa: E731
    assert all(race.object == "s" for race in races(copied(read, COMMIT, wait(0)), values()))


def test_copies_arrive_early_and_late():
    """Seen without a wait: the old value, the new one, and, where the source changes meanwhile, either of its values."""
    first = lambda s, x: b.store(s, ME, b.const(500), line=2)  # noqa: E731
    change = lambda s, x: b.store(x, ME, b.const(700), line=6)  # noqa: E731
    f = copied(change, COMMIT)
    declared, *rest = f.body
    f = replace(f, body=(declared, first(rest[0].target.handle, None), *rest))
    seen = set()
    for seed in range(30):
        args = [np.full(T, 600, np.int32), np.zeros(T, np.int32)]
        run_adversarial(f, args, 1, seed, [])
        seen |= set(args[1].tolist())
    assert seen == {500, 600, 700}


def test_a_race_is_raised_with_its_story():
    with pytest.raises(MachineError, match="in flight") as caught:
        run_adversarial(copied(COMMIT), values(), 1, 0)
    assert caught.value.kind == "race" and caught.value.span.line == 9
    assert "writes it asynchronously" in str(caught.value)


@pytest.mark.parametrize("run", [run_reference, lambda f, args, blocks: run_adversarial(f, args, blocks, 0)], ids=["reference", "adversarial"])
def test_copies_out_of_bounds(run):
    with pytest.raises(MachineError) as caught:
        run(copied(COMMIT, wait(0), source=b.binary("+", ME, b.const(1))), values(), 1)
    assert caught.value.kind == "out of bounds" and caught.value.span.line == 4 and caught.value.thread == T - 1


@kernel
@requires(grid[1], block[1], thread[64])
def half_filled(x: ptr(const(int)) @ grid[1], y: ptr(int) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], offset=i) as out:
            with group(block[1]):
                s: shared(int[64])
                t: int @ thread[1] = id()
                with partition(s, p=thread[1], offset=t) as mine:
                    with group(thread[1]):
                        if t < 32:
                            async_copy(mine[0], x[t])
                out[0] = s[63 - t]


def test_what_was_not_copied_is_uninitialized():
    for run in (lambda: half_filled[1](*values()), lambda: half_filled.launch(*values(), blocks=1, seed=3)):
        with pytest.raises(MachineError) as caught:
            run()
        assert caught.value.kind == "uninitialized"


def test_groups_are_each_threads_own():
    """Odd threads commit once more than even ones, so one wait covers more of theirs."""
    odd = b.compare("==", b.binary("%", ME, b.const(2)), b.const(1))
    found = races(copied(COMMIT, b.if_(odd, [COMMIT]), wait(1)), values(), enough=10**9)
    assert found and {race.second.thread % 2 for race in found} == {0}


# ---- zero fill -----------------------------------------------------------------------------------------------------------------------------------


def zero_filled(bound, *after):
    """s[me] = x[me] where me < bound, else 0; out[me] = s[me]."""
    s, x, out = b.shared("s", I32, T), b.array("x", I32), b.array("out", I32)
    copy = ir.AsyncCopy(b.access(s, ME, line=3), b.access(x, ME, line=4), b.compare("<", ME, b.const(bound)), span=b.at(3))
    return b.kernel([x, out], [b.declare_shared(s), copy, *after, b.store(out, ME, b.load(s, ME, line=9), line=9)], smem=4 * T, within=WITHIN, threads=T)


@pytest.mark.parametrize("bound", [0, 1, 17, 63, T])
def test_where_a_copy_is_not_valid_zero_comes_and_nothing_is_read(bound):
    x = np.arange(1, bound + 1, dtype=np.int32)  # nothing behind what is valid
    function = zero_filled(bound, COMMIT, wait(0))
    for seed in (None, *SEEDS):
        args, found = [x, np.full(T, -1, np.int32)], []
        run_reference(function, args, 1) if seed is None else run_adversarial(function, args, 1, seed, found)
        assert not found
        np.testing.assert_array_equal(args[1], np.pad(x, (0, T - bound)))


@pytest.mark.parametrize("seed", [None, 1])
def test_where_a_copy_is_valid_its_source_is_inside(seed):
    args = [np.zeros(16, np.int32), np.zeros(T, np.int32)]
    with pytest.raises(MachineError, match=r"out of bounds.*`x\[16\]`"):
        run_reference(zero_filled(17, COMMIT, wait(0)), args, 1) if seed is None else run_adversarial(zero_filled(17, COMMIT, wait(0)), args, 1, seed, [])


def test_zeros_come_in_the_background_too():
    assert races(zero_filled(0, COMMIT), values())[0].object == "s"


# ---- the first elements of a vector ----------------------------------------------------------------------------------------------------------------


@kernel(threads=32)
def firsts(x: ptr(const(f16)), y: ptr(u32), n: int):
    with each(block):
        s: shared(uint2[32])
        with each(thread, s) as t:
            async_copy(s[t], x.view(uint2)[t], elements=n - 4 * t)
        with each(thread, y) as t:
            y[2 * t], y[2 * t + 1] = s[t]


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 7, 127, 128, 1000])
def test_the_first_elements_of_a_vector_are_read(n, seed):
    x, y = np.arange(1, min(n, 128) + 1, dtype=np.float16), np.full(64, 7, np.uint32)
    firsts.launch(x, y, n, blocks=1, seed=seed)
    np.testing.assert_array_equal(y.view(np.float16), np.pad(x, (0, 128 - len(x))))


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize("n", [6, 7, 8, 9])
def test_a_part_of_a_vector_is_inside(n, seed):
    with pytest.raises(MachineError, match=f"`x.{n - 1}.`: {n - 1} is outside of its 5 elements" if n < 9 else "2 is outside of its 2 elements"):
        firsts.launch(np.ones(5, np.float16), np.zeros(64, np.uint32), n, blocks=1, seed=seed)


@kernel(threads=32)
def apart(x: ptr(float), step: int):
    with each(block):
        s: shared(float4[32])
        with each(thread, s, x, disjoint=x) as t:
            x[4 * t + 2] = 1.0
            async_copy(s[t], x.view(float4)[t + step], elements=4 - step)


@pytest.mark.parametrize("seed", [None, 1])
def test_parts_of_vectors_are_watched(seed):
    apart.launch(np.zeros(128, np.float32), 0, blocks=1, seed=seed)
    apart.launch(np.zeros(256, np.float32), 2, blocks=1, seed=seed)  # the first two of a vector are nobody's
    with pytest.raises(MachineError, match="overlap"):
        apart.launch(np.zeros(256, np.float32), 1, blocks=1, seed=seed)
