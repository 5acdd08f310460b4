"""Every function of the library, at small sizes: what its kernels are after NVRTC gives what the CPU machine gives.  Attention's kernel,
which takes longer, does so in tests/lib/test_attention.py."""

from __future__ import annotations

import numpy as np
import pytest
from ptx.both import compared

from snap import lib


def whole(shape, dtype=np.float32, low: int = -3, high: int = 4) -> np.ndarray:
    """Small whole numbers: every sum of products of them is exact, in whatever order."""
    return np.random.default_rng(int(np.prod(shape))).integers(low, high, shape).astype(dtype)


def bf16(x: np.ndarray) -> np.ndarray:
    return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def fp8(shape) -> np.ndarray:
    """Bits of 0, 1, 2 and -1 in e4m3, of 0, 0.5, 2 and -0.5 in e5m2."""
    return np.random.default_rng(int(np.prod(shape))).choice(np.array([0, 0x38, 0x40, 0xB8], np.uint8), shape)


CALLS = {
    "reduce f32": lambda: lib.reduce(whole(1500)),
    "reduce i32 max": lambda: lib.reduce(whole(1000, np.int32), op="max"),
    "reduce u8": lambda: lib.reduce(whole(777, np.uint8, 0, 9)),
    "reduce f16": lambda: lib.reduce(whole(515, np.float16)),
    "reduce f64 min": lambda: lib.reduce(whole(300, np.float64), op="min"),
    "scan i32": lambda: lib.scan(whole(3000, np.int32)),
    "scan f32 exclusive": lambda: lib.scan(whole(1001), exclusive=True),
    "scan i64 xor": lambda: lib.scan(whole(800, np.int64), op="xor"),
    "histogram": lambda: lib.histogram(whole(4000, np.uint8, 0, 256)),
    "transpose f32": lambda: lib.transpose(whole((70, 45))),
    "transpose u8": lambda: lib.transpose(whole((33, 70), np.uint8, 0, 200)),
    "gemv f32": lambda: lib.gemv(whole((37, 300)), whole(300)),
    "gemv one row": lambda: lib.gemv(whole((1, 4096)), whole(4096)),
    "gemv f16": lambda: lib.gemv(whole((20, 128), np.float16), whole(128, np.float16)),
    "sgemm": lambda: lib.sgemm(whole((40, 17)), whole((17, 30)), alpha=2.0),
    "gemm_tf32": lambda: lib.gemm_tf32(whole((64, 24)), whole((24, 40))),
    "gemm_fp8": lambda: lib.gemm_fp8(fp8((40, 40)), fp8((24, 40)).T, whole(1, low=1), whole(1, low=2)),
    "gemm_fp8 of two types, rows": lambda: lib.gemm_fp8(fp8((9, 40)), fp8((24, 40)).T, whole(9), whole(24), fast=True, a_dtype="e5m2"),
    "gemm_batched": lambda: lib.gemm_batched(whole((2, 40, 24), np.float16), whole((2, 24, 16), np.float16)),
    "gemm_grouped": lambda: lib.gemm_grouped(whole((90, 24), np.float16), whole((3, 24, 16), np.float16), np.array([10, 10, 90], np.int32)),
    "gemm bf16": lambda: lib.gemm(bf16(whole((128, 64))), bf16(whole((64, 128)))),
    "gemm bf16 thin": lambda: lib.gemm(bf16(whole((3, 256))), bf16(whole((256, 64)))),
    "gemm f16 bias": lambda: lib.gemm(whole((64, 64), np.float16), whole((64, 64), np.float16), bias=whole(64, np.float16), activation="relu"),
}
def some(shape, dtype=np.float32) -> np.ndarray:
    return np.random.default_rng(int(np.prod(shape)) + 1).standard_normal(shape).astype(dtype)


def _norm_gradient(length: int):
    x, weight = some((5, length)), some(length)
    _, mean, rstd = lib.layer_norm(x, weight, statistics=True)
    lib.layer_norm_gradient(some((5, length)), x, weight, mean, rstd, grad_residual=x)


def _rms_gradient():
    x, weight = some((3, 40)), some(40)
    _, rstd = lib.rms_norm(x, weight, statistics=True)
    lib.rms_norm_gradient(x, x, weight, rstd)


def _adamw():
    lib.adamw(some(333), some(333, np.float16), some(333), np.abs(some(333)), 3, decayed=100, copy=np.zeros(333, np.float16))


TURN = some((6, 8))
# What computes by functions that a GPU approximates, and sums of other than whole numbers: how far apart results may be.
NEAR = {
    "softmax f32": (lambda: lib.softmax(whole((9, 200))), 2e-6),
    "softmax long": (lambda: lib.softmax(whole((1, 5000))), 2e-6),
    "softmax f16": (lambda: lib.softmax(whole((5, 64), np.float16)), 2e-3),
    "layer_norm f32": (lambda: lib.layer_norm(some((5, 72)), some(72), some(72), residual=some((5, 72)), statistics=True), 1e-5),
    "layer_norm_gradient": (lambda: _norm_gradient(72), 1e-4),
    "rms_norm f16": (lambda: lib.rms_norm(some((4, 33), np.float16), some(33)), 2e-3),
    "rms_norm_gradient": (_rms_gradient, 1e-4),
    "gelu": (lambda: lib.gelu(some((7, 30))), 1e-5),
    "gelu_gradient tanh": (lambda: lib.gelu_gradient(some(100), some(100), approximate="tanh"), 1e-4),
    "swiglu": (lambda: lib.swiglu(some((3, 64), np.float16)), 2e-3),
    "swiglu_gradient": (lambda: lib.swiglu_gradient(some((3, 20)), some((3, 20)), some((3, 20))), 1e-4),
    "rotary": (lambda: lib.rotary(some((2, 3, 6, 16)), np.cos(TURN), np.sin(TURN)), 1e-5),
    "rotary_gradient": (lambda: lib.rotary_gradient(some((2, 6, 16)), np.cos(TURN), np.sin(TURN), interleaved=True), 1e-5),
    "embedding": (lambda: lib.embedding(whole((2, 5), np.int32, 0, 9), some((9, 24)), positions=some((5, 24))), 0),
    "embedding_gradient": (lambda: lib.embedding_gradient(some((2, 5, 24)), whole((2, 5), np.int32, 0, 9), 9), 1e-5),
    "cross_entropy": (lambda: lib.cross_entropy(some((4, 300)), whole(4, np.int64, 0, 300), gradient=True), 1e-5),
    "dropout": (lambda: lib.dropout(some(205), 0.3, 7), 1e-6),
    "dropout_gradient": (lambda: lib.dropout_gradient(some(64), 0.3, 7), 1e-6),
    "column_sums": (lambda: lib.column_sums(some((70, 19))), 1e-4),
    "global_norm": (lambda: lib.global_norm(some(700), clip=1.0), 1e-4),
    "adamw": (_adamw, 1e-3),
}


@pytest.mark.parametrize("name", [*CALLS, *NEAR])
def test_the_library_after_the_compiler(name, monkeypatch):
    pytest.importorskip("cuda.bindings.nvrtc")
    call, within = NEAR[name] if name in NEAR else (CALLS[name], 0)
    launches = compared(monkeypatch, within)
    call()
    call()  # in a schedule that is drawn
    assert len(launches) >= 2, "the call launched nothing on the CPU machine"


def test_every_function_is_here():
    elsewhere = {"attention", "attention_gradient"}
    calls = {name for name in lib.__all__ if callable(getattr(lib, name))}
    assert {name.split()[0] for name in [*CALLS, *NEAR]} == calls - elsewhere
