"""What instructions compute, against Python's own integers and fractions; and what the machine refuses, with block, thread and line."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from snap.ptx import PtxFault, run

HEAD = ".version 8.8\n.target sm_90a\n.address_size 64\n"
RANDOM = np.random.default_rng(7)


def kernel(body: str, parameters: int = 3) -> str:
    params = ",\n".join(f".param .u64 p{k}" for k in range(parameters))
    return f"""{HEAD}.visible .entry k({params})
{{
.reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<32>; .reg .b64 %d<32>; .reg .f32 %f<9>; .reg .f64 %g<9>;
mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mad.lo.s32 %r0, %r1, %r2, %r0;
{body}
ret;
}}
"""


def operation(text: str, result: str, *operands: np.ndarray) -> np.ndarray:
    """One instruction, `text` with the names of its operands left out, over arrays."""
    to = np.dtype(result).itemsize
    n = len(operands[0])
    out = np.zeros(n, f"u{to}")
    loads, names = [], []
    for k, x in enumerate(operands):
        size = x.dtype.itemsize
        name = f"%{'d' if size == 8 else 'r'}{10 + k}"
        loads.append(f"ld.param.u64 %d0, [p{k}]; mul.wide.u32 %d1, %r0, {size}; add.s64 %d0, %d0, %d1; ld.global.b{8 * size} {name}, [%d0];")
        names.append(name)
    target = f"%{'d' if to == 8 else 'r'}20"
    store = f"ld.param.u64 %d0, [p{len(operands)}]; mul.wide.u32 %d1, %r0, {to}; add.s64 %d0, %d0, %d1; st.global.b{8 * to} [%d0], {target};"
    source = kernel("\n".join([*loads, f"{text} {target}, {', '.join(names)};", store]), len(operands) + 1)
    run(source, "k", n // 32, 32, [*(x.view(f"u{x.dtype.itemsize}") for x in operands), out])
    return out.view(result)


def integers(type: str, count: int = 256) -> np.ndarray:
    info = np.iinfo(type)
    some = RANDOM.integers(info.min, info.max, count, dtype=type, endpoint=True)
    edges = np.array([info.min, info.max, 0, 1, info.max // 2, min(info.max, 31), 32, 33], type)
    some[: len(edges)] = edges
    RANDOM.shuffle(some)
    return some


def wrapped(value: int, type: str) -> int:
    bits = 8 * np.dtype(type).itemsize
    value &= (1 << bits) - 1
    return value - (1 << bits) if np.dtype(type).kind == "i" and value >> (bits - 1) else value


TYPES = {"s32": "i4", "u32": "u4", "s64": "i8", "u64": "u8"}
INTEGER = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul.lo": lambda a, b: a * b,
    "min": min,
    "max": max,
    "div": lambda a, b: -1 if b == 0 else int(Fraction(a, b)),
    "rem": lambda a, b: -1 if b == 0 else a - b * int(Fraction(a, b)),
}


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("op", INTEGER)
def test_integers(op, type):
    dtype = TYPES[type]
    a, b = integers(dtype), integers(dtype)
    found = operation(f"{op}.{type}", dtype, a, b)
    assert found.tolist() == [wrapped(INTEGER[op](int(x), int(y)), dtype) for x, y in zip(a, b)]


@pytest.mark.parametrize("type", TYPES)
def test_products_of_twice_the_width(type):
    dtype = TYPES[type]
    bits = 8 * np.dtype(dtype).itemsize
    a, b = integers(dtype), integers(dtype)
    found = operation(f"mul.hi.{type}", dtype, a, b)
    assert found.tolist() == [wrapped(int(x) * int(y) >> bits, dtype) for x, y in zip(a, b)]
    if bits == 32:
        wide = dtype[0] + "8"
        assert operation(f"mul.wide.{type}", wide, a, b).tolist() == [int(x) * int(y) for x, y in zip(a, b)]


@pytest.mark.parametrize("type", ["b32", "b64"])
def test_shifts_by_more_than_there_are_bits(type):
    dtype = "u" + str(int(type[1:]) // 8)
    bits = int(type[1:])
    a, n = integers(dtype), RANDOM.integers(0, 100, 256).astype("u4")
    assert operation(f"shl.{type}", dtype, a, n).tolist() == [int(x) << int(k) & (1 << bits) - 1 for x, k in zip(a, n)]
    signed = a.view("i" + dtype[1:])
    found = operation(f"shr.s{bits}", signed.dtype, signed, n)
    assert found.tolist() == [int(x) >> int(k) for x, k in zip(signed, n)]


def test_bits():
    a, b = integers("u4"), integers("u4")
    at, length = RANDOM.integers(0, 40, 256).astype("u4"), RANDOM.integers(0, 40, 256).astype("u4")

    def field(x: int, at: int, length: int) -> int:
        return (x >> at) & ((1 << length) - 1) if at < 32 else 0

    assert operation("bfe.u32", "u4", a, at, length).tolist() == [field(int(x), int(p), int(n)) for x, p, n in zip(a, at, length)]
    masks = [((1 << int(n)) - 1) << int(p) & 0xFFFFFFFF if p < 32 else 0 for p, n in zip(at, length)]
    expected = [(int(x) << int(p) & m) | int(y) & ~m & 0xFFFFFFFF for x, y, p, m in zip(a, b, at, masks)]
    assert operation("bfi.b32", "u4", a, b, at, length).tolist() == expected
    assert operation("popc.b32", "u4", a).tolist() == [int(x).bit_count() for x in a]
    assert operation("clz.b32", "u4", a).tolist() == [32 - int(x).bit_length() for x in a]
    assert operation("brev.b32", "u4", a).tolist() == [int(f"{x:032b}"[::-1], 2) for x in a]


def floats(count: int = 256) -> np.ndarray:
    some = RANDOM.integers(0, 1 << 32, count, dtype=np.uint64).astype(np.uint32).view(np.float32)
    some[: count // 2] = RANDOM.standard_normal(count // 2).astype(np.float32)
    return np.where(np.isfinite(some), some, np.float32(1.5)).astype(np.float32)


def rounded(x: Fraction, mode: str) -> float:
    """A fraction as f32, in a direction."""
    if x == 0:
        return 0.0
    exponent = max(math.floor(math.log2(abs(float(x)))) if 1e-300 < abs(x) < 1e300 else -149, -126) - 23
    for _ in range(3):  # the estimate of the exponent may be off by one
        step = Fraction(2) ** exponent
        if abs(x) >= step * (1 << 24):
            exponent += 1
        elif abs(x) < step * (1 << 23) and exponent > -149:
            exponent -= 1
    low = math.floor(x / step)
    rest = x / step - low
    up = {"rn": rest > Fraction(1, 2) or rest == Fraction(1, 2) and low % 2, "rp": rest > 0, "rm": False, "rz": x < 0 and rest > 0}[mode]
    found = (low + bool(up)) * step
    return float(found) if abs(found) < Fraction(2) ** 128 else math.copysign(math.inf, found)


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("op", ["add", "mul", "fma"])
def test_floats_are_rounded_once_in_the_direction_asked_for(op, mode):
    given = [floats() for _ in range(3 if op == "fma" else 2)]
    found = operation(f"{op}.{mode}.f32", "f4", *given)
    for k, values in enumerate(zip(*given)):
        a, b, *c = (Fraction(float(v)) for v in values)
        exact = a + b if op == "add" else a * b + (c[0] if c else 0)
        expected = rounded(exact, mode)
        if exact != 0 and abs(expected) < 3.4e38 and abs(exact) > Fraction(2) ** -149:
            assert float(found[k]) == expected, (values, op, mode)


def test_conversions():
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 3e9, -3e9, np.nan, np.inf, -np.inf, 1e20, 7.9] * 8, np.float32)
    for word, function in (("rni", np.rint), ("rzi", np.trunc), ("rmi", np.floor), ("rpi", np.ceil)):
        found = operation(f"cvt.{word}.s32.f32", "i4", x)
        expected = np.clip(np.nan_to_num(function(x.astype(np.float64)), nan=0), -(2**31), 2**31 - 1).astype(np.int32)
        assert found.tolist() == expected.tolist()
    big = integers("i8")
    assert operation("cvt.rn.f32.s64", "f4", big).tolist() == [float(np.float32(int(v))) for v in big]


# ---- control -------------------------------------------------------------------------------------------------------------------------------------

COLLATZ = """
mov.u32 %r3, %r0; add.s32 %r3, %r3, 1; mov.u32 %r4, 0;
loop:
setp.eq.s32 %p1, %r3, 1; @%p1 bra done;
and.b32 %r5, %r3, 1; setp.eq.s32 %p2, %r5, 0; @%p2 bra even;
mad.lo.s32 %r3, %r3, 3, 1; bra.uni next;
even: shr.s32 %r3, %r3, 1;
next: add.s32 %r4, %r4, 1; bra.uni loop;
done:
ld.param.u64 %d0, [p0]; mul.wide.u32 %d1, %r0, 4; add.s64 %d0, %d0, %d1; st.global.u32 [%d0], %r4;
"""


def steps(n: int) -> int:
    count = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        count += 1
    return count


def test_threads_take_their_own_way():
    out = np.zeros(200, np.uint32)
    counters = run(kernel(COLLATZ, 1), "k", 4, 50, [out])
    assert out.tolist() == [steps(n + 1) for n in range(200)]
    assert counters.divergent_branches > 0 and counters.thread_instructions > 200 * 5


CALLED = (
    HEAD
    + """
.func (.param .b32 out) twice(.param .b32 x)
{ .reg .b32 %r<3>; ld.param.u32 %r1, [x]; add.s32 %r2, %r1, %r1; st.param.b32 [out], %r2; ret; }
.visible .entry k(.param .u64 p0)
{
.reg .b32 %r<9>; .reg .b64 %d<3>;
mov.u32 %r1, %tid.x;
{ .param .b32 a; st.param.b32 [a], %r1; .param .b32 b; call.uni (b), twice, (a); ld.param.b32 %r2, [b]; }
{ .param .b32 a; st.param.b32 [a], %r2; .param .b32 b; call.uni (b), twice, (a); ld.param.b32 %r2, [b]; }
ld.param.u64 %d1, [p0]; mul.wide.u32 %d2, %r1, 4; add.s64 %d1, %d1, %d2; st.global.u32 [%d1], %r2;
ret;
}
"""
)


def test_functions_are_called():
    out = np.zeros(40, np.uint32)
    run(CALLED, "k", 1, 40, [out])
    assert out.tolist() == [4 * k for k in range(40)]


LOCK = """
ld.param.u64 %d0, [p0];
again: atom.global.cas.b32 %r3, [%d0], 0, 1; setp.ne.s32 %p1, %r3, 0; @%p1 bra again;
ld.global.u32 %r4, [%d0+4]; add.s32 %r4, %r4, 1; st.global.u32 [%d0+4], %r4;
membar.gl; st.global.u32 [%d0], 0;
"""


def test_a_spin_lock_within_a_warp_ends():
    words = np.zeros(2, np.uint32)
    run(kernel(LOCK, 1), "k", 2, 8, [words])
    assert words.tolist() == [0, 16]


# ---- what is refused -----------------------------------------------------------------------------------------------------------------------------

STORE = "ld.param.u64 %d0, [p0]; mul.wide.u32 %d1, %r0, 4; add.s64 %d0, %d0, %d1;"


@pytest.mark.parametrize(
    "body, kind, who",
    [
        (f"{STORE} st.global.u32 [%d0], %r0;", "out of bounds", (0, 20)),
        (f"{STORE} st.global.u32 [%d0+2], %r0;", "misaligned", (0, 0)),
        (f"{STORE} ld.global.v2.u32 {{%r3, %r4}}, [%d0];", "misaligned", (0, 1)),
        ("setp.eq.s32 %p1, %r0, 3; @%p1 bra out; bar.warp.sync -1; out: bar.sync 0; bar.warp.sync -1;", "deadlock", (0, 0)),
        ("setp.lt.s32 %p1, %r0, 8; @%p1 bar.sync 1, 64;", "barrier mismatch", (0, 0)),
        ("setp.gt.s32 %p1, %r0, 5; @%p1 trap;", "trap", (0, 6)),
        ("frobnicate.s32 %r3, %r3;", "unknown", (0, 0)),
        ("forever: add.s32 %r3, %r3, 1; bra.uni forever;", "too long", (0, 0)),
        ("forever: bra.uni forever;", "deadlock", (0, 0)),
    ],
)
def test_faults_say_who_and_where(body, kind, who):
    with pytest.raises(PtxFault) as caught:
        run(kernel(body, 1), "k", 1, 32, [np.zeros(20, np.uint32)], limit=100_000)
    assert (caught.value.kind, (caught.value.block, caught.value.thread)) == (kind, who)
    assert caught.value.span.line > 3


@pytest.mark.parametrize(
    "grid, block, arguments, message",
    [
        (1, 2000, [np.zeros(1)], "at most 1024 threads"),
        (0, 32, [np.zeros(1)], "positive extents"),
        (1, 32, [], "takes 1 arguments"),
        (1, 32, [object()], "not an argument of a kernel"),
        (1, 32, [np.zeros((4, 4))[:, ::2]], "not contiguous"),
    ],
)
def test_bad_launches_run_nothing(grid, block, arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        run(kernel("", 1), "k", grid, block, arguments)


def test_the_kernel_is_named():
    with pytest.raises(ValueError, match="there is no kernel `other` in this module, which has k"):
        run(kernel("", 1), "other", 1, 32, [np.zeros(1)])
