"""The functions of a transformer's layers: what they refuse, what they repeat, their random numbers and turns, races, and what they compile to."""

from __future__ import annotations

import numpy as np
import pytest

import snap
from snap import *
from snap._compiler.ir.points import points
from snap._compiler.ir.types import BF16, F16, F32, I32, I64
from snap.lib import dropout, dropout_gradient, rotary, rotary_gradient
from snap.lib._layers.activations import map_kernel, map_two_kernel, swiglu_gradient_kernel
from snap.lib._layers.dropouts import dropout_kernel, philox
from snap.lib._layers.embedding_kernels import lookup_kernel, ordering_kernel, slices_kernel
from snap.lib._layers.loss_kernels import held_loss_kernel, long_loss_kernel, ragged_loss_kernel
from snap.lib._layers.norm_kernels import long_norm_kernel, norm_gradient_kernel, norm_kernel
from snap.lib._layers.optimizers import adamw_kernel, squares_kernel
from snap.lib._layers.rotations import rotary_kernel
from snap.lib._parallel.columns import columns_kernel

RNG = np.random.default_rng(3)


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


# ---- dropout --------------------------------------------------------------------------------------------------------------


@kernel(threads=1)
def one_block_of_philox(counter: ptr(const(u32)), key: ptr(const(u32)), out: ptr(u32)):
    with each(thread, out):
        r: u32[4]
        for i in unroll(range(4)):
            r[i] = counter[i]
        philox(r, key[0], key[1])
        for i in unroll(range(4)):
            out[i] = r[i]


# The known answers that Random123 publishes for philox4x32-10 (kat_vectors).
@pytest.mark.parametrize("counter, key, answer", [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
])
def test_philox_gives_the_known_answers(counter, key, answer):
    words = lambda text: np.array([int(word, 16) for word in text.split()], np.uint32)
    out = np.zeros(4, np.uint32)
    one_block_of_philox[1](words(counter), words(key), out)
    np.testing.assert_array_equal(out, words(answer))


def by_philox(size, p, seed, offset):
    """Which elements stay, by the definition."""
    kept = np.empty(size, bool)
    for group in range(-(-size // 4)):
        at, numbers = offset + group, np.zeros(4, np.uint32)
        split = lambda value: [value & 0xFFFFFFFF, value >> 32]
        one_block_of_philox[1](np.array([*split(at), 0, 0], np.uint32), np.array(split(seed), np.uint32), numbers)
        kept[4 * group : 4 * group + 4] = (numbers >= p * 2.0**32)[: size - 4 * group]
    return kept


def test_dropout_takes_the_elements_it_says():
    seed, offset = 2**40 + 7, 2**32 - 3  # both halves of the counter and of the key
    kept = by_philox(43, 0.4, seed, offset)
    assert 0 < kept.sum() < 43
    x = RNG.standard_normal(44).astype(np.float32)
    np.testing.assert_allclose(dropout(x[:43], 0.4, seed, offset), np.where(kept, x[:43] / 0.6, 0), rtol=1e-6)
    np.testing.assert_array_equal(dropout(x[1:], 0.4, seed, offset) != 0, kept)  # element by element
    np.testing.assert_array_equal(dropout(x[:43].astype(np.float16), 0.4, seed, offset) != 0, kept)
    there = dropout(x[:43], 0.4, np.array([seed]), np.array([offset]))
    np.testing.assert_array_equal(there, dropout_gradient(x[:43], 0.4, seed, offset))
    np.testing.assert_array_equal(dropout(x, 0.0, 1), x)
    assert not dropout(x, 1.0, 1).any()


# ---- rotary ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2, 3, 5, 8), (4, 4, 6), (5, 10), (2, 2, 3, 64), (1, 1, 1, 2)])
@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary(shape, interleaved):
    length, size = shape[-2:]
    for dtype, near in ((np.float32, 1e-5), (np.float16, 4e-3)):
        x, angles = RNG.standard_normal(shape).astype(dtype), RNG.standard_normal((length, size // 2))
        c, s = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        X = x.astype(np.float64)
        a, b = (X[..., ::2], X[..., 1::2]) if interleaved else (X[..., : size // 2], X[..., size // 2 :])
        halves = a * c - b * s, b * c + a * s
        want = np.stack(halves, -1).reshape(shape) if interleaved else np.concatenate(halves, -1)
        out = rotary(x, c, s, interleaved=interleaved)
        np.testing.assert_allclose(out, want, atol=near, rtol=near)
        np.testing.assert_allclose(rotary_gradient(out, c, s, interleaved=interleaved), X, atol=2 * near)
        if len(shape) == 4:
            beside = np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2)
            wide = np.zeros((*shape[:3], size + 3), dtype)
            wide[..., 1 : size + 1] = x
            for strided in (beside, wide[..., 1 : size + 1]):
                np.testing.assert_array_equal(rotary(strided, c, s, interleaved=interleaved), out)


# ---- refusals -------------------------------------------------------------------------------------------------------------

X, W, N, T = zeros(2, 8), zeros(8), zeros(2), np.zeros(2, np.int64)
READ_ONLY = zeros(8)
READ_ONLY.flags.writeable = False
# By function: a call that fits, as (positional arguments, keywords), and changes of it, each with the argument that is named.
CALLS = {
    "layer_norm": (dict(x=X, weight=W, bias=W, residual=X), dict(
        x=(zeros(8, 2).T, zeros(2, 8, dtype=np.float64), 3, np.array(1.0, np.float32)), weight=(zeros(7), zeros(2, 8), W.astype(np.float64)),
        bias=(zeros(7), W.astype(np.float16)), residual=(zeros(2, 7), X.astype(np.float16)), eps=(-1.0, float("nan"), "a", True),
        statistics=(1, None))),
    "rms_norm": (dict(x=X, weight=W), dict(weight=(zeros(9),), residual=(zeros(1, 8),), eps=(-1,))),
    "layer_norm_gradient": (dict(grad=X, x=X, weight=W, mean=N, rstd=N), dict(
        grad=(zeros(2, 7), X.astype(np.float16)), mean=(zeros(3), N.astype(np.float16)), rstd=(zeros(2, 1),), grad_residual=(zeros(8),), bias=(0,), sums=(None,))),
    "rms_norm_gradient": (dict(grad=X, x=X, weight=W, rstd=N), dict(rstd=(zeros(3),), grad_residual=(zeros(2, 9),))),
    "gelu": (dict(x=X), dict(x=(X.astype(np.int32), [1.0]), approximate=("erf", None, 3))),
    "gelu_gradient": (dict(grad=X, x=X), dict(grad=(zeros(3, 8),), approximate=("x",), sums=(1,))),
    "swiglu": (dict(gate=X, up=X), dict(up=(zeros(2, 4), X.astype(np.float16)), gate=(X.astype(np.int8),))),
    "swiglu_gradient": (dict(grad=X, gate=X, up=X), dict(grad=(zeros(2, 4),))),
    "rotary": (dict(x=zeros(2, 3, 4, 8), cos=zeros(4, 4), sin=zeros(4, 4)), dict(
        x=(zeros(8), zeros(4, 7), zeros(1, 2, 3, 4, 8), zeros(2, 3, 4, 16)[..., ::2]), cos=(zeros(3, 4), zeros(4, 8)), sin=(zeros(4, 3), zeros(4, 4, dtype=np.float16)),
        interleaved=(1,))),
    "embedding": (dict(tokens=T, table=X), dict(
        tokens=(T.astype(np.float32), T.astype(np.int16)), table=(W, X.astype(np.float64), zeros(0, 8)), positions=(zeros(1, 8), zeros(2, 7), X.astype(np.float16)),
        dtype=("f64", "i32", 7))),
    "embedding_gradient": (dict(grad=X, tokens=T, rows=5), dict(
        tokens=(np.zeros(3, np.int64),), rows=(0, -1, 1.5, True), positions=(1, -3), deterministic=(1,), dtype=("f64",))),
    "cross_entropy": (dict(logits=X, targets=T), dict(
        logits=(W, zeros(8, 2).T, zeros(2, 0)), targets=(np.zeros(3, np.int64), T.astype(np.float32)), ignore_index=(1.5, 2**40), reduction=("max",),
        scale=(float("inf"),), gradient=(1,), in_place=(True,))),
    "dropout": (dict(x=X, p=0.5, seed=1), dict(p=(-0.1, 1.5, "half"), seed=(-1, 1.5, np.zeros(2, np.int64), np.zeros(1, np.int32)), offset=(2**63,))),
    "dropout_gradient": (dict(grad=X, p=0.5, seed=1), dict(grad=(X.astype(np.int32),), p=(2,))),
    "column_sums": (dict(x=X), dict(x=(W,), dtype=("f64",))),
    "global_norm": (dict(x=X), dict(x=(X.astype(np.float64),), clip=(-1.0, "a"))),
    "adamw": (dict(parameters=W, gradients=zeros(8), first=zeros(8), second=zeros(8), step=1), dict(
        parameters=(X, W.astype(np.float16), READ_ONLY), gradients=(zeros(7),), first=(zeros(8, dtype=np.float16), READ_ONLY), second=(zeros(9),),
        step=(0, 1.5, np.zeros(2, np.int64)), lr=(-1.0, np.zeros(2, np.float32)), betas=(0.9, (0.9,), (0.9, 1.0)), eps=(-1e-8,), weight_decay=(-1,),
        decayed=(-1, 9), scale=("x", zeros(2)), copy=(zeros(8), np.zeros(7, np.uint16)))),
}


@pytest.mark.parametrize("function", CALLS)
def test_what_does_not_fit_is_refused_by_name(function):
    fits, changes = CALLS[function]
    call = getattr(snap.lib, function)
    copies = lambda given: {word: value.copy() if isinstance(value, np.ndarray) else value for word, value in given.items()}
    call(**copies(fits))
    for word, values in changes.items():
        for value in values:
            with pytest.raises(snap.LaunchError) as refused:
                call(**{**copies(fits), word: value})
            assert f"`{word}`" in str(refused.value) and f"snap.lib.{function}" in str(refused.value), (word, value)


def test_halves_and_read_only_logits():
    with pytest.raises(snap.LaunchError, match="`gate`.*do not divide into two halves"):
        snap.lib.swiglu(zeros(2, 7))
    logits = zeros(2, 8)
    logits.flags.writeable = False
    with pytest.raises(snap.LaunchError, match="`logits`.*read-only"):
        snap.lib.cross_entropy(logits, T, gradient=True, in_place=True)


def test_buffers_that_overlap_are_refused():
    p, m = zeros(16), zeros(8)
    with pytest.raises(snap.LaunchError, match="`parameters`|`first`"):
        snap.lib.adamw(p[:8], zeros(8), p[4:12], m, 1)


# ---- repetitions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", ["layer_norm", "layer_norm_gradient", "gelu", "swiglu_gradient", "rotary", "embedding", "embedding_gradient", "cross_entropy"])
def test_a_call_seen_before_gives_the_same(function):
    fits = dict(CALLS[function][0])
    if function == "cross_entropy":
        fits.update(gradient=True)
    fits = {word: RNG.standard_normal(value.shape).astype(value.dtype) if isinstance(value, np.ndarray) and value.dtype == np.float32 else value
            for word, value in fits.items()}
    call = getattr(snap.lib, function)
    once, again, other = call(**fits), call(**fits), call(**{word: value.copy() if isinstance(value, np.ndarray) else value for word, value in fits.items()})
    for first, second, third in zip(*(found if isinstance(found, tuple) else (found,) for found in (once, again, other))):
        assert first is not second
        np.testing.assert_array_equal(first, second)
        np.testing.assert_array_equal(first, third)


# ---- schedules, and what they compile to ------------------------------------------------------------------------------------


def test_no_races_under_schedules():
    x, w, rows = RNG.standard_normal((5, 256)).astype(np.float32), zeros(256), zeros(5)
    tokens, many = np.array([1, 0, 1, 2, 1, 1, 0], np.int32), np.zeros(130, np.int32)
    begins = np.array([[0, 130, 130], [128, 130, 130]], np.int32)
    counts, starts, order = np.array([2, 4, 1], np.int32), np.array([0, 2, 6], np.int32), np.array([1, 6, 0, 2, 4, 5, 3], np.int32)
    for run, arguments, blocks in (
        (norm_kernel(F32, F32, 4, 1, 64, 64, True, True, True, True), (x, x, w, w, zeros(5, 256), zeros(5, 256), rows, zeros(5), 5, 256, 1e-5), 2),
        (norm_kernel(F32, F32, 4, 8, 8, 64, True, False, False, True), (x, x, w, w, zeros(5, 256), zeros(1), rows, zeros(5), 5, 256, 1e-5), 1),
        (long_norm_kernel(F32, F32, 4, 64, True, True, True, True), (x, x, w, w, zeros(5, 256), zeros(5, 256), rows, zeros(5), 5, 256, 1e-5), 2),
        (norm_gradient_kernel(F32, F32, 4, 1, 64, 64, True, True, True), (x, x, w, rows, rows, x, zeros(5, 256), zeros(2, 2, 256), 5, 256), 2),
        (columns_kernel(F32, F32, 4, 8, 64), (x, zeros(2, 256), zeros(1), 5, 256, 8, 256), 16),
        (held_loss_kernel(F32, I32, 4, True, False, False, 64), (x, tokens[:5], np.ones(1, np.float32), zeros(5, 256), rows, 5, 256, 256, 256, -1), 5),
        (ragged_loss_kernel(F32, I32, 4, True, False, False, 64), (x, tokens[:4], np.ones(1, np.float32), zeros(5, 256), rows, 4, 251, 251, -1), 2),
        (ragged_loss_kernel(F32, I32, 4, True, True, False, 64), (zeros(1), tokens[:4], np.ones(1, np.float32), x.copy(), rows, 4, 251, 253, -1), 2),
        (long_loss_kernel(F32, I32, 4, True, True, False, 64), (zeros(1), tokens[:5], np.ones(1, np.float32), x.copy(), rows, 5, 256, 256, 256, -1), 2),
        (ordering_kernel(I32, 64), (many, begins, zeros(130, dtype=np.int32), 130, 3, 128), 2),
        (slices_kernel(F32, I32, F32, 4, 2, 2, 64), (zeros(7, 8), tokens, order, starts, counts, zeros(3, 8), zeros(8, 8), 7, 8, 1), 2),
    ):
        assert run.races(*arguments, blocks=blocks, seeds=2) == []


def test_kernels_compile_without_spills():
    pytest.importorskip("cuda.bindings")
    for made in (
        norm_kernel(BF16, BF16, 8, 4, 256, 256, True, True, True, True), norm_kernel(BF16, F32, 8, 3, 32, 128, True, True, True, True),
        norm_gradient_kernel(BF16, BF16, 8, 4, 256, 256, True, True, True, 2), norm_gradient_kernel(BF16, F32, 8, 3, 32, 256, True, True, True, SUMS=True),
        columns_kernel(BF16, F32, 8), map_kernel(BF16, 8, "tanh"), map_two_kernel(BF16, 8, "none"), swiglu_gradient_kernel(BF16, 8, True, I32),
        lookup_kernel(BF16, I64, BF16, I32, 8, True), slices_kernel(BF16, I64, BF16, 8), dropout_kernel(BF16, 8, True, True),
        ragged_loss_kernel(BF16, I64, 8, True, False, False), rotary_kernel(BF16, F32, 8, 4, False, False, False, I32), adamw_kernel(F32, BF16, 8, True, True, True), squares_kernel(F32, 4),
    ):
        found = made.resources("sm_90a")
        assert found.spill_stores == found.spill_loads == 0, made


def test_synchronization_points():
    """No more than a hand-written kernel has."""
    kinds = lambda k: [point.kind for point in points(k._the_one({}).synced)]
    assert kinds(norm_kernel(BF16, BF16, 8, 3, 32, 128, True, True, True, True)) == []
    assert kinds(norm_kernel(BF16, BF16, 8, 4, 256, 256, True, True, True, True)) == ["block"]  # of team_sums, called twice a row
    assert kinds(held_loss_kernel(F16, I32, 8, True, False, False)) == ["thread", "block", "block"]  # the copies are their thread's own
    assert kinds(adamw_kernel(F32, None, 4, False, False, False)) == kinds(map_kernel(F32, 4, "tanh")) == []
