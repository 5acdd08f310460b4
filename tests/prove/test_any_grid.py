"""Refuted for any fixed number of blocks, and any fixed sizes: of a large launch only the blocks run that matter."""

from __future__ import annotations

import numpy as np
import pytest

from prove import honest_grids
from snap import *
from snap.prove.verdict import Verdict


def transpose(n: int):
    """Listing 1 of Descend's paper: `(ty + j) * 32 + tx` without its parentheses, if the launch says so."""
    blocks_across, count = n // 32, (n // 32) ** 2

    @kernel(threads=256, blocks=count, where=lambda row: row in (1, 32))
    def k(inp: ptr(const(f64), (n, n)), out: ptr(f64, (n, n)), row: int):
        with each(block, out, shape=(..., blocks_across)) as (by, bx):
            tmp: shared(f64[1024])
            ty, tx = ids(thread, shape=(8, 32))
            with each(thread, tmp):
                for j in range(0, 32, 8):
                    tmp[ty * row + j * 32 + tx] = inp[by * 32 + ty + j, bx * 32 + tx]
            with each(thread, out):
                for j in range(0, 32, 8):
                    out[bx * 32 + ty + j, by * 32 + tx] = tmp[tx * 32 + ty + j]

    return k


def refuted(k, *says: str):
    found = k.prove(["races"])
    assert found.verdict is Verdict.REFUTED, found.render()
    text = found.render()
    for one in says:
        assert one in text, text
    assert "nothing" not in found.replay()
    return next(o.launch for o in found.obligations if o.launch is not None)


@pytest.mark.parametrize("blocks", [8, 9, 32, 4096, 2**20])
def test_blocks_that_write_one_element(blocks):
    @kernel(threads=32, blocks=blocks, where=lambda arr: len(arr) == 1024)
    def k(arr: ptr(float)):
        with partition(arr, p=block[1]) as a, group(block[1]):
            with partition(a, p=thread[1], view=views.chunks(32)) as g, group(thread[1]):
                g[0] = 1.0

    launch = refuted(k, "two blocks write one element of `arr`", "`arr[0]`: block", f"blocks = {blocks}")
    assert launch.blocks == blocks and launch.only == ((0, 1) if blocks > 8 else ())


def test_the_two_blocks_may_be_far_apart():
    @kernel(threads=32, blocks=5000, where=lambda x: len(x) >= 2500 * 32)
    def k(x: ptr(int)):
        with each(block, x) as b, each(thread, x) as t:
            x[b % 2500 * 32 + t] = b

    first, second = refuted(k, "(of which 0 and 2500 run)").only
    assert second - first == 2500


def test_an_index_outside_in_the_last_block():
    @kernel(threads=32, blocks=3000, where=lambda x: len(x) == 32 * 3000 - 1)
    def k(x: ptr(int)):
        with each(block, x) as b, each(thread, x) as t:
            x[32 * b + t] = 1

    assert refuted(k, "`x[32 * b + t]` is outside of `x`", "(of which 2999 runs)").only == (2999,)


@pytest.mark.parametrize("n", [2048, 16384])
def test_the_race_of_a_missing_parenthesis(n):
    """At the paper's own size, and at one whose matrices have more than 2 GB: only what is touched takes memory."""
    k = transpose(n)
    launch = refuted(k, "two threads write one element of `tmp`", "`tmp[1]`: block 0, thread 1, and block 0, thread 32")
    assert launch.only == (0,) and launch.blocks == (n // 32) ** 2


def test_a_matrix_of_a_fixed_size_is_tried_at_its_size():
    @kernel(threads=128, blocks=4096)
    def k(x: ptr(float, (4096, 4096))):
        with each(block, x) as b, each(thread, x) as t:
            for j in range(t, 4096, 128):
                x[b % 4095, j] = 1.0

    refuted(k, "two blocks write one element of `x`", "(of which 0 and 4095 run)")


def test_a_size_that_where_does_not_let_be_small_is_tried():
    @kernel(threads=32, where=lambda x, n, blocks: (n >= 100_000, len(x) == n, n == 32 * blocks))
    def k(x: ptr(int), n: int):
        with each(block, x) as b, each(thread, x) as t:
            x[32 * (b / 2) + t] = 1

    assert refuted(k, "two blocks write one element of `x`").blocks == 3125


def test_clusters_run_whole():
    """A block of a cluster takes what another one has written for it: alone it would wait for ever."""

    @kernel(threads=32, cluster=2, blocks=32, where=lambda x: len(x) == 1024)
    def k(x: ptr(int)):
        with each(cluster) as c:
            given: shared(int[32], across=block)
            b: int @ block[1] = id()
            t: int @ thread[1] = id() % 32
            with each(thread, given):
                given[1 - b, t] = t
            with each(thread, x):
                x[c % 10 * 64 + b * 32 + t] = given[b, t]

    assert refuted(k, "two clusters write one element of `x`").only == (0, 1, 20, 21)


def test_blocks_of_a_cooperative_kernel_run_all():
    """They meet at barriers of the grid."""

    @kernel(threads=32, blocks=64, cooperative=True, where=lambda x, m: (len(x) == 64 * 32, 31 <= m <= 32))
    def k(x: ptr(int), m: int):
        for step in range(2):
            with each(block, x) as b, each(thread, x) as t:
                x[32 * ((b + step) % 64) + t % m] = step

    launch = refuted(k, "write one element of `x`", "blocks = 64;")
    assert launch.only == ()


@pytest.mark.parametrize("seed", range(60))
def test_drawn_kernels_of_many_blocks(seed):
    honest_grids.tried(seed)


def test_some_blocks_of_a_launch_write_what_they_write_in_all_of_it():
    @kernel(threads=32)
    def k(x: ptr(int)):
        n: int = count(block[1])
        with each(block, x) as b, each(thread, x) as t:
            x[32 * b + t] = b + n

    from snap.machine import run_program

    made = k._the_one({})
    x, some = np.zeros(32 * 100, np.int32), np.zeros(32 * 100, np.int32)
    run_program(made.typed, lambda: made.synced, [x], 100)
    run_program(made.typed, lambda: made.synced, [some], 100, (3, 70))
    rows = some.reshape(100, 32)
    assert (rows[[3, 70]] == x.reshape(100, 32)[[3, 70]]).all() and not np.delete(rows, [3, 70], 0).any()
