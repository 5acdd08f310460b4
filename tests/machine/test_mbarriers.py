"""Barriers that count, barriers taken apart, turns and elections, one at a time."""

from __future__ import annotations

import numpy as np
import pytest
from machine import build as b
from machine import hopper as h

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.types import I32, THREAD1, WARP1, Level, Privilege
from snap.machine import MachineError, run_adversarial, run_reference

T = 64
WITHIN = b.block_place(T)
ME = b.thread_id(T, within=WITHIN)
SEEDS = range(10)


def run(kernel, *args, blocks=1, seeds=SEEDS):
    """The arrays after the last seed, and all races."""
    found = []
    for seed in seeds:
        given = [a.copy() for a in args]
        run_adversarial(kernel, given, blocks, seed, found)
    return given, found


def hand_over(count=1, by=WARP1, arrivals=1, phase=0, everyone=True):
    """Warp 0 writes s, arrives; warp 1 waits and reads."""
    s, out, full = b.shared("s", I32, 32), b.array("out", I32), b.barrier("full", 1, count)
    zero = b.const(0)

    def write(place):
        me = ir.UnitId(THREAD1, place, I32, span=b.SPAN)
        return [b.store(s, me, me, line=2), *[b.arrive(full, zero, by, place, line=3)] * arrivals]

    def read(place):
        me = ir.UnitId(THREAD1, place, I32, span=b.SPAN)
        other = h.mod(h.plus(me, 1), 32)
        return [b.wait(full, zero, b.const(phase), place, line=4), b.store(out, me, b.load(s, other, line=5), line=5)]

    body = [b.declare_shared(s), b.split(WITHIN, (32, write), (32, read))]
    return h.with_barriers(b.kernel([out], body, threads=T, smem=128, within=WITHIN), full)


def test_arriving_hands_on_what_the_unit_did():
    (out,), found = run(hand_over(), np.zeros(32, np.int32))
    assert not found and np.array_equal(out, (np.arange(32) + 1) % 32)
    (out,), found = run(hand_over(count=32, by=THREAD1), np.zeros(32, np.int32))
    assert not found


def test_a_unit_larger_than_a_warp_hands_on_what_its_first_thread_did():
    _, found = run(hand_over(by=Privilege(Level.THREAD, 64)), np.zeros(32, np.int32))
    assert found and found[0].object == "s"


def test_arrivals_beyond_the_count():
    full = b.barrier("full", 1, 1)
    expects = synced.MBarrierExpect(full, b.const(0), 16, WITHIN, span=b.at(2))
    body = [expects, b.sync(within=WITHIN), b.arrive(full, b.const(0), WARP1, WITHIN, line=4)]
    with pytest.raises(MachineError, match="beyond the 1 that phase 0 counts") as caught:
        run(h.with_barriers(b.kernel([], body, threads=T, within=WITHIN), full), seeds=[0])
    assert caught.value.kind == "barrier mismatch" and caught.value.span.line == 4


@pytest.mark.parametrize("phase", [-2, 1, 2])
def test_phases_that_parity_cannot_tell(phase):
    with pytest.raises(MachineError) as caught:
        run(hand_over(phase=phase), np.zeros(32, np.int32))
    assert caught.value.kind in ("wrong phase", "barrier mismatch") and caught.value.span.line == 4


def test_too_few_arrivals_are_reported():
    with pytest.raises(MachineError, match="1 of 2 arrivals have happened") as caught:
        run(hand_over(count=2), np.zeros(32, np.int32), seeds=[0])
    assert caught.value.kind == "barrier mismatch" and caught.value.span.line == 4 and "`full`" in str(caught.value)


def test_a_slot_that_is_not_there():
    full = b.barrier("full", 2, 1)
    kernel = h.with_barriers(b.kernel([], [b.arrive(full, b.const(2), WARP1, WITHIN)], threads=T, within=WITHIN), full)
    with pytest.raises(MachineError, match="slot 2 of `full`, which has 2"):
        run(kernel, seeds=[0])


# ---- named barriers at which some only arrive ------------------------------------------------------------------------------------------------


def arrive_and_sync(rounds=3, back=True):
    """Warp 0 writes a slot and arrives; warp 1 waits and reads; back: the other way round before the slot is written again."""
    s, out, i, j = b.shared("s", I32, 32), b.array_of("out", I32, rounds, 32), b.var("i"), b.var("j")
    points = [b.point("named", Privilege(Level.THREAD, 64), "s", line, number=number, threads=64) for line, number in ((3, 1), (5, 3))]

    def apart(k, part, place, line):
        return synced.Sync(points[k], place, synced.SyncHalf(part), span=b.at(line))

    def write(place):
        me = ir.UnitId(THREAD1, place, I32, span=b.SPAN)
        value = b.binary("+", b.binary("*", b.read(i), b.const(100)), me)
        return [b.for_(i, rounds, [*([apart(1, "wait", place, 7)] if back else []), b.store(s, me, value, line=2), apart(0, "arrive", place, 3)])]

    def read(place):
        me = ir.UnitId(THREAD1, place, I32, span=b.SPAN)
        load = b.load(s, h.mod(h.plus(me, 1), 32), line=5)
        return [b.for_(j, rounds, [*([apart(1, "arrive", place, 6)] if back else []), apart(0, "wait", place, 4),
                                   b.store(out, (b.read(j), me), load, line=5)])]

    body = [b.declare_shared(s), b.split(WITHIN, (32, write), (32, read))]
    return b.kernel([out], body, threads=T, smem=128, within=WITHIN)


def test_some_arrive_and_others_wait():
    (out,), found = run(arrive_and_sync(), np.zeros((3, 32), np.int32))
    assert not found and np.array_equal(out, np.arange(3)[:, None] * 100 + (np.arange(32) + 1) % 32)


def test_nothing_keeps_the_writer_from_the_next_round():
    found = []
    for seed in SEEDS:
        try:
            run_adversarial(arrive_and_sync(back=False), [np.zeros((3, 32), np.int32)], 1, seed, found)
        except MachineError as error:
            assert error.kind == "barrier mismatch" and "arrive again" in error.message
            found.append(error)
    assert found


def test_two_named_barriers_of_one_number():
    """Of two roles that meet at the same time, each by itself."""
    def kernel(*numbers):
        within = b.block_place(128)
        cases = [(64, lambda place, k=k: [synced.Sync(b.point("named", Privilege(Level.THREAD, 64), "x", 3 + k, number=numbers[k]), place, span=b.at(3 + k))])
                 for k in range(2)]
        return b.kernel([], [b.split(within, *cases)], threads=128, within=within)

    run(kernel(1, 1))  # number 1 and, for the second group, 2
    with pytest.raises(MachineError, match="barrier 2 of the block is used at two places at a time"):
        run(kernel(2, 1))


# ---- turns, elections ------------------------------------------------------------------------------------------------------------------------


def turns(rounds=3, units=2, skip=False):
    """Warps write down in which order they were here: a counter that only one of them touches at a time."""
    counter, order, i, old = b.array("counter", I32), b.array("order", I32), b.var("i"), b.var("old")
    within = b.block_place(32 * units)
    warp = b.var("warp")

    def one(place):
        first = b.compare("==", ir.UnitId(THREAD1, place, I32, span=b.SPAN), b.const(0))
        count = ir.Atomic("add", b.access(counter, b.const(0)), (b.const(1),), ir.VarTarget(old, span=b.SPAN), "acq_rel", "gpu", span=b.SPAN)
        body = [b.if_(first, [count, b.store(order, b.read(old), b.read(warp))])]
        turn = ir.Turn(within, place, tuple(body), span=b.at(4))
        only = b.if_(b.compare("<", b.read(warp), b.const(units - 1)), [turn]) if skip else turn
        return [b.declare(old, b.const(0)), b.for_(i, rounds, [only])]

    return b.kernel([counter, order], [b.declare(warp, ir.UnitId(WARP1, within, I32, span=b.SPAN)), b.group(WARP1, within, one)],
                    threads=32 * units, within=within)


def test_turns_are_cyclic():
    for units in (1, 2, 3):
        want = list(range(units)) * 3
        order = np.zeros(3 * units, np.int32)
        run_reference(turns(units=units), [np.zeros(1, np.int32), order], 1)
        assert order.tolist() == want
        (_, order), found = run(turns(units=units), np.zeros(1, np.int32), np.zeros(3 * units, np.int32))
        assert order.tolist() == want and not found


def test_a_unit_that_never_takes_its_turn():
    with pytest.raises(MachineError, match="unit 1's turn, which never takes it") as caught:
        run(turns(skip=True), np.zeros(1, np.int32), np.zeros(6, np.int32), seeds=[0])
    assert caught.value.span.line == 4


def test_turns_do_not_order_memory():
    s, i = b.shared("s", I32, 1), b.var("i")
    add = b.store(s, b.const(0), h.plus(b.load(s, b.const(0), line=5), 1), line=5)

    def one(place):
        first = b.compare("==", ir.UnitId(THREAD1, place, I32, span=b.SPAN), b.const(0))
        return [ir.Turn(WITHIN, place, (b.if_(first, [add]),), span=b.at(4))]

    init = b.if_(b.compare("==", ME, b.const(0)), [b.store(s, b.const(0), b.const(0))])
    body = [b.declare_shared(s), init, b.sync(within=WITHIN), b.group(WARP1, WITHIN, one)]
    _, found = run(b.kernel([], body, threads=T, smem=16, within=WITHIN), seeds=[0])
    assert found and found[0].object == "s"


def test_the_first_thread_of_each_group_is_elected():
    out = b.array("out", I32)

    def one(place):
        return [synced.Elect(place, (b.store(out, b.read(me), b.const(1)),), span=b.SPAN)]

    me = b.var("me")
    group = Privilege(Level.THREAD, 16)
    kernel = b.kernel([out], [b.declare(me, ME), b.group(group, WITHIN, one)], threads=T, within=WITHIN)
    want = np.arange(T) % 16 == 0
    out_ = np.zeros(T, np.int32)
    run_reference(kernel, [out_], 1)
    assert np.array_equal(out_, want)
    (out_,), found = run(kernel, np.zeros(T, np.int32))
    assert np.array_equal(out_, want) and not found


def test_registers_of_a_thread_mean_nothing_here():
    quota = ir.Collective("setmaxnreg", Privilege(Level.THREAD, 128), b.block_place(128), (), (), attrs=(("count", 24),), span=b.SPAN)
    out = b.array("out", I32)
    kernel = b.kernel([out], [quota, b.store(out, b.thread_id(128, within=b.block_place(128)), b.const(1))], threads=128, within=b.block_place(128))
    (out_,), _ = run(kernel, np.zeros(128, np.int32))
    assert out_.all()
    out_ = np.zeros(128, np.int32)
    run_reference(kernel, [out_], 1)
    assert out_.all()
