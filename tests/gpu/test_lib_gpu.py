"""The library's kernels on a GPU: every size from 1 to 257, random shapes, all types, arrays that begin anywhere."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from lib.lib_support import TYPES, later, on_items, packed, per_thread, through, values

import snap
from snap.lib import block as of_block
from snap.lib import warp as of_warp

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
RNG = np.random.default_rng(3)
SIZES = range(1, 258)
LARGE = (4095, 4097, 12_289, 100_003, 1_000_000, 5_000_001)


def on_gpu(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(array).to(DEVICE)


def near(got, want, rtol=1e-5, atol=1e-6):
    np.testing.assert_allclose(got.double().cpu().numpy(), np.asarray(want, dtype=np.float64), rtol=rtol, atol=atol)


def shapes(count: int, most: int) -> list[tuple[int, int]]:
    return [tuple(int(side) for side in RNG.integers(1, most, 2)) for _ in range(count)]


@pytest.mark.parametrize("sizes", [SIZES, LARGE], ids=["1 to 257", "large"])
def test_scan_reduce_histogram_of_every_size(sizes):
    for n in sizes:
        x = RNG.integers(-1000, 1000, n).astype(np.int32)
        f = np.abs(RNG.standard_normal(n)).astype(np.float32)
        u = RNG.integers(0, 256, n).astype(np.uint8)
        np.testing.assert_array_equal(snap.lib.scan(on_gpu(x)).cpu(), np.cumsum(x, dtype=np.int32), err_msg=f"n = {n}")
        near(snap.lib.scan(on_gpu(f), exclusive=True), np.concatenate([[0], np.cumsum(f.astype(np.float64))[:-1]]), rtol=1e-4)
        near(snap.lib.reduce(on_gpu(f)), f.astype(np.float64).sum(), rtol=1e-4)
        assert snap.lib.reduce(on_gpu(x), "max").item() == x.max()
        np.testing.assert_array_equal(snap.lib.histogram(on_gpu(u)).cpu(), np.bincount(u, minlength=256))


def test_arrays_that_begin_anywhere():
    for first in range(1, 17):
        u = RNG.integers(0, 256, 70_001).astype(np.uint8)
        np.testing.assert_array_equal(snap.lib.histogram(on_gpu(u)[first:]).cpu(), np.bincount(u[first:], minlength=256))
        x = RNG.integers(-9, 9, 70_001).astype(np.int16)
        np.testing.assert_array_equal(snap.lib.scan(on_gpu(x)[first:]).cpu(), np.cumsum(x[first:], dtype=np.int16))
        assert snap.lib.reduce(on_gpu(x)[first:]).item() == x[first:].sum()


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64],
                         ids=str)
def test_every_type(dtype):
    x = torch.randint(0, 3, (70_001,), device=DEVICE).to(dtype)
    many = torch.randint(0, 3, (5_000_017,), device=DEVICE).to(dtype)  # several tiles a block
    rough = {torch.float16: 2e-3, torch.bfloat16: 1e-2}.get(dtype, 1e-6)
    if dtype.is_floating_point:
        x = x / 64
        near(snap.lib.scan(x), x.double().cumsum(0).cpu(), rtol=rough)
        near(snap.lib.scan(many / 256), (many / 256).double().cumsum(0).cpu(), rtol=rough)
    else:
        for given in (x, many, many[1:]):
            assert torch.equal(snap.lib.scan(given), given.cumsum(0).to(dtype))
    near(snap.lib.reduce(x), x.double().sum().item(), rtol=rough)
    assert torch.equal(snap.lib.transpose(x[:70_000].reshape(350, 200)), x[:70_000].reshape(350, 200).t().contiguous())


def test_scan_of_floats_repeats_and_takes_operators():
    x = torch.randn(20_000_003, device=DEVICE)
    once = snap.lib.scan(x)
    assert all(torch.equal(snap.lib.scan(x), once) for _ in range(5))
    y = torch.randint(1, 100, (3_000_001,), device=DEVICE, dtype=torch.int32) * (torch.rand(3_000_001, device=DEVICE) < 1e-4)
    last = torch.where(y != 0, torch.arange(y.numel(), device=DEVICE), 0).cummax(0).values
    assert torch.equal(snap.lib.scan(y, later, identity=0), y[last])
    assert torch.equal(snap.lib.scan(y, "max", exclusive=True)[1:], y.cummax(0).values[:-1])


def test_transpose_and_softmax_of_every_size():
    for m, n in [*((m, 258 - m) for m in SIZES), *shapes(20, 1500), (3, 100_000), (1, 33_333)]:
        a = RNG.standard_normal((m, n)).astype(np.float32)
        np.testing.assert_array_equal(snap.lib.transpose(on_gpu(a)).cpu(), a.T, err_msg=f"{m} x {n}")
        near(snap.lib.softmax(on_gpu(a)), torch.softmax(torch.from_numpy(a).double(), -1), rtol=1e-4)
        half = on_gpu(a).bfloat16()
        near(snap.lib.softmax(half), torch.softmax(half.double(), -1).cpu(), rtol=1e-2)


def test_gemv_of_every_size():
    for m, n in [*((258 - n, n) for n in SIZES), *shapes(20, 1500), (5001, 257), (3, 100_000), (4300, 1024)]:
        a, x = RNG.standard_normal((m, n)).astype(np.float32), RNG.standard_normal(n).astype(np.float32)
        near(snap.lib.gemv(on_gpu(a), on_gpu(x)), a.astype(np.float64) @ x, rtol=1e-4, atol=1e-4 * n**0.5)


# ---- the device functions: the GPU does what the CPU machine does, bit for bit ------------------------------------------------------------------


def agrees(name, kernel, blocks, arrays, *numbers):
    """`arrays` go to the kernel first, the last of them is the result."""
    on_cpu = [array.copy() for array in arrays]
    kernel[blocks](*on_cpu, *numbers)
    there = [on_gpu(array).view(torch.bfloat16) if name == "bf16" else on_gpu(array) for array in arrays]
    kernel[blocks](*there, *numbers)
    got = there[-1].view(torch.uint16) if name == "bf16" else there[-1]
    np.testing.assert_array_equal(got.cpu().numpy(), on_cpu[-1])


@pytest.mark.parametrize("name", TYPES)
def test_device_functions_of_every_type(name):
    x = packed(name, values(name, 192 * 4, high=2))
    for f in (of_warp.reduce(name), of_warp.reduce(name, "mul"), of_warp.scan(name, "max"), of_warp.scan(name, exclusive=True),
              of_block.reduce(name), of_block.scan(name), of_block.scan(name, exclusive=True)):
        agrees(name, per_thread(name, 96, f), 2, [x[:192], np.zeros_like(x[:192])])
    for f in (of_block.exchange(name, 4), of_block.scan(name, items=4)):
        agrees(name, on_items(name, 96, 4, f), 2, [x, np.zeros_like(x)])
    for how in of_warp.LOADS:
        copy = through(name, 96, 4, of_block.load(name, 4, how), of_block.store(name, 4, how))
        agrees(name, copy, 2, [x[:701], np.zeros_like(x[:701])], 0, 701)


def test_own_operator():
    x = values("i32", 512).astype(np.int32)
    for f in (of_warp.reduce(int, later), of_block.reduce(int, later), of_block.scan(int, later)):
        agrees("i32", per_thread(int, 256, f), 2, [x, np.zeros_like(x)])
