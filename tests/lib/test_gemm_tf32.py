"""`snap.lib.gemm_tf32` on the CPU machine: tails, layouts, slices of K, pairs of blocks, the synchronization inferred, refusals."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import snap
from snap.lib.gemm_tf32 import DEPTH, HEIGHT, LEAST_STEPS, WIDTHS, gemm_tf32, tf32_pairs, tf32_slices, tiling
from snap.lib.gemm_tf32_rows import EFFORT, HEIGHTS, STEP, tf32_rows_pairs, tf32_rows_slices
from snap.runtime.errors import LaunchError


def matrices(m: int, n: int, k: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Small whole numbers: tf32 holds them, f32 their sums."""
    random = np.random.default_rng(seed)
    return tuple(random.integers(-4, 5, shape).astype(np.float32) for shape in ((m, k), (k, n)))


@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 7, 3), (128, 128, 32), (130, 70, 33), (260, 264, 40), (40, 24, 700)], ids=str)
@pytest.mark.parametrize("orders", ["CC", "CF", "FC", "FF"])
def test_shapes_and_layouts(shape, orders):
    a, b = matrices(*shape)
    result = gemm_tf32(np.asarray(a, order=orders[0]), np.asarray(b, order=orders[1]))
    np.testing.assert_array_equal(result, a @ b)
    assert result.flags.c_contiguous


@pytest.mark.parametrize("width", WIDTHS)
def test_every_width(width):
    m, n, k = 140, width + 4, 72
    a, b = matrices(m, n, k, 1)
    turned = np.ascontiguousarray(b.T)
    for run, blocks, slices in ((tf32_slices(width, True), 3, (1,)), (tf32_slices(width, False), 4, (3,)), (tf32_pairs(width), 2, ())):
        c = np.zeros((m, n), np.float32)
        run[blocks](a, turned, c, m, n, n, k, *slices)
        np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize("height", HEIGHTS)
def test_every_height(height):
    m, n, k = height + 3, 260, 72
    a, b = matrices(m, n, k, 1)
    for run, blocks, slices in ((tf32_rows_slices(height, True), 3, (1,)), (tf32_rows_slices(height, False), 4, (2,)), (tf32_rows_pairs(height), 2, ())):
        c = np.zeros((m, n), np.float32)
        run[blocks](a, b, c, m, n, k, k, n, n, *slices)
        np.testing.assert_array_equal(c, a @ b)


def test_rows_of_the_first_matrix_may_be_longer():
    """A is filled up with zeros to whole 16 bytes; B has no rows for them."""
    m, n, k = 20, 8, 33
    a, b = matrices(m, n, k, 2)
    longer = np.zeros((m, 36), np.float32)
    longer[:, :k] = a
    c = np.zeros((m, n), np.float32)
    tf32_rows_slices(128, True)[1](longer, b, c, m, n, k, 36, n, n, 1)
    np.testing.assert_array_equal(c, a @ b)


def test_columns_beyond_the_last_are_nobodys():
    """A result whose rows are longer than the product's: what is beyond becomes zero, and the next row is untouched by it."""
    m, n, k = 20, 10, 32
    a, b = matrices(m, n, k, 2)
    c = np.full((m, 12), 7, np.float32)
    tf32_slices(128, True)[1](a, np.ascontiguousarray(b.T), c, m, n, 12, k, 1)
    np.testing.assert_array_equal(c[:, :n], a @ b)
    assert (c[:, n:] == 0).all()


@pytest.mark.parametrize("slices", [1, 2, 5])
def test_slices_are_added(slices):
    m, n, k = 32, 64, 5 * DEPTH
    a, b = matrices(m, n, k, 3)
    c = np.ones((m, n), np.float32)
    tf32_slices(128, False)[2](a, np.ascontiguousarray(b.T), c, m, n, n, k, slices)
    np.testing.assert_array_equal(c, a @ b + 1)
    c = np.ones((m, n), np.float32)
    tf32_rows_slices(128, False)[2](a, b, c, m, n, k, k, n, n, slices)
    np.testing.assert_array_equal(c, a @ b + 1)


def test_no_schedule_gives_another_result():
    m, n, k = 160, 128, 6 * DEPTH
    a, b = matrices(m, n, k, 4)
    turned = np.ascontiguousarray(b.T)
    for run, blocks, slices in ((tf32_slices(128, True), 1, (1,)), (tf32_slices(128, False), 2, (2,)), (tf32_pairs(128), 2, ())):
        expect_under_a_schedule(run, a @ b, (a, turned), (m, n, n, k, *slices), blocks)


def test_no_schedule_gives_another_result_in_rows():
    m, n, k = 130, 36, STEP + 8
    a, b = matrices(m, n, k, 4)
    for run, blocks, slices in ((tf32_rows_slices(128, False), 2, (2,)), (tf32_rows_pairs(128), 2, ())):
        expect_under_a_schedule(run, a @ b, (a, b), (m, n, k, k, n, n, *slices), blocks)


def expect_under_a_schedule(run, exact, operands, extents, blocks):
    c = np.zeros(exact.shape, np.float32)
    run.launch(*operands, c, *extents, blocks=blocks, seed=1)
    np.testing.assert_array_equal(c, exact)
    assert not snap.races(run, *operands, np.zeros_like(c), *extents, blocks=blocks, seeds=1)


@pytest.mark.parametrize("run", [lambda: tf32_slices(256, True), lambda: tf32_slices(256, False), lambda: tf32_pairs(256)])
def test_synchronization(run):
    """Full and empty for the loaded tiles; two named barriers for what leaves; waits for products and boxes, and no barrier of the block."""
    assert Counter(point.kind for point in run().syncs()) == {"mbarrier": 2, "named": 2, "thread": 3}


@pytest.mark.parametrize("run", [lambda: tf32_rows_slices(256, True), lambda: tf32_rows_slices(256, False), lambda: tf32_rows_pairs(256)])
def test_synchronization_in_rows(run):
    """The same for each of two stages, A's and B's apart; and fragments are waited for before they are read again."""
    counts = Counter(point.kind for point in run().syncs())
    assert counts["mbarrier"] == 8 and counts["named"] == 2 and set(counts) == {"mbarrier", "named", "thread"}


def test_tiling():
    for m, n, k in ((4096, 4096, 4096), (8192, 8192, 8192), (2048, 2048, 2048)):
        assert tiling(m, n, k, 132)[1] == 1
    for m in (128, 256, 512):
        width, slices = tiling(m, m, 65536, 132)
        assert 132 * 0.9 <= -(-m // HEIGHT) * -(-m // width) * slices <= 132
    assert tiling(64, 64, DEPTH * LEAST_STEPS, 132)[1] == 1


def test_tiles_are_taken_by_their_time():
    """128 rows of a B that goes through registers take nearly the time of 192: not worth it where there is more than that."""
    assert [tiling(2048, m, 2048, 132, EFFORT)[0] for m in (128, 192, 256)] == [128, 192, 256]
    assert [tiling(n, n, n, 132, EFFORT) for n in (4096, 8192)] == [(256, 1), (192, 1)]


@pytest.mark.parametrize("shape", [(0, 3, 2), (3, 0, 2), (3, 4, 0)], ids=str)
def test_nothing(shape):
    a, b = matrices(*shape)
    np.testing.assert_array_equal(gemm_tf32(a, b), np.zeros(shape[:2], np.float32))


@pytest.mark.parametrize(("a", "b", "problem"), [
    (np.zeros((3, 4), np.float32), np.zeros((5, 6), np.float32), "`b`.*has 5 rows, and the first matrix 4 columns"),
    (np.zeros((3, 4), np.float32), np.zeros((4, 6), np.float16), "`b`.*holds float16"),
])
def test_what_does_not_fit_is_named(a, b, problem):
    with pytest.raises(LaunchError, match=problem):
        snap.lib.gemm_tf32(a, b)
