"""Arithmetic against an oracle of C's integers and exact fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machine import build as b

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, ScalarKind
from snap.machine import run_reference
from snap.machine.lanes import numbers

INTEGERS = [I8, I16, I32, I64, U8, U16, U32, U64]
FLOATS = [F16, BF16, F32, F64]


def run(expression, arrays, types, result):
    """Evaluate `expression(*loaded)` for each lane."""
    handles = [b.array(f"a{k}", t, True) for k, t in enumerate(types)]
    out = b.array("out", result)
    i = b.thread_id()
    body = [b.store(out, i, expression(*(b.load(h, i) for h in handles)))]
    written = np.zeros(32, numbers.MEMORY[result])
    run_reference(b.kernel([*handles, out], body), [*(np.resize(a, 32) for a in arrays), written], 1)
    return written


def wrap(value, type):
    value &= (1 << type.bits) - 1
    return value - (1 << type.bits) if type.kind is ScalarKind.INT and value >> (type.bits - 1) else value


DIVISIONS = ("/", "%", "//", "mod")


def oracle(op, x, y, type):
    if op in DIVISIONS and y == 0:
        return wrap(-1, type) if op in ("/", "//") else x
    if op in ("//", "mod"):
        return wrap(x // y if op == "//" else x % y, type)
    if op in ("<<", ">>"):
        if not 0 <= y < type.bits:
            return 0 if op == "<<" or x >= 0 else -1
        return wrap(x << y if op == "<<" else x >> y, type)
    quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) if op in "/%" else 0
    return wrap({"+": x + y, "-": x - y, "*": x * y, "/": quotient, "%": x - quotient * y, "&": x & y, "|": x | y, "^": x ^ y}[op], type)


def integers(type):
    info = np.iinfo(numbers.REGISTER[type])
    edges = st.sampled_from([0, 1, 2, 7, int(info.max), int(info.min), int(info.max) - 1, int(info.min) + 1] + ([-1, -2, -7] if info.min < 0 else []))
    return edges | st.integers(int(info.min), int(info.max))


@pytest.mark.parametrize("type", INTEGERS, ids=str)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_integer_arithmetic_is_c(type, data):
    xs = data.draw(st.lists(integers(type), min_size=32, max_size=32))
    ys = data.draw(st.lists(integers(type), min_size=32, max_size=32))
    a, c = (np.array(v, numbers.REGISTER[type]) for v in (xs, ys))
    for op in ("//", "mod", *"+-*/%&|^"):
        got = run(lambda x, y, op=op: b.binary(op, x, y), [a, c], [type, type], type)
        assert got.tolist() == [oracle(op, x, y, type) for x, y in zip(xs, ys)], op
    constant = ys[0]
    for op in DIVISIONS:
        got = run(lambda x, op=op: b.binary(op, x, b.const(constant, type)), [a], [type], type)
        assert got.tolist() == [oracle(op, x, constant, type) for x in xs], (op, constant)


@pytest.mark.parametrize("type", INTEGERS, ids=str)
def test_shifts_clamp(type):
    x = np.array([1, -1, 77, -128], np.int64).astype(numbers.REGISTER[type]).repeat(8)
    n = np.array([0, 1, type.bits - 1, type.bits, type.bits + 1, 100, -1, 3] * 4, np.int32)
    for op in ("<<", ">>"):
        got = run(lambda a, c, op=op: b.binary(op, a, c), [x, n], [type, I32], type)
        assert got.tolist() == [oracle(op, int(v), int(k), type) for v, k in zip(x, n)]
        for k in (0, 1, type.bits - 1, type.bits, 200):
            got = run(lambda a, op=op, k=k: b.binary(op, a, b.const(k)), [x], [type], type)
            assert got.tolist() == [oracle(op, int(v), k, type) for v in x]


@pytest.mark.parametrize("source", [*INTEGERS, *FLOATS, BOOL], ids=str)
@pytest.mark.parametrize("to", [*INTEGERS, BOOL], ids=str)
def test_casts_to_integers(source, to):
    values = [0, 1, 3, 100, 127, 128, 255, 300, 40000, 65535, 2**31 - 1, 2**31, 2**40, 2**63, 2**64, -1, -3, -40000, -(2**31), -(2**40)]
    if source.is_float:
        values = [float(v) for v in values] + [0.5, -0.5, 2.75, -2.75, float("nan"), float("inf"), -float("inf")]
        with np.errstate(all="ignore"):
            held = [float(numbers.constant(v, source)) for v in values]
    else:
        held = [bool(v) if source == BOOL else wrap(v, source) for v in values]
    memory = np.array([numbers.to_memory(numbers.constant(v, source), source) for v in held], numbers.MEMORY[source])
    got = run(lambda x: ir.Cast(x, to, span=b.SPAN), [memory], [source], to)[:len(held)]
    for v, g in zip(held, got.tolist()):
        if to == BOOL:
            want = v != 0
        elif source.is_float:
            info = np.iinfo(numbers.REGISTER[to])
            low, high = int(info.min), int(info.max)
            top = (low if to.kind is ScalarKind.INT else 1 << (to.bits - 1) if to.bits >= 32 else high) if F64 == source or to.bits == 64 else 0  # what PTX makes of NaN
            want = top if v != v else high if v >= float(high) else low if v <= float(low) else int(v)
        else:
            want = wrap(int(v), to)
        assert g == want, (v, source, to)


def nearest(exact, type):
    """Round a fraction to nearest even by searching the neighbors of a close guess."""
    bits, exponent_low = {F16: (11, -24), BF16: (8, -133), F32: (24, -149)}[type]
    if exact == 0:
        return 0.0
    e = max(exact.__abs__().numerator.bit_length() - abs(exact).denominator.bit_length() - bits, exponent_low)
    for shift in (e - 1, e, e + 1):
        if shift < exponent_low:
            continue
        unit = Fraction(2) ** shift
        scaled = exact / unit
        rounded = round(scaled)
        if abs(rounded) <= 1 << bits:
            return float(rounded * unit)
    raise AssertionError(exact)


@pytest.mark.parametrize("type", [F16, BF16, F32], ids=str)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_floats_round_once(type, data):
    limit = {F16: 100.0, BF16: 1e10, F32: 1e10}[type]
    draw = st.lists(st.floats(-limit, limit, width=32), min_size=32, max_size=32)
    with np.errstate(all="ignore"):
        held = [np.array([float(numbers.constant(v, type)) for v in data.draw(draw)]) for _ in range(3)]
    memory = [np.array([numbers.to_memory(numbers.constant(v, type), type) for v in h], numbers.MEMORY[type]) for h in held]
    x, y, z = ([Fraction(v) for v in h.tolist()] for h in held)
    cases = {
        "+": ([p + q for p, q in zip(x, y)], lambda p, q, r: b.binary("+", p, q)),
        "*": ([p * q for p, q in zip(x, y)], lambda p, q, r: b.binary("*", p, q)),
        "/": ([p / q if q else None for p, q in zip(x, y)], lambda p, q, r: b.binary("/", p, q)),
        "fma": ([p * q + s for p, q, s in zip(x, y, z)], lambda p, q, r: ir.Math("fma", (p, q, r), type, span=b.SPAN)),
    }
    for name, (exact, expression) in cases.items():
        got = numbers.from_memory(run(expression, memory, [type] * 3, type), type).astype(np.float64)
        for want, g in zip(exact, got.tolist()):
            if want is not None and abs(want) < {F16: 60000, BF16: 10**38, F32: 10**38}[type]:
                assert g == nearest(want, type), (name, want, g)


def test_fma_keeps_the_sign_of_zero():
    operands = [np.array(column) for column in ([-0.0, 0.0, -0.0, 1.0], [3.0, 3.0, 3.0, 1.0], [-0.0, -0.0, 0.0, -1.0])]
    got = run(lambda p, q, r: ir.Math("fma", (p, q, r), F64, span=b.SPAN), operands, [F64] * 3, F64)
    np.testing.assert_array_equal(np.signbit(got[:4]), [True, False, False, False])


def test_fma_is_rounded_once_where_two_roundings_differ():
    x = np.float32(1 + 2**-12)
    operands = [np.full(32, x), np.full(32, x), np.full(32, np.float32(-1))]
    got = run(lambda p, q, r: ir.Math("fma", (p, q, r), F32, span=b.SPAN), operands, [F32] * 3, F32)
    assert got[0] == np.float32(float(Fraction(float(x)) ** 2 - 1))


def test_bf16_keeps_nan_and_infinity():
    with np.errstate(all="ignore"):
        for value in (float("nan"), float("inf"), -float("inf"), 3.4e38, 1e-45):
            bits = numbers.bf16_bits(np.float32(value))
            back = float(numbers.from_bf16_bits(bits))
            assert back != back if value != value else back in (value, np.inf, 0.0, float(np.float32(9.18e-41)))


def test_tf32_keeps_ten_bits():
    x = np.array([1 + 2**-10, 1 + 2**-11, 1 + 2**-12, 3.0, np.inf, -np.inf], np.float32)
    assert numbers.round_tf32(x).tolist() == [1 + 2**-10, 1 + 2**-10, 1.0, 3.0, np.inf, -np.inf]
    assert np.isnan(numbers.round_tf32(np.array([np.nan], np.float32)))[0]


def test_boxes_are_rounded_to_even():
    """Bits that an H200 was seen to load."""
    seen = {0x7922F000: 0x79230000, 0xF3519000: 0xF3518000, 0x08EC1000: 0x08EC0000, 0xC152B000: 0xC152C000, 0x7F7FFFFF: 0x7F800000,
            0x7F7FEFFF: 0x7F7FE000, 0xFF800000: 0xFF800000, 0x7FC00000: 0x7FFFE000, 0xFFC12345: 0x7FFFE000, 0x7F800001: 0x7FFFE000,
            0x80000000: 0x80000000, 0x1000: 0, 0x1001: 0x2000, 0x3000: 0x4000, 0x807FF000: 0x80800000}
    given = np.array(list(seen), np.uint32).view(np.float32)
    assert numbers.loaded_as_tf32(given).view(np.uint32).tolist() == list(seen.values())


@pytest.mark.parametrize("type", [I32, U32, I64, U64], ids=str)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_bit_functions(type, data):
    xs = data.draw(st.lists(integers(type), min_size=32, max_size=32))
    ys = data.draw(st.lists(integers(type), min_size=32, max_size=32))
    a, c = (np.array(v, numbers.REGISTER[type]) for v in (xs, ys))

    def bits(v):
        return v & ((1 << type.bits) - 1)

    def unary(op, result):
        return run(lambda x: ir.Math(op, (x,), result, span=b.SPAN), [a], [type], result).tolist()

    assert unary("popc", I32) == [bin(bits(v)).count("1") for v in xs]
    assert unary("clz", I32) == [type.bits - bits(v).bit_length() for v in xs]
    assert unary("ffs", I32) == [(bits(v) & -bits(v)).bit_length() for v in xs]
    assert [bits(v) for v in unary("brev", type)] == [int(f"{bits(v):0{type.bits}b}"[::-1], 2) for v in xs]
    got = run(lambda x, y: ir.Math("mulhi", (x, y), type, span=b.SPAN), [a, c], [type, type], type).tolist()
    assert got == [wrap((x * y) >> type.bits, type) for x, y in zip(xs, ys)]


def packed(word: int, low: int, bits: int, signed: bool) -> int:
    """A number that stands in some bits of a word."""
    piece = (word >> low) % (1 << bits)
    return piece - (1 << bits) if signed and piece >= 1 << (bits - 1) else piece


EDGES = (0, -1, 0x7F7F7F7F, 0x80808080 - (1 << 32), 0x7FFF7FFF, 0x80008000 - (1 << 32), (1 << 31) - 1, -(1 << 31))


@pytest.mark.parametrize("op, bits, first", [("dp4a", 8, 0), ("dp2a_lo", 16, 0), ("dp2a_hi", 16, 2)])
@pytest.mark.parametrize("type", [I32, U32], ids=str)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_products_of_what_is_packed(type, op, bits, first, data):
    words = st.one_of(integers(type), st.sampled_from([wrap(v, type) for v in EDGES]))
    xs, ys, zs = (data.draw(st.lists(words, min_size=32, max_size=32)) for _ in range(3))
    given = [np.array(v, numbers.REGISTER[type]) for v in (xs, ys, zs)]
    got = run(lambda x, y, z: ir.Math(op, (x, y, z), type, span=b.SPAN), given, [type] * 3, type).tolist()
    signed = type == I32
    assert got == [
        wrap(z + sum(packed(x, k * bits, bits, signed) * packed(y, 8 * (first + k), 8, signed) for k in range(32 // bits)), type)
        for x, y, z in zip(xs, ys, zs)
    ]


@pytest.mark.parametrize("op, value, want", [
    ("round", [0.5, -0.5, 2.5, 0.49999997, -2.5, 8388609.0], [1, -1, 3, 0, -3, 8388609]),
    ("rint", [0.5, 1.5, 2.5, -0.5], [0, 2, 2, -0.0]),
    ("rsqrt", [4.0, 0.25], [0.5, 2.0]),
    ("exp10", [0.0, 2.0], [1.0, 100.0]),
    ("erf", [0.0, 100.0], [0.0, 1.0]),
    ("cbrt", [27.0], [3.0]),
    ("trunc", [-2.7, 2.7], [-2.0, 2.0]),
])
def test_float_functions(op, value, want):
    got = run(lambda x: ir.Math(op, (x,), F32, span=b.SPAN), [np.array(value, np.float32)], [F32], F32)[:len(want)]
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_minimum_ignores_nan_as_fmin_does():
    a, c = np.array([np.nan, 1.0, 2.0], np.float32), np.array([1.0, np.nan, -2.0], np.float32)
    got = run(lambda x, y: ir.Math("min", (x, y), F32, span=b.SPAN), [np.resize(a, 30), np.resize(c, 30)], [F32, F32], F32)
    assert got[:3].tolist() == [1.0, 1.0, -2.0]


def test_bitcasts():
    x = np.array([1.0, -0.0, 2.5], np.float32)
    got = run(lambda v: ir.Bitcast(v, U32, span=b.SPAN), [np.resize(x, 30)], [F32], U32)
    assert got[:3].tolist() == x.view(np.uint32).tolist()
    half = np.array([0x3F80, 0xBF80, 0x4049], np.uint16)
    got = run(lambda v: ir.Bitcast(v, BF16, span=b.SPAN), [np.resize(half, 30)], [U16], BF16)
    assert got[:3].tolist() == half.tolist()
