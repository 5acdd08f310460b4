"""`snap.lib.gemm_batched` and `gemm_grouped` on the CPU machine: layouts, tails, groups of any size, schedules, refusals."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from snap._compiler.ir.types import BF16, F16, F32
from snap.host.errors import LaunchError
from snap.lib import gemm_batched, gemm_grouped
from snap.lib._gemm.body import Work
from snap.lib._gemm.choice import EVEN, Plan, Product
from snap.lib._gemm.kernels import gemm_kernel
from snap.lib._gemm.many import planned
from snap.lib._gemm.ragged import grouped_gradients
from snap.lib._gemm.ragged_kernel import ragged_kernel

module = importlib.import_module("snap.lib._gemm.many")


def matrices(*shape: int, seed: int = 0, turned: bool = False) -> np.ndarray:
    """Small whole numbers, whose sums of products f16 holds exactly."""
    shape = (*shape[:-2], shape[-1], shape[-2]) if turned else shape
    drawn = np.random.default_rng(seed).integers(-2, 3, shape).astype(np.float16)
    return drawn.swapaxes(-1, -2) if turned else drawn


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_batches_in_every_layout(layout):
    for z, m, n, k in ((3, 72, 40, 136), (2, 5, 7, 3), (1, 9, 8, 0)):
        a, b = matrices(z, m, k, seed=1, turned=layout[0] == "t"), matrices(z, k, n, seed=2, turned=layout[1] == "t")
        np.testing.assert_array_equal(gemm_batched(a, b), a.astype(float) @ b.astype(float))


def test_batches_divided_among_blocks(monkeypatch):
    """The first tile of the second matrix, too."""
    monkeypatch.setattr(module, "planned", lambda *shape: Plan(0, 64, 64, 3, divided=3, share=7))
    a, b = matrices(2, 72, 400, seed=3), matrices(2, 400, 64, seed=4)
    np.testing.assert_array_equal(gemm_batched(a, b, out=np.zeros((2, 72, 64), np.float32)), a.astype(float) @ b.astype(float))


def test_batches_of_any_strides():
    a, b = matrices(4, 40, 24, seed=5), matrices(4, 24, 16, seed=6)
    heads = np.ascontiguousarray(a.swapaxes(0, 1)).swapaxes(0, 1)
    wide = np.zeros((4, 24, 50), np.float16)
    wide[..., 3:19] = b
    for left, right in ((heads, b), (a, wide[..., 3:19]), (a[::-1], b[::-1])):
        np.testing.assert_array_equal(gemm_batched(left, right), left.astype(float) @ right.astype(float))
    out = np.zeros((4, 16, 40), np.float16).swapaxes(1, 2)
    assert gemm_batched(a, b, out=out) is out
    np.testing.assert_array_equal(out, a.astype(float) @ b.astype(float))


def by_groups(a: np.ndarray, b: np.ndarray, ends: list[int], beside: float) -> np.ndarray:
    out, start = np.full((a.shape[0], b.shape[2]), beside), 0
    for g, end in enumerate(min(end, a.shape[0]) for end in ends):
        if end > start:
            out[start:end] = a[start:end].astype(float) @ b[g].astype(float)
            start = end
    return out


# Sizes of all kinds; none; one row; rows behind the last; ends that fall, and beyond the last row.
@pytest.mark.parametrize("ends, rows", [((50, 50, 180, 200), 200), ((0, 0, 7), 7), ((129, 130, 257), 270), ((64, 128), 128), ((30, -(2**31), 60), 64),
                                        ((30, 10, 500), 40), ((-3, 7, 5, 20), 20), ((0, 0), 9)], ids=str)
@pytest.mark.parametrize("turned, n", [(False, 40), (True, 5)])
def test_groups(ends, rows, turned, n):
    a, b = matrices(rows, 72, seed=7), matrices(len(ends), 72, n, seed=8, turned=turned)
    out = np.full((rows, n), 9, np.float16)
    assert gemm_grouped(a, b, np.array(ends, np.int32), out=out) is out
    np.testing.assert_array_equal(out, by_groups(a, b, ends, 9))


@pytest.mark.parametrize("type, tile", [(F16, (64, 64)), (F32, (128, 96)), (BF16, (128, 256))], ids=str)
def test_groups_in_tiles_of_every_kind(tile, type, monkeypatch):
    monkeypatch.setattr(module, "planned", lambda *shape: Plan(0, *tile, 2))
    a, b, ends = matrices(200, 40, seed=9), matrices(2, 40, 264, seed=10), [70, 200]
    expected = by_groups(a, b, ends, 0)
    if type == BF16:
        a, b = ((x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16) for x in (a, b))
    found = gemm_grouped(a, b, np.array(ends, np.int32), out=np.zeros((200, 264), np.float32) if type == F32 else None)
    np.testing.assert_array_equal((found.astype(np.uint32) << 16).view(np.float32) if type == BF16 else found, expected)


def test_ends_may_change_between_calls_of_one_signature():
    a, b, ends = matrices(40, 24, seed=11), matrices(2, 24, 16, seed=12), np.array([10, 40], np.int32)
    for cut in (10, 33, 0):
        ends[0] = cut
        np.testing.assert_array_equal(gemm_grouped(a, b, ends), by_groups(a, b, [cut, 40], 0))


def test_a_schedule_at_random_finds_no_race():
    nothing = np.zeros(1, np.float32), np.zeros(1, np.int32)
    a, b, ends = matrices(200, 72, seed=13), matrices(3, 72, 72, seed=14), np.array([70, 75, 200], np.int32)
    C, run = np.zeros((200, 72), np.float16), gemm_kernel(F16, F16, False, False, 64, 64, 2, work=Work.GROUPS)
    arguments = (a, b, C, a, 200, 72, 72, 72, 72, 200, 72, 72, *nothing, 0, 1, 1, a, a, ends, 3)
    assert not run.races(*arguments, blocks=2, seeds=1)
    run.launch(*arguments, blocks=2, seed=3)
    np.testing.assert_array_equal(C, by_groups(a, b, ends.tolist(), 0))
    a, C, run = matrices(3, 72, 72, seed=15), np.zeros((3, 72, 72), np.float16), gemm_kernel(F16, F16, True, False, 64, 64, 2, work=Work.BATCH)
    arguments = (a, b, C, a, 72, 72, 72, 72, 72, 72, 72, 72, *nothing, 0, 1, 1, a, a, a, 3)
    assert not run.races(*arguments, blocks=2, seeds=1)
    run.launch(*arguments, blocks=2, seed=3)
    np.testing.assert_array_equal(C, a.swapaxes(1, 2).astype(float) @ b.astype(float))


def products_of_groups(a, b, ends):
    """Of each group its rows of a, turned round, times its rows of b."""
    first, found = 0, np.zeros((len(ends), a.shape[1], b.shape[1]))
    for g, end in enumerate(min(end, len(a)) for end in ends):
        if end > first:
            found[g] = a[first:end].astype(float).T @ b[first:end].astype(float)
            first = end
    return found


@pytest.mark.parametrize(("tile", "ends"), [((64, 64), (5, 5, 80, 200, 190)), ((128, 96), (64, 128, 147))], ids=str)
def test_groups_along_k_begin_at_any_row(tile, ends):
    """Of a box that has rows of no group as well, those count for nothing, even where they are no numbers."""
    a, b, limits = matrices(206, 136, seed=19), matrices(206, 104, seed=20), np.array(ends, np.int32)
    a[max(ends) :], b[max(ends) :] = np.inf, np.nan
    C, run = np.zeros((len(ends), 136, 104), np.float16), ragged_kernel(F16, *tile, 2)
    run.launch(a, b, C, limits, len(ends), 136, 104, 206, 136, 104, 104, blocks=3, seed=3)
    np.testing.assert_array_equal(C, products_of_groups(a, b, ends))


@pytest.mark.parametrize("ends", [(50, 50, 130), (0, 0, 7), (64, 128, 128), (30, 10, 500), (30, -(2**31), 60)], ids=str)
def test_gradients_of_groups(ends):
    """Rows of no group, and matrices without rows, have the gradient zero."""
    a, b, grad = matrices(140, 24, seed=16), matrices(3, 24, 40, seed=17), matrices(140, 40, seed=18)
    of_a, of_b = grouped_gradients(grad, a, b, np.array(ends, np.int32), True, True)
    first, rows = 0, np.zeros((140, 24))
    for g, end in enumerate(min(end, 140) for end in ends):
        if end > first:
            rows[first:end] = grad[first:end].astype(float) @ b[g].astype(float).T
            first = end
    np.testing.assert_array_equal(of_a, rows)
    np.testing.assert_array_equal(of_b, products_of_groups(a, grad, ends))


def test_kernels_compile_for_hopper_without_spills():
    for kernel in (gemm_kernel(BF16, BF16, False, True, work=Work.GROUPS), ragged_kernel(BF16)):
        used = kernel.resources("sm_90a")
        assert used.spill_stores == used.spill_loads == 0 and not used.serialized


def test_plans():
    assert (planned(Product(2048, 2048, 2048, 132, EVEN, EVEN, False, 16)).height, planned(Product(2048, 2048, 2048, 132, EVEN, EVEN, False, 16)).width) == (128, 256)
    assert planned(Product(8192, 1536, 2048, 132, EVEN, EVEN, True, 128), grouped=True).height == 64  # 64 rows of each
    assert planned(Product(8192, 1536, 2048, 132, EVEN, EVEN, True, 128), grouped=True).blocks == 132


def test_what_does_not_fit_is_refused_by_name():
    a, b, ends = matrices(2, 8, 16), matrices(2, 16, 8), np.array([3, 8], np.int32)
    for name, arguments, words in [
        ("a", {"a": np.zeros((2, 8, 16))}, "float64"),
        ("a", {"a": a[0]}, "dimensions"),
        ("b", {"b": b[:1]}, "1 matrices"),
        ("b", {"b": np.zeros((2, 9, 8), np.float16)}, "9 rows"),
        ("b", {"b": np.zeros((2, 16, 8), np.uint16)}, "bf16"),
        ("out", {"out": np.zeros((2, 8, 9), np.float16)}, "shape"),
    ]:
        with pytest.raises(LaunchError, match=words) as refusal:
            gemm_batched(**{"a": a, "b": b, **arguments})
        assert f"`{name}`" in str(refusal.value), str(refusal.value)
    for name, arguments, words in [
        ("a", {"a": a}, "dimensions"),
        ("b", {"b": b[0]}, "dimensions"),
        ("ends", {"ends": np.array([3, 8])}, "int64"),
        ("ends", {"ends": np.array([8], np.int32)}, "2 matrices"),
        ("ends", {"ends": [3, 8]}, "list"),
        ("out", {"out": np.zeros((8, 9), np.float16)}, "shape"),
    ]:
        with pytest.raises(LaunchError, match=words) as refusal:
            gemm_grouped(**{"a": a[0], "b": b, "ends": ends, **arguments})
        assert f"`{name}`" in str(refusal.value), str(refusal.value)
