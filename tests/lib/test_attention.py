"""snap.lib.attention on the CPU machine, and its compiled kernel on the PTX machine: masks, windows, shared heads, any lengths and strides, bad arguments."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest

from snap._compiler.ir.types import BF16, F16
from snap.host.errors import LaunchError
from snap.lib import attention, attention_gradient
from snap.lib._attention.arrays import Laid, _apart
from snap.lib._attention.gradients import queries_kernel
from snap.lib._attention.kernels import forward_kernel
from snap.lib._attention.one_pass import one_pass_kernel

rng = np.random.default_rng(11)
of_attention = sys.modules["snap.lib._attention.attention"]  # the module, behind the function of its name


def bf16(x):
    return (np.ascontiguousarray(x, np.float32).view(np.uint32) + 0x8000 >> 16).astype(np.uint16)


def wide(x):
    return (x.astype(np.uint32) << 16).view(np.float32) if x.dtype == np.uint16 else x.astype(np.float32)


def expected(q, k, v, causal=False, window=None, scale=None):
    q, k, v = (wide(x).astype(np.float64) for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) * (q.shape[3] ** -0.5 if scale is None else scale)
    queries, keys = scores.shape[2:]
    own, key = np.arange(queries)[:, None] + keys - queries, np.arange(keys)[None]
    seen = np.ones((queries, keys), bool)
    if causal:
        seen &= key <= own
    if window is not None:
        seen &= (key >= own - window) & (causal | (key <= own + window))
    scores = np.where(seen, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isinf(top), 0, top))
    whole = weights.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        return np.einsum("bhqk,bhkd->bhqd", weights / np.where(whole == 0, 1, whole), v), (np.where(np.isinf(top), 0, top) + np.log(whole))[..., 0]


def arrays(batch, heads, shared, queries, keys, size, dtype="bf16"):
    shapes = ((batch, heads, queries, size), (batch, shared, keys, size), (batch, shared, keys, size))
    made = (rng.normal(size=shape) for shape in shapes)
    return tuple(bf16(x) if dtype == "bf16" else x.astype(np.float16) for x in made)


CASES = {
    "square": ((1, 2, 2, 128, 128, 64), {}),
    "causal": ((1, 1, 1, 200, 200, 128), {"causal": True}),
    "shared heads, more keys": ((2, 4, 2, 40, 300, 64), {"causal": True}),
    "more queries than keys": ((1, 1, 1, 300, 130, 64), {"causal": True}),
    "causal window": ((1, 1, 1, 260, 260, 64), {"causal": True, "window": 50}),
    "window": ((1, 1, 1, 150, 150, 64), {"window": 20}),
    "a window of nobody else": ((1, 1, 1, 70, 70, 64), {"window": 0}),
    "scale": ((1, 1, 1, 64, 64, 64), {"scale": 0.5}),
    "one query": ((2, 2, 1, 1, 77, 64), {"causal": True}),
    "heads of 80": ((1, 1, 1, 40, 33, 80), {}),
    "heads of 5": ((1, 1, 1, 20, 20, 5), {}),
    "heads of 192": ((1, 1, 1, 70, 130, 192), {"causal": True}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_attention(name):
    shape, options = CASES[name]
    q, k, v = arrays(*shape)
    got, logs = attention(q, k, v, lse=True, **options)
    want, want_logs = expected(q, k, v, **options)
    np.testing.assert_allclose(wide(got), want, atol=0.012)
    np.testing.assert_allclose(logs, want_logs, atol=1e-5)


def test_f16():
    q, k, v = arrays(1, 1, 1, 64, 64, 64, "f16")
    np.testing.assert_allclose(wide(attention(q, k, v)), expected(q, k, v)[0], atol=2e-3)


def test_strides():
    """(batch, length, heads, size) in memory is read where it lies; what lies otherwise is copied."""
    q, k, v = arrays(1, 2, 1, 40, 40, 64)
    want = attention(q, k, v, causal=True)
    for laid in (
        lambda x: np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2),
        lambda x: np.concatenate([x, x], axis=3)[..., :64],
        lambda x: np.ascontiguousarray(x.swapaxes(2, 3)).swapaxes(2, 3),
    ):
        np.testing.assert_array_equal(attention(laid(q), laid(k), laid(v), causal=True), want)


def test_out():
    q, k, v = arrays(1, 2, 2, 40, 40, 64)
    want = attention(q, k, v)
    for out in (np.zeros_like(q), np.zeros((1, 40, 2, 64), np.uint16).swapaxes(1, 2)):
        assert attention(q, k, v, out=out) is out
        np.testing.assert_array_equal(out, want)


def test_nothing_to_see():
    q, k, v = arrays(1, 1, 1, 10, 0, 64)
    got, logs = attention(q, k, v, lse=True)
    assert (got == 0).all() and (logs == -np.inf).all()
    q, k, v = arrays(1, 1, 1, 0, 10, 64)
    assert attention(q, k, v).shape == (1, 1, 0, 64)


def test_no_races():
    q, k, v = arrays(1, 1, 1, 130, 260, 64)
    kernel = forward_kernel(BF16, 64, True, False, True)
    assert not kernel.races(*launched(q, k, v)[0], blocks=2, seeds=2)


def launched(q, k, v):
    (batch, heads, queries, size), (_, shared, keys, _) = q.shape, k.shape
    out, logs = np.zeros_like(q), np.zeros(batch * heads * queries, np.float32)
    flat = [x.reshape(-1, x.shape[2], size) for x in (q, k, v, out)]
    extents = [extent for x in flat for extent in (x.shape[0], size)]
    steps = [step for x in (q, k, v, out) for step in (x.shape[1], 1, 0, 0)]
    scale = np.float32(size**-0.5 * math.log2(math.e))
    return (*flat, logs, *extents, batch * heads * -(-queries // 128), queries, keys, heads, heads // shared, *steps, 1, 0, scale), out


def test_compiled():
    """What NVIDIA's compiler makes of it, on the PTX machine: the same bits, but for the approximation of exp2."""
    q, k, v = arrays(1, 1, 1, 64, 200, 64)
    kernel = forward_kernel(BF16, 64, True, False, True)
    args, out = launched(q, k, v)
    kernel.launch(*args, blocks=1, target="ptx")
    np.testing.assert_allclose(wide(out), expected(q, k, v, causal=True)[0], atol=0.012)


def test_registers():
    for type, size in ((F16, 128), (BF16, 256)):
        made = forward_kernel(type, size, True, False, True).resources()
        assert made.spill_stores == made.spill_loads == 0, (size, made)


REFUSED = {
    "q": [("q", lambda a: a["q"][0]), ("q", lambda a: a["q"].astype(np.float32)), ("q", lambda a: [1])],
    "k": [("k", lambda a: a["k"][:, :, :, :32]), ("k", lambda a: np.concatenate([a["k"]] * 3, axis=1)), ("k", lambda a: a["k"].astype(np.float16))],
    "v": [("v", lambda a: a["v"][:, :, :5]), ("v", lambda a: None)],
    "scale": [("scale", lambda a: 0.0), ("scale", lambda a: -1.0), ("scale", lambda a: float("nan")), ("scale", lambda a: "x"), ("scale", lambda a: float("inf"))],
    "window": [("window", lambda a: -1), ("window", lambda a: 1.5), ("window", lambda a: True)],
    "causal": [("causal", lambda a: 1)],
    "lse": [("lse", lambda a: None)],
    "out": [("out", lambda a: a["q"][:, :1]), ("out", lambda a: a["q"].astype(np.float16))],
}  # fmt: skip


@pytest.mark.parametrize("name, value", [case for cases in REFUSED.values() for case in cases])
def test_refused(name, value):
    given = dict(zip("qkv", arrays(1, 2, 1, 40, 40, 64)))
    given[name] = value(given)
    for _ in range(2):
        with pytest.raises(LaunchError, match=f"`{name}` of `snap.lib.attention`"):
            attention(**given)


def test_a_result_that_overlaps():
    q, k, v = arrays(1, 1, 1, 40, 40, 64)
    with pytest.raises(LaunchError, match="shares memory with `q`"):
        attention(q, k, v, out=q)


# ---- the gradient ---------------------------------------------------------------------------------------------------


def expected_gradients(grad, q, k, v, causal=False, window=None):
    """By differences of the weights, in f64."""
    out = expected(q, k, v, causal, window)[0]
    logs = expected(q, k, v, causal, window)[1]
    shared, scale = k.shape[1], q.shape[3] ** -0.5
    together = q.shape[1] // shared
    q, k, v, grad = (wide(x).astype(np.float64) for x in (q, k, v, grad))
    k, v = (np.repeat(x, together, axis=1) for x in (k, v))
    queries, keys = q.shape[2], k.shape[2]
    own, key = np.arange(queries)[:, None] + keys - queries, np.arange(keys)[None]
    seen = (key <= own if causal else np.ones((queries, keys), bool)) & (np.ones((queries, keys), bool) if window is None else (key >= own - window) & (causal | (key <= own + window)))
    with np.errstate(over="ignore", invalid="ignore"):
        weights = np.where(seen, np.exp(np.einsum("bhqd,bhkd->bhqk", q, k) * scale - logs[..., None]), 0)
    slopes = weights * (np.einsum("bhqd,bhkd->bhqk", grad, v) - (grad * out).sum(axis=-1, keepdims=True))
    of_k, of_v = np.einsum("bhqk,bhqd->bhkd", slopes, q) * scale, np.einsum("bhqk,bhqd->bhkd", weights, grad)
    added = lambda x: x.reshape(x.shape[0], shared, together, *x.shape[2:]).sum(axis=2)  # noqa: E731
    return np.einsum("bhqk,bhkd->bhqd", slopes, k) * scale, added(of_k), added(of_v)


GRADIENTS = {
    "shared heads, more keys": ((1, 2, 1, 130, 200, 64), {"causal": True}),
    "more queries than keys": ((1, 1, 1, 200, 130, 128), {"causal": True}),
    "window": ((1, 1, 1, 150, 150, 64), {"window": 30}),
    "causal window": ((1, 1, 1, 300, 300, 64), {"causal": True, "window": 40}),
    "heads of 20": ((1, 2, 2, 40, 40, 20), {}),
    "heads of 136": ((1, 1, 1, 70, 40, 136), {}),
    "heads of 256": ((1, 1, 1, 40, 140, 256), {"causal": True}),
}  # fmt: skip


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name, deterministic):
    shape, options = GRADIENTS[name]
    options = {**options, "deterministic": deterministic}
    q, k, v = arrays(*shape)
    grad = bf16(rng.normal(size=q.shape))
    out, logs = attention(q, k, v, lse=True, **GRADIENTS[name][1])
    first = attention_gradient(grad, q, k, v, out, logs, **options)
    for got, want in zip(first, expected_gradients(grad, q, k, v, **GRADIENTS[name][1])):
        np.testing.assert_allclose(wide(got), want, atol=0.01 * max(1, np.abs(want).max()))
    for got, again in zip(first, attention_gradient(grad, q, k, v, out, logs, **options)):
        np.testing.assert_array_equal(got, again)


def test_gradients_of_strided_arrays():
    q, k, v = arrays(1, 2, 2, 40, 40, 64)
    grad = bf16(rng.normal(size=q.shape))
    out, logs = attention(q, k, v, lse=True)
    swapped = lambda x: np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2)  # noqa: E731
    first = attention_gradient(grad, q, k, v, out, logs)
    for got, again in zip(first, attention_gradient(*map(swapped, (grad, q, k, v, out)), logs)):
        np.testing.assert_array_equal(got, again)


def test_gradients_of_nothing():
    q, k, v = arrays(1, 1, 1, 10, 0, 64)
    out, logs = attention(q, k, v, lse=True)
    assert [x.shape for x in attention_gradient(q, q, k, v, out, logs)] == [q.shape, k.shape, v.shape]


def test_gradients_refused():
    q, k, v = arrays(1, 1, 1, 40, 40, 64)
    out, logs = attention(q, k, v, lse=True)
    for name, args in (("grad", (q[:, :, :5], q, k, v, out, logs)), ("lse", (q, q, k, v, out, logs[:, :, :5])), ("out", (q, q, k, v, out[:, :, :5], logs))):
        with pytest.raises(LaunchError, match=f"`{name}` of `snap.lib.attention_gradient`"):
            attention_gradient(*args)


def test_registers_of_gradients():
    for made in (one_pass_kernel(BF16, 128, True, False, True), one_pass_kernel(BF16, 64, True, False, True), queries_kernel(BF16, 128, True, False)):
        found = made.resources()
        assert found.spill_stores == found.spill_loads == 0, found


def test_no_more_heads_are_read_together_than_there_are():
    """Of few keys there is room for many heads: so many, times the tiles of many queries, would be no int."""
    q, k = np.zeros((2, 6, 8, 128), np.float16), np.zeros((2, 3, 1, 128), np.float16)
    given = of_attention._given(q, k, k, False, None, None)
    assert given.together(of_attention.NEAR) == 2 * 3
    assert given.together(1) == 1


@pytest.mark.parametrize(
    ("first", "second", "apart"),
    [
        ((0, 64), (256, 64), True),  # all heads of the one, then all of the other
        ((256, 64), (0, 64), True),
        ((64, 192), (128, 192), True),  # one of each in turn
        ((0, 64), (0, 64), False),
        ((0, 64), (64, 64), False),  # the second head of the one is the first of the other
        ((0, 128), (32, 128), False),
    ],
)
def test_gradients_that_share_rows_have_columns_of_their_own(first, second, apart):
    """Four heads of 64 columns: their first column, and how far apart they begin."""
    one, other = (Laid(None, (2, 8, 1024), (1, 0, *columns), 64) for columns in (first, second))
    taken = [{c for h in range(4) for c in range(begin + h * step, begin + h * step + 64)} for begin, step in (first, second)]
    assert _apart(one, other, 4) == apart == taken[0].isdisjoint(taken[1])
