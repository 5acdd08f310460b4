"""What TMA does before a release, what threads did that TMA touches behind an acquire, plain writes over plain writes, and clusters: neither the machine
nor *order* finds fault, and both do without any one of the points that are there for the hand-over."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sync.dropping import goes_wrong, points_of, without
from sync.small import compiled

from snap._compiler.ir.synced import Sync
from snap.machine import run_adversarial
from snap.prove.order.goal import order

HEAD = """from __future__ import annotations
from snap import *

"""
TILES = HEAD + """@kernel(threads=64, cooperative=True)
def k(x: ptr(const(float)), ws: ptr(float, (2, 64)), flags: ptr(int), out: ptr(float), M: int):
    with each(block, out{plain}, disjoint=out) as b:
        s: shared(float[1, 64])
        with each(thread, s) as t:
            s[0, t] = x[t]
        if b == 0:
            {before}
            with one(thread):
                {inside}atomic.store(flags, 0, 1, order="release")
        else:
            with one(thread):
                while atomic.load(flags, 0, order="acquire") == 0:
                    pass
            {behind}
"""
REDUCE, STORE = 'async_reduce(ws, s, at=(0, 0), op="add")', "async_copy(ws, s, at=(0, 0))"
EACH = "with each(thread{}) as t:\n                {}"
READS, ADDS = EACH.format(", out", "out[t] = atomic.load(ws, (0, 63 - t))"), EACH.format(", out", "out[t] = atomic.add(ws, (0, 63 - t), 0.0)")
LOADS, WRITES = EACH.format(", out", "out[t] = ws[0, 63 - t]"), EACH.format(", ws", "ws[0, 63 - t] = x[t] * 2.0")
PUTS, STORES = EACH.format("", "atomic.store(ws, (0, 63 - t), x[t])"), EACH.format(", ws", "ws[0, 63 - t] = x[t]")
#: what is done before the release, and inside the releasing thread's code; behind the acquire; whether plainly; what row 0 is then, or `out`
CASES = {
    "reduced, then read": (REDUCE, "", READS, "", "out", 1),
    "reduced, then added to": (REDUCE, "", ADDS, "", "out", 1),
    "reduced by the thread that releases": ("pass", REDUCE + "\n                ", READS, "", "out", 1),
    "reduced, then read plainly": (REDUCE, "", LOADS, ", ws", "out", 1),
    "stored, then read plainly": (STORE, "", LOADS, ", ws", "out", 1),
    "stored, then overwritten": (STORE, "", WRITES, ", ws", "ws", 2),
    "put, then reduced": (PUTS, "", REDUCE, "", "ws", 0),
    "written, then reduced": (STORES, "", REDUCE, ", ws", "ws", 0),
    "written, then stored": (STORES, "", STORE, ", ws", "ws", 3),
    "written, then overwritten": (STORES, "", WRITES, ", ws", "ws", 2),
}
X = np.arange(64, dtype=np.float32) + 1
AFTER = {0: X + X[::-1], 1: X[::-1], 2: 2 * X[::-1], 3: X}


def made() -> list:
    return [X.copy(), np.zeros((2, 64), np.float32), np.zeros(2, np.int32), np.zeros(64, np.float32), 2]


def tiles(name: str):
    before, inside, behind, plain, _, _ = CASES[name]
    return compiled(TILES.format(plain=plain, before=before, inside=inside, behind=behind))


def for_the_hand_over(function) -> list:
    return [p for p in points_of(function) if "published" in p.reason or "acquired" in p.reason]


@pytest.mark.parametrize("name", CASES)
def test_a_tile_is_handed_over(name):
    function, (*_, where, which) = tiles(name)._the_one({}).synced, CASES[name]
    assert order(function).verdict == "ordered"
    for seed in range(3):
        args, races = made(), []
        run_adversarial(function, args, 2, seed, races)
        assert not races, races[0]
        np.testing.assert_array_equal(args[3] if where == "out" else args[1][0], AFTER[which])
    points = for_the_hand_over(function)
    assert any("published" in p.reason for p in points)
    for point in points:
        broken = without(function, point)
        assert order(broken).verdict == "unknown", point.reason
        assert any(goes_wrong(broken, made(), 2, seed) for seed in range(6)), point.reason


def unfenced(function):
    """The same, and nobody fences what is handed over."""
    def body(b):
        return tuple(replace(s, point=replace(s.point, fence=False)) if isinstance(s, Sync) and "published" in s.point.reason else within(s) for s in b)

    def within(s):
        parts = {name: body(getattr(s, name)) for name in ("then", "other", "pre", "body") if isinstance(getattr(s, name, None), tuple)}
        return replace(s, cases=tuple(replace(case, body=body(case.body)) for case in s.cases)) if hasattr(s, "cases") else replace(s, **parts) if parts else s

    return replace(function, body=body(function.body))


@pytest.mark.parametrize("name", ["written, then reduced", "written, then stored"])
def test_who_writes_fences_for_the_tma_of_another_block(name):
    function = tiles(name)._the_one({}).synced
    broken = unfenced(function)
    assert order(broken).verdict == "unknown" and goes_wrong(broken, made(), 2, 0)


WARPS = HEAD + """@kernel(threads=64, blocks=1)
def k(x: ptr(const(float)), ws: ptr(float, (2, 64)), flags: ptr(int), out: ptr(float), M: int):
    with each(block, ws, disjoint=ws):
        s, f = shared(float[1, 64]), shared(int[1])
        with each(thread, f, s) as t:
            s[0, t] = 0.0
            if t == 0:
                f[0] = 0
        with each(warp, s, ws) as w:
            if w == 0:
                with each(thread, s) as t:
                    s[0, t] = x[t]
                    s[0, t + 32] = x[t + 32]
                with one(thread):
                    atomic.store(f, 0, 1, order="release", scope="block")
            else:
                with one(thread):
                    while atomic.load(f, 0, order="acquire", scope="block") == 0:
                        pass
                async_copy(ws, s, at=(0, 0))
"""


def test_a_warp_fences_what_the_tma_of_another_one_reads():
    function = compiled(WARPS)._the_one({}).synced
    (point,) = (p for p in points_of(function) if "published" in p.reason)
    assert point.fence and str(point.participants) == "thread[32]"
    args, races = made(), []
    run_adversarial(function, args, 1, 0, races)
    assert not races and (args[1][0] == X).all()
    assert goes_wrong(unfenced(function), made(), 1, 0)


def test_a_wait_at_a_release_is_for_what_is_handed_over():
    """The tile has been read; that it has also come to `ws`, which nobody asks for, is not waited for."""
    body = "async_copy(ws, s, at=(0, 0))\n                "
    other = "with each(thread, s) as t:\n                    s[0, t] = 1.0\n                    s[0, t + 32] = 2.0"
    text = WARPS.replace("async_copy(ws, s, at=(0, 0))", other).replace("with one(thread):\n                    atomic.store(f", body + "with one(thread):\n                    atomic.store(f")
    (point,) = (p for p in points_of(compiled(text)._the_one({}).synced) if "published" in p.reason)
    assert [wait.name for wait, _ in point.waits] == ["BOXES_READ"]


CLUSTER = HEAD + """@kernel(threads=32, cluster=2, cooperative=True)
def k(x: ptr(const(float)), ws: ptr(float), flags: ptr(int), out: ptr(float), M: int):
    with each(cluster, out, ws, disjoint=out) as c:
        if c == 0:
            with each(thread, ws) as t:
                ws[t] = x[t]
            with one(block), one(thread):
                atomic.store(flags, 0, 1, order="release")
        else:
            with one(block), one(thread):
                while atomic.load(flags, 0, order="acquire") == 0:
                    pass
            with each(thread, out) as t:
                out[t] = ws[63 - t]
"""


def test_a_cluster_hands_over_plainly():
    function = compiled(CLUSTER)._the_one({}).synced
    points = points_of(function)
    assert [(p.kind, str(p.participants)) for p in points] == [("cluster", "cluster[1]")] * 2 and order(function).verdict == "ordered"
    plain = [made()[0], np.zeros(64, np.float32), *made()[2:]]
    for seed in range(3):
        args, races = [a.copy() if isinstance(a, np.ndarray) else a for a in plain], []
        run_adversarial(function, args, 4, seed, races)
        assert not races and (args[3] == X[::-1]).all()
    for point in points:
        assert order(without(function, point)).verdict == "unknown" and goes_wrong(without(function, point), plain, 4, 0)


APART = HEAD + """@kernel(threads=64, cooperative=True)
def k(x: ptr(const(float)), ws: ptr(float), flags: ptr(int), out: ptr(float), M: int):
    with each(block, out{disjoint}) as b:
        for r in range(2):
            if r == 1:
                with one(thread):
                    while atomic.load(flags, 1 - b, order="acquire") == 0:
                        pass
            with each(thread, out) as t:
                out[{at}] = x[t]
            with one(thread):
                atomic.store(flags, b, 1, order="release")
"""


@pytest.mark.parametrize("disjoint, at, count", [("", "(2 * b + r) * 64 + t", 0), (", disjoint=out", "M * r + t", 0), ("", "M * r + t", 2)])
def test_plain_writes_that_cannot_meet_are_not_waited_for(disjoint, at, count):
    function = compiled(APART.format(disjoint=disjoint, at=at))._the_one({}).synced
    assert len(for_the_hand_over(function)) == count and order(function).verdict == "ordered"
