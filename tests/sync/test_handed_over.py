"""What a group did by relaxed atomics, or plainly, before one of its threads releases, is seen by the group for which another thread acquires: each
kernel does the same in any order, *order* is shown of it, and neither holds without any one of its points."""

from __future__ import annotations

import numpy as np
import pytest
from sync.dropping import goes_wrong, points_of, without
from sync.small import agree, compiled

from snap.prove.order.goal import order

HEAD = """from __future__ import annotations
from snap import *
"""
BLOCKS = HEAD + """
@kernel(threads=64, cooperative=True)
def k(x: ptr(const(int)), ws: ptr(int), flags: ptr(int), out: ptr(int)):
    with each(block, out{plain}, disjoint=out) as b:
        if b == 0:
            with each(thread{ws}) as t:
                {store}
            {release}
        else:
            {acquire}
            with each(thread, out) as t:
                out[t] = {load}
"""
ATOMIC = dict(plain="", ws="", store="atomic.store(ws, t, x[t])", load="atomic.load(ws, 63 - t)")
PLAIN = dict(plain=", ws", ws=", ws", store="ws[t] = x[t]", load="ws[63 - t]")
STORES = {
    "store": ATOMIC,
    "add": {**ATOMIC, "store": "atomic.add(ws, t, x[t])"},
    "exchange": {**ATOMIC, "store": "atomic.exch(ws, t, x[t])"},
    "cas": {**ATOMIC, "store": "atomic.cas(ws, t, 0, x[t])"},
    "read by adding": {**ATOMIC, "load": "atomic.add(ws, 63 - t, 0)"},
    "plain": PLAIN,
}
RELEASES = {
    "one": 'with one(thread):\n                atomic.store(flags, 0, 1, order="release")',
    "exchanged": 'with one(thread):\n                atomic.exch(flags, 0, 1, order="acq_rel")',
    "where t is 5": 'with each(thread) as t:\n                if t == 5:\n                    atomic.add(flags, 0, 1, order="seq_cst")',
}
ACQUIRES = {
    "one": 'with one(thread):\n                while atomic.load(flags, 0, order="acquire") == 0:\n                    pass',
    "by adding": 'with one(thread):\n                while atomic.add(flags, 0, 0, order="acq_rel") == 0:\n                    pass',
}


def arguments() -> list:
    return [np.arange(64, dtype=np.int32) + 1, np.zeros(64, np.int32), np.zeros(64, np.int32), np.zeros(64, np.int32)]


def right(kernel, made) -> None:
    """Units of one `each` may meet where a release and an acquire order them."""
    args = made()
    kernel.launch(*args, blocks=2)
    assert (args[3] == args[0][::-1]).all()
    for seed in range(5):
        args = made()
        kernel.launch(*args, blocks=2, seed=seed)
        assert (args[3] == args[0][::-1]).all()


def needed(kernel, args: list, blocks: int, seeds: int = 12) -> None:
    """*order* is shown of it, and not without any one of its points; nor does it do without one what it did."""
    function = kernel._the_one({}).synced
    assert order(function).verdict == "ordered"
    for point in points_of(function):
        broken = without(function, point)
        assert order(broken).verdict == "unknown", point.reason
        assert any(goes_wrong(broken, args, blocks, seed) for seed in range(seeds)), point.reason


WAYS = [(s, r, a) for s in STORES for r in RELEASES for a in ACQUIRES if s in ("store", "plain") or (r, a) == ("one", "one")]


@pytest.mark.parametrize("store, release, acquire", WAYS)
def test_a_block_hands_over_to_another(store, release, acquire):
    kernel = compiled(BLOCKS.format(**STORES[store], release=RELEASES[release], acquire=ACQUIRES[acquire]))
    assert [(p.object, "published" in p.reason, "acquired" in p.reason) for p in kernel.syncs()] == [("ws", True, False), ("ws", False, True)]
    if store == "plain":
        right(kernel, arguments)
    else:
        agree(kernel, arguments, 2)
    needed(kernel, arguments(), 2)


CHAIN = HEAD + """
@kernel(threads=64, cooperative=True)
def k(x: ptr(const(int)), ws: ptr(int), flags: ptr(int), out: ptr(int)):
    with each(block, out, disjoint=out) as b:
        if b == 0:
            with each(thread) as t:
                atomic.store(ws, t, x[t])
            with one(thread):
                atomic.store(flags, 0, 1, order="release")
        elif b == 1:
            with one(thread):
                while atomic.load(flags, 0, order="acquire") == 0:
                    pass
            with each(thread) as t:
                if t == 40:
                    atomic.store(flags, 1, 1, order="release")
        else:
            with one(thread):
                while atomic.load(flags, 1, order="acquire") == 0:
                    pass
            with each(thread, out) as t:
                out[t] = atomic.load(ws, 63 - t)
"""
TWO_FLAGS = CHAIN.replace("store(flags, 1,", "add(more, 0,").replace("flags, 1,", "more, 0,").replace("out: ptr(int))", "out: ptr(int), more: ptr(int))")
SOMETIMES = HEAD + """
@kernel(threads=64)
def k(x: ptr(const(int)), ws: ptr(int), flags: ptr(int), out: ptr(int)):
    with each(block, out, disjoint=out) as b:
        if b == 0:
            with each(thread, out) as t:
                out[t] = atomic.load(ws, t)
        else:
            with each(thread) as t:
                atomic.add(ws, x[t] & 7, 1)
            with one(thread):
                atomic.add(flags, 0, 1, order="acq_rel")
            with each(thread) as t:
                atomic.add(ws, x[t] & 3, 1)
"""
EACH = HEAD + """
@kernel(threads=64, cooperative=True)
def k(x: ptr(const(int)), ws: ptr(int), flags: ptr(int), out: ptr(int)):
    with each(block, out, disjoint=out) as b:
        for i in range(3):
            if b == 0:
                with each(thread) as t:
                    atomic.store(ws, i * 64 + t, x[i * 64 + t])
                with each(thread) as t:
                    atomic.store(flags, i * 64 + {flag}, 1, order="release")
            else:
                with each(thread) as t:
                    while atomic.load(flags, i * 64 + t, order="acquire") == 0:
                        pass
                with each(thread, out) as t:
                    out[i * 64 + t] = atomic.load(ws, i * 64 + {data})
"""
ROLES = HEAD + """
@kernel(threads=96, cooperative=True)
def k(x: ptr(const(int)), ws: ptr(int), flags: ptr(int), out: ptr(int)):
    with each(block, out, disjoint=out) as b:
        work, other = roles(64, 32)
        with work():
            if b == 0:
                with each(thread) as t:
                    atomic.store(ws, t, x[t])
                with one(thread):
                    atomic.store(flags, 0, 1, order="release")
            else:
                with one(thread):
                    while atomic.load(flags, 0, order="acquire") == 0:
                        pass
                with each(thread, out) as t:
                    out[t] = atomic.load(ws, 63 - t)
        with other():
            intrinsic.nanosleep(20)
"""
CLUSTER = HEAD + """
@kernel(threads=32, cluster=2, cooperative=True)
def k(x: ptr(const(int)), ws: ptr(int), flags: ptr(int), out: ptr(int)):
    with each(cluster, out, disjoint=out) as c:
        if c == 0:
            with each(thread) as t:
                atomic.store(ws, t, x[t])
            with one(block), one(thread):
                atomic.store(flags, 0, 1, order="release")
        else:
            with one(block), one(thread):
                while atomic.load(flags, 0, order="acquire") == 0:
                    pass
            with each(thread, out) as t:
                out[t] = atomic.load(ws, 63 - t)
"""
HIST = HEAD + """
@kernel(threads=64)
def k(x: ptr(const(int)), ws: ptr(int), flags: ptr(int), out: ptr(int)):
    with each(block, out, disjoint=out) as b:
        with each(thread) as t:
            atomic.add(ws, x[t] & 7, 1)
        with one(thread, out):
            if atomic.add(flags, 0, 1, order="acq_rel") == 0:
                out[b] = atomic.load(flags, 1)
"""


def points(kernel) -> list[tuple[str, str, int]]:
    return [(p.kind, str(p.participants), p.span.line) for p in kernel.syncs()]


def many(rounds: int = 1) -> list:
    return [np.arange(192, dtype=np.int32) + 1, *(np.zeros(192, np.int32) for _ in range(3))]


def test_who_releases_speaks_of_what_another_thread_has_acquired():
    kernel = compiled(CHAIN)
    assert points(kernel) == [("named", "block[1]", 10), ("block", "block[1]", 16), ("block", "block[1]", 23)]
    agree(kernel, many, 3)
    needed(kernel, many(), 3)


def test_what_one_thread_acquired_another_one_releases_by_an_array_of_its_own():
    """Nobody asks for that array's elements behind an acquire of them: what is released speaks of what was acquired."""
    kernel = compiled(TWO_FLAGS)
    assert points(kernel) == [("named", "block[1]", 10), ("block", "block[1]", 16), ("block", "block[1]", 23)]
    agree(kernel, lambda: [*many(), np.zeros(1, np.int32)], 3)
    needed(kernel, [*many(), np.zeros(1, np.int32)], 3)


def test_sums_behind_an_acquire_come_in_any_order_whoever_reads_them_elsewhere():
    kernel = compiled(SOMETIMES)
    assert points(kernel) == [] and order(kernel._the_one({}).synced).verdict == "ordered"


def test_threads_in_one_place_of_their_blocks_hand_over_to_each_other():
    kernel = compiled(EACH.format(flag="t", data="t"))
    assert points(kernel) == [] and order(kernel._the_one({}).synced).verdict == "ordered"
    agree(kernel, many, 2)


@pytest.mark.parametrize("flag, data", [("t", "63 - t"), ("63 - t", "t")])
def test_threads_that_hand_over_to_others_meet(flag, data):
    kernel = compiled(EACH.format(flag=flag, data=data))
    assert points(kernel) == [("block", "block[1]", 11), ("block", "block[1]", 17)]
    agree(kernel, many, 2)
    function = kernel._the_one({}).synced
    first, second = points_of(function)
    assert {order(without(function, point)).verdict for point in (first, second)} == {"unknown"}
    neither = without(without(function, first), second)  # each of the two would do here, since all release and all acquire
    assert any(goes_wrong(neither, many(), 2, seed) for seed in range(12))


def test_an_element_that_all_touch_is_no_column():
    assert points(compiled(EACH.format(flag="0", data="t"))) == [("block", "block[1]", 11), ("block", "block[1]", 17)]


def test_a_role_hands_over():
    kernel = compiled(ROLES)
    assert [(word, place) for word, place, _ in points(kernel)] == [("named", "thread[64]")] * 2
    agree(kernel, many, 2)
    needed(kernel, many(), 2)


def test_a_cluster_hands_over():
    kernel = compiled(CLUSTER)
    assert [(word, place) for word, place, _ in points(kernel)] == [("cluster", "cluster[1]")] * 2
    agree(kernel, many, 4)
    for point in points_of(kernel._the_one({}).synced):
        assert order(without(kernel._the_one({}).synced, point)).verdict == "unknown"


def test_what_nobody_reads_behind_an_acquire_is_not_waited_for():
    kernel = compiled(HIST)
    assert points(kernel) == [] and order(kernel._the_one({}).synced).verdict == "ordered"


def test_a_race_says_which_group_has_not_met():
    from snap.machine import run_adversarial

    kernel = compiled(BLOCKS.format(**ATOMIC, release=RELEASES["one"], acquire=ACQUIRES["one"]))
    function = kernel._the_one({}).synced
    for point in points_of(function):
        races: list = []
        for seed in range(6):
            run_adversarial(without(function, point), arguments(), 2, seed, races)
        assert {race.reason for race in races} == {"group"} and "for its group" in races[0].message


COUNTED = HEAD + """
@kernel(threads=64)
def k(x: ptr(const(int)), ws: ptr(int), flags: ptr(int), out: ptr(int)):
    with each(block):
        with each(thread) as t:
            atomic.add(ws, x[t] & 7, 1)
        with one(thread):
            atomic.add(flags, 0, 1, order="acq_rel")
        with each(thread) as t:
            atomic.add(ws, x[t] & 3, 1)
"""
WARPS = HEAD + """
@kernel(threads=64, blocks=1)
def k(x: ptr(const(int)), ws: ptr(int), flags: ptr(int), out: ptr(int)):
    with each(block, out, disjoint=out):
        with each(warp, out, disjoint=out) as w:
            if w == 0:
                with each(thread) as t:
                    atomic.store(ws, t, x[t])
                with one(thread):
                    atomic.store(flags, 0, 1, order="release"{scope})
            else:
                with one(thread):
                    while atomic.load(flags, 0, order="acquire"{scope}) == 0:
                        pass
                with each(thread, out) as t:
                    out[t] = atomic.load(ws, 31 - t)
"""


def test_counters_come_in_any_order():
    kernel = compiled(COUNTED)
    assert points(kernel) == [] and order(kernel._the_one({}).synced).verdict == "ordered"


@pytest.mark.parametrize("scope", ["", ', scope="block"'])
def test_a_warp_hands_over_within_its_block(scope):
    kernel = compiled(WARPS.format(scope=scope))
    assert [(word, place) for word, place, _ in points(kernel)] == [("warp", "thread[32]")] * 2
    agree(kernel, many, 1)
    needed(kernel, many(), 1)
