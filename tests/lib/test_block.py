"""Every block function against NumPy, for every scalar type and many block sizes; no races under any schedule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from lib.lib_support import (
    NAMED,
    TYPES,
    expect_later,
    is_float,
    later,
    on_items,
    packed,
    per_thread,
    run,
    through,
    values,
    wrapped,
)

from snap import *
from snap import SnapError
from snap.lib import block as of_block
from snap.lib._calls.operators import element

SIZES = (32, 96, 256, 1024)


@pytest.mark.parametrize("name", TYPES)
def test_reduce_and_scan_of_every_type(name):
    threads = 96
    x = values(name, 2 * threads, high=2)
    rows = wrapped(name, x).reshape(2, threads)
    op = "max" if is_float(name) else "add"
    for op in (op, "mul"):
        upto = NAMED[op].accumulate(rows, axis=1, dtype=rows.dtype)
        total = run(name, threads, of_block.reduce(name, op), x).reshape(2, threads)
        np.testing.assert_array_equal(total, np.repeat(upto[:, -1:], threads, axis=1))
        np.testing.assert_array_equal(run(name, threads, of_block.scan(name, op), x).reshape(2, threads), upto)
        below = run(name, threads, of_block.scan(name, op, exclusive=True), x).reshape(2, threads)
        np.testing.assert_array_equal(below[:, 1:], upto[:, :-1])
        np.testing.assert_array_equal(NAMED[op](below[:, :1], rows[:, :1]), rows[:, :1])


@pytest.mark.parametrize("threads", SIZES)
def test_every_size(threads):
    x = values("i32", 2 * threads, low=-50, high=50)
    rows = x.astype(np.int32).reshape(2, threads)
    total = run("i32", threads, of_block.reduce(int), x).reshape(2, threads)
    np.testing.assert_array_equal(total, np.repeat(rows.sum(axis=1, keepdims=True), threads, axis=1))
    np.testing.assert_array_equal(run("i32", threads, of_block.scan(int), x).reshape(2, threads), rows.cumsum(axis=1))
    for items in (1, 3, 4):
        plain = values("i32", 2 * threads * items, seed=items, low=-9, high=9)
        upto = plain.reshape(2, -1).cumsum(axis=1)
        for exclusive in (False, True):
            out = np.zeros(plain.size, np.int32)
            on_items(int, threads, items, of_block.scan(int, items=items, exclusive=exclusive))[2](plain.astype(np.int32), out)
            want = upto - plain.reshape(2, -1) if exclusive else upto
            np.testing.assert_array_equal(out.reshape(2, -1), want)


def test_own_operator_in_the_order_of_threads():
    for threads in (64, 256):
        x = values("i32", threads, seed=threads)
        x[-40:] = 0  # the answer comes from another warp
        want = expect_later(x)
        assert set(run("i32", threads, of_block.reduce(int, later), x)) == {want[-1]}
        np.testing.assert_array_equal(run("i32", threads, of_block.scan(int, later), x), want)
        below = run("i32", threads, of_block.scan(int, later, exclusive=True, identity=0), x)
        np.testing.assert_array_equal(below, [0, *want[:-1]])


def test_scan_gives_the_total():
    totals = of_block.scan(int, items=2)

    @kernel
    @requires(grid[1], block[1], thread[64])
    def total_only(x: ptr(const(int)) @ grid[1], out: ptr(int) @ grid[1]):
        with group(grid[1]):
            i: int @ thread[1] = id()
            with partition(out, p=thread[1], offset=i) as mine:
                with group(block[1]):
                    v: int[2] @ thread[1]
                    for k in range(2):
                        v[k] = x[2 * i + k]
                    all_of_them: int = totals(v)
                    mine[0] = all_of_them

    x = np.arange(128, dtype=np.int32)
    out = np.zeros(64, np.int32)
    total_only[1](x, out)
    assert set(out) == {x.sum()}


@pytest.mark.parametrize("name", TYPES)
def test_broadcast(name):
    T, of_thread = element(name), of_block.broadcast(name)

    @kernel
    @requires(grid[1], block[1], thread[64])
    def spread(x: ptr(const(T)) @ grid[1], out: ptr(T) @ grid[1], source: int @ grid[1]):
        with group(grid[1]):
            i: int @ thread[1] = id()
            with partition(out, p=thread[1], offset=i) as mine:
                with group(block[1]):
                    mine[0] = of_thread(x[i], source)

    x = packed(name, values(name, 64))
    for source in (0, 45, 63):
        out = np.zeros_like(x)
        spread[1](x, out, source)
        np.testing.assert_array_equal(out, np.full(64, x[source]))


@pytest.mark.parametrize("threads, items", [(32, 1), (64, 4), (96, 5), (256, 8)])
def test_exchange(threads, items):
    x = np.arange(threads * items, dtype=np.int32)
    out = np.zeros_like(x)
    on_items(int, threads, items, of_block.exchange(int, items, "blocked to striped"))[1](x, out)
    np.testing.assert_array_equal(out, x.reshape(items, threads).T.reshape(-1))
    back = np.zeros_like(x)
    on_items(int, threads, items, of_block.exchange(int, items, "striped to blocked"))[1](out, back)
    np.testing.assert_array_equal(back, x)


@pytest.mark.parametrize("how", of_block.of_warp.LOADS)
@pytest.mark.parametrize("name, items", [("u8", 16), ("bf16", 8), ("f32", 3), ("i64", 2), ("f16", 6), ("bool", 4)])
def test_load_and_store(name, items, how):
    threads = 64
    copy = through(name, threads, items, of_block.load(name, items, how), of_block.store(name, items, how))
    tile = threads * items
    for n, first in ((2 * tile, 0), (tile + 3, 0), (5, 0), (2 * tile, 1)):  # from an odd element on, words do not fit
        x = packed(name, values(name, n, low=2, high=9))
        out = np.zeros_like(x)
        copy[2](x, out, first, n)
        np.testing.assert_array_equal(out[first:], x[first:])
        assert not out[:first].any()


@pytest.mark.parametrize("loaded", ("direct", "vectorized", "transposed"))
@pytest.mark.parametrize("stored", ("direct", "vectorized", "transposed"))
def test_blocked_arrangements_are_the_same(loaded, stored):
    copy = through(int, 32, 4, of_block.load(int, 4, loaded), of_block.store(int, 4, stored))
    x = np.arange(200, dtype=np.int32)
    out = np.zeros_like(x)
    copy[2](x, out, 0, 200)
    np.testing.assert_array_equal(out, x)


def test_no_races():
    x = values("i32", 192).astype(np.int32)
    for f in (of_block.reduce(int), of_block.reduce(int, later), of_block.scan(int), of_block.scan(int, exclusive=True)):
        assert per_thread(int, 96, f).races(x, np.zeros_like(x), blocks=2, seeds=3) == []
    for f in (of_block.scan(int, items=3), of_block.exchange(int, 3)):
        assert on_items(int, 32, 3, f).races(x, np.zeros_like(x), blocks=2, seeds=3) == []


@pytest.mark.parametrize("smem, barriers", [(None, 1), (32, 1), (16, 2)])
def test_barriers_between_two_calls_are_inferred(smem, barriers):
    """Where the second call takes the bytes that the first still reads, CUB asks its users for a __syncthreads.  Where there is room for both it
    takes others."""
    f = of_block.reduce(int)

    @kernel
    @requires(grid[1], block[1], thread[64], smem=smem)
    def twice(x: ptr(const(int)) @ grid[1], out: ptr(int) @ grid[1]):
        with group(grid[1]):
            i: int @ thread[1] = id()
            with partition(out, p=thread[1], offset=i) as mine:
                with group(block[1]):
                    one: int = f(x[i])
                    two: int = f(x[i] * one)
                    mine[0] = two

    x = np.arange(64, dtype=np.int32)
    out = np.zeros_like(x)
    twice[1](x, out)
    assert set(out) == {x.sum() ** 2}
    assert twice.races(x, out, blocks=1, seeds=4) == []
    assert twice.cuda().count("__syncthreads()") == barriers  # one in the function, one between its calls


def test_blocks_are_whole_warps():
    """A function is made once for all of them; a block that is none is refused where it calls."""
    f = of_block.reduce(float)
    with pytest.raises(SnapError, match="at least `thread\\[32\\]`"):
        per_thread(float, 48, f)
    assert f is of_block.reduce("f32", "add")


@pytest.mark.parametrize("old, new", [
    (lambda: of_block.reduce(int, 64), of_block.reduce(int)), (lambda: of_block.reduce(int, 64, "max"), of_block.reduce(int, "max")), (lambda: of_block.reduce(int, threads=64, op=later), of_block.reduce(int, later)),
    (lambda: of_block.reduce(int, "max", threads=64), of_block.reduce(int, "max")), (lambda: of_block.scan(int, 64, later, 4, True, 0), of_block.scan(int, later, 4, True, 0)), (lambda: of_block.scan(int, 64, items=4), of_block.scan(int, items=4)),
    (lambda: of_block.broadcast(int, 64), of_block.broadcast(int)), (lambda: of_block.exchange(int, 64, 4), of_block.exchange(int, 4)), (lambda: of_block.exchange(int, 64, 4, "blocked to striped"), of_block.exchange(int, 4, "blocked to striped")),
    (lambda: of_block.load(int, 64, items=4), of_block.load(int, 4)), (lambda: of_block.load(int, threads=64, items=4), of_block.load(int, 4)), (lambda: of_block.store(int, 64, 4, how="direct"), of_block.store(int, 4, "direct")),
])
def test_the_threads_of_a_block_need_not_be_said(old, new):
    with pytest.warns(DeprecationWarning, match=r"snap\.lib\.block\.\w+\(dtype, threads, \.\.\.\)` is deprecated: write") as told:
        assert old() is new
    assert len(told) == 1 and told[0].filename == __file__


def test_the_new_forms_do_not_warn(recwarn):
    of_block.scan(int, "add", 4), of_block.exchange(int, 4, "striped to blocked"), of_block.load(int, items=4, how="direct"), of_block.store(int, 4)
    assert not recwarn.list


class Best(NamedTuple):
    value: float
    at: int


class Affine(NamedTuple):
    """x -> a * x + b, with whole numbers: composition is associative and does not commute."""

    a: int
    b: int


@device(thread)
def better(p: Best, q: Best) -> Best:
    return q if q.value > p.value or (q.value == p.value and q.at < p.at) else p


@device(thread)
def then(f: Affine, g: Affine) -> Affine:
    return Affine(f.a * g.a, g.a * f.b + g.b)


@pytest.mark.parametrize("threads", (32, 96, 256))
def test_the_largest_and_its_place(threads):
    largest, from_thread = of_block.reduce(Best, better), of_block.broadcast(Best)

    @kernel(threads=threads)
    def run(x: ptr(const(float), (threads,)), out: ptr(Best, (2,))):
        with each(block, out):
            t: int @ thread[1] = id()
            best: Best = largest(Best(x[t], t))
            if best.at > 3:  # the block agrees on it
                last: Best = from_thread(Best(x[t], t), threads - 1)
                with one(thread, out):
                    out[0], out[1] = best, last

    x = np.random.default_rng(threads).integers(0, 9, threads).astype(np.float32)
    x[:4] = -1
    out = np.zeros(2, np.dtype([("value", "f4"), ("at", "i4")]))
    run[1](x, out)
    assert tuple(out[0]) == (x.max(), x.argmax()) and tuple(out[1]) == (x[-1], threads - 1)
    assert not run.races(x, out, blocks=1, seeds=2)


@pytest.mark.parametrize("threads", (32, 96, 256))
@pytest.mark.parametrize("exclusive", (False, True))
def test_scans_of_functions(threads, exclusive):
    """Compositions in the order of threads, of one function a thread and of three."""
    one_each = of_block.scan(Affine, then, exclusive=exclusive, identity=Affine(1, 0))
    several = of_block.scan(Affine, then, items=3, exclusive=exclusive, identity=Affine(1, 0))

    @kernel(threads=threads)
    def run(x: ptr(const(Affine), (3 * threads,)), y: ptr(Affine, (threads,)), z: ptr(Affine, (3 * threads,)), total: ptr(Affine, (1,))):
        with each(block, y, z, total):
            t: int @ thread[1] = id()
            v: Affine[3] @ thread[1]
            for k in unroll(range(3)):
                v[k] = x[3 * t + k]
            found: Affine @ thread[1] = one_each(x[t])
            whole: Affine = several(v)
            with each(thread, y, z):
                y[t] = found
                for k in unroll(range(3)):
                    z[3 * t + k] = v[k]
            with one(thread, total):
                total[0] = whole

    struct = np.dtype([("a", "i4"), ("b", "i4")])
    rng = np.random.default_rng(threads)
    x = np.array(list(zip(rng.choice([1, -1], 3 * threads), rng.integers(-9, 9, 3 * threads))), struct)
    y, z, total = np.zeros(threads, struct), np.zeros(3 * threads, struct), np.zeros(1, struct)
    run[1](x, y, z, total)
    upto = [(1, 0)]
    for a, b in x.tolist():
        upto.append((upto[-1][0] * a, a * upto[-1][1] + b))
    first = 0 if exclusive else 1
    assert y.tolist() == upto[first : threads + first] and z.tolist() == upto[first : 3 * threads + first] and total[0].tolist() == upto[-1]
    assert not run.races(x, y, z, total, blocks=1, seeds=2)


@pytest.mark.parametrize("made", [lambda: of_block.load(Best, 4), lambda: of_block.exchange(Best, 4), lambda: of_block.reduce(Best), lambda: of_block.scan(Best, "max")])
def test_what_takes_no_records(made):
    with pytest.raises(TypeError, match="scalar type"):
        made()


@dataclass
class Quaternion:
    w: float
    v: float[3]


@device(thread)
def turned(p: Quaternion, q: Quaternion) -> Quaternion:
    w: float = p.w * q.w
    v: float[3] = [p.w * q.v[k] + q.w * p.v[k] + p.v[(k + 1) % 3] * q.v[(k + 2) % 3] - p.v[(k + 2) % 3] * q.v[(k + 1) % 3] for k in range(3)]
    for k in unroll(range(3)):
        w -= p.v[k] * q.v[k]
    return Quaternion(w, v)


def test_products_of_quaternions_in_the_order_of_threads():
    """A record with an array in it; i, j and k anticommute."""
    product, upto = of_block.reduce(Quaternion, turned), of_block.scan(Quaternion, turned)

    @kernel(threads=64)
    def run(which: ptr(const(int), (64,)), out: ptr(Quaternion, (64,)), whole: ptr(Quaternion, (1,))):
        with each(block, out, whole):
            t: int @ thread[1] = id()
            q: Quaternion @ thread[1] = Quaternion(0.0, [0.0, 0.0, 0.0])
            for k in unroll(range(3)):
                q.v[k] = 1.0 if which[t] == k else 0.0
            mine: Quaternion @ thread[1] = upto(q)
            all_of_them: Quaternion = product(q)
            with each(thread, out):
                out[t] = mine
            with one(thread, whole):
                whole[0] = all_of_them

    which = np.random.default_rng(3).integers(0, 3, 64).astype(np.int32)
    out, whole = np.zeros((64, 4), np.float32), np.zeros((1, 4), np.float32)
    struct = np.dtype([("w", "f4"), ("v", "f4", 3)])
    run[1](which, out.view(struct)[:, 0], whole.view(struct)[:, 0])
    p, want = np.array([1.0, 0, 0, 0]), []
    for axis in which:
        q = np.eye(4)[axis + 1]
        p = np.array([p[0] * q[0] - p[1:] @ q[1:], *(p[0] * q[1:] + q[0] * p[1:] + np.cross(p[1:], q[1:]))])
        want.append(p)
    np.testing.assert_array_equal(out, want)
    np.testing.assert_array_equal(whole[0], want[-1])
