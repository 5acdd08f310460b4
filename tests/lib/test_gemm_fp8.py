"""`snap.lib.gemm_fp8` on the CPU machine: types, scales, tails, the epilogue, schedules, refusals."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from snap._compiler.ir.types import BF16, F32
from snap.host.errors import LaunchError
from snap.lib import gemm_fp8
from snap.lib._gemm.body import Epilogue
from snap.lib._gemm.choice import EVEN, By, Product
from snap.lib._gemm.fp8 import fp8_kernel, planned
from snap.lib._gemm.fp8_kernel import halves_kernel, promoted_kernel
from snap.lib._gemm.parts import Scaling
from snap.machine.lanes.numbers import BYTES

module = importlib.import_module("snap.lib._gemm.fp8")


def matrix(rows: int, columns: int, seed: int, kind: str = "e4m3") -> tuple[np.ndarray, np.ndarray]:
    """Small numbers, whose sums of products f32 holds exactly: plain, and their bits."""
    table = BYTES[kind].astype(np.float64)
    few = np.flatnonzero(np.isin(table, (0, 0.5, 1, 2, 3, -0.5, -1, -2))).astype(np.uint8)
    bits = np.random.default_rng(seed).choice(few, (rows, columns))
    return table[bits], bits


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("shape", [(1, 1, 1), (70, 72, 200), (8, 9, 0)], ids=str)
def test_tails_and_layouts(shape, fast):
    m, n, k = shape
    (a, A), (b, B) = matrix(m, k, 1), matrix(n, k, 2)
    for left in (A, np.asfortranarray(A)):
        for right in (B.T, np.ascontiguousarray(B.T)):
            np.testing.assert_array_equal(gemm_fp8(left, right, out_dtype="f32", fast=fast), a @ b.T)


@pytest.mark.parametrize("kinds", [("e4m3", "e4m3"), ("e5m2", "e5m2"), ("e5m2", "e4m3"), ("e4m3", "e5m2")], ids=".".join)
def test_types(kinds):
    (a, A), (b, B) = matrix(66, 130, 3, kinds[0]), matrix(24, 130, 4, kinds[1])
    np.testing.assert_array_equal(gemm_fp8(A, B.T, out_dtype="f32", a_dtype=kinds[0], b_dtype=kinds[1]), a @ b.T)


@pytest.mark.parametrize("fast", [False, True])
def test_scales_bias_and_activation(fast):
    (a, A), (b, B) = matrix(70, 40, 5), matrix(24, 40, 6)
    rows, columns = 2.0 ** np.arange(70).reshape(70, 1) % 7, np.linspace(0.25, 2, 24)[None]
    bias = np.arange(24.0) - 10
    for of_a, of_b in ((np.array(2, np.float32), np.float32([0.25])), (rows.astype(np.float32), columns.astype(np.float32)),
                       (rows[:, 0].astype(np.float32), columns[0].astype(np.float32))):
        expected = (a @ b.T) * of_a.reshape(-1, 1).astype(float) * of_b.reshape(1, -1).astype(float)
        np.testing.assert_allclose(gemm_fp8(A, B.T, of_a, of_b, out_dtype="f32", fast=fast), expected, rtol=1e-6)
        found = gemm_fp8(A, B.T, of_a, of_b, out_dtype="f32", fast=fast, bias=bias.astype(np.float32), activation="relu")
        np.testing.assert_allclose(found, np.maximum(expected + bias, 0), rtol=1e-6, atol=1e-5)


def test_results_of_every_type():
    (a, A), (b, B) = matrix(20, 40, 7), matrix(24, 40, 8)
    bits = gemm_fp8(A, B.T)
    np.testing.assert_array_equal((bits.astype(np.uint32) << 16).view(np.float32), a @ b.T)
    np.testing.assert_array_equal(gemm_fp8(A, B.T, out_dtype="f16"), a @ b.T)
    for out in (np.zeros((20, 24), np.float16), np.zeros((24, 20), np.float32).T):
        assert gemm_fp8(A, B.T, out=out) is out
        np.testing.assert_array_equal(out, a @ b.T)


def test_a_schedule_at_random_finds_no_race():
    (a, A), (b, B) = matrix(136, 300, 9), matrix(72, 300, 10)
    scales, A, B = np.ones(1, np.float32), *(np.pad(x, ((0, 0), (0, 4))) for x in (A, B))
    C, run = np.zeros((136, 72), np.float32), fp8_kernel(("e4m3", "e4m3"), F32, 128, 64, 2, Epilogue(scaled=Scaling.TENSOR))
    arguments = (A, B, C, A, 136, 304, 72, 304, 72, 136, 72, 300, np.zeros(1, np.float32), np.zeros(1, np.int32), 0, 1, 1, scales, scales, A, 1)
    assert not run.races(*arguments, blocks=2, seeds=1)
    run.launch(*arguments, blocks=2, seed=3)
    np.testing.assert_array_equal(C, a @ b.T)


@pytest.mark.parametrize("make, tile", [(promoted_kernel, (128, 64)), (promoted_kernel, (64, 64)), (promoted_kernel, (128, 256)),
                                        (halves_kernel, (128, 64))], ids=lambda of: getattr(of, "__name__", str(of)))
def test_halves_and_parts_of_tiles_are_added_in_f32(make, tile):
    """The wide one's columns are multiplied in parts."""
    (a, A), (b, B) = matrix(136, 300, 9), matrix(72, 300, 10)
    scales, A, B, C = np.ones(1, np.float32), *(np.pad(x, ((0, 0), (0, 4))) for x in (A, B)), np.zeros((136, 72), np.float32)
    run = make("e4m3", F32, *tile, 2, Epilogue(scaled=Scaling.TENSOR))
    arguments = (A, B, C, A, scales, scales, 136, 72, 300, 304, 304, 72)
    if tile == (128, 64):
        assert not run.races(*arguments, blocks=2, seeds=1)
    run.launch(*arguments, blocks=2, seed=3)
    np.testing.assert_array_equal(C, a @ b.T)


def test_kernels_compile_for_hopper_without_spills():
    for make, width in ((promoted_kernel, 192), (promoted_kernel, 256), (halves_kernel, 224)):
        used = make("e4m3", BF16, 128, width, epilogue=Epilogue(scaled=Scaling.TENSOR)).resources("sm_90a")
        assert used.spill_stores == used.spill_loads == 0 and not used.serialized


def test_large_products_have_large_tiles():
    assert (planned(Product(8192, 8192, 8192, 132, EVEN, EVEN), True).height, planned(Product(8192, 8192, 8192, 132, EVEN, EVEN), True).width) == (128, 256)
    assert [planned(Product(n, n, n, 132, EVEN, EVEN), False).kind for n in (2048, 4096, 8192, 16384)] == [By.TILES, By.TILES, By.HALVES, By.HALVES]


def test_what_does_not_fit_is_refused_by_name():
    A, scale = np.zeros((8, 16), np.uint8), np.ones(1, np.float32)
    given = {"a": A, "b": A.T, "scale_a": scale, "scale_b": scale}
    for name, arguments, words in [
        ("a", {"a": np.zeros((8, 16), np.float16)}, "float16"),
        ("a", {"a": np.zeros(8, np.uint8)}, "dimensions"),
        ("b", {"b": np.zeros((9, 8), np.uint8)}, "9 rows"),
        ("scale_a", {"scale_a": None}, "missing"),
        ("scale_b", {"scale_b": np.ones(9, np.float32), "scale_a": np.ones(8, np.float32)}, "8 columns"),
        ("scale_a", {"scale_b": np.ones(8, np.float32)}, "8 rows"),
        ("scale_a", {"scale_a": np.ones(1)}, "float64"),
        ("out", {"out": np.zeros((8, 9), np.float32)}, "shape"),
        ("bias", {"bias": np.zeros(9, np.float32)}, "9 elements"),
        ("activation", {"activation": "tanh"}, "relu"),
        ("out_dtype", {"out_dtype": "f64"}, "bf16"),
        ("a_dtype", {"a_dtype": "e3m4"}, "e5m2"),
        ("fast", {"fast": 1}, "True or False"),
    ]:
        with pytest.raises(LaunchError, match=words) as refusal:
            gemm_fp8(**{**given, **arguments})
        assert f"`{name}`" in str(refusal.value), str(refusal.value)
