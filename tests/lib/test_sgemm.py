"""The ladder of f32 products on the CPU machine: every rung, tails, schedules, the synchronization inferred; and `snap.lib.sgemm`."""

from __future__ import annotations

import numpy as np
import pytest

import snap
from snap._compiler.ir.engines import Wait
from snap._compiler.ir.points import GONE
from snap.host.errors import LaunchError
from snap.lib._gemm.choice import SIMPLE, Product
from snap.lib._gemm.sgemm import ADDERS, LARGE, LOWEST, STAGES, TILES, added, planned, sgemm, warp_tiled
from snap.lib._gemm.sgemm_ladder import blocked, blocks_of_elements, blocks_of_tiles, coalesced, naive, vectorized

TILE = (64, 32, 16, 8, 4, STAGES)  # of the last rung, small: two warps
SHAPES = [(64, 32, 8), (64, 64, 40), (65, 36, 12), (1, 1, 1), (33, 70, 29), (130, 3, 7)]


def matrices(m: int, n: int, k: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Small whole numbers, whose sums of products are exact."""
    random = np.random.default_rng(seed)
    return tuple(random.integers(-4, 5, shape).astype(np.float32) for shape in ((m, k), (k, n)))


def word(*extents: int) -> int:
    return 4 if all(extent % 4 == 0 for extent in extents) else 1


RUNGS = {
    "naive": (lambda m, n, k: naive(64), lambda m, n: blocks_of_elements(m, n, 64)),
    "coalesced": (lambda m, n, k: coalesced(64), lambda m, n: blocks_of_elements(m, n, 64)),
    "blocked": (lambda m, n, k: blocked(32, 32, 8, 4, 4), lambda m, n: blocks_of_tiles(m, n, 32, 32)),
    "vectorized": (lambda m, n, k: vectorized(word(n, k), 32, 32, 8, 4, 4), lambda m, n: blocks_of_tiles(m, n, 32, 32)),
    "warp-tiled": (lambda m, n, k: warp_tiled(*TILE, word(n)), lambda m, n: blocks_of_tiles(m, n, *TILE[:2])),
}


def factor(rung: str) -> tuple:
    """What the last rung takes besides: alpha, and how tiles are cut into slices, here not at all."""
    return (1.0, np.empty(0, np.float32), 0, 1) if rung == "warp-tiled" else ()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("rung", RUNGS)
def test_rungs_and_tails(rung, shape):
    make, blocks = RUNGS[rung]
    m, n, k = shape
    a, b = matrices(m, n, k)
    guarded = np.full(m * n + 64, 7, np.float32)
    make(m, n, k)[blocks(m, n)](a, b, guarded[:m * n].reshape(m, n), m, n, k, *factor(rung))
    np.testing.assert_array_equal(guarded[:m * n].reshape(m, n), a @ b)
    assert (guarded[m * n:] == 7).all()


@pytest.mark.parametrize("rung", RUNGS)
def test_no_schedule_gives_another_result(rung):
    make, blocks = RUNGS[rung]
    m, n, k = 64, 64, 40
    a, b = matrices(m, n, k, 1)
    run, c = make(m, n, k), np.zeros((m, n), np.float32)
    for seed in (1, 2):
        run.launch(a, b, c, m, n, k, *factor(rung), blocks=blocks(m, n), seed=seed)
        np.testing.assert_array_equal(c, a @ b)
    assert not run.races(a, b, c, m, n, k, *factor(rung), blocks=blocks(m, n), seeds=2)


@pytest.mark.parametrize(("rung", "points"), [("naive", 0), ("coalesced", 0), ("blocked", 2), ("vectorized", 2), ("warp-tiled", 1)])
def test_synchronization_of_the_rungs(rung, points):
    found = RUNGS[rung][0](64, 64, 40).syncs()
    assert [point.kind for point in found if GONE not in point.reason] == ["block"] * points


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("width", [4, 1])
def test_one_barrier_a_tile_though_copies_are_between_the_products(stages, width):
    (point, end) = warp_tiled(*TILE[:5], stages, width).syncs()
    assert end.kind == "thread" and GONE in end.reason
    assert point.kind == "block" and point.waits == ((Wait.COPIES, 0),)


def test_the_last_rung_stays_in_registers():
    for tile, resident in ((TILES[each.height, each.width], each.resident) for each in SIMPLE.tiles):
        threads = tile[0] // (4 * tile[3]) * (tile[1] // (8 * tile[4])) * 32
        used = warp_tiled(*tile, STAGES, 4, True).resources("sm_90a")
        assert used.spill_stores <= 16 and used.registers <= 65536 // (threads * resident)
    for sliced in (False, True):
        used = warp_tiled(*LARGE, STAGES, 4, sliced).resources("sm_90a")
        assert used.spill_stores == used.spill_loads == 0


@pytest.mark.parametrize(("shape", "tile", "whole", "slices"), [
    ((70, 40, 50), TILE, 0, 3), ((70, 44, 96), TILE, 1, 5), ((130, 41, 49), TILE, 4, 3), ((20, 141, 70), (*LOWEST, STAGES), 1, 2),
    ((70, 40, 50), TILE, 4, 1),
], ids=str)
def test_slices_of_k(shape, tile, whole, slices):
    (m, n, k), (height, width) = shape, tile[:2]
    a, b = matrices(m, n, k, 5)
    rest = blocks_of_tiles(m, n, height, width) - whole
    guarded, sums = np.full(m * n + 64, 7, np.float32), np.full(rest * slices * height * width + 64, 7, np.float32)
    c, parts = guarded[:m * n].reshape(m, n), sums[:-64]
    multiply, add = warp_tiled(*tile, word(n), True), added(height, width, word(n))
    blocks, adding = whole + rest * slices, -(-rest * height * width // (word(n) * ADDERS))
    for seed in (None, 1):
        c[...] = 7
        multiply.launch(a, b, c, m, n, k, -2.0, parts, whole, slices, blocks=blocks, seed=seed)
        if rest:
            add.launch(parts, c, m, n, -2.0, whole, slices, blocks=adding, seed=seed)
        np.testing.assert_array_equal(c, -2 * (a @ b))
    assert (guarded[m * n:] == 7).all() and (sums[-64:] == 7).all()
    assert not multiply.races(a, b, c, m, n, k, -2.0, parts, whole, slices, blocks=blocks, seeds=1)
    assert not rest or not add.races(parts, c, m, n, -2.0, whole, slices, blocks=adding, seeds=1)


@pytest.mark.parametrize("shape", [(1, 1, 1), (512, 512, 512), (3000, 3000, 3000), (128, 4096, 4096), (256, 256, 65536), (8192, 8192, 8192)], ids=str)
def test_plans_give_every_multiprocessor_something_to_do(shape):
    m, n, k = shape
    plan = planned(Product(m, n, k, 132))
    (tile,) = (each for each in SIMPLE.tiles if (each.height, each.width) == (plan.height, plan.width))
    tiles = blocks_of_tiles(m, n, tile.height, tile.width)
    rest = tiles - plan.whole
    assert 0 <= plan.whole <= tiles and (plan.slices == 1) == (rest == 0)
    assert plan.slices <= max(1, k // tile.depth) and rest * plan.slices <= 2 * 132 * tile.resident
    assert m * n * k < 512**3 or plan.whole + rest * plan.slices >= 120


def test_what_fills_its_rounds_is_not_cut():
    for n, tiles in ((4096, 512), (8192, 2048)):
        plan = planned(Product(n, n, n, 132))
        assert (plan.height, plan.width, plan.whole, plan.slices) == (*LARGE[:2], tiles, 1)


@pytest.mark.parametrize("shape", [(70, 68, 36), (129, 513, 17), (300, 520, 20), (1, 300, 5), (70, 68, 400)], ids=str)
def test_sgemm(shape):
    a, b = matrices(*shape, 2)
    np.testing.assert_array_equal(sgemm(a, b), a @ b)


def test_sgemm_takes_any_strides():
    a, b = matrices(40, 24, 30, 3)
    np.testing.assert_array_equal(sgemm(np.asfortranarray(a), b[::-1][::-1]), a @ b)
    np.testing.assert_array_equal(sgemm(a[::2], np.asfortranarray(b)), a[::2] @ b)


def test_sgemm_scales():
    a, b = matrices(20, 24, 8, 4)
    np.testing.assert_array_equal(snap.lib.sgemm(a, b, alpha=-0.5), -0.5 * (a @ b))


@pytest.mark.parametrize("shape", [(0, 3, 2), (3, 0, 2), (3, 4, 0), (0, 0, 0)], ids=str)
def test_sgemm_of_nothing(shape):
    a, b = matrices(*shape)
    np.testing.assert_array_equal(sgemm(a, b), np.zeros(shape[:2], np.float32))


@pytest.mark.parametrize(("a", "b", "name", "problem"), [
    (np.zeros((3, 4), np.float32), np.zeros((5, 6), np.float32), "b", "has 5 rows, and the first matrix 4 columns"),
    (np.zeros((3, 4)), np.zeros((4, 6), np.float32), "a", "holds float64"),
    (np.zeros((3, 4), np.float32), np.zeros(4, np.float32), "b", "2 dimensions"),
    ([[1.0]], np.zeros((1, 1), np.float32), "a", "takes an array"),
])
def test_sgemm_names_what_does_not_fit(a, b, name, problem):
    with pytest.raises(LaunchError, match=problem) as refused:
        sgemm(a, b)
    assert f"`{name}`" in str(refused.value)
