"""The functions of a transformer's layers on the CPU machine, at small and odd sizes, against float64 of NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from lib.lib_support import packed, unpacked

import snap
from snap.lib import (
    adamw,
    column_sums,
    cross_entropy,
    embedding,
    embedding_gradient,
    gelu,
    gelu_gradient,
    global_norm,
    layer_norm,
    layer_norm_gradient,
    rms_norm,
    rms_norm_gradient,
    swiglu,
    swiglu_gradient,
)

TYPES = ("f32", "f16", "bf16")
NEAR = {"f32": 2e-5, "f16": 4e-3, "bf16": 3e-2}
RNG = np.random.default_rng(11)


def drawn(name: str, *shape: int, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of a type as a call takes them, beginning so many elements behind an aligned address, and as float64."""
    plain = RNG.standard_normal(first + math.prod(shape)).astype(np.float32)
    held = packed(name, plain)[first:].reshape(shape)
    return held, exact(name, held)


def exact(name: str, held: np.ndarray) -> np.ndarray:
    return unpacked(name, np.ascontiguousarray(held)).astype(np.float64)


def near(name: str, got: np.ndarray, want: np.ndarray, times: float = 1.0) -> None:
    np.testing.assert_allclose(exact(name, got), want, rtol=times * NEAR[name], atol=times * NEAR[name])


# ---- norms ----------------------------------------------------------------------------------------------------------------


def normal(x, centred, eps):
    mean = x.mean(-1, keepdims=True) if centred else 0.0
    rstd = 1 / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + eps)
    return (x - mean) * rstd, mean, rstd


def norm_gradients(grad, y, weight, rstd, centred):
    g = grad * weight
    middle = g.mean(-1, keepdims=True) if centred else 0.0
    return rstd * (g - middle - y * (g * y).mean(-1, keepdims=True)), (grad * y).sum(0), grad.sum(0)


# Lanes of a warp, a warp, blocks, more than a block holds; lengths that words of 16 bytes divide and others.
@pytest.mark.parametrize("rows, length", [(1, 1), (5, 7), (37, 24), (9, 768), (3, 1001), (3, 4096), (2, 16_401)])
@pytest.mark.parametrize("name", TYPES)
def test_layer_norm_and_its_gradient(name, rows, length):
    weight_type = "f32" if rows % 2 else name
    (x, X), (r, R), (g, G), (a, A) = (drawn(name, rows, length, first=length % 3) for _ in range(4))
    (w, W), (b, B) = drawn(weight_type, length), drawn(weight_type, length)
    out, s, mean, rstd = layer_norm(x, w, b, residual=r, statistics=True)
    near(name, s, X + R)
    y, middle, scale = normal(exact(name, s), True, 1e-5)
    near(name, out, y * W + B)
    np.testing.assert_allclose(mean, middle[:, 0], rtol=1e-4, atol=1e-5)
    dx, dw, db = layer_norm_gradient(g, s, w, mean, rstd, grad_residual=a)
    want, of_weight, of_bias = norm_gradients(G, y, W, scale, True)
    near(name, dx, want + A, 2)
    near(weight_type, dw, of_weight, 4)
    near(weight_type, db, of_bias, 4)
    again = layer_norm_gradient(g, s, w, mean, rstd, grad_residual=a, bias=rows % 2 == 0, sums=True)
    assert rows % 2 == 0 or again[2] is None
    np.testing.assert_array_equal(again[0], dx)
    near(weight_type, again[3], (want + A).sum(0), 4)
    near(name, layer_norm(x, w), normal(X, True, 1e-5)[0] * W, 2)


@pytest.mark.parametrize("name", TYPES)
def test_rms_norm_and_its_gradient(name):
    for rows, length in ((3, 5), (6, 768), (2, 2051), (1, 16_408)):
        (x, X), (g, G), (w, W) = drawn(name, rows, length), drawn(name, rows, length), drawn(name, length)
        out, rstd = rms_norm(x, w, statistics=True, eps=1e-3)
        y, _, scale = normal(X, False, 1e-3)
        near(name, out, y * W)
        dx, dw = rms_norm_gradient(g, x, w, rstd)
        want, of_weight, _ = norm_gradients(G, y, W, scale, False)
        near(name, dx, want, 2)
        near(name, dw, of_weight, 4)
        sums = rms_norm(x, w, residual=g)
        near(name, sums[1], X + G)
        assert len(sums) == 2


def test_norms_of_rows_far_from_zero():
    """The variance is of differences from the mean: no digits are lost where that is large."""
    x = (RNG.standard_normal((4, 500)) + 4096).astype(np.float32)
    near("f32", layer_norm(x, np.ones(500, np.float32)), normal(x.astype(np.float64), True, 1e-5)[0], 50)


def test_norms_of_nothing():
    w = np.ones(8, np.float32)
    empty = np.empty((0, 8), np.float32)
    assert layer_norm(empty, w).shape == (0, 8)
    none = np.empty(0, np.float32)
    dx, dw, db = layer_norm_gradient(empty, empty, w, none, none)
    assert dx.shape == (0, 8) and not dw.any() and not db.any()


@pytest.mark.parametrize("rows, length", [(1, 1), (70, 9), (3000, 40), (600, 257)])
def test_column_sums(rows, length):
    for name in TYPES:
        x, X = drawn(name, rows, length)
        np.testing.assert_allclose(column_sums(x, dtype="f32"), X.sum(0), rtol=1e-4, atol=1e-3)
        assert column_sums(x).dtype == x.dtype


# ---- activations ----------------------------------------------------------------------------------------------------------


def exact_gelu(x, way):
    if way == "none":
        return 0.5 * x * (1 + np.vectorize(math.erf)(x / 2**0.5))
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def slope(f, x, h=1e-5):
    return (f(x + h) - f(x - h)) / (2 * h)


def silu(x):
    return x / (1 + np.exp(-x))


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("size", [1, 7, 130, 5003])
def test_gelu_and_swiglu(name, size):
    first = size % 4
    (x, X), (g, G), (u, U) = (drawn(name, size, first=first) for _ in range(3))
    for way in ("none", "tanh"):
        near(name, gelu(x, approximate=way), exact_gelu(X, way))
        near(name, gelu_gradient(g, x, approximate=way), G * slope(lambda v: exact_gelu(v, way), X), 2)
    near(name, swiglu(x, u), silu(X) * U, 2)
    of_gate, of_up = swiglu_gradient(g, x, u)
    near(name, of_gate, G * U * slope(silu, X), 2)
    near(name, of_up, G * silu(X), 2)
    both = np.stack([np.concatenate([x, u])] * 3)
    near(name, swiglu(both)[1], silu(X) * U, 2)
    np.testing.assert_array_equal(swiglu_gradient(np.stack([g] * 3), both)[2], np.concatenate([of_gate, of_up]))


@pytest.mark.parametrize("name, shape", [("f32", (7, 3)), ("bf16", (2, 35, 264)), ("f16", (300, 13)), ("f32", (0, 5))])
def test_sums_of_the_gradient_of_gelu(name, shape):
    (x, X), (g, G) = (drawn(name, *shape, first=shape[0] % 2) for _ in range(2))
    dx, sums = gelu_gradient(g, x, approximate="tanh", sums=True)
    np.testing.assert_array_equal(dx, gelu_gradient(g, x, approximate="tanh"))
    want = (G * slope(lambda v: exact_gelu(v, "tanh"), X)).reshape(-1, shape[-1]).sum(0)
    assert sums.dtype == np.float32
    np.testing.assert_allclose(sums, want, atol=2e-4)


def test_activations_far_out():
    x = np.array([-1e30, -100.0, 0.0, 100.0, 1e18], np.float32)
    for way in ("none", "tanh"):
        np.testing.assert_array_equal(gelu(x, approximate=way), np.maximum(x, 0))
    np.testing.assert_array_equal(swiglu(x, np.ones_like(x)), np.maximum(x, 0))


# ---- embeddings -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows, length, shape", [(5, 7, (3,)), (100, 64, (4, 50)), (40, 200, (2, 300)), (70, 264, (3, 11))])
@pytest.mark.parametrize("name", TYPES)
def test_embedding_and_its_gradient(name, rows, length, shape):
    index = np.int32 if rows % 3 else np.int64
    tokens = np.minimum(RNG.geometric(0.15, shape) - 1, rows - 1).astype(index)  # some rows often, some never
    (table, T), (places, P) = drawn(name, rows, length), drawn(name, shape[-1] + 3, length)
    np.testing.assert_array_equal(embedding(tokens, table), table[tokens])
    np.testing.assert_allclose(embedding(tokens, table, positions=places, dtype="f32"), T[tokens] + P[: shape[-1]], rtol=1e-6, atol=1e-6)
    g, G = drawn(name, *shape, length)
    want, of_places = np.zeros((rows, length)), np.zeros_like(P)
    np.add.at(want, tokens.reshape(-1), G.reshape(-1, length))
    of_places[: shape[-1]] = G.reshape(-1, shape[-1], length).sum(0)
    for ordered in (True, False):
        dtable, dplaces = embedding_gradient(g, tokens, rows, positions=len(P), deterministic=ordered, dtype="f32")
        np.testing.assert_allclose(dtable, want, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(dplaces, of_places, rtol=1e-4, atol=1e-4)
        near(name, embedding_gradient(g, tokens, rows, deterministic=ordered), want, 1)


def test_tokens_outside_of_the_table_fail():
    table = np.zeros((4, 8), np.float32)
    for token in (-1, 4):
        with pytest.raises(snap.MachineError, match="outside of the table"):
            embedding(np.array([0, token]), table)
        with pytest.raises(snap.MachineError, match="outside of the table"):
            embedding_gradient(np.zeros((2, 8), np.float32), np.array([0, token]), 4)


# ---- cross entropy --------------------------------------------------------------------------------------------------------


def exact_loss(x, targets, ignored):
    top = x.max(1, keepdims=True)
    e = np.exp(x - top)
    counted, at = targets != ignored, np.where(targets != ignored, targets, 0)
    losses = np.where(counted, np.log(e.sum(1)) + top[:, 0] - x[np.arange(len(x)), at], 0)
    gradient = e / e.sum(1, keepdims=True)
    gradient[np.arange(len(x)), at] -= 1
    return losses, gradient * counted[:, None], counted.sum()


@pytest.mark.parametrize("rows, classes", [(1, 1), (5, 7), (4, 64), (3, 1000), (7, 5003)])
@pytest.mark.parametrize("name", TYPES)
def test_cross_entropy(name, rows, classes):
    x, X = drawn(name, rows, classes)
    targets = RNG.integers(0, classes, rows).astype(np.int32 if rows % 2 else np.int64)
    targets[1:2] = -7
    losses, gradient, counted = exact_loss(X, targets, -7)
    loss, dlogits = cross_entropy(x, targets, ignore_index=-7, gradient=True)
    np.testing.assert_allclose(loss, losses.sum() / counted, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(exact(name, dlogits), gradient / counted, atol=NEAR[name] / 4)
    np.testing.assert_allclose(
        cross_entropy(x, targets, ignore_index=-7, reduction="sum", scale=0.5), 0.5 * losses.sum(), rtol=1e-4, atol=1e-6
    )
    there = x.copy()
    each, written = cross_entropy(there, targets, ignore_index=-7, reduction="none", gradient=True, in_place=True, scale=2.0)
    assert written is there
    np.testing.assert_allclose(each, 2 * losses, rtol=1e-4, atol=1e-6)
    near(name, written, 2 * gradient)
    wide = np.zeros((rows, classes + 8), x.dtype)
    wide[:, :classes] = x
    part = cross_entropy(wide[:, :classes], targets, ignore_index=-7, gradient=True, in_place=True)[1]
    np.testing.assert_array_equal(part, dlogits)
    assert not wide[:, classes:].any()


def test_cross_entropy_of_logits_that_begin_anywhere():
    x, X = drawn("f16", 3, 45, first=3)
    targets = np.array([44, 0, 7])
    losses, gradient, _ = exact_loss(X, targets, -1)
    loss, dlogits = cross_entropy(x, targets, gradient=True)
    np.testing.assert_allclose(loss, losses.mean(), rtol=1e-5)
    np.testing.assert_allclose(dlogits, gradient / 3, atol=1e-3)


def test_cross_entropy_without_rows_that_count():
    x = np.ones((3, 16), np.float32)
    loss, dlogits = cross_entropy(x, np.full(3, -100), gradient=True)
    assert np.isnan(loss) and not dlogits.any()  # as torch has it
    assert cross_entropy(x, np.full(3, -100), reduction="sum") == 0


def test_targets_that_are_no_class_fail():
    for target in (-1, 16):
        with pytest.raises(snap.MachineError, match="not a class"):
            cross_entropy(np.ones((2, 16), np.float32), np.array([0, target]))


# ---- AdamW ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 7, 64, 5003])
@pytest.mark.parametrize("name", TYPES)
def test_adamw(name, size):
    for there in (False, True):
        p, P = drawn("f32", size)
        m, v = np.zeros(size, np.float32), np.zeros(size, np.float32)
        M, V, half, copy = np.zeros(size), np.zeros(size), size // 2, np.zeros(size, np.uint16)
        for t in (1, 2, 3):
            g, G = drawn(name, size, first=t % 2)
            step, lr = (np.array([t]), np.array([1e-2], np.float32)) if there else (t, 1e-2)
            scale = np.array(0.5, np.float32) if there else 0.5
            adamw(p, g, m, v, step, lr=lr, betas=(0.9, 0.95), decayed=half, scale=scale, copy=copy, weight_decay=0.1)
            G = G * 0.5
            P[:half] *= 1 - 1e-3
            M, V = 0.9 * M + 0.1 * G, 0.95 * V + 0.05 * G * G
            P -= 1e-2 * (M / (1 - 0.9**t)) / (np.sqrt(V / (1 - 0.95**t)) + 1e-8)
        np.testing.assert_allclose(p, P, rtol=1e-5, atol=5e-6)
        np.testing.assert_allclose(m, M, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(v, V, rtol=1e-4, atol=1e-6)
        near("bf16", copy, p, 0.3)


def test_global_norm():
    for name in TYPES:
        for size in (1, 7, 5003, 40_001):
            x, X = drawn(name, size)
            norm, factor = global_norm(x, clip=1.5)
            want = np.sqrt((X * X).sum())
            np.testing.assert_allclose(norm, want, rtol=1e-5)
            np.testing.assert_allclose(factor, min(1, 1.5 / (want + 1e-6)), rtol=1e-5)
            assert global_norm(x) == norm
    assert global_norm(np.empty(0, np.float32)) == 0
