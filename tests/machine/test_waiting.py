"""Threads that wait for each other by atomics: whoever can go on does, with a seed and without; what nobody can end is reported, with its places."""

from __future__ import annotations

import numpy as np
import pytest

from snap import *
from snap.machine import MachineError

SCHEDULES = (None, 1, 2)


def zeros(n=1):
    return np.zeros(n, np.int32)


@kernel
@requires(grid[1], block[1], thread[64])
def one_of_each_warp(lock: ptr(int), total: ptr(int)):
    with group(grid[1]):
        t: int @ thread[1] = id()
        with partition(total, p=thread[1]) as mine:
            with group(thread[1]):
                if t % 32 == 0:
                    while atomic.cas(lock, 0, 0, 1, order="acquire") != 0:
                        pass
                    mine[0] = mine[0] + 1
                    atomic.store(lock, 0, 0, order="release")


@kernel
@requires(grid[1], block[1], thread[8])
def all_of_a_warp(lock: ptr(int), total: ptr(int)):
    with group(grid[1]):
        with partition(total, p=thread[1]) as mine:
            with group(thread[1]):
                while atomic.cas(lock, 0, 0, 1, order="acquire") != 0:
                    pass
                mine[0] = mine[0] + 1
                atomic.store(lock, 0, 0, order="release")


@kernel
@requires(grid[1], block[1], thread[8])
def tickets(lock: ptr(int), total: ptr(int)):
    with group(grid[1]):
        with partition(total, p=thread[1]) as mine:
            with group(thread[1]):
                my_turn: int = atomic.add(lock, 0, 1)
                rounds: int = 0
                while atomic.load(lock, 1, order="acquire") != my_turn:
                    rounds += 1
                mine[0] = mine[0] + 1
                atomic.add(lock, 1, 1, order="release")


@device
@requires(thread[1])
def acquired(lock: ptr(int) @ thread[1], which: int) -> int:
    tries: int = 1
    while True:
        if atomic.exch(lock, which, 1, order="acquire") == 0:
            return tries
        for j in range(tries):
            tries += 0
        tries = min(2 * tries, 8)
    return 0


@kernel
@requires(grid[1], block[1], thread[8])
def nested_with_a_pause(lock: ptr(int), total: ptr(int)):
    with group(grid[1]):
        with partition(lock, p=thread[1]) as locks, partition(total, p=thread[1]) as mine:
            with group(thread[1]):
                for r in range(2):
                    v: int = acquired(locks, 0)
                    v = acquired(locks, 1)
                    mine[0] = mine[0] + 1
                    atomic.store(locks, 1, 0, order="release")
                    atomic.store(locks, 0, 0, order="release")


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("kernel_, expected", [(one_of_each_warp, 6), (all_of_a_warp, 24), (tickets, 24), (nested_with_a_pause, 48)],
                         ids=lambda x: getattr(x, "__name__", ""))
def test_locks_count_everyone(kernel_, expected, schedule):
    total = zeros()
    kernel_.launch(zeros(2), total, blocks=3, seed=schedule)
    assert total[0] == expected


def test_a_lock_within_a_warp_orders_what_it_protects():
    assert all_of_a_warp.races(zeros(), zeros(), blocks=1, seeds=3) == []
    assert nested_with_a_pause.races(zeros(2), zeros(), blocks=1, seeds=2) == []


@kernel
@requires(grid[1], block[1], thread[64])
def the_last_case_begins(flag: ptr(int), out: ptr(int)):
    with group(grid[1]):
        with partition(out, p=block[1]) as whole:
            with group(block[1]):
                t: int @ thread[1] = id()
                with partition(whole, p=thread[1], offset=t) as mine:
                    match split(thread):
                        case 32:
                            with group(thread[1]):
                                while atomic.load(flag, t % 16, order="acquire") == 0:
                                    pass
                                mine[0] = 1
                        case 16:
                            with group(thread[1]):
                                while atomic.load(flag, t % 16, order="acquire") == 0:
                                    pass
                                mine[0] = 2
                        case 16:
                            with group(thread[1]):
                                mine[0] = 3
                                atomic.store(flag, t % 16, 1, order="release")


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_branches_run_in_parallel(schedule):
    out = zeros(64)
    the_last_case_begins.launch(zeros(16), out, blocks=1, seed=schedule)
    assert out.tolist() == [1] * 32 + [2] * 16 + [3] * 16


@kernel
@requires(grid[1], block[1], thread[32])
def after_the_next_block(flag: ptr(int)):
    with group(grid[1]):
        b: int @ block[1] = id()
        last: int @ grid[1] = count(block[1]) - 1
        with group(thread[1]):
            while b < last and atomic.load(flag, b + 1) == 0:
                pass
            atomic.store(flag, b, 1)


def test_a_block_does_not_wait_for_a_later_one():
    with pytest.raises(MachineError, match="cooperative=True"):
        after_the_next_block[3](zeros(3))


@kernel
@requires(grid[1], block[1], thread[32], cooperative=True)
def after_the_next_resident_block(flag: ptr(int)):
    with group(grid[1]):
        b: int @ block[1] = id()
        last: int @ grid[1] = count(block[1]) - 1
        with group(thread[1]):
            while b < last and atomic.load(flag, b + 1) == 0:
                pass
            atomic.store(flag, b, 1)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_resident_blocks_wait_for_each_other(schedule):
    flag = zeros(3)
    after_the_next_resident_block.launch(flag, blocks=3, seed=schedule)
    assert flag.all()


@kernel
@requires(grid[1], block[1], thread[32])
def in_opposite_orders(lock: ptr(int), holds: ptr(int), rounds: int):
    with group(grid[1]):
        t: int @ thread[1] = id()
        with group(thread[1]):
            if t < 2:
                n: int = 0
                while atomic.exch(lock, t, 1) != 0:
                    n += 1
                atomic.store(holds, t, 1)
                while atomic.load(holds, 1 - t) == 0:
                    n += 1
                if t == 0:
                    while atomic.exch(lock, 1, 1) != 0:  # the first waits
                        n += rounds
                else:
                    while atomic.exch(lock, 0, 1) != 0:  # the second waits
                        n += rounds


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("rounds", [0, 1], ids=["nothing changes", "a counter changes"])
def test_a_deadlock_names_both_places(rounds, schedule):
    with pytest.raises(MachineError) as caught:
        in_opposite_orders.launch(zeros(2), zeros(2), rounds, blocks=1, seed=schedule)
    assert caught.value.kind == "no progress"
    assert "the first waits" in str(caught.value) and "the second waits" in str(caught.value)


@kernel
@requires(grid[1], block[1], thread[64])
def at_a_barrier(flag: ptr(int), out: ptr(int)):
    with group(grid[1]):
        with partition(out, p=block[1]) as whole:
            with group(block[1]):
                t: int @ thread[1] = id()
                s: shared(int[64])
                with partition(s, p=thread[1], offset=t) as mine:
                    with group(thread[1]):
                        if t == 0:
                            while atomic.load(flag, 0) == 0:
                                pass
                        mine[0] = t
                with partition(whole, p=thread[1], offset=t) as mine:
                    mine[0] = s[63 - t]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_waiting_for_what_never_comes_while_others_are_at_a_barrier(schedule):
    with pytest.raises(MachineError) as caught:
        at_a_barrier.launch(zeros(), zeros(64), blocks=1, seed=schedule)
    assert caught.value.kind == "no progress" and "threads wait at this barrier" in str(caught.value)


def test_a_launch_that_begins_again_begins_with_the_arrays_as_they_were():
    """In lockstep every thread adds to the total before any has the lock; that attempt leaves nothing behind."""

    @kernel
    @requires(grid[1], block[1], thread[4])
    def counted(lock: ptr(int), total: ptr(int)):
        with group(grid[1]):
            with group(thread[1]):
                v: int = atomic.add(total, 0, 1)
                while atomic.exch(lock, 0, 1, order="acquire") != 0:
                    pass
                atomic.store(lock, 0, 0, order="release")

    for schedule in SCHEDULES:
        total = zeros()
        counted.launch(zeros(), total, blocks=2, seed=schedule)
        assert total[0] == 8


@kernel(threads=32)
def parts_wait_for_each_other(flag: ptr(int), out: ptr(int)):
    i: int @ thread[1] = id()
    part: int @ thread[8] = id()
    with partition(out, p=thread[1], offset=i) as mine, group(thread[8]):
        seen: bool = part == 3
        while not seen:
            seen = intrinsic.any(atomic.load(flag, part + 1, order="acquire") != 0)
        mine[0] = intrinsic.reduce_add(i)
        atomic.store(flag, part, 1, order="release")


def test_parts_of_a_warp_go_their_own_ways_and_stay_together_in_themselves():
    for schedule in SCHEDULES:
        out = zeros(32)
        parts_wait_for_each_other.launch(zeros(4), out, blocks=1, seed=schedule)
        np.testing.assert_array_equal(out, np.repeat(np.arange(32).reshape(4, 8).sum(axis=1), 8))
    assert parts_wait_for_each_other.races(zeros(4), zeros(32), blocks=1, seeds=3) == []


@kernel
@requires(grid[1], block[1], thread[32])
def both_step_back(lock: ptr(int)):
    with group(grid[1]):
        t: int @ thread[1] = id()
        with group(thread[1]):
            going: int = 1
            while going == 1:
                if atomic.add(lock, t, 1) < 0:
                    going = 0


def test_a_livelock_ends(monkeypatch):
    from snap.machine.reference import BlockLanes
    from snap.machine.schedule.warp_lanes import WarpLanes

    monkeypatch.setattr(BlockLanes, "rounds", 500)
    monkeypatch.setattr(WarpLanes, "rounds", 2000)
    for schedule in SCHEDULES:
        with pytest.raises(MachineError, match="does not end"):
            both_step_back.launch(zeros(32), blocks=1, seed=schedule)
