"""Adversarial mode: orders of warps, races, barriers that do not meet."""

from __future__ import annotations

import numpy as np
import pytest
from machine import build as b

from snap import *
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import BLOCK1, GRID1, I32, WARP1, Held, Level, Place, Privilege
from snap.machine import MachineError, run_adversarial

T = 128
WITHIN = b.block_place(T)
ME = b.thread_id(T, within=WITHIN)
SEEDS = range(8)


def other(by):
    """The thread `by` further on, cyclically."""
    return b.binary("%", b.binary("+", ME, b.const(by)), b.const(T))


def exchange(barrier, by, out_line=3, rounds=1):
    """s[me] = me; barrier; out[me] = s[me + by]"""
    s, out, k = b.shared("s", I32, T), b.array("out", I32), b.var("k")
    step = [b.store(s, ME, ME, line=2), *barrier, b.store(out, ME, b.load(s, other(by), line=out_line), line=out_line)]
    body = [b.declare_shared(s), *(step if rounds == 1 else [b.for_(k, rounds, step)])]
    return b.kernel([out], body, smem=4 * T, within=WITHIN, threads=T)


def races(kernel, *args, blocks=1, seeds=SEEDS):
    found = []
    for seed in seeds:
        run_adversarial(kernel, [a.copy() if isinstance(a, np.ndarray) else a for a in args], blocks, seed, found)
    return found


def zeros(n=T):
    return np.zeros(n, np.int32)


def test_a_missing_barrier_is_a_race():
    found = races(exchange([], 32), zeros())
    assert found
    race = found[0]
    assert race.object == "s" and {race.first.span.line, race.second.span.line} == {2, 3}
    assert {race.first.kind, race.second.kind} == {"read", "write"}
    reader, writer = (race.first, race.second) if race.first.kind == "read" else (race.second, race.first)
    assert writer.thread == race.index and (reader.thread + 32) % T == race.index
    assert "element" in race.message and "s" in race.message
    with pytest.raises(MachineError, match="data race") as caught:
        run_adversarial(exchange([], 32), [zeros()], 1, 0)
    assert caught.value.kind == "race"


def test_a_block_barrier_orders_the_block():
    for seed in SEEDS:
        out, found = zeros(2 * T), []
        run_adversarial(exchange([b.sync(within=WITHIN)], 32), [out[:T]], 1, seed, found)
        assert not found and out[:T].tolist() == [(t + 32) % T for t in range(T)]


def test_lanes_of_a_warp_are_not_ordered_by_running_together():
    one = ir.Binary("^", ME, b.const(1), I32, span=b.SPAN)
    s, out = b.shared("s", I32, T), b.array("out", I32)

    def kernel(*barrier):
        body = [b.declare_shared(s), b.store(s, ME, ME, line=2), *barrier, b.store(out, ME, b.load(s, one, line=3), line=3)]
        return b.kernel([out], body, smem=4 * T, within=WITHIN, threads=T)

    assert races(kernel(), zeros(), seeds=[0])
    for n in (2, 4, 32):
        assert not races(kernel(b.sync("warp", Privilege(Level.THREAD, n), within=WITHIN)), zeros())
    assert races(exchange([b.sync("warp", WARP1, within=WITHIN)], 32), zeros(), seeds=[0])
    assert races(exchange([b.sync("warp", Privilege(Level.THREAD, 16), within=WITHIN)], 16), zeros(), seeds=[0])


def test_named_barriers_order_their_group_only():
    group = b.sync("named", Privilege(Level.THREAD, 64), within=WITHIN)
    half = b.binary("+", b.binary("*", b.binary("/", ME, b.const(64)), b.const(64)), b.binary("%", b.binary("+", ME, b.const(32)), b.const(64)))
    s, out = b.shared("s", I32, T), b.array("out", I32)
    body = [b.declare_shared(s), b.store(s, ME, ME), group, b.store(out, ME, b.load(s, half))]
    assert not races(b.kernel([out], body, smem=4 * T, within=WITHIN, threads=T), zeros())
    assert races(exchange([group], 64), zeros(), seeds=[0])


def test_the_back_edge_of_a_loop_needs_a_barrier_too():
    once = [b.sync(within=WITHIN)]
    assert not races(exchange(once, 32, rounds=1), zeros())
    assert races(exchange(once, 32, rounds=2), zeros())
    s, out, k = b.shared("s", I32, T), b.array("out", I32), b.var("k")
    both = [b.store(s, ME, ME), b.sync(within=WITHIN), b.store(out, ME, b.load(s, other(32))), b.sync(within=WITHIN)]
    body = [b.declare_shared(s), b.for_(k, 3, both)]
    assert not races(b.kernel([out], body, smem=4 * T, within=WITHIN, threads=T), zeros())


def test_shared_memory_that_another_object_reuses():
    first, second, out = b.shared("first", I32, T), b.shared("second", I32, T), b.array("out", I32)

    def kernel(*barrier):
        body = [b.declare_shared(first), b.store(first, ME, ME), b.sync(within=WITHIN), b.store(out, ME, b.load(first, other(40))), *barrier,
                b.declare_shared(second), b.store(second, ME, ME)]
        return b.kernel([out], body, smem=4 * T, within=WITHIN, threads=T)

    found = races(kernel(), zeros())
    assert found and found[0].object in ("first", "second")
    assert not races(kernel(b.sync(within=WITHIN)), zeros())


def test_narrow_and_wide_views_of_the_same_bytes():
    from snap._compiler.ir.types import U8

    out, small = b.array("out", I32), b.array("small", U8)
    wide = b.load(out, b.binary("/", ME, b.const(4)))
    byte = b.store(out, b.binary("+", b.binary("*", ME, b.const(4)), b.const(1)), b.const(1, U8), elem=U8)
    body = [byte, b.store(small, ME, ir.Cast(wide, U8, span=b.SPAN))]
    found = races(b.kernel([out, small], body, within=WITHIN, threads=T), zeros(), np.zeros(T, np.uint8))
    assert found and found[0].object == "out"


def test_blocks_are_ordered_by_nothing_but_the_grid():
    out, data = b.array("out", I32), b.array("data", I32)
    me, total = b.thread_id(T), b.const(4 * T)
    next_block = b.binary("%", b.binary("+", me, b.const(T)), total)

    def kernel(*barrier):
        return b.kernel([data, out], [b.store(data, me, me), *barrier, b.store(out, me, b.load(data, next_block))], threads=T, cooperative=True)

    assert races(kernel(), zeros(4 * T), zeros(4 * T), blocks=4)
    assert races(kernel(b.sync(within=b.place(T))), zeros(4 * T), zeros(4 * T), blocks=4)
    assert not races(kernel(b.sync("grid", GRID1, within=b.place(T))), zeros(4 * T), zeros(4 * T), blocks=4)


def test_a_cluster_is_ordered_by_its_own_barrier():
    within = Place(((Level.GRID, Held(1)), (Level.CLUSTER, Held(1, open=True)), (Level.BLOCK, Held(2)), (Level.THREAD, Held(64))))
    out, data = b.array("out", I32), b.array("data", I32)
    me = b.thread_id(within=within)
    pair = ir.Binary("^", me, b.const(64), I32, span=b.SPAN)
    fourth = ir.Binary("^", me, b.const(128), I32, span=b.SPAN)
    cluster = b.sync("cluster", Privilege(Level.CLUSTER, 1), within=within)

    def kernel(index, *barrier):
        return b.kernel([data, out], [b.store(data, me, me), *barrier, b.store(out, me, b.load(data, index))], threads=64, within=within)

    assert not races(kernel(pair, cluster), zeros(256), zeros(256), blocks=4)
    assert races(kernel(pair, b.sync(within=within)), zeros(256), zeros(256), blocks=4)
    assert races(kernel(fourth, cluster), zeros(256), zeros(256), blocks=4)


def test_atomics_do_not_race_with_atomics():
    cell = b.array("cell", I32)
    add = ir.Atomic("add", b.access(cell, b.const(0)), (b.const(1),), None, "relaxed", "gpu", span=b.SPAN)
    load = ir.Load(b.access(cell, b.const(0)), I32, span=b.SPAN)
    out = b.array("out", I32)
    assert not races(b.kernel([cell], [add, add], threads=T), zeros(1), blocks=3)
    assert races(b.kernel([cell, out], [add, b.store(out, b.thread_id(T), load)], threads=T), zeros(1), zeros(3 * T), blocks=3)


def published(order):
    """Thread 0 writes data, then sets a flag; thread 64 (another warp) waits for the flag and reads the data."""
    data, flag, out = b.array("data", I32), b.array("flag", I32), b.array("out", I32)
    seen = b.var("seen")
    wait = ir.Atomic("load", b.access(flag, b.const(0)), (), ir.VarTarget(seen, span=b.SPAN), "acquire" if order else "relaxed", "gpu", span=b.SPAN)
    set_ = ir.Atomic("store", b.access(flag, b.const(0)), (b.const(1),), None, "release" if order else "relaxed", "gpu", span=b.SPAN)
    body = [
        b.if_(b.compare("==", ME, b.const(0)), [b.store(data, b.const(0), b.const(42), line=5), set_]),
        b.if_(b.compare("==", ME, b.const(64)), [
            b.declare(seen, b.const(0)), ir.While((wait,), b.compare("==", b.read(seen), b.const(0)), (), span=b.at(8)),
            b.store(out, b.const(0), b.load(data, b.const(0), line=9), line=9)]),
    ]
    return b.kernel([data, flag, out], body, within=WITHIN, threads=T)


def test_release_and_acquire_order_what_they_publish():
    for seed in SEEDS:
        out, found = zeros(1), []
        run_adversarial(published(True), [zeros(1), zeros(1), out], 1, seed, found)
        assert not found and out[0] == 42
    found = races(published(False), zeros(1), zeros(1), zeros(1))
    assert found and {found[0].first.span.line, found[0].second.span.line} == {5, 9}


def test_release_reaches_other_blocks_through_barriers():
    """All threads of block 0 write, a barrier, one releases; block 1's first thread acquires, a barrier, all read."""
    data, flag, out, seen = b.array("data", I32), b.array("flag", I32), b.array("out", I32), b.var("seen")
    me = b.thread_id(T, within=WITHIN)
    block = b.var("block", I32, BLOCK1)
    wait = ir.Atomic("load", b.access(flag, b.const(0)), (), ir.VarTarget(seen, span=b.SPAN), "acquire", "gpu", span=b.SPAN)
    set_ = ir.Atomic("store", b.access(flag, b.const(0)), (b.const(1),), None, "release", "gpu", span=b.SPAN)
    first = b.compare("==", me, b.const(0))

    def kernel(barrier):
        body = [
            b.declare(seen, b.const(0)),
            b.if_(b.compare("==", b.read(block), b.const(0)), [b.store(data, me, me), *barrier, b.if_(first, [set_])], [
                b.if_(first, [ir.While((wait,), b.compare("==", b.read(seen), b.const(0)), (), span=b.SPAN)]), b.sync(within=WITHIN, line=7),
                b.store(out, me, b.load(data, other(5)))]),
        ]
        inside = ir.Group(BLOCK1, b.place(T), WITHIN, tuple(body), span=b.SPAN)
        return b.kernel([data, flag, out], [b.declare(block, b.thread_id(T, BLOCK1)), inside], threads=T)

    assert not races(kernel([b.sync(within=WITHIN)]), zeros(), zeros(1), zeros(), blocks=2)
    assert races(kernel([]), zeros(), zeros(1), zeros(), blocks=2)


def test_uninitialized_memory_is_an_error_where_it_is_no_race():
    s, out = b.shared("s", I32, T), b.array("out", I32)
    with pytest.raises(MachineError) as caught:
        body = [b.declare_shared(s), b.store(out, ME, b.load(s, ME, line=4))]
        run_adversarial(b.kernel([out], body, smem=4 * T, within=WITHIN, threads=T), [zeros()], 1, 0)
    assert caught.value.kind == "uninitialized" and caught.value.span.line == 4


def test_out_of_bounds_is_an_error_here_too():
    with pytest.raises(MachineError) as caught:
        run_adversarial(exchange([b.sync(within=WITHIN)], 32), [zeros(100)], 1, 0)
    assert caught.value.kind == "out of bounds" and caught.value.span.line == 3


# ---- barriers that do not meet ---------------------------------------------------------------------------------------------------------------


def mismatch(body, **options):
    with pytest.raises(MachineError) as caught:
        run_adversarial(b.kernel([], body, within=WITHIN, threads=T, **options), [], 1, 1)
    assert caught.value.kind == "barrier mismatch"
    return caught.value


def test_a_warp_that_has_finished():
    error = mismatch([b.if_(b.compare("<", ME, b.const(96)), [b.sync(line=4, within=WITHIN)])])
    assert error.span.line == 4 and "96 of 128" in str(error) and "finished" in str(error)


def test_warps_at_different_barriers():
    error = mismatch([b.if_(b.compare("<", ME, b.const(64)), [b.sync(line=4, within=WITHIN)], [b.sync(line=6, within=WITHIN)])])
    lines = {error.span.line, error.diagnostic.secondary[0].span.line}
    assert lines == {4, 6}


def test_lanes_of_one_warp_at_different_barriers():
    half = b.compare("<", b.binary("%", ME, b.const(32)), b.const(16))
    assert "diverged" in str(mismatch([b.if_(half, [b.sync(line=4, within=WITHIN)])]))
    assert mismatch([b.if_(half, [b.sync("warp", WARP1, line=4, within=WITHIN)])]).span.line == 4
    assert mismatch([b.if_(half, [b.sync("named", Privilege(Level.THREAD, 64), line=4, within=WITHIN)])]).span.line == 4


def test_a_collective_that_one_warp_misses():
    r = b.var("r", I32, BLOCK1)
    count = b.collective("syncthreads_count", BLOCK1, [r], [b.compare("<", ME, ME)], line=9)
    error = mismatch([b.declare(r), b.if_(b.compare(">=", ME, b.const(32)), [count])])
    assert error.span.line == 9


# ---- schedules -------------------------------------------------------------------------------------------------------------------------------


def test_seeds_choose_the_order_and_repeat_it():
    cell, out, old = b.array("cell", I32), b.array("out", I32), b.var("old")
    ticket = ir.Atomic("add", b.access(cell, b.const(0)), (b.const(1),), ir.VarTarget(old, span=b.SPAN), "relaxed", "gpu", span=b.SPAN)
    kernel = b.kernel([cell, out], [b.declare(old), ticket, b.store(out, b.thread_id(T), b.read(old))], threads=T)

    def tickets(seed):
        out = zeros(4 * T)
        run_adversarial(kernel, [zeros(1), out], 4, seed)
        assert sorted(out.tolist()) == list(range(4 * T))
        return tuple(out.tolist())

    assert tickets(5) == tickets(5)
    assert len({tickets(seed) for seed in range(10)}) > 5


@kernel
@requires(grid[1], block[1], thread[64])
def turn_taking(flag: ptr(int) @ grid[1], go: int @ grid[1]):
    with group(grid[1]):
        b_: int @ block[1] = id()
        with group(block[1]):
            with group(thread[1]):
                while atomic.load(flag, 0) < b_:
                    pass
                if go > 0:
                    atomic.max(flag, 0, b_ + 1)


def test_waiting_for_other_blocks_ends_in_every_order():
    f = turn_taking._specialized({}).synced
    for seed in SEEDS:
        flag = zeros(1)
        run_adversarial(f, [flag, 1], 5, seed)
        assert flag[0] == 5
        with pytest.raises(MachineError) as caught:
            run_adversarial(f, [zeros(1), 0], 3, seed)
        assert caught.value.kind == "no progress"


@kernel
@requires(grid[1], block[1], thread[96])
def block_sums(x: ptr(const(int)) @ grid[1], out: ptr(int) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        at: int @ block[1] = id()
        with partition(out, p=block[1], offset=at) as cell:
            with group(block[1]):
                s: shared(int[96])
                t: int @ thread[1] = id()
                with partition(s, p=thread[1], offset=t) as own:
                    with group(thread[1]):
                        own[0] = x[i]
                step: int = 48
                while step >= 3:
                    with partition(s, p=thread[1], f=lambda k: t + k * step) as pair:
                        with group(thread[1]):
                            if t < step:
                                pair[0] = pair[0] + pair[1]
                    step = step / 2
                with claim(cell, p=thread[1]) as one:
                    match split(thread):
                        case 1:
                            one[0] = s[0] + s[1] + s[2]


def test_a_checked_kernel_has_no_races_and_the_right_result():
    x = np.random.default_rng(0).integers(-99, 99, 5 * 96).astype(np.int32)
    for seed in SEEDS:
        out, found = zeros(5), []
        run_adversarial(block_sums._specialized({}).synced, [x, out], 5, seed, found)
        assert not found and out.tolist() == x.reshape(5, 96).sum(axis=1).tolist()


def test_no_blocks_and_no_threads_to_spare():
    run_adversarial(exchange([], 32), [zeros()], 0, 0)
    out = b.array("out", I32)
    value = zeros(3)
    run_adversarial(b.kernel([out], [b.store(out, b.thread_id(1), b.thread_id(1)), b.sync(within=b.block_place(1))], threads=1), [value], 3, 0)
    assert value.tolist() == [0, 1, 2]


def test_long_logs_are_looked_at_in_parts(monkeypatch):
    monkeypatch.setattr("snap.machine.schedule.races._FLUSH", 500)
    s, out, k = b.shared("s", I32, T), b.array("out", I32), b.var("k")

    def kernel(*last):
        body = [b.declare_shared(s), b.for_(k, 20, [b.store(s, ME, ME), b.sync(within=WITHIN), b.store(out, ME, b.load(s, other(32))), *last])]
        return b.kernel([out], body, smem=4 * T, within=WITHIN, threads=T)

    assert not races(kernel(b.sync(within=WITHIN)), zeros())
    assert races(kernel(), zeros())
