"""Products of 8-bit floats, batched and grouped products on a Hopper GPU, against float64."""

from __future__ import annotations

import itertools

import pytest
import torch

import snap

pytestmark = pytest.mark.skipif(torch.cuda.get_device_capability() != (9, 0), reason="wgmma is Hopper's (sm_90a)")

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


def near(found: torch.Tensor, exact: torch.Tensor, part: float) -> None:
    assert found.shape == exact.shape
    error = (found.double() - exact).abs().max() / exact.abs().max().clamp(min=1e-30)
    assert error <= part, error


def drawn(*shape: int, seed: int, dtype=torch.bfloat16, turned: bool = False) -> torch.Tensor:
    random = torch.Generator(device="cuda").manual_seed(seed)
    shape = (*shape[:-2], shape[-1], shape[-2]) if turned else shape
    made = torch.randn(shape, device="cuda", generator=random).to(dtype)
    return made.mT if turned else made


def exactly(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a.to(torch.float32).double() @ b.to(torch.float32).double()


@pytest.mark.parametrize("types", list(itertools.product((E4M3, E5M2), repeat=2)), ids=str)
@pytest.mark.parametrize("fast", [False, True])
def test_fp8_of_every_type(types, fast):
    """Sums of 13 bits behind the point, of which some are cut off at every step of 32."""
    for m, n, k in ((256, 512, 1024), (300, 200, 96), (1, 1, 1), (130, 72, 4097)):
        a, b = drawn(m, k, seed=1, dtype=types[0]), drawn(k, n, seed=2, dtype=types[1], turned=True)
        near(snap.lib.gemm_fp8(a, b, out_dtype="f32", fast=fast), exactly(a, b), 8e-3 if fast else 1e-3)
        near(snap.lib.gemm_fp8(a.mT.contiguous().mT, b.contiguous(), fast=fast), exactly(a, b), 12e-3 if fast else 5e-3)


def test_fp8_as_torch_has_it():
    a, b = drawn(512, 2048, seed=3, dtype=E4M3), drawn(2048, 384, seed=4, dtype=E4M3, turned=True)
    random = torch.Generator(device="cuda").manual_seed(5)
    rows, columns = (torch.rand(shape, device="cuda", generator=random) + 0.5 for shape in ((512, 1), (1, 384)))
    one, two = torch.full((), 0.5, device="cuda"), torch.full((1,), 3.0, device="cuda")
    for scales in ((one, two), (rows, columns)):
        theirs = torch._scaled_mm(a, b, *scales, out_dtype=torch.bfloat16, use_fast_accum=True)
        near(snap.lib.gemm_fp8(a, b, *scales, fast=True), theirs.double(), 2**-7)
    near(snap.lib.gemm_fp8(a, b, one, one), exactly(a, b) / 4, 2**-8)  # one tensor twice
    bias = torch.randn(384, device="cuda", generator=random)
    found = snap.lib.gemm_fp8(a, b, rows, columns, bias=bias, activation="relu", out_dtype="f16")
    near(found, torch.relu(exactly(a, b) * rows.double() * columns.double() + bias.double()), 2e-3)


def test_long_sums_keep_their_digits():
    a, b = (torch.rand(256, 8192, device="cuda", generator=torch.Generator(device="cuda").manual_seed(seed)).to(E4M3) for seed in (6, 7))
    near(snap.lib.gemm_fp8(a, b.mT, out_dtype="f32"), exactly(a, b.mT), 1e-3)


@pytest.mark.parametrize("layout", list(itertools.product("nt", "nt")), ids="".join)
def test_batches(layout):
    for z, m, n, k in ((3, 200, 136, 72), (5, 64, 64, 64), (2, 33, 7, 5), (40, 520, 264, 200)):
        a, b = (drawn(z, *sides, seed=seed, turned=one == "t") for seed, sides, one in ((8, (m, k), layout[0]), (9, (k, n), layout[1])))
        near(snap.lib.gemm_batched(a, b), exactly(a, b), 2**-8)


def grouped(a: torch.Tensor, b: torch.Tensor, ends: list[int]) -> torch.Tensor:
    first, parts = 0, []
    for matrix, end in zip(b, ends):
        parts.append(a[first:end] @ matrix)
        first = end
    return torch.cat(parts)


@pytest.mark.parametrize("turned", [False, True])
def test_groups(turned):
    for ends, n, k in (([50, 50, 180, 200], 72, 136), ([0, 0, 7], 64, 64), ([129, 130, 900], 520, 264), ([1, 2, 3, 100], 5, 3), (list(range(0, 4096, 64)), 256, 128)):
        a, b = drawn(ends[-1] + 3, k, seed=10), drawn(len(ends), k, n, seed=11, turned=turned)
        out = torch.full((ends[-1] + 3, n), 7.0, device="cuda").bfloat16()
        snap.lib.gemm_grouped(a, b, torch.tensor(ends, dtype=torch.int32, device="cuda"), out=out)
        near(out[: ends[-1]], grouped(a.double(), b.double(), ends), 2**-8)
        assert (out[ends[-1]:] == 7).all()


def test_gradients():
    ends = [5, 5, 90, 640]
    a, b, grad = drawn(640, 72, seed=12).requires_grad_(), drawn(4, 72, 136, seed=13, turned=True).requires_grad_(), drawn(640, 136, seed=14)
    snap.lib.gemm_grouped(a, b, torch.tensor(ends, dtype=torch.int32, device="cuda")).backward(grad)
    x, y = (each.detach().double().requires_grad_() for each in (a, b))
    grouped(x, y, ends).backward(grad.double())
    near(a.grad, x.grad, 2**-8)
    near(b.grad, y.grad, 2**-8)
    a, b, grad = drawn(3, 72, 40, seed=15).requires_grad_(), drawn(3, 40, 136, seed=16).requires_grad_(), drawn(3, 72, 136, seed=17)
    snap.lib.gemm_batched(a, b).backward(grad)
    near(a.grad, exactly(grad, b.detach().mT), 2**-8)
    near(b.grad, exactly(a.detach().mT, grad), 2**-8)


def test_a_captured_call_takes_the_ends_of_its_replay():
    a, b, ends = drawn(300, 64, seed=18), drawn(2, 64, 64, seed=19), torch.tensor([100, 300], dtype=torch.int32, device="cuda")
    snap.lib.gemm_grouped(a, b, ends)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = snap.lib.gemm_grouped(a, b, ends)
    for cut in (100, 17, 300):
        ends[0] = cut
        graph.replay()
        near(found, grouped(a.double(), b.double(), [cut, 300]), 2**-8)
