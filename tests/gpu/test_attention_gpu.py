"""snap.lib.attention on a GPU, against torch's in f64: masks, lengths, strides; queries, keys and values computed side by side; a CUDA graph."""

from __future__ import annotations

import pytest
import torch

from snap.lib import attention, attention_gradient

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def random(*shape, dtype=torch.bfloat16):
    return torch.randn(shape, device="cuda").to(dtype)


def expected(q, k, v, causal=False, window=None, scale=None):
    q, k, v = (x.double() for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    scores = q @ k.transpose(2, 3) * (q.shape[3] ** -0.5 if scale is None else scale)
    queries, keys = scores.shape[2:]
    own = torch.arange(queries, device="cuda")[:, None] + keys - queries
    key = torch.arange(keys, device="cuda")[None]
    hidden = torch.zeros((queries, keys), dtype=torch.bool, device="cuda")
    if causal:
        hidden |= key > own
    if window is not None:
        hidden |= key < own - window
        hidden |= (key > own + window) & (not causal)
    scores = scores.masked_fill(hidden, -torch.inf)
    return torch.nan_to_num(torch.softmax(scores, -1)) @ v, torch.logsumexp(scores, -1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("size", [64, 128, 80, 256])
def test_masks_and_lengths(size, dtype):
    for queries, keys, options in (
        (128, 128, {}),
        (1000, 1000, {"causal": True}),
        (1, 777, {"causal": True}),
        (300, 130, {"causal": True}),
        (513, 2049, {"causal": True, "window": 300}),
        (700, 700, {"window": 33}),
        (64, 64, {"scale": 0.3}),
    ):
        q, k, v = random(2, 4, queries, size, dtype=dtype), random(2, 2, keys, size, dtype=dtype), random(2, 2, keys, size, dtype=dtype)
        got, logs = attention(q, k, v, lse=True, **options)
        want, want_logs = expected(q, k, v, **options)
        assert torch.allclose(got.double(), want, atol=0.02 if dtype == torch.bfloat16 else 4e-3), (queries, keys, options, (got.double() - want).abs().max())
        assert torch.allclose(logs.double(), want_logs, atol=1e-3), (queries, keys, options)


def test_side_by_side():
    """The columns of one GEMM's result, as GPT-2 has them; repeated with the three in another order."""
    qkv = random(2, 500, 3, 4, 64)
    q, k, v = (qkv[:, :, i].transpose(1, 2) for i in range(3))
    for _ in range(2):
        for a, b, c in ((q, k, v), (k, v, q), (v, q, k)):
            assert torch.allclose(attention(a, b, c, causal=True).double(), expected(a, b, c, causal=True)[0], atol=0.02)


def test_in_a_graph():
    q, k, v = (random(1, 2, 256, 64) for _ in range(3))
    attention(q, k, v, causal=True)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = attention(q, k, v, causal=True)
    for _ in range(2):
        q.normal_()
        graph.replay()
        assert torch.allclose(out.double(), expected(q, k, v, causal=True)[0], atol=0.02)


def test_gradients_by_autograd():
    """Under torch.compile, too, which takes the operator as one step; a result to write to has no gradient."""
    q, k, v = (random(1, 2, 300, 64).requires_grad_() for _ in range(3))
    program = lambda q, k, v: attention(q, k, v, causal=True).float().pow(2).sum()  # noqa: E731
    want = torch.autograd.grad(expected(q, k, v, causal=True)[0].pow(2).sum(), (q, k, v))
    for run in (program, torch.compile(program, fullgraph=True)):
        for a, b in zip(torch.autograd.grad(run(q, k, v), (q, k, v)), want):
            assert torch.allclose(a.double(), b.double(), atol=0.03 * b.abs().max().item())
    with pytest.raises(NotImplementedError, match="would be lost"):
        attention(q, k, v, out=torch.empty_like(q))


def test_large():
    q, k, v = (random(1, 2, 16384, 128) for _ in range(3))
    got = attention(q, k, v, causal=True)
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert torch.allclose(got.float(), want.float(), atol=0.02)


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("size", [64, 128, 40, 192, 256])
def test_gradients(size, deterministic):
    for queries, keys, options in ((500, 500, {"causal": True}), (200, 900, {}), (700, 700, {"causal": True, "window": 100}), (300, 130, {"causal": True})):
        q, k, v = random(2, 4, queries, size), random(2, 2, keys, size), random(2, 2, keys, size)
        grad = random(2, 4, queries, size)
        out, logs = attention(q, k, v, lse=True, **options)
        got = attention_gradient(grad, q, k, v, out, logs, **options, deterministic=deterministic)
        wide = [x.double().requires_grad_() for x in (q, k, v)]
        want = torch.autograd.grad(expected(*wide, **options)[0], wide, grad.double())
        for name, a, b in zip("qkv", got, want):
            off = (a.double() - torch.nan_to_num(b)).abs().max().item()
            assert off <= 0.02 * max(1.0, b.nan_to_num().abs().max().item()), (name, off, queries, keys, options)
        again = attention_gradient(grad, q, k, v, out, logs, **options, deterministic=deterministic)
        for a, b in list(zip(got, again))[0 if deterministic else 1 :]:
            assert torch.equal(a, b)


def test_gradients_side_by_side():
    """Read and written in the rows of one GEMM, and nothing is copied: the columns of a buffer that are not theirs stay as they are."""
    qkv, into = random(2, 500, 3, 4, 64), torch.full((2, 500, 4, 4, 64), 7.0, device="cuda", dtype=torch.bfloat16)
    q, k, v = (qkv[:, :, i].transpose(1, 2) for i in range(3))
    out, logs = attention(q, k, v, causal=True, lse=True)
    grad = random(2, 500, 4, 64).transpose(1, 2)
    want = attention_gradient(*(x.contiguous() for x in (grad, q, k, v, out)), logs, causal=True, deterministic=True)
    for deterministic in (False, True):
        got = attention_gradient(grad, q, k, v, out, logs, causal=True, deterministic=deterministic, into=tuple(into[:, :, i].transpose(1, 2) for i in range(3)))
        for i, (a, b) in enumerate(zip(got, want)):
            assert torch.allclose(a.float(), b.float(), atol=0.02), (i, deterministic, (a.float() - b.float()).abs().max())
            assert torch.equal(into[:, :, i].transpose(1, 2), a)
        assert (into[:, :, 3] == 7.0).all()
    assert out.stride() == (500 * 256, 64, 256, 1)


def test_a_gradient_of_the_logarithms():
    q, k, v = random(1, 2, 200, 64), random(1, 2, 200, 64), random(1, 2, 200, 64)
    out, logs = attention(q, k, v, lse=True)
    wide = [x.double().requires_grad_() for x in (q, k, v)]
    (expected(*wide)[1] * torch.arange(200, device="cuda")).sum().backward()
    slopes = torch.arange(200, device="cuda", dtype=torch.float32).expand(1, 2, 200).contiguous()
    got = attention_gradient(torch.zeros_like(q), q, k, v, out, logs, grad_lse=slopes)
    for a, b in zip(got[:2], wide):
        assert torch.allclose(a.double(), b.grad, atol=0.02 * b.grad.abs().max().item())
    assert (got[2] == 0).all()
