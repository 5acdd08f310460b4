"""Batched, grouped and 8-bit products as torch operators: gradients, shapes for the compiler, refusals."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import snap.lib  # noqa: E402


def whole(*shape: int, seed: int) -> torch.Tensor:
    return torch.randint(-2, 3, shape, generator=torch.Generator().manual_seed(seed)).bfloat16()


def test_batched_gradients():
    a, b, grad = whole(2, 10, 24, seed=1).requires_grad_(), whole(2, 16, 24, seed=2).mT.requires_grad_(), whole(2, 10, 16, seed=3)
    found = snap.lib.gemm_batched(a, b)
    found.backward(grad)
    assert torch.equal(found, a @ b) and torch.equal(a.grad, grad @ b.mT) and torch.equal(b.grad, a.mT @ grad)
    assert b.grad.stride() == b.stride()
    torch.library.opcheck(torch.ops.snap.gemm_batched.default, (a.detach(), b.detach()), test_utils=("test_schema", "test_faketensor"))


@pytest.mark.parametrize("ends", [(5, 5, 90), (0, 0, 0)], ids=str)
def test_grouped_gradients(ends):
    a, b, grad = whole(95, 24, seed=4).requires_grad_(), whole(3, 16, 24, seed=5).mT.requires_grad_(), whole(95, 16, seed=6)
    snap.lib.gemm_grouped(a, b, torch.tensor(ends, dtype=torch.int32)).backward(grad)
    first = 0
    for g, end in enumerate(ends):
        assert torch.equal(a.grad[first:end], grad[first:end] @ b[g].T)
        assert torch.equal(b.grad[g], a[first:end].T @ grad[first:end])
        first = end
    assert not a.grad[first:].any()


def test_8_bit_floats_have_no_gradient():
    a, b = (whole(8, 32, seed=seed).to(torch.float8_e4m3fn) for seed in (7, 8))
    one, two = torch.tensor(1.0), torch.tensor([0.5])
    assert torch.equal(snap.lib.gemm_fp8(a, b.T, one, two, out_dtype="f32"), a.float() @ b.float().T / 2)
    for name in ("bias", "scale_a"):
        given = {"scale_a": one.clone(), "scale_b": two, "bias": torch.ones(8)}
        given[name].requires_grad_()
        with pytest.raises(NotImplementedError, match=f"`{name}`.*wants a derivative"):
            snap.lib.gemm_fp8(a, b.T, **given)
