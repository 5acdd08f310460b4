"""Who waits where groups at a stride hand memory on: themselves where a barrier is for them alone, else all that lie between their threads."""

from __future__ import annotations

import numpy as np
import pytest
from sync.small import agree, compiled, points

import snap
from snap._compiler.ir import synced
from snap._compiler.ir.walk import statements
from snap.diag.error import SnapError
from snap.machine import run_adversarial
from snap.record import replace

KERNEL = """from __future__ import annotations
from snap import *

@kernel(threads={threads})
def k(x: ptr(const(int)), y: ptr(int)):
    with each(block):
        i: int @ thread[1] = id()
        v: int @ thread[1] = x[i]
        s: shared(int[{threads}])
{body}
        with each(thread, y) as t:
            y[t] = v
"""
WITHIN = """
with each({group}, s) as g:
    with each(thread, s) as m:
        s[{n} * g + m] = v
    m: int @ thread[1] = id()
    v = s[{n} * g + {n} - 1 - m]
"""


def made(body: str, threads: int = 256):
    lines = "\n".join("        " + line for line in body.strip("\n").splitlines())
    return compiled(KERNEL.format(threads=threads, body=lines))


def waits(body: str, threads: int = 256) -> list[tuple[str, str]]:
    kernel = made(body, threads)
    agree(kernel, lambda: [np.arange(threads, dtype=np.int32) * 7 % 101, np.zeros(threads, np.int32)], 1)
    return points(kernel)


@pytest.mark.parametrize("group, n, kind", [
    ("warp.every(2)[4]", 128, "named"), ("warp.every(4)[2]", 64, "named"), ("thread[64].every(2)[2]", 128, "named"),
    ("thread.every(4)[8]", 8, "warp"), ("thread[4].every(2)[2]", 8, "warp"), ("thread.every(16)[2]", 2, "warp"),
])
def test_a_group_waits_for_itself(group, n, kind):
    assert waits(WITHIN.format(group=group, n=n)) == [(kind, group)]


@pytest.mark.parametrize("group, n", [("thread.every(32)[8]", 8), ("thread[16].every(4)[4]", 64), ("thread.every(64)[4]", 4)])
def test_parts_of_several_warps_cannot(group, n):
    with pytest.raises(SnapError) as caught:
        waits(WITHIN.format(group=group, n=n))
    assert caught.value.code == "SNAP020" and f"`{group}`, whose threads are parts of several warps" in caught.value.notes[0]


def test_all_that_lie_between_wait_outside_of_it():
    text = """
with each(thread[128], s) as h:
    with partition(s, p=thread.every(16)[8]) as mine:
        with group(thread.every(16)[8]), partition(mine, p=thread[1]) as own, group(thread[1]):
            own[i] = v
        e: int @ thread[1] = i / 128 * 128 + (i + 16) % 128
        with group(thread.every(16)[8]), partition(mine, p=thread[1]) as own, group(thread[1]):
            v = own[e]
"""
    assert waits(text) == [("named", "thread[128]")]


def test_of_warps_that_keep_to_themselves_each_waits_for_itself():
    text = """
with each(warp.every(2)[4], s) as g:
    with each(thread, s) as m:
        s[128 * g + m] = v
    m: int @ thread[1] = id()
    v = s[128 * g + m / 32 * 32 + 31 - m % 32]
"""
    assert waits(text) == [("warp", "thread[32]")]


def test_the_first_of_the_warps_wait_for_one_another_only():
    text = """
with each(warp.every(2)[4], s) as g:
    with one(warp.every(2)[2], s):
        with each(thread, s) as m:
            s[64 * g + m] = v
        m: int @ thread[1] = id()
        v = s[64 * g + 63 - m]
"""
    assert waits(text) == [("named", "warp.every(2)[2]")]


def test_barriers_of_groups_of_one_size_have_their_own_numbers():
    text = WITHIN.format(group="warp.every(2)[4]", n=128) + "v += s[255 - i]" + WITHIN.format(group="thread[128]", n=128)
    kernel = made(text)
    agree(kernel, lambda: [np.arange(256, dtype=np.int32), np.zeros(256, np.int32)], 1)
    synchronized = kernel._the_one({}).synced
    numbers = {str(s.point.participants): s.point.number for s in statements(synchronized.body) if isinstance(s, synced.Sync) and s.point.kind == "named"}
    assert numbers == {"warp.every(2)[4]": 1, "thread[128]": 3} or sorted(numbers.values()) == [1, 3]


@pytest.mark.parametrize("group, n, other", [("warp.every(2)[4]", 128, snap.warp.every(2)[2]), ("thread.every(4)[8]", 8, snap.thread.every(8)[4])])
def test_a_barrier_of_too_few_threads_is_noticed(group, n, other):
    function = made(WITHIN.format(group=group, n=n))._the_one({}).synced

    def changed(body):
        return tuple(_changed(s, changed, other) for s in body)

    races: list = []
    run_adversarial(replace(function, body=changed(function.body)), [np.arange(256, dtype=np.int32), np.zeros(256, np.int32)], 1, 3, races)
    assert races


def _changed(s, inside, other):
    if isinstance(s, synced.Sync):
        return replace(s, point=replace(s.point, participants=other))
    return replace(s, body=inside(s.body)) if hasattr(s, "body") else s


LOCKED = """from __future__ import annotations
from snap import *

@kernel(threads=256)
def k(x: ptr(const(int)), y: ptr(int)):
    with each(block, y):
        lock: shared(int[1])
        with one(thread, lock):
            lock[0] = 0
        with each({group}, y):
            with one(thread):
                while atomic.cas(lock, 0, 0, 1, order="acquire", scope="block") != 0:
                    pass
            with each(thread, y) as m:
                y[m] += x[m]
            with one(thread):
                atomic.store(lock, 0, 0, order="release", scope="block")
"""


@pytest.mark.parametrize("group, n, kind", [("warp.every(2)[4]", 128, "named"), ("thread.every(4)[8]", 8, "warp")])
def test_a_group_at_a_stride_holds_a_lock(group, n, kind):
    kernel = compiled(LOCKED.format(group=group))
    assert points(kernel)[1:] == [(kind, group)] * 2
    for seed in (None, 0, 1, 2):
        y = np.zeros(256, np.int32)
        kernel.launch(np.ones(256, np.int32), y, blocks=1, seed=seed)
        assert (y[:n] == 256 // n).all() and not y[n:].any()


@pytest.mark.parametrize("index, meets", [("m % 96", (192, 0)), ("i % 128", (128, 0)), ("i % 160", None), ("128 * g + m", None)])
def test_two_threads_of_one_group_that_certainly_meet_are_refused(index, meets):
    """Its threads are not the first ones of the block: 0 to 31, 64 to 95, 128 to 159, 192 to 223."""
    text = f"with each(warp.every(2)[4], s) as g:\n    with each(thread, s) as m:\n        s[{index}] = v"
    if meets is None:
        assert points(made(text)) == []
        return
    with pytest.raises(SnapError) as caught:
        made(text)
    assert caught.value.code == "SNAP010" and "thread {} writes what thread {} writes".format(*meets) in caught.value.message
