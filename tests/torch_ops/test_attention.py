"""Attention as an operator of torch: gradients, the logarithms' too, views that are not copied, the compiler, refusals."""

from __future__ import annotations

import pytest

import snap
from snap.host.errors import LaunchError

torch = pytest.importorskip("torch", reason="torch is not installed")

import snap.torch  # noqa: E402  (registers)


def given(device, *shape, count=3):
    random = torch.Generator().manual_seed(sum(shape))
    return [torch.randn(shape, generator=random).bfloat16().to(device).requires_grad_() for _ in range(count)]


def by_torch(q, k, v, causal):
    scores = q.float() @ k.float().transpose(2, 3) * q.shape[3] ** -0.5
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
    return scores.softmax(-1) @ v.float(), scores.logsumexp(-1)


def near(a, b, part=0.02):
    return (a.float() - b.float()).abs().max() <= part * max(1.0, b.abs().max().item())


def test_gradients(device):
    """Of the result and of the logarithms, against torch's own; a gradient that is one number repeated has strides of 0."""
    q, k, v = given(device, 1, 2, 70, 64)
    out, logs = snap.lib.attention(q, k, v, causal=True, lse=True)
    got = torch.autograd.grad(out.float().sum() + (logs * torch.linspace(-1, 1, 70, device=device)).sum(), (q, k, v), retain_graph=True)
    wanted, want_logs = by_torch(q, k, v, True)
    want = torch.autograd.grad(wanted.sum() + (want_logs * torch.linspace(-1, 1, 70, device=device)).sum(), (q, k, v))
    assert near(out, wanted) and near(logs, want_logs, 1e-3)
    assert all(near(a, b) for a, b in zip(got, want))
    (alone,) = torch.autograd.grad(logs.sum(), q)
    assert near(alone, torch.autograd.grad(by_torch(q, k, v, True)[1].sum(), q)[0])


def test_views_of_one_product(device):
    """Queries, keys and values that were computed side by side; the result lies as they do."""
    (qkv,) = given(device, 1, 40, 3, 2, 64, count=1)
    q, k, v = (x.transpose(1, 2) for x in qkv.unbind(2))
    out = snap.lib.attention(q, k, v)
    assert out.stride() == (40 * 128, 64, 128, 1)
    out.backward(torch.ones_like(out))
    got, qkv.grad = qkv.grad, None
    by_torch(*(x.transpose(1, 2) for x in qkv.unbind(2)), False)[0].sum().backward()
    assert near(got, qkv.grad)


def test_under_compile_without_a_break(device):
    q, k, v = given(device, 1, 1, 40, 64)

    def program(q, k, v):
        return snap.lib.attention(q * 2, k, v, causal=True) + 1

    compiled = torch.compile(program, fullgraph=True, backend="inductor" if device == "cuda" else "aot_eager")
    ours, theirs = compiled(q, k, v), program(q, k, v)
    assert torch.equal(ours, theirs)
    for a, b in zip(*(torch.autograd.grad(x.float().sum(), (q, k, v)) for x in (ours, theirs))):
        assert near(a, b)


@pytest.mark.parametrize("swapped", [False, True])
def test_the_operator_keeps_torchs_rules(device, swapped):
    q, k, v = (x.detach() for x in given(device, 1, 40, 2, 64))
    q, k, v = (x.transpose(1, 2) if swapped else x.transpose(1, 2).contiguous() for x in (q, k, v))
    torch.library.opcheck(torch.ops.snap.attention.default, (q, k, v), {"causal": True}, test_utils=("test_schema", "test_faketensor"))
    out, logs = torch.ops.snap.attention(q, k, v, True)
    torch.library.opcheck(torch.ops.snap.attention_gradient.default, (out, q, k, v, out, logs), {"causal": True}, test_utils=("test_faketensor",))


def test_deterministic_as_torch_is(device, monkeypatch):
    asked = []
    inner = snap.lib.attention.__wrapped__.__globals__["_gradients"]
    monkeypatch.setitem(snap.lib.attention.__wrapped__.__globals__, "_gradients", lambda *args: (asked.append(args[10]), inner(*args))[1])
    q, k, v = given(device, 1, 1, 10, 64)
    for wanted in (True, False):
        torch.use_deterministic_algorithms(wanted)
        try:
            snap.lib.attention(q, k, v).float().sum().backward()
        finally:
            torch.use_deterministic_algorithms(False)
    assert asked == [True, False]


def test_refused(device):
    q, k, v = given(device, 1, 1, 10, 64)
    for name, change in (("k", {"k": k[..., :32]}), ("scale", {"scale": -1.0}), ("window", {"window": -1}), ("causal", {"causal": 1}), ("lse", {"lse": 1})):
        detached = {"q": q.detach(), "k": k.detach(), "v": v.detach()}
        with pytest.raises(LaunchError, match=f"`{name}` of `snap.lib.attention`"):
            snap.lib.attention(**{**detached, **change})
    for name, change in (("k", {"k": k[..., :32]}), ("scale", {"scale": -1.0}), ("window", {"window": -1})):
        with pytest.raises(LaunchError, match=f"`{name}` of `snap.lib.attention`"):
            snap.lib.attention(**{"q": q, "k": k, "v": v, **change})
    out, logs = torch.ops.snap.attention(q.detach(), k.detach(), v.detach())
    with pytest.raises(LaunchError, match="`grad` of `snap.lib.attention_gradient`"):
        torch.ops.snap.attention_gradient(out[:, :, :5], q.detach(), k.detach(), v.detach(), out, logs)
    with pytest.raises(LaunchError, match="`grad` of `snap.lib.attention_gradient`"):
        torch.ops.snap.attention_gradient(out.half(), q.detach(), k.detach(), v.detach(), out, logs)


def test_derivatives_that_would_be_lost(device):
    q, k, v = given(device, 1, 1, 10, 64)
    with pytest.raises(NotImplementedError, match="would be lost"):
        snap.lib.attention(q, k, v, out=torch.empty_like(q))
    with pytest.raises(NotImplementedError, match="would be lost"), torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(q.detach(), q.detach())
        snap.lib.attention(dual, k.detach(), v.detach())
    (first,) = torch.autograd.grad(snap.lib.attention(q, k, v).float().pow(2).sum(), q, create_graph=True)
    with pytest.raises(NotImplementedError, match="first derivatives only"):
        first.float().sum().backward()


def test_gradients_written_into_arrays_of_one_buffer_and_of_several(device):
    """The same shapes, strides and offsets, once in one storage and once in three: what was decided for one is not repeated for the other."""
    q, k, v = (x.detach() for x in given(device, 1, 2, 40, 64))
    out, logs = snap.lib.attention(q, k, v, lse=True)
    want = snap.lib.attention_gradient(out, q, k, v, out, logs)
    for buffers in (1, 3, 1, 3):
        room = [torch.full((1, 40, 3, 2, 64), 7.0, dtype=torch.bfloat16, device=device) for _ in range(buffers)]
        into = tuple(room[i % buffers][:, :, i].transpose(1, 2) for i in range(3))
        got = snap.lib.attention_gradient(out, q, k, v, out, logs, into=into)
        for i in range(3):
            assert got[i] is into[i] and near(into[i], want[i], 1e-6)
            if buffers == 3:
                assert all((room[i][:, :, other] == 7.0).all() for other in range(3) if other != i)


def test_into_is_refused_by_name(device):
    q, k, v = (x.detach() for x in given(device, 1, 1, 10, 64))
    out, logs = snap.lib.attention(q, k, v, lse=True)
    for into in ((q.clone(), k.clone()), (q.clone(), k.clone(), v[:, :, :5].clone()), (q, k.clone(), v.clone()), 7):
        with pytest.raises(LaunchError, match="`(into|out)` of `snap.lib.attention_gradient`"):
            snap.lib.attention_gradient(out, q, k, v, out, logs, into=into)
