"""Constexpr parameters that calls leave out: types and sizes, which the arguments tell."""

from __future__ import annotations

import pytest
from check.checking import codes, errors, execute, program

import snap

ONE = "@device(thread)\ndef f({}) -> T:\n    return {}\n"
LOCALS = "t: int @ thread[1] = id()\nh: f16 @ thread[1] = f16(t)\nd: f64 @ thread[1] = f64(t)\na: int[2] @ thread[1]\nb: float[2, 3] @ thread[1]\nv: float4 @ thread[1] = float4(t)\ns: shared(u8[4, 6])\n"
PARAMS = "x: ptr(const(bf16)), y: ptr(float, (n, 8)), n: int"


def told(params: str, given: str, value: str = "T(1)", returned: str = "T") -> list:
    """What a call's arguments tell: the result is used as what it should be."""
    before = f"@device(thread)\ndef f({params}) -> {returned}:\n    return {value}\n"
    code = "with each(block):\n" + "\n".join(f"    {line}" for line in LOCALS.splitlines()) + f"\n    r: {{}} @ thread[1] = f({given})"
    return [before, code]


def accepted(params: str, given: str, type: str, value: str = "T(1)", returned: str = "T") -> bool:
    before, code = told(params, given, value, returned)
    return codes(code.format(type), "grid[1], block[1], thread[64]", PARAMS, before) == []


@pytest.mark.parametrize("param, given, type", [
    ("v: T", "t", "int"), ("v: T", "h", "f16"), ("v: T", "d", "f64"), ("v: T", "1", "int"), ("v: T", "1.5", "float"), ("v: T", "t > 1", "bool"), ("v: T", "a[0]", "int"), ("v: T", "x[0]", "bf16"),
    ("v: const(T)", "h", "f16"), ("p: ptr(const(T)) @ grid[1]", "x", "bf16"), ("p: ptr(const(T), (4, 6)) @ block[1]", "s", "u8"), ("p: ptr(shared(const(T))) @ block[1]", "s", "u8"),
    ("r: ref(T[2])", "a", "int"), ("r: T[2, 3]", "b", "float"), ("r: ref(T[3])", "b[1]", "float"), ("r: T[2]", "a.view(u32)", "u32"), ("p: ptr(const(T)) @ grid[1]", "x.view(u16)", "u16"),
])
def test_types_are_told(param, given, type):
    assert accepted(f"{param}, T: constexpr(type)", given, type)


@pytest.mark.parametrize("param, given, n", [
    ("r: ref(int[N])", "a", 2), ("r: float[2, N]", "b", 3), ("r: float[N, 3]", "b", 2), ("p: ptr(shared(const(u8)), (N, 6)) @ block[1]", "s", 4), ("p: ptr(const(float), (M, N)) @ grid[1], M: int", "y, n", 8),
    ("p: ptr(const(u8), (N,)) @ block[1]", "s[1]", 6), ("r: ref(float[N])", "b[t % 2, 0:1]", None), ("p: ptr(const(u8), (2, N)) @ block[1]", "tile(s, (0, 0), (2, 3))", 3),
])
def test_sizes_are_told(param, given, n):
    before, code = told(f"{param}, N: constexpr(int)", given, "N", "int")
    before = before.replace("return N", f"c: int[N - {n} + 1]\n    d: int[{n} - N + 1]\n    return N")  # arrays have an element
    found = codes(code.format("int"), "grid[1], block[1], thread[64]", PARAMS, before)
    assert found == [] if n else found


def test_memory_decides_before_values_and_values_before_numbers():
    pair = "p: ptr(const(T)) @ grid[1], v: T, w: T, T: constexpr(type)"
    assert accepted(pair, "x, 1, 2", "bf16") and accepted(pair, "y, h, 2", "float") and not accepted(pair, "x, d, 2", "bf16")
    assert accepted("v: T, w: T, T: constexpr(type)", "h, 1.5", "f16") and accepted("v: T, w: T, T: constexpr(type)", "1, 1.5", "float") and accepted("v: T, w: T, T: constexpr(type)", "1.5, 1", "float")
    assert accepted("v: T, p: ptr(const(T)) @ grid[1], T: constexpr(type)", "1, x", "bf16") and accepted("v: T, p: ptr(const(T), (1, 1)) @ grid[1], T: constexpr(type)", "h, y", "float")
    assert not accepted("v: T, w: T, T: constexpr(type)", "h, d", "f64")  # two values
    assert accepted("v: T, w: T, T: constexpr(type)", "h, d, T=f64", "f64") and accepted("v: T, w: T, T: constexpr(type)", "h, d, f64", "f64")


def test_what_is_said_or_has_a_default_is_not_told():
    assert accepted("v: T, T: constexpr(type)", "t, T=float", "float") and accepted("v: T, T: constexpr(type)", "1, f64", "f64")
    assert accepted("r: ref(T[N]), T: constexpr(type), N: constexpr(int) = 2", "a", "int") and not accepted("r: ref(T[N]), T: constexpr(type), N: constexpr(int) = 3", "a", "int")


@pytest.mark.parametrize("param, given, fragments", [
    ("T: constexpr(type)", "", ["missing `T`", "no type of another parameter names `T` alone"]), ("p: ptr(const(float), (N,)) @ grid[1], T: constexpr(type), N: constexpr(int)", "x, T=int", ["length is not known", "N=64"]),
    ("v: T, w: T, T: constexpr(type)", "h, d", ["`f16` by `v`", "`f64` by `w`", "T=f16"]), ("r: ref(T[N]), q: ref(float[N, 3]), T: constexpr(type), N: constexpr(int)", "a, b", []),
    ("v: T, T: constexpr(type)", "t, T=3", ["`T` takes a type"]), ("p: ptr(const(float), (N, 8)) @ grid[1], T: constexpr(type), N: constexpr(int)", "y, T=int", ["not a constant"]),
    ("p: ptr(const(float), (N,)) @ grid[1], T: constexpr(type), N: constexpr(int)", "y, T=int", ["2 dimensions", "has 1"]), ("v: T, T: constexpr(type)", "nothing", ["nothing"]),
])
def test_the_error_says_what_was_tried(param, given, fragments):
    before, code = told(param, given)
    found = errors(code.format("float"), "grid[1], block[1], thread[64]", PARAMS, before)
    if not fragments:
        assert not found
    for fragment in fragments:
        assert fragment in found[0].render(), found[0].render()
    assert len(found) <= 1


def test_an_argument_is_looked_at_without_its_effects():
    """A call, a collective and an atomic in an argument happen once."""
    space = execute("@device(thread)\ndef f(v: T, T: constexpr(type)) -> T:\n    return v + v\n@device(thread)\ndef g(p: ptr(int) @ grid[1]) -> int:\n    print(1)\n    return 3\n"
                    "@kernel(threads=32)\ndef k(p: ptr(int)):\n    with each(thread):\n        a: int = f(g(p))\n        b: int = f(atomic.add(p, 0, 1))\n    with each(warp):\n        c: int @ thread[1] = id()\n"
                    "        d: int @ thread[1] = f(intrinsic.shfl_up(c, 1))\n")
    text = space["k"].cuda().partition("void __launch_bounds__")[2]
    assert text.count("g(p)") == 1 and text.count("atomicAdd") == 1 and text.count("__shfl_up_sync") == 1


def test_types_in_every_place_of_a_function():
    body = "    a: T[2] @ thread[1]\n    s: shared(T[64])\n    with each(thread, s, y) as t:\n        v: T = 0\n        a[0] = T(t)\n        s[t] = a[0] + v\n        y[t] = T(s[t]) + T(x.view(T)[t])\n"
    text = f"@kernel(threads=64)\ndef k(x: ptr(const(u32)), y: ptr(T), T: constexpr(type)):\n    with each(block, y):\n{body.replace('    ', '        ', 1).replace(chr(10) + '    ', chr(10) + '        ')}"
    k = execute(text)["k"]
    assert "float* y" in k.cuda(T="f32") and "int* y" in k.cuda(T=int) and k.generic == ["T"]
    for wrong in (3, "f31", None, list):
        with pytest.raises(snap.SnapError, match="takes a type"):
            k.specialize(T=wrong)
    assert program("@device(thread)\ndef f():\n    v: constexpr(type) = float") == [("SNAP017", 3)]
