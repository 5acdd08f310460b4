"""`snap.lib.gemm` on the CPU machine: all layouts, tails, strides, the epilogue, schedules, refusals."""

from __future__ import annotations

import importlib
import itertools
import math

import numpy as np
import pytest

from snap._compiler.ir.types import BF16, F16, F32
from snap.host.errors import LaunchError
from snap.lib import gemm
from snap.lib._gemm import choice as gemm_choice
from snap.lib._gemm.body import Epilogue, Work
from snap.lib._gemm.choice import SLICES, By, Plan, Product
from snap.lib._gemm.gemm import BAND, planned
from snap.lib._gemm.kernels import gemm_kernel
from snap.lib._gemm.slices import slices_kernel
from snap.lib._gemm.splits import splits_kernel
from snap.lib._gemm.thin import thin_kernel

module = importlib.import_module("snap.lib._gemm.gemm")
TILES, PAIRS, SLICED, SPLIT = ([(tile.height, tile.width) for tile in kind.tiles]
                               for kind in (gemm_choice.TILES, gemm_choice.PAIRS, gemm_choice.SLICED, gemm_choice.SPLIT))
LOW = tuple(gemm_choice.THIN)
LAYOUTS = [(a, b) for a in "nt" for b in "nt"]
SHAPES = [(1, 1, 1), (64, 64, 64), (129, 70, 33), (40, 256, 65), (16, 8, 128), (8, 9, 0), (131, 264, 72)]


def packed(name: str, plain: np.ndarray) -> np.ndarray:
    """As gemm takes it; bf16 by its bits, of values that it holds exactly."""
    return (plain.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16) if name == "bf16" else plain.astype(np.float16)


def unpacked(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def matrix(rows: int, columns: int, seed: int, layout: str = "n", name: str = "bf16") -> tuple[np.ndarray, np.ndarray]:
    """Small whole numbers, whose sums of products every type holds exactly: plain, and as gemm takes them."""
    plain = np.random.default_rng(seed).integers(-2, 3, (rows, columns)).astype(np.float64)
    return plain, packed(name, plain) if layout == "n" else np.asfortranarray(packed(name, plain))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS, ids="".join)
def test_layouts_and_tails(shape, layout):
    m, n, k = shape
    (a, A), (b, B) = matrix(m, k, 1, layout[0]), matrix(k, n, 2, layout[1])
    np.testing.assert_array_equal(unpacked(gemm(A, B)), a @ b)


def launched(kernel, blocks: int, A: np.ndarray, B: np.ndarray, C: np.ndarray, divided: int = 0, share: int = 1,
             turned=(False, False), **how):
    """`kernel` on A and B, given as they are written down."""
    (m, k), n = A.shape, B.shape[1]
    A, B = (np.ascontiguousarray(x.T) if flip else x for x, flip in zip((A, B), turned))
    exchange = np.zeros(blocks * 128 * 256, np.float32), np.zeros(blocks * 256, np.int32)
    arguments = (A, B, C, A, *A.shape, *B.shape, n, m, n, k, *exchange, divided, share, 1, A, A, A, 1)
    return kernel.races(*arguments, blocks=blocks, seeds=1) if how.get("races") else kernel.launch(*arguments, blocks=blocks, **how)


@pytest.mark.parametrize("tile", TILES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS, ids="".join)
def test_every_tile_in_every_layout(tile, layout):
    turned = tuple(each == "t" for each in layout)
    (a, A), (b, B), C = matrix(136, 136, 3), matrix(136, 264, 4), np.zeros((136, 264), np.float32)
    launched(gemm_kernel(BF16, F32, *turned, *tile, 2), 3, A, B, C, 0, turned=turned)
    np.testing.assert_array_equal(C, a @ b)


# K = 136 is short: 128 x 224 has seven boxes of 32 columns, which four warps send.
@pytest.mark.parametrize("tile", [(128, 192), (128, 224), (128, 256)], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS, ids="".join)
def test_tiles_that_leave_at_once(tile, layout):
    turned = tuple(each == "t" for each in layout)
    (a, A), (b, B), C = matrix(264, 136, 3), matrix(136, 520, 4), np.zeros((264, 520), np.uint16)
    launched(gemm_kernel(BF16, BF16, *turned, *tile, 2, work=Work.AT_ONCE), 3, A, B, C, 0, turned=turned)
    np.testing.assert_array_equal(unpacked(C), a @ b)


def test_which_tiles_leave_at_once():
    asked = [gemm_choice.leaves_at_once(Plan(0, 128, width, 132, divided=divided, team=team), depth, type)
             for width, divided, team, depth, type in ((256, 0, 1, 768, BF16), (192, 0, 1, 1280, F16), (256, 0, 1, 1281, BF16), (160, 0, 1, 768, BF16),
                                                       (256, 0, 1, 768, F32), (256, 3, 1, 768, BF16), (256, 0, 2, 768, BF16))]
    assert asked == [True, True, False, False, False, False, False]


# All that plans may ask for.
SLICINGS = [(*tile, slices) for tile in SLICED for slices in SLICES if tile[1] % (16 * slices) == 0]


def sliced(kernel, tiles: int, height: int, width: int, slices: int, A: np.ndarray, B: np.ndarray, C: np.ndarray, turned=(False, False), **how):
    """`kernel` on A and B, given as they are written down, with a cluster for each tile."""
    (m, k), n = A.shape, B.shape[1]
    A, B = (np.ascontiguousarray(x.T) if flip else x for x, flip in zip((A, B), turned))
    arguments = (A, B, C, A, *A.shape, *B.shape, n, m, n, k, np.full(tiles * slices * height * width, np.nan, np.float32))
    if any(parameter.name == "met" for parameter in kernel.definition.tree.params):
        arguments += (np.zeros(1, np.int32),)
    if how.get("races"):
        return kernel.races(*arguments, blocks=tiles * slices, seeds=1)
    return kernel.launch(*arguments, blocks=tiles * slices, **how)


@pytest.mark.parametrize("slicing", SLICINGS, ids=str)
def test_every_slicing(slicing):
    """Steps are no multiple of the slices, and there are fewer than eight."""
    height, width, slices = slicing
    (a, A), (b, B), C = matrix(136, 264, 3), matrix(264, 264, 4), np.zeros((136, 264), np.float32)
    tiles = -(-136 // height) * -(-264 // width)
    sliced(slices_kernel(BF16, F32, False, False, height, width, 2, SLICES=slices), tiles, height, width, slices, A, B, C)
    np.testing.assert_array_equal(C, a @ b)


@pytest.mark.parametrize("slicing", [(128, 128, 2), (64, 64, 4), (128, 256, 8)], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS, ids="".join)
def test_slices_in_every_layout(slicing, layout):
    turned, (height, width, slices) = tuple(each == "t" for each in layout), slicing
    (a, A), (b, B), C = matrix(136, 200, 3), matrix(200, 264, 4), np.zeros((136, 264), np.uint16)
    tiles = -(-136 // height) * -(-264 // width)
    sliced(slices_kernel(BF16, BF16, *turned, height, width, 2, SLICES=slices), tiles, height, width, slices, A, B, C, turned)
    np.testing.assert_array_equal(unpacked(C), a @ b)


def split(kernel, tiles: int, height: int, width: int, slices: int, A: np.ndarray, B: np.ndarray, C: np.ndarray, turned=(False, False), **how):
    """As `sliced`; the counters are zero before and after."""
    (m, k), n = A.shape, B.shape[1]
    A, B = (np.ascontiguousarray(x.T) if flip else x for x, flip in zip((A, B), turned))
    room, met = np.full(tiles * slices * height * width, np.nan, np.float32), np.zeros(tiles * 2 * height, np.int32)
    kernel.launch(A, B, C, A, *A.shape, *B.shape, n, m, n, k, room, met, blocks=tiles * slices, **how)
    assert not met.any()


@pytest.mark.parametrize("splitting", [(128, 128, 4), (128, 192, 6), (128, 256, 8), (128, 192, 3)], ids=str)
@pytest.mark.parametrize("layout", [LAYOUTS[0], LAYOUTS[-1]], ids="".join)
def test_blocks_that_meet_anywhere(splitting, layout):
    turned, (height, width, slices) = tuple(each == "t" for each in layout), splitting
    (a, A), (b, B), C = matrix(136, 520, 3), matrix(520, 264, 4), np.zeros((136, 264), np.float32)
    tiles = -(-136 // height) * -(-264 // width)
    split(splits_kernel(BF16, F32, *turned, height, width, 2, SLICES=slices), tiles, height, width, slices, A, B, C, turned)
    np.testing.assert_array_equal(C, a @ b)


@pytest.mark.parametrize("rows, width, slices", list(itertools.product(LOW, (64, 128), (1, *SLICES))), ids=str)
def test_every_thin_tile(rows, width, slices):
    m, b_turned = rows - 3, (rows // 8 + slices) % 2 == 0
    (a, A), (b, B), C = matrix(m, 200, 3), matrix(200, 136, 4), np.zeros((m, 136), np.float32)
    tiles = -(-136 // width)
    sliced(thin_kernel(BF16, F32, b_turned, rows, width, SLICES=slices), tiles, rows, width, slices, A, B, C, (False, b_turned))
    np.testing.assert_array_equal(C, a @ b)


def test_thin_tiles_below_each_other():
    (a, A), (b, B), C = matrix(20, 72, 3), matrix(72, 72, 4), np.zeros((20, 72), np.float32)
    sliced(thin_kernel(BF16, F32, False, 8, 64, SLICES=2), 6, 8, 64, 2, A, B, C)
    np.testing.assert_array_equal(C, a @ b)


@pytest.mark.parametrize("tile", PAIRS, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS, ids="".join)
def test_clusters_in_every_layout(tile, layout):
    """Rows for three tiles: one block of the last pair has nothing to write."""
    turned, m = tuple(each == "t" for each in layout), 2 * tile[0] + 8
    (a, A), (b, B), C = matrix(m, 136, 3), matrix(136, 264, 4), np.zeros((m, 264), np.float32)
    launched(gemm_kernel(BF16, F32, *turned, *tile, 1, TEAM=2), 2, A, B, C, turned=turned)
    np.testing.assert_array_equal(C, a @ b)


# Blocks, divided tiles, share: of four tiles of ten steps.  Three parts of one tile; two tiles' ends and beginnings; all of them; shares that end
# where tiles do; five parts, and three blocks with none; none at all.
@pytest.mark.parametrize("blocks, divided, share", [(3, 1, 4), (3, 2, 7), (5, 4, 9), (8, 4, 5), (4, 4, 10), (8, 1, 2), (3, 0, 1)], ids=str)
def test_divided_tiles(blocks, divided, share):
    (a, A), (b, B), kernel = matrix(128, 600, 12), matrix(600, 128, 13), gemm_kernel(BF16, F32, False, False, 64, 64, 2, work=Work.DIVIDED)
    for how in ({}, {"seed": 4}):
        C = np.zeros((128, 128), np.float32)
        launched(kernel, blocks, A, B, C, divided, share, **how)
        np.testing.assert_array_equal(C, a @ b)


@pytest.mark.parametrize("tile", [(128, 256), (128, 192), (64, 128)], ids=str)
def test_divided_tiles_of_every_number_of_sums(tile):
    (a, A), (b, B), C = matrix(tile[0], 200, 14), matrix(200, tile[1], 15), np.zeros(tile, np.float32)
    launched(gemm_kernel(BF16, F32, False, False, *tile, 2, work=Work.DIVIDED), 2, A, B, C, 1, 2)
    np.testing.assert_array_equal(C, a @ b)


PLANS = {
    "divided": Plan(0, 64, 64, 3, divided=2, share=3),
    "clusters": Plan(0, 64, 128, 2, kind=By.PAIRS, team=2),
    "slices": Plan(0, 64, 64, 8, kind=By.SLICES, slices=2),
    "slices that are whole panels": Plan(0, 128, 128, 2, kind=By.SLICES, slices=2),
    "thin": Plan(0, 32, 64, 6, kind=By.THIN),
    "thin, divided": Plan(0, 32, 64, 12, kind=By.THIN, slices=2),
    "both copied": Plan(0, 64, 64, 2, copied=(True, True)),
    "B copied": Plan(0, 64, 128, 2, copied=(False, True)),
}


# In thin tiles A lies row after row.
@pytest.mark.parametrize("plan, layout", [(name, layout) for layout in LAYOUTS for name, plan in PLANS.items() if layout[0] == "n" or plan.kind != By.THIN])
def test_every_plan_with_bias_and_activation(plan, layout, monkeypatch):
    monkeypatch.setattr(module, "planned", lambda *shape: PLANS[plan])
    (a, A), (b, B) = matrix(72, 200, 16, layout[0], "f16"), matrix(200, 104, 17, layout[1], "f16")
    bias = np.arange(104, dtype=np.float32) - 50
    np.testing.assert_array_equal(gemm(A, B, bias=bias, activation="relu"), np.maximum(a @ b + bias, 0))


def test_strides_of_all_kinds():
    a, A = matrix(40, 48, 5)
    b, B = matrix(48, 56, 6)
    wide = np.zeros((40, 100), np.uint16)
    wide[:, 3:51] = A
    skipping = np.zeros((96, 112), np.uint16)
    skipping[::2, ::2] = B
    shifted = np.zeros(40 * 48 + 1, np.uint16)[1:].reshape(40, 48)
    shifted[...] = A
    back = np.ascontiguousarray(B[::-1])[::-1]
    for left, right in itertools.product((A, wide[:, 3:51], shifted), (B, skipping[::2, ::2], back, np.asfortranarray(B))):
        np.testing.assert_array_equal(unpacked(gemm(left, right)), a @ b)


def test_out_is_filled_whatever_its_strides_and_type():
    (a, A), (b, B) = matrix(20, 16, 7, name="f16"), matrix(16, 24, 8, name="f16")
    for out in (np.zeros((20, 24), np.float16), np.zeros((20, 24), np.float32), np.zeros((24, 20), np.float16).T, np.zeros((20, 49), np.float32)[:, 1::2]):
        assert gemm(A, B, out=out) is out
        np.testing.assert_array_equal(out, a @ b)


ACTIVATIONS = {
    None: lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2,
    "silu": lambda x: x / (1 + np.exp(-x)),
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("bias_type", [None, np.float16, np.float32])
def test_bias_and_activation(activation, bias_type):
    rng = np.random.default_rng(9)
    a, b = rng.standard_normal((70, 40)).astype(np.float16), rng.standard_normal((40, 77)).astype(np.float16)
    bias = None if bias_type is None else rng.standard_normal(77).astype(bias_type)
    expected = ACTIVATIONS[activation](a.astype(float) @ b.astype(float) + (0 if bias is None else bias.astype(float)))
    out = gemm(a, b, out=np.zeros((70, 77), np.float32), bias=bias, activation=activation)
    np.testing.assert_allclose(out, expected, atol=2e-5)
    np.testing.assert_allclose(gemm(a, b, bias=bias, activation=activation), expected, rtol=2**-10, atol=1e-4)


def test_relu_keeps_what_is_not_a_number():
    a, b = np.full((1, 1), np.nan, np.float16), np.ones((1, 3), np.float16)
    assert np.isnan(gemm(a, b, activation="relu")).all()


def test_a_schedule_at_random_finds_no_race():
    (a, A), (b, B) = matrix(136, 200, 10), matrix(200, 72, 11)
    for kernel, blocks, *exchange in ((gemm_kernel(BF16, BF16, False, False, 128, 64, 2), 2, 0),
                                      (gemm_kernel(BF16, BF16, False, False, 128, 64, 2, work=Work.DIVIDED), 3, 1, 2),
                                      (gemm_kernel(BF16, BF16, False, False, 128, 192, 1, work=Work.AT_ONCE), 2, 0),
                                      (gemm_kernel(BF16, BF16, False, False, 64, 128, 1, TEAM=2), 2, 0)):
        C = np.zeros((136, 72), np.uint16)
        assert not launched(kernel, blocks, A, B, C, *exchange, races=True)
        launched(kernel, blocks, A, B, C, *exchange, seed=3)
        np.testing.assert_array_equal(unpacked(C), a @ b)
    for kernel, tiles, *sizes in ((slices_kernel(BF16, BF16, False, False, 128, 64, 2, SLICES=2), 4, 128, 64, 2),
                                  (slices_kernel(BF16, BF16, False, False, 64, 128, 2, SLICES=2), 3, 64, 128, 2),
                                  (thin_kernel(BF16, BF16, False, 32, 64, SLICES=4), 10, 32, 64, 4)):
        C = np.zeros((136, 72), np.uint16)
        assert not sliced(kernel, tiles, *sizes, A, B, C, races=True)
        sliced(kernel, tiles, *sizes, A, B, C, seed=3)
        np.testing.assert_array_equal(unpacked(C), a @ b)
    C = np.zeros((64, 64), np.uint16)  # one tile: threads that wait for each other take long
    A, B = np.ascontiguousarray(A[:64]), np.ascontiguousarray(B[:, :64])
    split(splits_kernel(BF16, BF16, False, False, 64, 64, 2, SLICES=4), 1, 64, 64, 4, A, B, C, seed=3)
    np.testing.assert_array_equal(unpacked(C), (a @ b)[:64, :64])


@pytest.mark.parametrize("multiprocessors", [1, 4, 132])
def test_plans_can_be_launched(multiprocessors):
    sizes = {By.TILES: TILES, By.PAIRS: PAIRS, By.SLICES: SLICED, By.SPLITS: SPLIT, By.THIN: [(height, 64) for height in LOW]}
    for m, n, k, uneven, turned in itertools.product((1, 64, 500, 4096), (1, 65, 4096), (0, 512, 100_000), (False, True), (False, True)):
        plan = planned(Product(m, n, k, multiprocessors, along=turned), uneven, uneven, turned)
        tiles, steps = -(-m // plan.height) * -(-n // plan.width), -(-max(k, 1) // 64)
        assert (plan.height, plan.width) in sizes[plan.kind] and plan.band(BAND) > 0 and plan.blocks >= 1
        assert plan.divided == 0 or (plan.divided <= tiles and plan.share < steps and plan.share * plan.blocks >= plan.divided * steps)
        assert uneven or (plan.kind != By.PAIRS and plan.copied == (False, False))
        match plan.kind:
            case By.TILES:
                assert plan.blocks <= multiprocessors and (plan.divided or plan.blocks <= tiles)
            case By.PAIRS:
                assert plan.blocks <= multiprocessors and plan.blocks % 2 == 0 and plan.blocks <= tiles + -(-n // plan.width)
            case By.SLICES:
                assert plan.blocks <= multiprocessors and (plan.height, plan.width, plan.slices) in SLICINGS
            case By.SPLITS:
                assert plan.blocks <= multiprocessors and plan.width % (16 * plan.slices) == 0
        if plan.kind in (By.SLICES, By.SPLITS, By.THIN):
            assert plan.blocks == tiles * plan.slices and plan.slices <= steps and (plan.slices == 1 or plan.blocks <= multiprocessors)
        assert plan.kind != By.THIN or not turned


@pytest.mark.parametrize("shape", [(n, n, n) for n in (2048, 4096, 8192, 16384)] + [(8192, 28672, 8192), (28672, 8192, 1024)], ids=str)
def test_large_products_have_large_tiles(shape):
    plan = planned(Product(*shape, 132))
    assert (plan.height, plan.width) == (128, 256)


def test_the_last_round_is_divided_where_that_is_faster():
    assert [planned(Product(n, n, n, 132)).divided for n in (2048, 4096, 8192, 16384)] == [0, 0, 68, 8]
    assert planned(Product(8192, 8448, 8192, 132)).divided == 0  # 16 full rounds


def test_small_products_are_spread_over_the_multiprocessors():
    assert planned(Product(1024, 1024, 1024, 132)).blocks == planned(Product(128, 4096, 14336, 132)).blocks == planned(Product(16, 4096, 4096, 132)).blocks == 128


def test_few_rows_have_low_tiles():
    for m, height in ((1, 8), (8, 8), (9, 16), (32, 32)):
        plan = planned(Product(m, 4096, 4096, 132))
        assert (plan.kind, plan.height) == (By.THIN, height)
    assert planned(Product(33, 4096, 4096, 132)).kind != By.THIN != planned(Product(8, 4096, 4096, 132), a_turned=True).kind


def test_few_tiles_of_many_steps_are_divided_among_blocks():
    """Of a cluster; or of four and more anywhere, where clusters of them would not fill the GPU."""
    two, four = planned(Product(64, 4096, 14336, 132)), planned(Product(128, 2048, 14336, 132))
    assert (two.kind, two.slices) == (By.SLICES, 2) and (four.kind, four.slices, four.blocks) == (By.SPLITS, 8, 128)
    assert planned(Product(4096, 4096, 14336, 132)).kind == planned(Product(256, 256, 64, 132)).kind == By.TILES


def test_rows_in_the_middle_of_sectors_are_shared_by_clusters_or_copied():
    plans = [planned(Product(n, n, n, 132, along=turned), True, True) for n in (1000, 3080) for turned in (False, True)]
    assert all(plan.kind == By.PAIRS and plan.copied == (False, False) for plan in plans)
    plan = planned(Product(5000, 5000, 5000, 132, along=True), True, True)  # six rounds of the wide ones, of which the last column is narrow
    assert (plan.kind, plan.width, plan.narrow) == (By.PAIRS, 256, 192)


@pytest.mark.parametrize("column, uneven", [(0, False), (16, False), (8, True)])
def test_which_rows_begin_in_the_middle_of_sectors(column, uneven):
    shifted = np.zeros(64 * 64 + 64, np.float16)
    start = -shifted.ctypes.data % 32 // 2 + column
    assert module.operand("a", shifted[start:start + 64 * 64].reshape(64, 64)).uneven == uneven
    assert module.operand("a", shifted[start - column:][:64 * 56].reshape(64, 56)).uneven


def test_kernels_compile_for_hopper_without_spills_in_their_loops():
    for kernel in (gemm_kernel(F16, F16, True, False, *TILES[-1], 16, Epilogue(F32, "gelu")), gemm_kernel(F16, F16, True, False, *TILES[0], 16, Epilogue(F32)),
                   gemm_kernel(BF16, BF16, False, False, *TILES[-1], 8, work=Work.DIVIDED), gemm_kernel(BF16, BF16, False, True, *PAIRS[-1], 4, TEAM=2),
                   slices_kernel(BF16, BF16, False, False, *SLICED[-1], 8, Epilogue(F32, "gelu"), 2), slices_kernel(BF16, BF16, False, True, *SLICED[-1], 8, SLICES=8),
                   splits_kernel(BF16, BF16, True, False, *SPLIT[-1], 8, Epilogue(F32, "gelu"), 4),
                   thin_kernel(BF16, BF16, False, 32, 128, Epilogue(F32, "gelu"), 2)):
        used = kernel.resources("sm_90a")
        assert used.spill_stores == used.spill_loads and not used.serialized
        assert used.spill_stores <= 4  # one register of the first, aside while its epilogue computes gelu: what that reads of an accumulator is selected


def test_empty():
    for m, n in ((0, 8), (8, 0), (0, 0)):
        assert gemm(np.zeros((m, 16), np.float16), np.zeros((16, n), np.float16)).shape == (m, n)
    for m, n in ((3, 5), (600, 520)):  # the second has several tiles a block
        bias = np.arange(n, dtype=np.float16)
        np.testing.assert_array_equal(gemm(np.zeros((m, 0), np.float16), np.zeros((0, n), np.float16), bias=bias), np.tile(bias, (m, 1)))


def test_what_does_not_fit_is_refused_by_name():
    half, bits = np.zeros((8, 8), np.float16), np.zeros((8, 8), np.uint16)
    frozen = np.zeros((8, 8), np.float16)
    frozen.flags.writeable = False
    for name, arguments, words in [
        ("a", {"a": np.zeros((8, 8))}, "float64"),
        ("a", {"a": np.zeros(8, np.float16)}, "dimensions"),
        ("a", {"a": [[1]]}, "list"),
        ("b", {"b": bits}, "bf16"),
        ("b", {"b": np.zeros((9, 8), np.float16)}, "9 rows"),
        ("out", {"out": np.zeros((8, 9), np.float16)}, "shape"),
        ("out", {"out": np.zeros((8, 8))}, "float64"),
        ("out", {"out": frozen}, "read-only"),
        ("bias", {"bias": np.zeros(9, np.float16)}, "9 elements"),
        ("bias", {"bias": np.zeros(8, np.int32)}, "int32"),
        ("activation", {"activation": "tanh"}, "relu"),
    ]:
        with pytest.raises(LaunchError, match=words) as refusal:
            gemm(**{"a": half, "b": half, **arguments})
        assert refusal.value.parameter == name if hasattr(refusal.value, "parameter") else name in str(refusal.value)


def test_out_that_is_an_input_is_refused():
    square = np.zeros((64, 64), np.float16)
    other, values = np.zeros((64, 64), np.float16), np.zeros(64 * 64, np.float16)
    for arguments, name in (((square, other, square), "a"), ((other, square, square), "b"), ((other, other, values.reshape(64, 64), values[:64]), "bias")):
        with pytest.raises(LaunchError, match=f"`out` of `snap.lib.gemm`: shares memory with `{name}`.*overlap"):
            gemm(*arguments)


def test_out_may_be_an_input_that_is_copied():
    """A result in other strides is made elsewhere, and copied there when the product is done."""
    a, b = (np.arange(64 * 64).reshape(64, 64) % k for k in (7, 5))
    a, b = a.astype(np.float16), b.astype(np.float16)
    want = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_array_equal(gemm(a, b, out=a.T), want.astype(np.float16))
