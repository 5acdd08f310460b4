"""Arithmetic on vectors: component by component what scalars give, on both modes of the CPU machine and as CUDA."""

from __future__ import annotations

import numpy as np
import pytest
from check.test_values import defined, ran

from snap import SnapError
from snap._compiler.ir.types import VECTORS

T = np.arange(32)
FLOAT_OPS, INT_OPS = ("+", "-", "*", "/"), ("+", "-", "*", "/", "%", "&", "|", "^")
COMPONENTS = "xyzw"


def written(vector, op: str) -> str:
    """The operation on vectors, with a scalar on either side, and on each component, into four arrays."""
    parts = COMPONENTS[: vector.lanes]
    one = lambda left, right: ", ".join(f"{vector.elem}({left.format(c)} {op} {right.format(c)})" for c in parts)  # noqa: E731
    return f"""
@kernel(threads=32)
def k(x: ptr(const({vector.elem})), w: ptr(const({vector.elem})), y: ptr({vector.elem}), z: ptr({vector.elem})):
    with each(thread, y.view({vector}), z.view({vector})) as i:
        a: {vector} = x.view({vector})[i]
        b: {vector} = w.view({vector})[i]
        s: {vector.elem} = b.{parts[-1]}
        y[3 * i] = a {op} b
        y[3 * i + 1] = a {op} s
        y[3 * i + 2] = s {op} b
        z[3 * i] = {vector}({one("a.{}", "b.{}")})
        z[3 * i + 1] = {vector}({one("a.{}", "s")})
        z[3 * i + 2] = {vector}({one("s", "b.{}")})
"""


def numbers(vector, seed: int) -> np.ndarray:
    rng, count = np.random.default_rng(seed), 32 * vector.lanes
    if vector.elem.is_float:
        values = rng.integers(1, 9, count) / np.float32(4)
        bits = (np.ascontiguousarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)
        return bits if vector.elem.name == "bf16" else values.astype(f"f{vector.elem.bytes}")
    signed = "i" if vector.elem.kind.value == "int" else "u"
    return rng.integers(1, 100, count).astype(f"{signed}{vector.elem.bytes}")


@pytest.mark.parametrize("name", VECTORS)
def test_components_are_what_scalars_give(name):
    vector = VECTORS[name]
    x, w = numbers(vector, 1), numbers(vector, 2)
    for op in FLOAT_OPS if vector.elem.is_float else INT_OPS:
        k = defined(written(vector, op))
        for seed in (None, 1):
            y, z = np.zeros(3 * x.size, x.dtype), np.zeros(3 * x.size, x.dtype)
            k.launch(x, w, y, z, blocks=1, seed=seed)
            np.testing.assert_array_equal(y, z, err_msg=f"{name} {op}")
            assert y.any() or op in "%/&"


@pytest.mark.parametrize("name", ["float4", "double4", "half2", "half4", "bf16_2", "bf16_4", "char4", "ushort2", "long4", "uint2"])
def test_they_compile(name):
    vector = VECTORS[name]
    for op in ("*", "+") if vector.elem.is_float else ("*", "%"):
        assert defined(written(vector, op)).cubin()


def test_signs_functions_and_casts():
    y, z = ran(
        "v: float4 = float4(x[i], -x[i], 2.0, -3.0)\nw = -v\nu = max(v, w, 1.0)\nm = min(0.5, v)\nf = fma(v, 2.0, w)\n"
        "q: int4 = ~int4(v)\ny[i] = w.x + 10.0 * u.y + 100.0 * m.w + 1000.0 * f.z + abs(v).w\nz[i] = q.x + q.w * 100"
    )
    np.testing.assert_array_equal(y, -T + 10.0 * np.maximum(T, 1) + 100.0 * -3 + 1000.0 * 2 + 3)
    np.testing.assert_array_equal(z, ~T + 100 * 2)


def test_assignments_that_add():
    y, _ = ran("v: float2[2]\nv[1] += float2(x[i], 1.0)\nv[1] *= 3\nv[1].y -= 1.0\ny[i] = v[1].x * 10.0 + v[1].y")
    np.testing.assert_array_equal(y, T * 30.0 + 2.0)


def test_only_the_chosen_vector_is_read():
    """The other operand's memory ends there: it must not be read."""
    k = defined(
        "@kernel(threads=32)\ndef k(x: ptr(const(float)), y: ptr(float), n: int):\n"
        "    with each(thread, y.view(float2)) as i:\n        y[i] = x.view(float2)[i] * 2.0 + 1.0 if i < n else float2(0.0)\n"
    )
    for seed in (None, 1):
        y = np.zeros(64, np.float32)
        k.launch(np.ones(20, np.float32), y, 10, blocks=1, seed=seed)
        np.testing.assert_array_equal(y, np.where(np.arange(64) < 20, 3.0, 0.0))


def test_a_vector_is_loaded_once():
    k = defined("@kernel(threads=32)\ndef k(a: float, x: ptr(const(float)), y: ptr(float)):\n    with each(thread, y.view(float4)) as i:\n        y[i] = a * x.view(float4)[i] + y[i]\n")
    assert "= a * reinterpret_cast<const float4*>(x)[i] + reinterpret_cast<float4*>(y)[i];" in k.cuda()
    ptx = k.ptx()
    assert ptx.count("v4.f32") + ptx.count("v4.b32") == 3 and "fma.rn.f32" in ptx


REFUSED = {
    "another vector": ("a: float4 = float4(1.0)\nb = a + int4(1)", "SNAP018", "convert one of them: `float4(v)`"),
    "another size": ("a: float4 = float4(1.0)\nb = a + float2(1.0)", "SNAP018", "take components"),
    "a wider scalar": ("a: float4 = float4(1.0)\nb = a * f64(x[i])", "SNAP018", "would lose precision"),
    "a fraction for integers": ("a: int4 = int4(1)\nb = a * 1.5", "SNAP018", "would drop the fraction"),
    "a number too large": ("a: uchar4 = uchar4(1)\nb = a + 300", "SNAP018", "does not hold 300"),
    "compared": ("a: float4 = float4(1.0)\nif a < 2.0:\n    pass", "SNAP018", "compare components, `a.x < b.x`"),
    "deciding": ("a: float4 = float4(1.0)\nif a:\n    pass", "SNAP018", "take its components"),
    "negated": ("a: float4 = float4(1.0)\nb = not a", "SNAP018", "take its components"),
    "shifted floats": ("a: float4 = float4(1.0)\nb = a << 2", "SNAP018", "takes integers"),
    "remainders of floats": ("a: float4 = float4(1.0)\nb = a % 2.0", "SNAP018", "fmod"),
    "divided by zero": ("a: int4 = int4(1)\nb = a / 0", "SNAP018", "division by zero"),
    "a power": ("a: float4 = float4(1.0)\nb = a ** 2", "SNAP017", "pow"),
    "a function of truth": ("a: float4 = float4(1.0)\nb = isnan(a)", "SNAP018", "takes scalars"),
    "a function of floats": ("a: int4 = int4(1)\nb = sqrt(a)", "SNAP018", "takes floats"),
    "a cast to fewer": ("a: float4 = float4(1.0)\nb = float2(a)", "SNAP018", "has 4 components"),
    "an index": ("a: int4 = int4(1)\ny[a] = 1.0", "SNAP018", "`int4`"),
    "stored as a scalar": ("a: float4 = float4(1.0)\ny[i] = a * 2.0", "SNAP018", "this is `float4`"),
    "added to a scalar": ("b: float = 1.0\nb += float4(1.0)", "SNAP018", "this is `float4`"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    body, code, words = REFUSED[name]
    with pytest.raises(SnapError) as refused:
        ran(body)
    first = refused.value.all[0]
    assert first.code == code, first.render()
    assert words in first.render(), first.render()


