"""`snap.lib.gemm` on the CPU machine: all layouts, tails, strides, the epilogue, schedules, refusals."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import snap
from snap.ir.types import BF16, F16, F32
from snap.lib import gemm
from snap.lib.gemm import TILES, tiling
from snap.lib.gemm_kernels import gemm_kernel
from snap.runtime.errors import LaunchError

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


@pytest.mark.parametrize("tile", TILES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS, ids="".join)
def test_every_tile_in_every_layout(tile, layout):
    m, n, k, turned = 136, 264, 136, [each == "t" for each in layout]
    (a, A), (b, B) = matrix(m, k, 3), matrix(k, n, 4)
    A, B = (np.ascontiguousarray(x.T) if flip else x for x, flip in zip((A, B), turned))
    C = np.zeros((m, n), np.float32)
    gemm_kernel(BF16, F32, *turned, *tile, 2)[3](A, B, C, A, *A.shape, *B.shape, n, m, n, k)
    np.testing.assert_array_equal(C, a @ b)


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
    C, run = np.zeros((136, 72), np.uint16), gemm_kernel(BF16, BF16, False, False, 128, 64, 2)
    arguments = (A, B, C, A, *A.shape, *B.shape, 72, 136, 72, 200)
    assert not snap.races(run, *arguments, blocks=2, seeds=1)
    run.launch(*arguments, blocks=2, seed=3)
    np.testing.assert_array_equal(unpacked(C), a @ b)


@pytest.mark.parametrize("multiprocessors", [4, 132])
def test_tiles_cover_and_blocks_are_no_more_than_there_are_tiles(multiprocessors):
    for m, n in itertools.product((1, 64, 65, 500, 4096), repeat=2):
        height, width, blocks = tiling(m, n, 512, multiprocessors)
        assert (height, width) in TILES and 1 <= blocks <= min(multiprocessors, -(-m // height) * -(-n // width))


@pytest.mark.parametrize("shape", [(n, n, n) for n in (2048, 4096, 8192, 16384)] + [(8192, 28672, 8192), (28672, 8192, 1024)], ids=str)
def test_large_products_have_large_tiles(shape):
    assert tiling(*shape, 132)[:2] == (128, 256)


def test_small_products_are_spread_over_the_multiprocessors():
    assert tiling(1024, 1024, 1024, 132) == (128, 64, 128)
    assert tiling(16, 16, 4096, 132) == (64, 64, 1)


def test_every_tile_compiles_for_hopper_without_spills():
    for tile, activation in ((TILES[0], "gelu"), (TILES[-1], None)):
        used = gemm_kernel(F16, F16, True, False, *tile, 16, F32, activation).resources("sm_90a")
        assert used.spill_stores == used.spill_loads == 0


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
    with pytest.raises(LaunchError, match="overlap"):
        gemm(square, np.zeros((64, 64), np.float16), out=square)
