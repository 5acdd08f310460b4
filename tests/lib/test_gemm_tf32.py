"""`snap.lib.gemm_tf32` on the CPU machine: tails, layouts, teams of blocks, slices of K, divided tiles, the synchronization inferred, refusals."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import snap
from snap._compiler.ir.points import points
from snap.host.errors import LaunchError
from snap.lib._gemm.choice import ALONG, LINES, PARTS_OF_LINES, THROUGH_REGISTERS, Product
from snap.lib._gemm.tf32 import gemm_tf32, planned, tf32_kernel

DEPTH, STEP = (kind.tiles[0].depth for kind in (ALONG, THROUGH_REGISTERS))
SIDES = sorted({(tile.height, tile.width) for tile in ALONG.tiles})


def tf32_along(height: int, width: int, team: int = 1, how: str = "whole"):
    return tf32_kernel(True, height, width, team, how == "added", how == "divided")


def tf32_rows(height: int, width: int, team: int = 1, how: str = "whole"):
    """The product is computed turned round."""
    return tf32_kernel(False, width, height, team, how == "added", how == "divided")


LAYOUTS = {"along": (tf32_along, DEPTH), "rows": (tf32_rows, STEP)}


def matrices(m: int, n: int, k: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Small whole numbers: tf32 holds them, f32 their sums."""
    random = np.random.default_rng(seed)
    return tuple(random.integers(-4, 5, shape).astype(np.float32) for shape in ((m, k), (k, n)))


def arguments(layout: str, a, b, c, slices: int = 1, divided: int = 0, share: int = 1, blocks: int = 1) -> tuple:
    """Of a kernel; a may have more columns than b rows."""
    B = np.ascontiguousarray(b.T) if layout == "along" else b
    exchange = (np.zeros(blocks * 128 * 256, np.float32), np.zeros(blocks * 256, np.int32)) if divided else (np.zeros(1, np.float32), np.zeros(1, np.int32))
    first, second, extents = (a, B, (c.shape[0], b.shape[1])) if layout == "along" else (B, a, (b.shape[1], c.shape[0]))
    return first, second, c, first, *first.shape, *second.shape, c.shape[1], *extents, b.shape[0], *exchange, divided, share, slices, a, a, a, 1


def sides_of(layout: str, short: int, long: int) -> tuple[int, int]:
    return (short, long) if layout == "along" else (long, short)


@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 7, 3), (128, 128, 32), (130, 70, 33), (260, 264, 40), (40, 24, 700)], ids=str)
@pytest.mark.parametrize("orders", ["CC", "CF", "FC", "FF"])
def test_shapes_and_layouts(shape, orders):
    a, b = matrices(*shape)
    result = gemm_tf32(np.asarray(a, order=orders[0]), np.asarray(b, order=orders[1]))
    np.testing.assert_array_equal(result, a @ b)
    assert result.flags.c_contiguous


@pytest.mark.parametrize("order", "CF")
def test_factors_are_rounded(order):
    """To the nearest number of 10 bits after the point."""
    a = np.array([[1 + 2.0**-11 + 2.0**-20, 1 + 2.0**-11 - 2.0**-20, 3, -1 - 2.0**-11 - 2.0**-20]], np.float32)
    b = np.asarray(np.diag(np.full(4, 1 + 2.0**-12, np.float32)), order=order)
    np.testing.assert_array_equal(gemm_tf32(a, b), [[1 + 2.0**-10, 1, 3, -1 - 2.0**-10]])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("short", "long"), SIDES)
def test_every_tile(layout, short, long):
    make, step = LAYOUTS[layout]
    m, n = sides_of(layout, short + 12, long + 4)
    a, b = matrices(m, n, 2 * step + 8, 1)
    for team, how, blocks, options in ((1, "whole", 3, {}), (2, "added", 4, dict(slices=3)), (1, "divided", 3, dict(divided=2, share=2))):
        c = np.zeros((m, n), np.float32)
        make(*sides_of(layout, short, long), team, how)[blocks](*arguments(layout, a, b, c, blocks=blocks, **options))
        np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("divided", "share"), [(1, 1), (2, 3), (3, 4), (2, 4)])
def test_tiles_are_divided(layout, divided, share):
    """The first of 3 pairs of tiles, of 4 steps each; a part is some of them, or nothing."""
    make, step = LAYOUTS[layout]
    m, n = sides_of(layout, 120, 3 * 128)
    a, b = matrices(m, n, 4 * step, 5)
    c, blocks = np.zeros((m, n), np.float32), 2 * max(3, -(-4 * divided // share))
    make(*sides_of(layout, 64, 128), 2, "divided")[blocks](*arguments(layout, a, b, c, divided=divided, share=share, blocks=blocks))
    np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_of_the_first_matrix_may_be_longer(layout):
    """A is filled up with zeros to whole 16 bytes; a row-major B has no rows for them."""
    m, n, k = 20, 8, 36 if layout == "along" else 33
    a, b = matrices(m, n, k, 2)
    longer = np.zeros((m, 64), np.float32)
    longer[:, :k] = a
    c = np.zeros((m, n), np.float32)
    LAYOUTS[layout][0](128, 128)[1](*arguments(layout, longer, b, c))
    np.testing.assert_array_equal(c, a @ b)


def test_columns_beyond_the_last_are_nobodys():
    """A result whose rows are longer than the product's: what is beyond becomes zero, and the next row is untouched by it."""
    m, n, k = 20, 10, 32
    a, b = matrices(m, n, k, 2)
    c = np.full((m, 12), 7, np.float32)
    tf32_along(128, 128)[1](*arguments("along", a, b, c))
    np.testing.assert_array_equal(c[:, :n], a @ b)
    assert (c[:, n:] == 0).all()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("slices", [1, 2, 5])
def test_slices_are_added(layout, slices):
    make, step = LAYOUTS[layout]
    a, b = matrices(32, 64, 5 * step, 3)
    c = np.ones((32, 64), np.float32)
    make(128, 128, 1, "added")[2](*arguments(layout, a, b, c, slices=slices))
    np.testing.assert_array_equal(c, a @ b + 1)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("team", "how", "options"), [
    (1, "whole", {}), (1, "added", dict(slices=2)), (2, "whole", {}), (2, "divided", dict(divided=1, share=1)),
])
def test_no_schedule_gives_another_result(layout, team, how, options):
    make, step = LAYOUTS[layout]
    m, n = sides_of(layout, 160, 68)
    a, b = matrices(m, n, 2 * step, 4)
    run, blocks = make(*sides_of(layout, 128, 128) if how != "divided" else sides_of(layout, 64, 64), team, how), 2 * team
    c = np.zeros((m, n), np.float32)
    run.launch(*arguments(layout, a, b, c, blocks=blocks, **options), blocks=blocks, seed=1)
    np.testing.assert_array_equal(c, a @ b)
    assert not run.races(*arguments(layout, a, b, np.zeros_like(c), blocks=blocks, **options), blocks=blocks, seeds=1)


@pytest.mark.parametrize("how", ["whole", "added", "divided"])
@pytest.mark.parametrize("team", [1, 2])
def test_synchronization(team, how):
    """Full and empty for the loaded tiles; a warp waits for its own before boxes leave; waits for products and boxes, and no barrier of the block."""
    counts = Counter(point.kind for point in points(tf32_along(128, 256, team, how)._the_one({}).synced))
    assert counts["mbarrier"] == 2 and counts["warp"] == 2 and set(counts) == {"mbarrier", "warp", "thread"}


@pytest.mark.parametrize("how", ["whole", "added", "divided"])
@pytest.mark.parametrize("team", [1, 2])
def test_synchronization_in_rows(team, how):
    """The same for each of two stages, A's and B's apart; and two warps wait for each other before boxes leave."""
    counts = Counter(point.kind for point in points(tf32_rows(256, 128, team, how)._the_one({}).synced))
    assert counts["mbarrier"] == 8 and counts["named"] == 2 and set(counts) == {"mbarrier", "named", "thread"}


def test_large_products_are_planned_in_pairs_of_large_tiles():
    for lies_along in (True, False):
        plan = planned(Product(4096, 4096, 4096, 132, LINES, LINES), lies_along)
        assert (plan.height, plan.width, plan.team, plan.slices, plan.divided, plan.blocks) == (128, 256, 2, 1, 0, 132)
        plan = planned(Product(8192, 8192, 8192, 132, LINES, LINES), lies_along)
        assert (plan.height, plan.width, plan.team, plan.slices, plan.divided) == (128, 256, 2, 1, 34)
        assert plan.share * 66 >= 34 * 8192 // (DEPTH if lies_along else STEP)


def test_few_tiles_are_planned_in_slices():
    for m in (128, 256, 512):
        for lies_along in (True, False):
            plan = planned(Product(m, m, 65536, 132, LINES, LINES), lies_along)
            assert plan.divided == 0 and plan.slices > 1 and 132 * 0.9 <= plan.blocks <= 132
    assert planned(Product(64, 64, DEPTH, 132, LINES, LINES), True).slices == 1


def test_small_products_are_planned_in_small_tiles():
    """Enough of them for all multiprocessors; in pairs where rows are parts of lines, which takes longer to load."""
    plan = planned(Product(1000, 1000, 1000, 132, PARTS_OF_LINES, PARTS_OF_LINES), True)
    assert (plan.height, plan.width, plan.team, plan.slices, plan.divided) == (64, 128, 2, 1, 0)
    assert planned(Product(1024, 1024, 1024, 132, LINES, LINES), True).team == 1
    assert planned(Product(1024, 1024, 1024, 132, LINES, LINES), False).width == 128


def test_a_plan_never_takes_more_blocks_than_there_are():
    for multiprocessors in (1, 2, 3, 132):
        for shape in ((1, 1, 1), (300, 70, 5000), (129, 4096, 64), (3000, 3000, 100)):
            for lies_along in (True, False):
                plan = planned(Product(*shape, multiprocessors, LINES, LINES), lies_along)
                assert 1 <= plan.blocks <= multiprocessors and plan.blocks % plan.team == 0


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
