"""Every warp function against NumPy, for every scalar type; operators in the order of lanes; no races under any schedule."""

from __future__ import annotations

import numpy as np
import pytest
from lib.lib_support import NAMED, TYPES, expect_later, is_float, later, packed, run, values, wrapped

from snap import *
from snap.lib import warp as of_warp
from snap.lib._calls.operators import element


@pytest.mark.parametrize("name", TYPES)
def test_reduce_and_scan_of_every_type(name):
    x = values(name, 64)
    rows = wrapped(name, x).reshape(2, 32)
    for op in ("add", "max", "mul") if is_float(name) or name == "bool" else ("add", "min", "xor"):
        accumulate = (lambda a: np.add.accumulate(a, axis=1, dtype=a.dtype)) if op == "add" else (lambda a: NAMED[op].accumulate(a, axis=1, dtype=a.dtype))
        upto = accumulate(rows)
        got = run(name, 64, of_warp.reduce(name, op), x).reshape(2, 32)
        np.testing.assert_array_equal(got, np.repeat(upto[:, -1:], 32, axis=1))
        np.testing.assert_array_equal(run(name, 64, of_warp.scan(name, op), x).reshape(2, 32), upto)
        below = run(name, 64, of_warp.scan(name, op, exclusive=True), x).reshape(2, 32)
        np.testing.assert_array_equal(below[:, 1:], upto[:, :-1])
        nothing = below[:, :1]
        np.testing.assert_array_equal(NAMED[op](nothing, rows[:, :1]), rows[:, :1])


@pytest.mark.parametrize("op", NAMED)
def test_every_operator(op):
    x = values("i32", 64, seed=1, low=-5, high=6)
    upto = NAMED[op].accumulate(x.astype(np.int32).reshape(2, 32), axis=1, dtype=np.int32)
    got = run("i32", 32, of_warp.reduce(int, op), x).reshape(2, 32)
    np.testing.assert_array_equal(got[:, 0], upto[:, -1])
    np.testing.assert_array_equal(run("i32", 32, of_warp.scan(int, op), x).reshape(2, 32), upto)


@pytest.mark.parametrize("n", [2, 4, 8, 16])
def test_parts_of_a_warp(n):
    x = values("i32", 64, seed=n)
    rows = x.reshape(-1, n)
    np.testing.assert_array_equal(run("i32", 64, of_warp.reduce(int, "add", threads=n), x), np.repeat(rows.sum(axis=1), n))
    np.testing.assert_array_equal(run("i32", 64, of_warp.scan(int, "max", threads=n), x), np.maximum.accumulate(rows, axis=1).ravel())
    below = run("i32", 64, of_warp.scan(int, "add", exclusive=True, threads=n), x)
    np.testing.assert_array_equal(below, (np.cumsum(rows, axis=1) - rows).ravel())
    np.testing.assert_array_equal(run("i32", 64, of_warp.reduce(int, later, threads=n), x).reshape(-1, n)[:, 0], [expect_later(row)[-1] for row in rows])


def test_own_operator_in_the_order_of_lanes():
    for seed in range(4):
        x = values("i32", 32, seed)
        want = expect_later(x)
        assert set(run("i32", 32, of_warp.reduce(int, later), x)) == {want[-1]}
        np.testing.assert_array_equal(run("i32", 32, of_warp.scan(int, later), x), want)
        below = run("i32", 32, of_warp.scan(int, later, exclusive=True, identity=0), x)
        np.testing.assert_array_equal(below, [0, *want[:-1]])


@pytest.mark.parametrize("name", TYPES)
def test_broadcast(name):
    T, from_lane = element(name), of_warp.broadcast(name)

    @kernel
    @requires(grid[1], block[1], thread[32])
    def spread(x: ptr(const(T)) @ grid[1], out: ptr(T) @ grid[1], lane: int @ grid[1]):
        with group(grid[1]):
            i: int @ thread[1] = id()
            with partition(out, p=thread[1], offset=i) as mine:
                with group(warp):
                    mine[0] = from_lane(x[i], lane)

    x = packed(name, values(name, 32))
    for lane in (0, 13, 31):
        out = np.zeros_like(x)
        spread[1](x, out, lane)
        np.testing.assert_array_equal(out, np.full(32, x[lane]))


def copier(name, items, how):
    """Two warps copy their tiles; what "transposed" needs besides is lent to every way alike."""
    T, ITEMS, HALF = element(name), items, 33 * items
    load, store = of_warp.load(name, items, how), of_warp.store(name, items, how)
    if how == "transposed":

        @kernel
        @requires(grid[1], block[1], thread[64])
        def copy(x: ptr(const(T)) @ grid[1], out: ptr(T) @ grid[1], seen: ptr(T) @ grid[1], n: i64 @ grid[1]):
            with group(grid[1]):
                i: int @ thread[1] = id()
                with partition(out, p=warp, disjoint=True) as mine, partition(seen, p=thread[1], offset=i * ITEMS) as held:
                    with group(block[1]):
                        buffer: shared(T[2 * HALF])
                        w: int @ warp = id()
                        v: T[ITEMS] @ thread[1]
                        with partition(buffer, p=warp, offset=w * HALF) as part:
                            with group(warp):
                                load(x, i64(w) * (32 * ITEMS), n, T(1), v, part)
                                for k in range(ITEMS):
                                    held[k] = v[k]
                                store(mine, i64(w) * (32 * ITEMS), n, v, part)

        return copy

    @kernel
    @requires(grid[1], block[1], thread[64])
    def copy(x: ptr(const(T)) @ grid[1], out: ptr(T) @ grid[1], seen: ptr(T) @ grid[1], n: i64 @ grid[1]):
        with group(grid[1]):
            i: int @ thread[1] = id()
            w: int @ warp = id()
            with partition(out, p=warp, disjoint=True) as mine, partition(seen, p=thread[1], offset=i * ITEMS) as held:
                with group(warp):
                    v: T[ITEMS] @ thread[1]
                    load(x, i64(w) * (32 * ITEMS), n, T(1), v)
                    for k in range(ITEMS):
                        held[k] = v[k]
                    store(mine, i64(w) * (32 * ITEMS), n, v)

    return copy


@pytest.mark.parametrize("how", of_warp.LOADS)
@pytest.mark.parametrize("name, items", [("u8", 16), ("bf16", 8), ("f32", 3), ("i32", 4), ("f64", 2), ("bool", 1)])
def test_load_and_store(name, items, how):
    copy = copier(name, items, how)
    for n in (64 * items, 32 * items + 5, 7):
        x = packed(name, values(name, n, low=2, high=9))
        out, seen = np.zeros_like(x), np.zeros(64 * items, x.dtype)
        copy[1](x, out, seen, n)
        np.testing.assert_array_equal(out, x)
        tiles = np.full(64 * items, packed(name, np.ones(1))[0])
        tiles[:n] = x
        tiles = tiles.reshape(2, 32 * items)
        held = tiles.reshape(2, items, 32).transpose(0, 2, 1) if how == "striped" else tiles
        np.testing.assert_array_equal(seen, held.reshape(-1))


def test_no_races():
    for name, items in (("i32", 3), ("u8", 16)):
        x = packed(name, values(name, 64 * items))
        for how in ("transposed", "vectorized"):
            assert copier(name, items, how).races(x, np.zeros_like(x), np.zeros_like(x), x.size, blocks=1, seeds=3) == []


def test_functions_are_made_once():
    assert of_warp.reduce(float, "max") is of_warp.reduce("f32", op="max") is of_warp.reduce(f32, "max")
    assert of_warp.reduce(float, "max") is not of_warp.reduce(float, "min")


@pytest.mark.parametrize(
    "make, said",
    [
        (lambda: of_warp.reduce(float, threads=24), "2, 4, 8 or 16"),
        (lambda: of_warp.reduce(float4), "scalar type"),
        (lambda: of_warp.reduce(float, "sum"), "one of add"),
        (lambda: of_warp.reduce(float, "and"), "integers and bools"),
        (lambda: of_warp.reduce(float, max), "device function"),
        (lambda: of_warp.scan(int, later, exclusive=True), "identity"),
        (lambda: of_warp.load(float, 0), "positive"),
        (lambda: of_warp.load(float, 4, "sideways"), "direct, striped"),
        (lambda: of_warp.exchange(float, 4, "to and fro"), "striped to blocked"),
    ],
)
def test_what_factories_refuse(make, said):
    with pytest.raises((TypeError, ValueError), match=said):
        make()
