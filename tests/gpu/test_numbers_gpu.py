"""Arithmetic on the GPU gives what the CPU machine gives, bit for bit: casts of odd values, integer division and shifts, rounding to 16 bits."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from snap.diag.source import register_source

FLOATS = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 127.5, 128.5, 255.5, 300.0, -129.5, 32768.0, 65535.5, 70000.0, 2147483520.0, 2147483648.0, -2147483904.0, 4294967296.0,
          9.3e18, -9.4e18, 1.9e19, 1e30, float("inf"), float("-inf"), float("nan"), 1e-40, 65504.0, 65520.0, 3.3895e38, 1.00390625]
INTEGERS = [0, 1, -1, 2, -2, 3, 7, -7, 31, 32, 33, 127, -128, 255, 32767, 2**31 - 1, -(2**31), 5, -5]
TARGETS = {"i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16, "i32": np.int32, "u32": np.uint32, "i64": np.int64, "u64": np.uint64,
           "f16": np.float16, "f32": np.float32, "f64": np.float64}


def both(source: str, type: str, result: str, values: np.ndarray, expression: str) -> tuple[np.ndarray, np.ndarray]:
    name = f"<numbers {source} {type} {result} {expression}>"
    text = f"""
from snap import *
@kernel
@requires(grid[1], block[1], thread[32])
def k(x: ptr(const({source})) @ grid[1], y: ptr(const({source})) @ grid[1], out: ptr({result}) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            with group(thread[1]):
                if i < n:
                    a: {source} = x[i]
                    b: {source} = y[i]
                    mine[0] = {expression}
"""
    register_source(name, text)
    namespace: dict = {}
    exec(compile(text, name, "exec"), namespace)
    left, right = (np.ascontiguousarray(v.ravel()) for v in np.meshgrid(values, values)) if "b" in expression.replace("bf16", "") else (values, values)
    outs = []
    for move in (lambda array: array, lambda array: torch.from_numpy(array).cuda()):
        out = move(np.zeros(left.size, TARGETS[result]))
        namespace["k"][-(-left.size // 32)](move(left.copy()), move(right.copy()), out, left.size)
        outs.append(out if isinstance(out, np.ndarray) else out.cpu().numpy())
    return outs[0], outs[1]


@pytest.mark.parametrize("result", TARGETS)
@pytest.mark.parametrize("source", ["f32", "f64"])
def test_casts(source, result):
    with np.errstate(all="ignore"):
        values = np.array(FLOATS).astype(TARGETS[source])
    cpu, gpu = both(source, source, result, values, f"{result}(a)")
    wrong = [(values[i], cpu[i], gpu[i]) for i in range(values.size) if cpu[i] != gpu[i] and not (cpu[i] != cpu[i] and gpu[i] != gpu[i])]
    assert not wrong


@pytest.mark.parametrize("type", ["i32", "u32", "i64"])
@pytest.mark.parametrize("expression", ["a / b if b != 0 else 7", "a % b if b != 0 else 7", "a << (b & 31)", "a >> (b & 31)", "min(a, b)", "max(a, b) ^ a", "~a | b"])
def test_integers(type, expression):
    values = np.array(INTEGERS, np.int64).astype(TARGETS[type])
    if type == "i32" or type == "i64":
        values = values[values != np.iinfo(TARGETS[type]).min]  # its quotient by -1 overflows, which CUDA leaves open
    cpu, gpu = both(type, type, type, values, expression)
    np.testing.assert_array_equal(cpu, gpu)


@pytest.mark.parametrize("expression", ["f32(bf16(a))", "f32(f16(a) * f16(b))", "f32(bf16(a) + bf16(b))", "sqrt(abs(a))", "min(a, b)", "max(a, b)", "fma(a, b, a)", "a / b", "floor(a) + rint(b)"])
def test_floats(expression):
    values = np.array(FLOATS, np.float32)
    cpu, gpu = both("f32", "f32", "f32", values, expression)
    np.testing.assert_array_equal(cpu, gpu)
