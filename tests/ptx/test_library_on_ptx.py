"""Every function of the library, at small sizes: what its kernels are after NVRTC gives what the CPU machine gives.  Attention's kernel,
which takes longer, does so in tests/lib/test_attention.py."""

from __future__ import annotations

import numpy as np
import pytest
from ptx.both import compared

import snap
from snap import lib


def whole(shape, dtype=np.float32, low: int = -3, high: int = 4) -> np.ndarray:
    """Small whole numbers: every sum of products of them is exact, in whatever order."""
    return np.random.default_rng(int(np.prod(shape))).integers(low, high, shape).astype(dtype)


def bf16(x: np.ndarray) -> np.ndarray:
    return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


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
    "gemm bf16": lambda: lib.gemm(bf16(whole((128, 64))), bf16(whole((64, 128)))),
    "gemm bf16 thin": lambda: lib.gemm(bf16(whole((3, 256))), bf16(whole((256, 64)))),
    "gemm f16 bias": lambda: lib.gemm(whole((64, 64), np.float16), whole((64, 64), np.float16), bias=whole(64, np.float16), activation="relu"),
}
NEAR = {"softmax f32": (lambda: lib.softmax(whole((9, 200))), 2e-6), "softmax long": (lambda: lib.softmax(whole((1, 5000))), 2e-6), "softmax f16": (lambda: lib.softmax(whole((5, 64), np.float16)), 2e-3)}


@pytest.mark.parametrize("name", [*CALLS, *NEAR])
def test_the_library_after_the_compiler(name, monkeypatch):
    pytest.importorskip("cuda.bindings.nvrtc")
    call, within = NEAR[name] if name in NEAR else (CALLS[name], 0)
    launches = compared(monkeypatch, within)
    call()
    call()  # in a schedule that is drawn
    assert len(launches) >= 2, "the call launched nothing on the CPU machine"


def test_every_function_is_here():
    names = {name for name in dir(snap.lib) if name in ("gemm", "gemm_tf32", "histogram", "gemv", "reduce", "scan", "sgemm", "softmax", "transpose")}
    assert {name.split()[0] for name in [*CALLS, *NEAR]} == names
