"""How many blocks a launch may have, and the shape of its grid: what launches check, and proofs count on."""

from __future__ import annotations

import numpy as np
import pytest

import snap
from snap import *
from snap.host.launch import launcher
from snap.prove.verdict import Verdict


def by_tiles(where):
    @kernel(threads=64, where=where)
    def k(out: ptr(int, (M, N)), M: int, N: int):
        with each(block, shape=...) as (bi, bj):
            y, x = ids(thread, shape=(8, 8))
            with each(thread, out):
                out[bi * 8 + y, bj * 8 + x] = 100 * bi + bj

    return k


INSIDE = by_tiles(lambda M, N, grid: (8 * grid[0] <= M, 8 * grid[1] <= N))


def test_where_speaks_of_the_shape_of_the_grid():
    assert INSIDE.prove().verdict is Verdict.PROVED, INSIDE.prove()
    out = np.zeros((16, 24), np.int32)
    INSIDE[2, 3](out, 16, 24)
    assert out[15, 23] == 102 and out[7, 8] == 1
    for grid in ((3, 2), (2, 4)):
        with pytest.raises(snap.LaunchError, match=r"`8 \* grid\[[01]\] <= [MN]`, and here M = 16, N = 24, grid = \(\d, \d\)"):
            INSIDE[grid](out, 16, 24)


def test_a_launch_that_has_a_shape_refutes():
    (wrong,) = by_tiles(lambda M, N, grid: (8 * grid[0] <= M + 1, 8 * grid[1] <= N)).prove(["bounds"]).open
    assert wrong.verdict is Verdict.REFUTED
    given = dict(wrong.launch.args)
    assert (given["grid[0]"], given["grid[1]"], given["M"], wrong.launch.blocks) == (1, 1, 7, 1)


@kernel(threads=32, where=lambda out, grid: (grid[1] <= 4, len(out) >= 128 * grid[0]))
def of_one_axis(out: ptr(int)):
    """It asks for the second extent alone."""
    across: int = count(block, 1)
    with each(block, out) as b, each(thread, out) as t:
        if across > 0:
            out[b * 32 + t] = across


def test_an_extent_that_only_where_asks_for():
    assert of_one_axis.prove(["races"]).verdict is Verdict.PROVED, of_one_axis.prove(["races"])
    out = np.zeros(256, np.int32)
    of_one_axis[2, 3](out)
    assert (out[:192] == 3).all() and not out[192:].any()
    with pytest.raises(snap.LaunchError, match="`grid\\[1\\] <= 4`, and here out = 256 elements, grid = \\(1, 5\\)"):
        of_one_axis[1, 5](out)


def test_the_quick_way_asks_the_same():
    """What a repeated launch asks, with the extents behind the arguments."""
    where = launcher(INSIDE._the_one({})).where
    assert where.quick(6, None, 16, 24, 2, 3) and not where.quick(6, None, 16, 24, 3, 2)
    assert [name for name, _ in where.at] == ["M", "N", "grid_0", "grid_1"]


@kernel(threads=32, where=lambda grid, x: (len(x) >= 32 * grid))
def of_its_own(x: ptr(int), grid: int):
    with each(block, x) as b, each(thread, x) as t:
        if b < grid:
            x[32 * b + t] = 1


def test_a_parameter_of_that_name_comes_first():
    assert of_its_own.prove().verdict is Verdict.PROVED
    x = np.zeros(64, np.int32)
    of_its_own[3](x, 2)
    assert x.all()


def of_each_block(where):
    @kernel(threads=64, where=where)
    def k(x: ptr(int)):
        with each(block, x) as b, each(thread, x) as t:
            x[64 * b + t] = 1

    return k


@pytest.mark.parametrize(
    ("where", "needs"),
    [
        (lambda x, blocks: len(x) >= 64 * blocks, ()),  # fewer than 2^31 threads
        (lambda x, blocks: (len(x) >= 64 * blocks, blocks <= len(x)), ("blocks <= 2**25",)),  # as many as `where=` says
        (lambda x, blocks: (len(x) >= 64 * blocks, blocks <= 2**25), ()),
    ],
)
def test_numbers_of_threads_are_ints(where, needs):
    found = of_each_block(where).prove(["bounds"])
    assert found.needs == needs and (found.verdict is Verdict.PROVED) == (not needs), found


@kernel(threads=64, where=lambda x, blocks: len(x) >= 64 * blocks)
def of_a_parameter(x: ptr(int), blocks: int):
    with each(block, x) as b, each(thread, x) as t:
        if b < blocks:
            x[64 * b + t] = 1


def test_a_parameter_that_is_called_blocks_bounds_none():
    assert of_a_parameter._the_one({}).most_blocks == (2**31 - 1) // 64
