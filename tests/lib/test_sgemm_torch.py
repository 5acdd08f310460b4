"""`sgemm` and `gemm_tf32` as operators of torch: gradients, and torch's own checks of an operator."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import snap  # noqa: E402


def whole(*shape: int):
    return torch.randint(-3, 4, shape, generator=torch.Generator().manual_seed(sum(shape))).float()


@pytest.mark.parametrize("name", ["sgemm", "gemm_tf32"])
def test_gradients(name):
    ours, theirs = ([x.clone().requires_grad_() for x in (whole(33, 20), whole(20, 17))] for _ in range(2))
    found, expected = getattr(snap.lib, name)(*ours), theirs[0] @ theirs[1]
    given = whole(33, 17)
    found.backward(given)
    expected.backward(given)
    assert torch.equal(found, expected)
    assert all(torch.equal(one.grad, other.grad) for one, other in zip(ours, theirs))


def test_torch_checks_them():
    torch.library.opcheck(torch.ops.snap.sgemm.default, (whole(9, 20), whole(20, 12), 2.0))
    torch.library.opcheck(torch.ops.snap.gemm_tf32.default, (whole(9, 20), whole(20, 12)))
