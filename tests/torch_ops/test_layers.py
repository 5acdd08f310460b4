"""The functions of a transformer's layers on tensors: gradients against torch's own, eager and under torch.compile, and refusals."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import torch.nn.functional as F  # noqa: E402

import snap  # noqa: E402
from snap.lib import cross_entropy, dropout, embedding, gelu, layer_norm, rms_norm, rotary, swiglu  # noqa: E402

TOKENS = torch.tensor([[1, 2, 2], [0, 4, 2]])
TARGETS = torch.tensor([1, -100, 3])
COS, SIN = torch.full((3, 4), 0.6), torch.full((3, 4), 0.8)


def drawn(*shape):
    return torch.randn(shape).requires_grad_()


def turned(x):
    a, b = x.chunk(2, -1)
    return torch.cat([a * 0.6 - b * 0.8, b * 0.6 + a * 0.8], -1)


def rms(x, w, r=None):
    s = x if r is None else x + r
    out = F.rms_norm(s, s.shape[-1:], w, 1e-6)
    return out if r is None else (out, s)


ROWS, ROW, TABLE, PLACES = (3, 8), (8,), (5, 8), (3, 8)
CASES = {
    "layer_norm": (lambda x, w, b: layer_norm(x, w, b), lambda x, w, b: F.layer_norm(x, ROW, w, b), (ROWS, ROW, ROW)),
    "layer_norm without bias": (lambda x, w: layer_norm(x, w), lambda x, w: F.layer_norm(x, ROW, w), (ROWS, ROW)),
    "layer_norm with residual": (
        lambda x, w, b, r: layer_norm(x, w, b, residual=r), lambda x, w, b, r: (F.layer_norm(x + r, ROW, w, b), x + r), (ROWS, ROW, ROW, ROWS)),
    "rms_norm": (lambda x, w: rms_norm(x, w), rms, (ROWS, ROW)),
    "rms_norm with residual": (lambda x, w, r: rms_norm(x, w, residual=r), rms, (ROWS, ROW, ROWS)),
    "gelu": (gelu, F.gelu, (ROWS,)),
    "gelu by tanh": (lambda x: gelu(x, approximate="tanh"), lambda x: F.gelu(x, approximate="tanh"), (ROWS,)),
    "swiglu": (swiglu, lambda a, b: F.silu(a) * b, (ROWS, ROWS)),
    "swiglu of halves": (swiglu, lambda x: F.silu(x[:, :4]) * x[:, 4:], (ROWS,)),
    "embedding": (lambda t: embedding(TOKENS, t), lambda t: t[TOKENS], (TABLE,)),
    "embedding with positions": (lambda t, p: embedding(TOKENS, t, positions=p), lambda t, p: t[TOKENS] + p, (TABLE, PLACES)),
    "cross_entropy": (lambda x: cross_entropy(x, TARGETS), lambda x: F.cross_entropy(x, TARGETS), (ROWS,)),
    "cross_entropy of each": (
        lambda x: cross_entropy(x, TARGETS, reduction="none"), lambda x: F.cross_entropy(x, TARGETS, reduction="none"), (ROWS,)),
    "rotary": (lambda x: rotary(x, COS, SIN), turned, ((2, 3, 8),)),
}


def results_and_gradients(function, inputs):
    leaves = [one.detach().clone().requires_grad_() for one in inputs]
    found = function(*leaves)
    results = found if isinstance(found, tuple) else (found,)
    # Gradients that differ from element to element, and from result to result.
    sum((one * (k + 1)).sin().sum() for k, one in enumerate(results)).backward()
    return [one.detach() for one in results], [leaf.grad for leaf in leaves]


def same(ours, theirs, shapes):
    torch.manual_seed(1)
    inputs = [drawn(*shape) for shape in shapes]
    for got, want in zip(results_and_gradients(ours, inputs), results_and_gradients(theirs, inputs)):
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_torchs(name):
    same(*CASES[name])


@pytest.mark.parametrize("name", ["layer_norm with residual", "gelu", "embedding with positions", "cross_entropy", "rotary"])
def test_the_compiler_sees_operators(name):
    ours, theirs, shapes = CASES[name]
    same(torch.compile(ours, fullgraph=True, backend="aot_eager"), theirs, shapes)


def test_results_without_a_use():
    x, w, r = drawn(3, 8), drawn(8), drawn(3, 8)
    layer_norm(x, w, residual=r)[1].sum().backward()
    assert torch.equal(x.grad, torch.ones(3, 8)) and torch.equal(r.grad, x.grad) and w.grad is None
    out, mean, rstd = layer_norm(x, w, statistics=True)
    assert out.requires_grad and not mean.requires_grad and not rstd.requires_grad


def test_tables_of_bf16_have_gradients_of_their_type():
    table = torch.randn(5, 8, dtype=torch.bfloat16).requires_grad_()
    out = embedding(TOKENS, table, dtype="f32")
    assert out.dtype == torch.float32
    out.sum().backward()
    assert table.grad.dtype == torch.bfloat16 and table.grad[2].tolist() == [3.0] * 8


def test_dropout_takes_the_same_elements_back():
    x = drawn(100)
    y = dropout(x, 0.5, 3)
    y.sum().backward()
    assert torch.equal(x.grad * x, y)
    assert torch.equal(dropout(x, 0.5, torch.tensor([3]), torch.tensor([0])), y)
    with pytest.raises(snap.LaunchError, match="both numbers or both tensors"):
        dropout(x, 0.5, torch.tensor([3]), 0)


def test_a_loss_in_place_and_scaled():
    x = torch.randn(3, 8)
    want = F.cross_entropy(leaf := x.clone().requires_grad_(), TARGETS) * 4
    want.backward()
    logits = (weights := x.clone().requires_grad_()) * 1.0  # not a leaf: its memory is nobody else's
    loss = cross_entropy(logits, TARGETS, in_place=True)
    (loss * 4).backward(retain_graph=True)
    torch.testing.assert_close(weights.grad, leaf.grad)
    with pytest.raises(RuntimeError, match="has had its backward"):
        loss.backward()


def test_what_has_no_derivative_is_refused():
    x, w = drawn(3, 8), drawn(8)
    with pytest.raises(NotImplementedError, match="gradients of gradients"):
        torch.autograd.grad(gelu(x).sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="torch.func"):
        torch.func.grad(lambda v: gelu(v).sum())(x.detach())
    with pytest.raises(NotImplementedError, match="forward derivative"):
        torch.func.jvp(gelu, (x.detach(),), (x.detach(),))
    with pytest.raises(NotImplementedError, match="`cos`"):
        rotary(drawn(2, 3, 8), COS.clone().requires_grad_(), SIN)
    with pytest.raises(NotImplementedError, match="`x`.*would be lost"):
        snap.lib.column_sums(x)
    with pytest.raises(NotImplementedError, match="`parameters`.*would be lost"):
        snap.lib.adamw(w, w.detach(), w.detach(), w.detach(), 1)
    with pytest.raises(snap.LaunchError, match="`gradient`"):
        cross_entropy(x, TARGETS, gradient=True)
    with pytest.raises(snap.LaunchError, match="`weight`"):
        layer_norm(x, drawn(7))
