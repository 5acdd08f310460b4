"""Barriers by hand: what they order gets no other barrier, and what they do not order gets one."""

from __future__ import annotations

import mutations
import numpy as np
import pytest

from snap import *
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.walk import statements
from snap.machine import MachineError, run_adversarial
from snap.prove.order.goal import order


def inferred(kernel) -> list:
    return [p for p in kernel.syncs() if p.reason != "the program asks for it" and p.object != "mbarriers"]


def shown(kernel) -> str:
    """What the proof of order says of the synchronized program by itself."""
    return order(kernel._the_one({}).synced).verdict


@kernel(threads=128)
def in_two_parts(x: ptr(const(int)), y: ptr(int)):
    with each(block, y):
        s: shared(int[128])
        t: int @ thread[1] = id()
        with each(thread, s):
            s[t] = x[t]
        intrinsic.arrive()
        v: int @ thread[1] = 2 * x[t]
        intrinsic.wait()
        with each(thread, y):
            y[t] = s[127 - t] + v


@kernel(threads=128)
def between(x: ptr(const(int)), y: ptr(int)):
    with each(block, y):
        s: shared(int[128])
        t: int @ thread[1] = id()
        intrinsic.arrive()
        with each(thread, s):
            s[t] = x[t]
        intrinsic.wait()
        with each(thread, y):
            y[t] = s[127 - t]


@kernel(threads=128)
def before_the_wait(x: ptr(const(int)), y: ptr(int)):
    with each(block, y):
        s: shared(int[128])
        t: int @ thread[1] = id()
        with each(thread, s):
            s[t] = x[t]
        intrinsic.arrive()
        with each(thread, y):
            y[t] = s[127 - t]
        intrinsic.wait()


@kernel(threads=128)
def of_teams_for_the_block(x: ptr(const(int)), y: ptr(int)):
    with each(block, y):
        s: shared(int[128])
        t: int @ thread[1] = id()
        with each(thread, s):
            s[t] = x[t]
        with each(thread[64]):
            intrinsic.sync()
        with each(thread, y):
            y[t] = s[127 - t]


@kernel(threads=128)
def asynchronous(x: ptr(const(int)), y: ptr(int)):
    with each(block, y):
        s: shared(int[128])
        t: int @ thread[1] = id()
        with each(thread, s):
            async_copy(s[t], x[t])
        intrinsic.arrive()
        intrinsic.wait()
        with each(thread, y):
            y[t] = s[127 - t]


@kernel(threads=128)
def on_one_way(x: ptr(const(int)), y: ptr(int), n: int):
    with each(block, y):
        s: shared(int[128])
        t: int @ thread[1] = id()
        with each(thread, s):
            s[t] = x[t]
        if n > 0:
            intrinsic.arrive()
            intrinsic.wait()
        with each(thread, y):
            y[t] = s[127 - t]


@kernel(threads=128)
def rounds(x: ptr(const(int)), y: ptr(int), n: int):
    with each(block, y):
        s: shared(int[128])
        t: int @ thread[1] = id()
        intrinsic.arrive()
        for k in range(n):
            intrinsic.wait()
            with each(thread, s):
                s[t] = x[t] + k
            intrinsic.sync()
            with each(thread, y):
                y[t] = s[127 - t]
            intrinsic.arrive()
        intrinsic.wait()


ORDERED = (in_two_parts, rounds)
NOT_ORDERED = (between, before_the_wait, of_teams_for_the_block, asynchronous, on_one_way)


def arguments(kernel) -> tuple:
    given = np.arange(128, dtype=np.int32), np.zeros(128, np.int32)
    return given if len(kernel._the_one({}).synced.params) == 2 else (*given, 3)


@pytest.mark.quick
@pytest.mark.parametrize("kernel", ORDERED, ids=lambda k: k.__name__)
def test_a_pair_that_a_barrier_by_hand_orders_gets_no_other_one(kernel):
    assert inferred(kernel) == []
    assert shown(kernel) == "ordered"
    assert kernel.races(*arguments(kernel), blocks=1) == []


@pytest.mark.quick
@pytest.mark.parametrize("kernel", NOT_ORDERED, ids=lambda k: k.__name__)
def test_what_it_does_not_order_is_ordered_by_a_barrier_of_the_compilers(kernel):
    found = inferred(kernel)
    assert [p.kind for p in found] == ["block"], found
    assert shown(kernel) == "ordered"
    assert kernel.races(*arguments(kernel), blocks=1) == []


def without(kernel, *ops: str):
    """The synchronized program without these barriers."""
    made = kernel._the_one({}).synced
    leave_out = lambda s: [("", ())] if isinstance(s, ir.Collective) and s.op in ops else []  # noqa: E731
    while any(isinstance(s, ir.Collective) and s.op in ops for s in statements(made.body)):
        made = next(bare for _, bare in mutations.edited(made, leave_out))
    return made


@pytest.mark.parametrize("kernel, ops", [(in_two_parts, ("arrive", "wait")), (rounds, ("arrive", "wait")), (rounds, ("sync",))])
def test_without_it_the_machine_finds_the_race_and_the_proof_does_not_show_the_order(kernel, ops):
    bare = without(kernel, *ops)
    assert order(bare).open
    found: list = []
    for seed in range(12):
        run_adversarial(bare, list(arguments(kernel)), 1, seed, found)
    assert found


@kernel(threads=128)
def teams_in_two_parts(x: ptr(const(int)), y: ptr(int)):
    with each(block, y):
        s: shared(int[128])
        t: int @ thread[1] = id()
        with each(thread, s):
            s[t] = x[t]
        with each(thread[64]):
            intrinsic.arrive()
            intrinsic.wait()
        with each(thread, y):
            y[t] = s[127 - t]


@kernel(threads=128)
def one_team_for_the_other(x: ptr(const(int)), y: ptr(int)):
    with each(block, y):
        s: shared(int[128])
        t: int @ thread[1] = id()
        with each(thread, s):
            s[t] = x[t]
        with each(thread[64]):
            intrinsic.arrive()
            intrinsic.wait()
        with each(thread, y):
            y[t] = s[t + 64 - t / 64 * 64]


@pytest.mark.quick
@pytest.mark.parametrize("kernel", [between, before_the_wait, teams_in_two_parts, one_team_for_the_other], ids=lambda k: k.__name__)
def test_a_proof_counts_on_a_barrier_for_what_it_orders_and_no_more(kernel):
    """Without the inferred barrier the pair is open."""
    inferred_ones = lambda s: [("", ())] if isinstance(s, synced.Sync) else []  # noqa: E731
    bare = next(made for _, made in mutations.edited(kernel._the_one({}).synced, inferred_ones))
    assert order(bare).open
    found: list = []
    for seed in range(12):
        run_adversarial(bare, list(arguments(kernel)), 1, seed, found)
    assert found


def test_groups_inside_and_functions_have_barriers_of_their_own():
    @device(block)
    def turned(s: ptr(shared(int)), v: int @ thread[1]) -> int @ thread[1]:
        t: int @ thread[1] = id()
        with each(thread, s):
            s[t] = v
        intrinsic.arrive()
        intrinsic.wait()
        return s[127 - t]

    @kernel(threads=128)
    def k(x: ptr(const(int)), y: ptr(int)):
        with each(block, y):
            s, o = shared(int[128]), shared(int[128])
            t: int @ thread[1] = id()
            with each(thread, o):
                o[t] = x[t]
            intrinsic.arrive()
            v: int @ thread[1] = turned(s, x[t])
            with each(warp, s) as w:
                l: int @ thread[1] = id()
                intrinsic.arrive()
                v += w + l
                intrinsic.wait()
            intrinsic.wait()
            with each(thread, y):
                y[t] = o[127 - t] + v

    assert inferred(k) == []
    assert shown(k) == "ordered"
    x, y = np.arange(128, dtype=np.int32), np.zeros(128, np.int32)
    k[1](x, y)
    assert (y == 2 * (127 - x) + x // 32 + x % 32).all()
    assert k.races(x, y, blocks=1) == []
    assert "snap_arrivals[6]" in k.cuda()  # one of the function, one of the block, four of its warps


@pytest.mark.parametrize("op", ["arrive", "wait"])
def test_a_proof_asks_the_text_whether_the_parts_come_in_turn(op):
    assert any("not shown to alternate" in stuck.why for stuck in order(without(in_two_parts, op)).stuck)


def test_a_wait_that_nobody_arrives_for_does_not_hang_the_machine():
    with pytest.raises(MachineError, match="wait for `wait` and have not arrived"):
        run_adversarial(without(in_two_parts, "arrive"), list(arguments(in_two_parts)), 1, 0)


def test_named_barriers_by_hand_and_inferred_ones_have_one_pool():
    @kernel(threads=256)
    def k(x: ptr(const(int)), y: ptr(int)):
        with each(block, y):
            s: shared(int[256])
            with each(thread[64], s, y) as g:
                t: int @ thread[1] = id()
                with each(thread, s):
                    s[64 * g + t] = x[64 * g + t]
                intrinsic.sync()
                with each(thread, y):
                    y[64 * g + t] = s[64 * g + 63 - t]
            with each(thread[128], s, y) as g:
                u: int @ thread[1] = id()
                with each(thread, s):
                    s[128 * g + u] = y[128 * g + u]
                intrinsic.sync()
                with each(thread, y):
                    y[128 * g + u] = s[128 * g + 127 - u]

    text = k.cuda()
    assert "snap_named_sync(threadIdx.x / 128 + 1, 128);" in text and "snap_named_sync(threadIdx.x / 64 + 3, 64);" in text
    assert k.races(np.arange(256, dtype=np.int32), np.zeros(256, np.int32), blocks=1) == []


def test_blocks_that_have_met_by_hand_have_begun():
    @kernel(threads=64, cluster=2)
    def k(x: ptr(const(int)), y: ptr(int)):
        with each(cluster) as c:
            given: shared(int[64], across=block)
            b: int @ block[1] = id()
            t: int @ thread[1] = id() % 64
            intrinsic.arrive()
            v: int @ thread[1] = x[c * 128 + b * 64 + t]
            intrinsic.wait()
            with each(thread, given):
                given[1 - b, t] = v
            intrinsic.sync()
            with each(thread, y):
                y[c * 128 + b * 64 + t] = given[b, t]

    assert [p.object for p in k.syncs()] == ["wait", "sync"]
    assert shown(k) == "ordered"
    x, y = np.arange(256, dtype=np.int32), np.zeros(256, np.int32)
    k[4](x, y)
    assert (y.reshape(2, 2, 64) == x.reshape(2, 2, 64)[:, ::-1]).all()
    assert k.races(x, y, blocks=4) == []


def test_a_loop_that_ends_by_break_alone_is_left_as_the_break_leaves_it():
    @kernel(threads=64, blocks=1)
    def left_by_break(y: ptr(int, (64,)), n: int):
        with each(block, y):
            m: int = 0
            intrinsic.arrive()
            while True:
                intrinsic.wait()
                if m >= n:
                    break
                m += 1
                intrinsic.arrive()
            with each(thread, y) as t:
                y[t] = m

    y = np.zeros(64, np.int32)
    left_by_break(y, 5)
    assert (y == 5).all() and not left_by_break.races(y, 5, seeds=3)
