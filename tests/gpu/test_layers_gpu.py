"""The functions of a transformer's layers on a GPU, against torch in float64: sizes of words, odd ones, arrays that begin anywhere."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

import snap

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
NEAR = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def drawn(dtype, *shape, first=0):
    return torch.randn(first + math.prod(shape), device=DEVICE).to(dtype)[first:].reshape(shape)


def near(got, want, times=1.0):
    tolerance = NEAR[got.dtype] * times
    torch.testing.assert_close(got.double(), want.double(), rtol=tolerance, atol=tolerance)


@pytest.fixture(autouse=True)
def same_numbers():
    torch.manual_seed(5)


@pytest.mark.parametrize("rows, length, first", [(4097, 768, 0), (700, 8192, 0), (33, 1001, 1), (5, 50_257, 0), (129, 40, 0)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_norms(dtype, rows, length, first):
    x, r, g, a = (drawn(dtype, rows, length, first=first) for _ in range(4))
    w, b = drawn(torch.float32, length), drawn(torch.float32, length)
    out, s, mean, rstd = snap.lib.layer_norm(x, w, b, residual=r, statistics=True)
    assert torch.equal(s, x + r)
    leaves = [t.double().requires_grad_() for t in (s, w, b)]
    want = F.layer_norm(leaves[0], (length,), *leaves[1:])
    near(out, want)
    dx, dw, db = snap.lib.layer_norm_gradient(g, s, w, mean, rstd, grad_residual=a)
    of_s, of_w, of_b = torch.autograd.grad(want, leaves, g.double())
    near(dx, of_s + a.double(), 2)
    torch.testing.assert_close(dw.double(), of_w, rtol=1e-4, atol=1e-3 * rows**0.5)
    torch.testing.assert_close(db.double(), of_b, rtol=1e-4, atol=1e-3 * rows**0.5)
    again = snap.lib.layer_norm_gradient(g, s, w, mean, rstd, grad_residual=a, sums=True)
    assert all(torch.equal(one, other) for one, other in zip((dx, dw, db), again))
    rounded = 2e-2 if dtype == torch.bfloat16 else 1e-3  # of rows that no block holds, dx is added up as it was written
    torch.testing.assert_close(again[3].double(), (of_s + a.double()).sum(0), rtol=1e-3, atol=rounded * rows**0.5)
    out, rstd = snap.lib.rms_norm(x, w, statistics=True, eps=1e-5)
    leaves = [t.double().requires_grad_() for t in (x, w)]
    want = F.rms_norm(leaves[0], (length,), leaves[1], eps=1e-5)
    near(out, want)
    dx, dw = snap.lib.rms_norm_gradient(g, x, w, rstd)
    of_x, of_w = torch.autograd.grad(want, leaves, g.double())
    near(dx, of_x, 2)
    torch.testing.assert_close(dw.double(), of_w, rtol=1e-4, atol=1e-3 * rows**0.5)


@pytest.mark.parametrize("size, first", [(1_000_003, 0), (65_536, 0), (4_099, 1)])
def test_activations(size, first):
    for dtype in (torch.bfloat16, torch.float32):
        x, g, u = (drawn(dtype, size, first=first) for _ in range(3))
        for way in ("none", "tanh"):
            leaf = x.double().requires_grad_()
            want = F.gelu(leaf, approximate=way)
            near(snap.lib.gelu(x, approximate=way), want)
            near(snap.lib.gelu_gradient(g, x, approximate=way), torch.autograd.grad(want, leaf, g.double())[0], 2)
        gate, up = x.double().requires_grad_(), u.double().requires_grad_()
        want = F.silu(gate) * up
        near(snap.lib.swiglu(x, u), want, 2)
        for got, exact in zip(snap.lib.swiglu_gradient(g, x, u), torch.autograd.grad(want, (gate, up), g.double())):
            near(got, exact, 2)
        x, g = (drawn(dtype, 5000 + first, 3 * 257, first=first) for _ in range(2))
        dx, sums = snap.lib.gelu_gradient(g, x, approximate="tanh", sums=True)
        leaf = x.double().requires_grad_()
        (want,) = torch.autograd.grad(F.gelu(leaf, approximate="tanh"), leaf, g.double())
        near(dx, want, 2)
        torch.testing.assert_close(sums.double(), want.sum(0), rtol=1e-4, atol=1e-2)
    both = drawn(torch.bfloat16, 77, 512)
    near(snap.lib.swiglu(both), F.silu(both[:, :256].double()) * both[:, 256:].double(), 2)


@pytest.mark.parametrize("rows, length, shape", [(50_304, 768, (4, 1024)), (97, 128, (3, 5000)), (1000, 37, (11, 13))])
def test_embedding(rows, length, shape):
    tokens = (rows ** torch.rand(shape, device=DEVICE)).long().clamp(0, rows - 1)  # a few rows often
    for dtype in (torch.bfloat16, torch.float32):
        table, places, g = drawn(dtype, rows, length), drawn(dtype, shape[-1], length), drawn(dtype, *shape, length)
        assert torch.equal(snap.lib.embedding(tokens, table), table[tokens])
        want = table[tokens].double() + places.double()
        near(snap.lib.embedding(tokens.int(), table, positions=places), want)
        exact = torch.zeros(rows, length, device=DEVICE, dtype=torch.float64).index_add_(0, tokens.reshape(-1), g.double().reshape(-1, length))
        dtable, dplaces = snap.lib.embedding_gradient(g, tokens, rows, positions=shape[-1], dtype="f32")
        torch.testing.assert_close(dtable.double(), exact, rtol=1e-4, atol=1e-3)
        torch.testing.assert_close(dplaces.double(), g.double().sum(0), rtol=1e-4, atol=1e-3)
        assert torch.equal(snap.lib.embedding_gradient(g, tokens, rows, dtype="f32"), dtable)
        near(snap.lib.embedding_gradient(g, tokens, rows), exact, 50 if dtype == torch.float32 else 1)  # thousands of summands, in f32
        near(snap.lib.embedding_gradient(g, tokens, rows, deterministic=False), exact, 50 if dtype == torch.float32 else 1)


@pytest.mark.parametrize("rows, classes", [(300, 50_304), (1100, 50_257), (1000, 1000), (7, 200_000)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_cross_entropy(dtype, rows, classes):
    x = drawn(dtype, rows, classes)
    targets = torch.randint(0, classes, (rows,), device=DEVICE)
    targets[::5] = -100
    leaf = x.double().requires_grad_()
    want = F.cross_entropy(leaf, targets)
    (exact,) = torch.autograd.grad(want, leaf)
    loss, gradient = snap.lib.cross_entropy(x, targets, gradient=True)
    torch.testing.assert_close(loss.double(), want.detach(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(gradient.double(), exact, rtol=1e-2, atol=1e-6)
    there = x.clone()
    assert snap.lib.cross_entropy(there, targets.int(), gradient=True, in_place=True)[1] is there
    assert torch.equal(there, gradient)
    each = snap.lib.cross_entropy(x, targets, reduction="none")
    torch.testing.assert_close(each.double(), F.cross_entropy(x.double(), targets, reduction="none"), rtol=1e-5, atol=1e-5)


def test_dropout_repeats_and_keeps_its_share():
    state = torch.tensor([9], device=DEVICE)
    x = torch.ones(1_000_001, device=DEVICE, dtype=torch.bfloat16)
    kept = snap.lib.dropout(x, 0.25, 9, 9)
    assert abs((kept == 0).double().mean().item() - 0.25) < 3e-3
    assert torch.equal(snap.lib.dropout(x, 0.25, state, state), kept)
    assert torch.equal(snap.lib.dropout(x[1:], 0.25, 9, 9), kept[:-1])  # by single elements
    assert torch.equal(snap.lib.dropout_gradient(x, 0.25, 9, 9), kept)
    assert not torch.equal(snap.lib.dropout(x, 0.25, 10, 9), kept)


def test_rotary_of_heads_in_strides():
    for dtype in (torch.bfloat16, torch.float32):
        angles = torch.randn(257, 32, device=DEVICE)
        c, s = angles.cos(), angles.sin()
        for interleaved, heads in ((False, 5), (True, 5), (False, 12), (True, 12)):
            x = drawn(dtype, 3, 257, heads, 64).transpose(1, 2)
            a, b = (x[..., ::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
            left, right = (t.double() for t in (a * c.double() - b * s.double(), b * c.double() + a * s.double()))
            want = torch.stack([left, right], -1).flatten(-2) if interleaved else torch.cat([left, right], -1)
            out = snap.lib.rotary(x, c, s, interleaved=interleaved)
            near(out, want)
            near(snap.lib.rotary_gradient(out, c, s, interleaved=interleaved), x, 2)


def test_adamw_is_torchs():
    size = 1_000_003
    p, m, v = drawn(torch.float32, size), *(torch.zeros(size, device=DEVICE) for _ in range(2))
    theirs = torch.nn.Parameter(p.clone())
    optimizer = torch.optim.AdamW([theirs], lr=1e-2, betas=(0.9, 0.95), weight_decay=0.1)
    copy = torch.empty(size, device=DEVICE, dtype=torch.bfloat16)
    for step in range(1, 5):
        g = drawn(torch.float32, size)
        norm, factor = snap.lib.global_norm(g, clip=1.0)
        torch.testing.assert_close(norm, g.norm(), rtol=1e-4, atol=0)
        theirs.grad = g.clone()
        torch.nn.utils.clip_grad_norm_([theirs], 1.0)
        optimizer.step()
        where = torch.tensor([step], device=DEVICE) if step % 2 else step
        rate = torch.tensor([1e-2], device=DEVICE) if step % 2 else 1e-2
        snap.lib.adamw(p, g, m, v, where, lr=rate, betas=(0.9, 0.95), weight_decay=0.1, scale=factor, copy=copy)
    torch.testing.assert_close(p, theirs.detach(), rtol=1e-4, atol=1e-5)
    assert torch.equal(copy, p.bfloat16())
    near(snap.lib.column_sums(drawn(torch.bfloat16, 0, 8)), torch.zeros(8, device=DEVICE))
    x = drawn(torch.bfloat16, 5001, 300)
    torch.testing.assert_close(snap.lib.column_sums(x, dtype="f32").double(), x.double().sum(0), rtol=1e-4, atol=1e-3)


def test_a_training_step_in_a_graph():
    """All of it is launches: nothing is decided by what is in memory, or waits for the host."""
    rows, length, batch = 301, 64, 5000
    tokens = torch.randint(0, rows, (batch,), device=DEVICE)
    table, m, v = drawn(torch.float32, rows, length), *(torch.zeros(rows * length, device=DEVICE) for _ in range(2))
    step, lr, seed = torch.tensor([1], device=DEVICE), torch.tensor([1e-3], device=DEVICE), torch.tensor([3], device=DEVICE)
    w = drawn(torch.float32, length)

    def once():
        x = snap.lib.dropout(snap.lib.embedding(tokens, table), 0.1, seed, step)
        out, mean, rstd = snap.lib.layer_norm(x, w, statistics=True)
        loss, dout = snap.lib.cross_entropy(out, tokens % length, gradient=True)
        dx = snap.lib.dropout_gradient(snap.lib.layer_norm_gradient(dout, x, w, mean, rstd)[0], 0.1, seed, step)
        dtable = snap.lib.embedding_gradient(dx, tokens, rows)
        factor = snap.lib.global_norm(dtable, clip=1.0)[1]
        snap.lib.adamw(table.view(-1), dtable.view(-1), m, v, step, lr=lr, scale=factor)
        return loss, dtable

    kept = table.clone()
    want = [one.clone() for one in once()]
    after = table.clone()
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        once()
        stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        got = once()
    for array, value in ((table, kept), (m, 0), (v, 0)):
        array.copy_(value) if isinstance(value, torch.Tensor) else array.fill_(value)
    graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(one, other) for one, other in zip(got, want)) and torch.equal(table, after)
