"""snap.lib.attention on the CPU machine, and its compiled kernel on the PTX machine: masks, windows, shared heads, any lengths and strides, bad arguments."""

from __future__ import annotations

import math

import numpy as np
import pytest

import snap
from snap.ir.types import BF16, F16
from snap.lib import attention
from snap.lib.attention_kernels import forward_kernel
from snap.runtime.errors import LaunchError

rng = np.random.default_rng(11)


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
    assert not snap.races(kernel, *launched(q, k, v)[0], blocks=2, seeds=2)


def launched(q, k, v):
    (batch, heads, queries, size), (_, shared, keys, _) = q.shape, k.shape
    out, logs = np.zeros_like(q), np.zeros(batch * heads * queries, np.float32)
    flat = [x.reshape(-1, x.shape[2], size) for x in (q, k, v, out)]
    extents = [extent for x in flat for extent in (x.shape[0], size)]
    steps = [step for x in (q, k, v) for step in (x.shape[1], 1, 0, 0)]
    scale = np.float32(size**-0.5 * math.log2(math.e))
    return (*flat, logs, *extents, queries, keys, heads, heads // shared, *steps, 0, scale), out


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
