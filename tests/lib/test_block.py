"""Every block function against NumPy, for every scalar type and many block sizes; no races under any schedule."""

from __future__ import annotations

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
        total = run(name, threads, of_block.reduce(name, threads, op), x).reshape(2, threads)
        np.testing.assert_array_equal(total, np.repeat(upto[:, -1:], threads, axis=1))
        np.testing.assert_array_equal(run(name, threads, of_block.scan(name, threads, op), x).reshape(2, threads), upto)
        below = run(name, threads, of_block.scan(name, threads, op, exclusive=True), x).reshape(2, threads)
        np.testing.assert_array_equal(below[:, 1:], upto[:, :-1])
        np.testing.assert_array_equal(NAMED[op](below[:, :1], rows[:, :1]), rows[:, :1])


@pytest.mark.parametrize("threads", SIZES)
def test_every_size(threads):
    x = values("i32", 2 * threads, low=-50, high=50)
    rows = x.astype(np.int32).reshape(2, threads)
    total = run("i32", threads, of_block.reduce(int, threads), x).reshape(2, threads)
    np.testing.assert_array_equal(total, np.repeat(rows.sum(axis=1, keepdims=True), threads, axis=1))
    np.testing.assert_array_equal(run("i32", threads, of_block.scan(int, threads), x).reshape(2, threads), rows.cumsum(axis=1))
    for items in (1, 3, 4):
        plain = values("i32", 2 * threads * items, seed=items, low=-9, high=9)
        upto = plain.reshape(2, -1).cumsum(axis=1)
        for exclusive in (False, True):
            out = np.zeros(plain.size, np.int32)
            on_items(int, threads, items, of_block.scan(int, threads, items=items, exclusive=exclusive))[2](plain.astype(np.int32), out)
            want = upto - plain.reshape(2, -1) if exclusive else upto
            np.testing.assert_array_equal(out.reshape(2, -1), want)


def test_own_operator_in_the_order_of_threads():
    for threads in (64, 256):
        x = values("i32", threads, seed=threads)
        x[-40:] = 0  # the answer comes from another warp
        want = expect_later(x)
        assert set(run("i32", threads, of_block.reduce(int, threads, later), x)) == {want[-1]}
        np.testing.assert_array_equal(run("i32", threads, of_block.scan(int, threads, later), x), want)
        below = run("i32", threads, of_block.scan(int, threads, later, exclusive=True, identity=0), x)
        np.testing.assert_array_equal(below, [0, *want[:-1]])


def test_scan_gives_the_total():
    totals = of_block.scan(int, 64, items=2)

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
    T, of_thread = element(name), of_block.broadcast(name, 64)

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
    on_items(int, threads, items, of_block.exchange(int, threads, items, "blocked to striped"))[1](x, out)
    np.testing.assert_array_equal(out, x.reshape(items, threads).T.reshape(-1))
    back = np.zeros_like(x)
    on_items(int, threads, items, of_block.exchange(int, threads, items, "striped to blocked"))[1](out, back)
    np.testing.assert_array_equal(back, x)


@pytest.mark.parametrize("how", of_block.of_warp.LOADS)
@pytest.mark.parametrize("name, items", [("u8", 16), ("bf16", 8), ("f32", 3), ("i64", 2), ("f16", 6), ("bool", 4)])
def test_load_and_store(name, items, how):
    threads = 64
    copy = through(name, threads, items, of_block.load(name, threads, items, how), of_block.store(name, threads, items, how))
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
    copy = through(int, 32, 4, of_block.load(int, 32, 4, loaded), of_block.store(int, 32, 4, stored))
    x = np.arange(200, dtype=np.int32)
    out = np.zeros_like(x)
    copy[2](x, out, 0, 200)
    np.testing.assert_array_equal(out, x)


def test_no_races():
    x = values("i32", 192).astype(np.int32)
    for f in (of_block.reduce(int, 96), of_block.reduce(int, 96, later), of_block.scan(int, 96), of_block.scan(int, 96, exclusive=True)):
        assert per_thread(int, 96, f).races(x, np.zeros_like(x), blocks=2, seeds=3) == []
    for f in (of_block.scan(int, 32, items=3), of_block.exchange(int, 32, 3)):
        assert on_items(int, 32, 3, f).races(x, np.zeros_like(x), blocks=2, seeds=3) == []


@pytest.mark.parametrize("smem, barriers", [(None, 1), (32, 1), (16, 2)])
def test_barriers_between_two_calls_are_inferred(smem, barriers):
    """Where the second call takes the bytes that the first still reads, CUB asks its users for a __syncthreads.  Where there is room for both it
    takes others."""
    f = of_block.reduce(int, 64)

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


@pytest.mark.parametrize("threads", (0, 48, 2048, True, "many"))
def test_blocks_are_whole_warps(threads):
    with pytest.raises(ValueError, match="threads"):
        of_block.reduce(float, threads)
