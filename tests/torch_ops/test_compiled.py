"""torch.compile by inductor: every operator has a lowering of its own, so that compiling takes time in proportion to a model's depth.

An operator without one is printed at its first call, with all that its arguments were computed from, by most versions of torch: 2^n characters."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import snap.torch  # noqa: E402
from snap import *  # noqa: E402

L, DEPTH = snap.lib, 40


@kernel(threads=32)
def doubling(x: ptr(const(float)), y: ptr(float), n: int):
    with each(thread, y) as i:
        if i < n:
            y[i] = 2.0 * x[i]


def test_a_deep_model():
    """Nothing is left to inductor's own fallbacks; each function first appears behind 40 layers, and is called forward and backward."""
    from torch._inductor import config

    double = snap.torch.operator(doubling, "compiledtest::double", blocks=lambda n: (n + 31) // 32, out=lambda x: torch.empty_like(x),
                                 values={"n": lambda x: x.numel()}, backward=lambda grad, x: {"x": 2 * grad})
    weight, targets, other = torch.rand(8), torch.tensor([1, 3, 0, 2]), torch.rand(4, 4)

    def model(x):
        for _ in range(DEPTH):
            x = L.rms_norm(x, weight)
        x = L.softmax(L.layer_norm(L.gelu(double(x)), weight, weight))
        return L.cross_entropy(L.sgemm(L.transpose(L.swiglu(L.dropout(x, 0.5, 3))), other), targets)

    def run(function):
        x = torch.linspace(-1, 1, 32).view(4, 8).requires_grad_()
        loss = function(x)
        loss.backward()
        return loss.detach(), x.grad

    with config.patch(implicit_fallbacks=False):
        found = run(torch.compile(model, fullgraph=True))
    torch.testing.assert_close(found, run(model), rtol=1e-3, atol=1e-4)

    from torch._inductor.lowering import lowerings

    names = {name for name in torch._C._dispatch_get_all_op_names() if name.startswith(("snap::", "compiledtest::"))}
    assert len(names) >= 33 and names == {op.name() for op in lowerings if getattr(op, "namespace", "") in ("snap", "compiledtest")}
