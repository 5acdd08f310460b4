"""The values of the slow interpreter: scalar types, C's conversions, arithmetic that rounds and wraps, and how values lie in memory.

A scalar type is a string, `i32`, `bf16`; a vector is ("vec", "f32", 4).  Integers are Python's, wrapped; floats of every type are Python's, rounded to the type.
The type of a number written in the source is INT or FLOAT until it meets something.
"""

from __future__ import annotations

import math
import struct
from ctypes import c_float
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

INT, FLOAT = "a whole number", "a number with a point"
LITERALS = (INT, FLOAT)
WIDTH = {"i8": 8, "i16": 16, "i32": 32, "i64": 64, "u8": 8, "u16": 16, "u32": 32, "u64": 64}
BITS = {"f16": (11, -14, 15), "bf16": (8, -126, 127), "f32": (24, -126, 127), "f64": (53, -1022, 1023)}  # of the fraction; least and largest exponent
DTYPE = {
    "bool": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
    "f16": np.float16, "bf16": np.uint16, "f32": np.float32, "f64": np.float64,
}
SCALARS = {name: name for name in DTYPE} | {"int": "i32", "float": "f32"}
_VECTORS = {
    "char": "i8", "uchar": "u8", "short": "i16", "ushort": "u16", "int": "i32", "uint": "u32", "long": "i64", "ulong": "u64", "half": "f16", "bf16_": "bf16",
    "float": "f32", "double": "f64",
}
TYPES = SCALARS | {f"{name}{n}": ("vec", scalar, n) for name, scalar in _VECTORS.items() for n in (2, 4)}


class Unsupported(Exception):
    """A construct that the slow interpreter does not know."""


class Trap(Exception):
    """The program does something without meaning: out of bounds, a failed assertion, threads that should agree and do not."""


def is_float(t) -> bool:
    return t in BITS


def is_int(t) -> bool:
    return t in WIDTH


def scalar_of(t) -> str:
    return t[1] if isinstance(t, tuple) else t


@dataclass(frozen=True)
class Row:
    """An array in a record."""

    element: object
    shape: tuple

    def offset(self, index: tuple) -> int:
        place = 0
        for i, extent in zip(index, self.shape, strict=True):
            if not 0 <= i < extent:
                raise Trap(f"out of bounds: {index} of {self.shape}")
            place = place * extent + i
        return place * size_of(self.element)


@dataclass(frozen=True)
class Record:
    """A named tuple, a dataclass, or `tuple` with fields 0, 1, ...: laid out as C does."""

    name: str
    fields: tuple  # of names and types

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.fields]

    def field(self, wanted: str) -> tuple[int, object]:
        """Where a field begins, and its type."""
        at = 0
        for name, t in self.fields:
            at = -(-at // alignment(t)) * alignment(t)
            if name == wanted:
                return at, t
            at += size_of(t)
        raise Unsupported(f"the field `{wanted}`")


def alignment(t) -> int:
    if isinstance(t, Record):
        return max(alignment(of) for _, of in t.fields)
    return alignment(t.element) if isinstance(t, Row) else min(size_of(t), 16)


def size_of(t) -> int:
    if isinstance(t, Record):
        last = t.fields[-1]
        end = t.field(last[0])[0] + size_of(last[1])
        return -(-end // alignment(t)) * alignment(t)
    if isinstance(t, Row):
        return math.prod(t.shape) * size_of(t.element)
    return np.dtype(DTYPE[scalar_of(t)]).itemsize * (t[2] if isinstance(t, tuple) else 1)


# ---- rounding and wrapping


def wrap(v: int, t: str) -> int:
    n = WIDTH[t]
    v &= (1 << n) - 1
    return v - (1 << n) if t[0] == "i" and v >> (n - 1) else v


def _nearest(x: float, t: str) -> float:
    """x rounded to the nearest number of t, ties to even.  Dividing by a power of two and Python's round are exact here."""
    if x == 0.0 or math.isinf(x) or math.isnan(x):
        return x
    digits, least, largest = BITS[t]
    exponent = max(math.frexp(x)[1] - 1, least) - digits + 1
    rounded = math.ldexp(float(round(math.ldexp(x, -exponent))), exponent)
    limit = math.ldexp(2.0 - math.ldexp(1.0, 1 - digits), largest)
    if abs(rounded) > limit:
        return math.copysign(math.inf, x)
    return math.copysign(rounded, x)


def rounded(x: float, t: str) -> float:
    if t == "f64":
        return x
    if t == "f32":
        return c_float(x).value
    return _nearest(x, t)


def exactly_rounded(x: Fraction, t: str) -> float:
    """An exact number, rounded once: what is inexact in f64 is first made odd in its last bit, so that the second rounding sees on which side it lies."""
    try:
        near = float(x)
    except OverflowError:
        return math.inf if x > 0 else -math.inf
    if t == "f64":
        return near
    if not math.isinf(near) and Fraction(near) != x and struct.unpack("<q", struct.pack("<d", near))[0] % 2 == 0:
        near = math.nextafter(near, math.inf if x > Fraction(near) else -math.inf)
    return rounded(near, t)


def convert(v, source, target):
    """The value v of type `source` as a `target`."""
    if source == target:
        return v
    if isinstance(target, tuple):
        raise Unsupported(f"a {source} as a vector")
    if target == "bool":
        return v != 0
    if is_float(target):
        if isinstance(v, (bool, int)):
            return rounded(float(v), target) if abs(v) < 1 << 53 else exactly_rounded(Fraction(v), target)
        return rounded(v, target)
    if isinstance(v, float):
        n = WIDTH[target]
        if math.isnan(v):  # as PTX has it
            if source != "f64" and n < 64:
                return 0
            return (1 << n) - 1 if target[0] == "u" and n < 32 else wrap(1 << n - 1, target)
        low, high = (-(1 << n - 1), (1 << n - 1) - 1) if target[0] == "i" else (0, (1 << n) - 1)
        return max(low, min(high, int(v))) if not math.isinf(v) else (high if v > 0 else low)
    return wrap(int(v), target)


# ---- what types two operands meet at


def settled(t, v=None):
    """The type of a number that met nothing."""
    if t == INT:
        return "i32" if v is None or -(1 << 31) <= v < 1 << 31 else "i64" if v < 1 << 63 else "u64"
    return "f32" if t == FLOAT else t


def promoted(t):
    return "i32" if t == "bool" or is_int(t) and WIDTH[t] < 32 else t


def _meeting(t, v: int):
    """The type at which a whole number of the source and a value of type t meet: t, or a wider one where the number does not fit."""
    t = promoted(t)
    if is_float(t) or WIDTH[t] == 64 or -(1 << 31) <= v < 1 << 31 or t == "u32" and 0 <= v < 1 << 32:
        return t
    return settled(INT, v)


def common(a, b, number: int = 0):
    """The type at which operands of types a and b are computed: numbers take the type of what they meet, then as in C.  number: the one whose type is INT."""
    if a in LITERALS and b in LITERALS:
        return FLOAT if FLOAT in (a, b) else INT
    if a in LITERALS:
        a, b = b, a
    if b == INT:
        return _meeting(a, number)
    if b == FLOAT:
        return a if is_float(a) else "f32"
    if is_float(a) or is_float(b):
        if not (is_float(a) and is_float(b)):
            return a if is_float(a) else b
        if {a, b} == {"f16", "bf16"}:
            raise Unsupported("f16 with bf16")
        return max(a, b, key=lambda t: size_of(t))
    a, b = promoted(a), promoted(b)
    if WIDTH[a] != WIDTH[b]:
        return a if WIDTH[a] > WIDTH[b] else b
    return a if a[0] == "u" else b


# ---- arithmetic


def _divided(a: float, b: float) -> float:
    if b == 0.0:
        if a == 0.0 or math.isnan(a):
            return math.nan
        return math.copysign(math.inf, a) * math.copysign(1.0, b)
    return a / b


def _quotient(a: int, b: int, t: str) -> int:
    if b == 0:
        return wrap(-1, t)
    q = abs(a) // abs(b)
    return wrap(q if (a < 0) == (b < 0) else -q, t)


def _floor(a: int, b: int, t: str) -> int:
    return wrap(a // b if b else -1, t)


def _modulo(a: int, b: int) -> int:
    return a % b if b else a


def shifted(op: str, a: int, count: int, t: str) -> int:
    if count < 0 or count >= WIDTH[t]:
        return -1 if op == ">>" and t[0] == "i" and a < 0 else 0
    return wrap(a << count, t) if op == "<<" else a >> count


_WHOLE = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b,
}
_REAL = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": _divided}
COMPARE = {
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b, "==": lambda a, b: a == b, "!=": lambda a, b: a != b,
}


def operation(op: str, t: str):
    """The function of two values of type t (for shifts: of the left one's type t, and a count) that op is."""
    if is_float(t):
        if op not in _REAL:
            raise Unsupported(f"`{op}` on floats")
        f = _REAL[op]
        if t == "f32":
            return lambda a, b: c_float(f(a, b)).value
        return lambda a, b: rounded(f(a, b), t)
    if op == "/":
        return lambda a, b: _quotient(a, b, t)
    if op == "//":
        return lambda a, b: _floor(a, b, t)
    if op == "%":
        return _modulo
    if op in ("<<", ">>"):
        return lambda a, b: shifted(op, a, b, t)
    f, n = _WHOLE[op], WIDTH[t]
    mask, sign = (1 << n) - 1, 1 << n - 1
    if t[0] == "u":
        return lambda a, b: f(a, b) & mask
    return lambda a, b: (f(a, b) + sign & mask) - sign


def folded(op: str, a, b):
    """Two numbers of the source.  Whole ones are not bounded."""
    if isinstance(a, float) or isinstance(b, float):
        return _REAL[op](float(a), float(b))
    if op in ("/", "//", "%"):
        if b == 0:
            raise Unsupported("a constant divided by zero")
        return a // b if op == "//" else a % b if op == "%" else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    if op in ("<<", ">>"):
        return a << b if op == "<<" else a >> b
    return _WHOLE[op](a, b)


# ---- values in memory

_BF16 = (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32).tolist()


def to_bits(v: float) -> int:
    """A bf16's."""
    return struct.unpack("<I", struct.pack("<f", v))[0] >> 16


def from_bits(bits: int) -> float:
    return _BF16[bits]


class Memory:
    """Bytes that are seen as elements of any type.  space: global, shared or local; stores counts all that is written, to tell waiting from a hang."""

    stores = 0

    def __init__(self, data: np.ndarray, space: str):
        self.data, self.space, self._seen = data, space, {}

    @classmethod
    def of(cls, nbytes: int, space: str) -> Memory:
        return cls(np.zeros(nbytes, np.uint8), space)

    def copy(self) -> Memory:
        return Memory(self.data.copy(), self.space)

    def seen(self, scalar: str) -> np.ndarray:
        dtype = np.dtype(DTYPE[scalar])
        if dtype not in self._seen:
            whole = self.data.size // dtype.itemsize * dtype.itemsize
            self._seen[dtype] = self.data[:whole].view(dtype)
        return self._seen[dtype]

    def load(self, at: int, t):
        """The element of type t at byte `at`."""
        if isinstance(t, Record):
            return tuple(self.load(at + t.field(name)[0], of) for name, of in t.fields)
        if isinstance(t, Row):
            return tuple(self.load(at + k * size_of(t.element), t.element) for k in range(math.prod(t.shape)))
        if isinstance(t, tuple):
            if at % size_of(t):
                raise Trap("a misaligned access")
            step = size_of(t[1])
            return tuple(self.load(at + k * step, t[1]) for k in range(t[2]))
        array = self.seen(t)
        place, rest = divmod(at, array.itemsize)
        if rest:
            raise Trap("a misaligned access")
        if not 0 <= place < array.size:
            raise Trap("out of bounds")
        v = array.item(place)
        return _BF16[v] if t == "bf16" else v

    def store(self, at: int, t, v) -> None:
        if isinstance(t, (Record, Row)):
            places = [t.field(name) for name in t.names] if isinstance(t, Record) else [(k * size_of(t.element), t.element) for k in range(math.prod(t.shape))]
            for (offset, of), x in zip(places, v, strict=True):
                self.store(at + offset, of, x)
            return
        if isinstance(t, tuple):
            if at % size_of(t):
                raise Trap("a misaligned access")
            step = size_of(t[1])
            for k in range(t[2]):
                self.store(at + k * step, t[1], v[k])
            return
        array = self.seen(t)
        place, rest = divmod(at, array.itemsize)
        if rest:
            raise Trap("a misaligned access")
        if not 0 <= place < array.size:
            raise Trap("out of bounds")
        Memory.stores += 1
        array[place] = to_bits(v) if t == "bf16" else v


def same_bits(v, source, target):
    """bitcast."""
    memory = Memory.of(size_of(source), "local")
    memory.store(0, source, v)
    return memory.load(0, target)


# ---- functions of numbers


def _fused(t, a, b, c):
    if any(math.isinf(v) or math.isnan(v) for v in (a, b, c)) or a == 0 or b == 0:
        return rounded(a * b + c, t)
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    return exactly_rounded(exact, t) if exact else rounded(a * b + c, t)


def _signed(v):
    """PTX puts -0.0 below 0.0."""
    return v, math.copysign(1.0, v)


def _least(t, a, b):
    if is_float(t):
        return b if math.isnan(a) else a if math.isnan(b) else min(a, b, key=_signed)
    return min(a, b)


def _largest(t, a, b):
    if is_float(t):
        return b if math.isnan(a) else a if math.isnan(b) else max(a, b, key=_signed)
    return max(a, b)


def _whole(f):
    return lambda t, a: a if math.isinf(a) or math.isnan(a) else math.copysign(float(f(a)), a)


def _away(a):
    return math.floor(abs(a) + 0.5) if abs(a) < 1 << 52 and abs(a) != 0.49999999999999994 else abs(a)


def _numpy(f):
    """By NumPy, in f32 (f64 for f64)."""
    def apply(t, *operands):
        kind = np.float64 if t == "f64" else np.float32
        with np.errstate(all="ignore"):
            return rounded(float(f(*(kind(v) for v in operands))), t)
    return apply


def _unsigned(t, v):
    return v & (1 << WIDTH[t]) - 1


def _reversed(t, v):
    return wrap(int(f"{_unsigned(t, v):0{WIDTH[t]}b}"[::-1], 2), t)


def _packed(t, v, low, bits):
    piece = v >> low & (1 << bits) - 1
    return piece - (1 << bits) if t[0] == "i" and piece >> bits - 1 else piece


def _dot(bits, first):
    """Numbers of so many bits of the one word, with the bytes of the other from `first` on."""
    return lambda t, a, b, c: wrap(c + sum(_packed(t, a, k * bits, bits) * _packed(t, b, 8 * (first + k), 8) for k in range(32 // bits)), t)


def _of_f64(f):
    return lambda t, a: rounded(f(a), t)


_SMALL = {"e4m3": (4, 3), "e5m2": (5, 2)}


def small_float(bits: int, kind: str) -> float:
    """A float of 8 bits: e4m3 has no infinities and one NaN, e5m2 is a short f16."""
    width, digits = _SMALL[kind]
    top, exponent, fraction = (1 << width) - 1, bits >> digits & (1 << width) - 1, bits & (1 << digits) - 1
    sign = -1.0 if bits & 128 else 1.0
    if kind == "e5m2" and exponent == top:
        return math.nan if fraction else sign * math.inf
    if kind == "e4m3" and bits & 127 == 127:
        return math.nan
    whole = fraction / (1 << digits) + (exponent > 0)
    return sign * math.ldexp(whole, max(exponent, 1) - (top >> 1))


def small_bits(x: float, kind: str) -> int:
    """The nearest, of two the one with the even bits, and none beyond the largest."""
    if math.isnan(x):
        return 127
    finite = [b for b in range(128) if math.isfinite(small_float(b, kind))]
    size = min(abs(x), small_float(finite[-1], kind))
    return min(finite, key=lambda b: (abs(small_float(b, kind) - size), b % 2)) + 128 * (math.copysign(1, x) < 0)


NUMBERS = {"abs": (1, lambda t, a: abs(a) if is_float(t) else wrap(abs(a), t)), "min": (2, _least), "max": (2, _largest)}
WHOLES = {
    "brev": (1, _reversed), "mulhi": (2, lambda t, a, b: wrap(a * b >> WIDTH[t], t)),
    "clz": (1, lambda t, a: WIDTH[t] - _unsigned(t, a).bit_length()), "popc": (1, lambda t, a: bin(_unsigned(t, a)).count("1")),
    "ffs": (1, lambda t, a: (a & -a).bit_length()),
    **{f"from_{kind}": (1, lambda t, a, kind=kind: small_float(a, kind)) for kind in _SMALL},
    "dp4a": (3, _dot(8, 0)), "dp2a_lo": (3, _dot(16, 0)), "dp2a_hi": (3, _dot(16, 2)),
}
REALS = {
    "fma": (3, _fused), "sqrt": (1, lambda t, a: rounded(math.sqrt(a), t) if a >= 0 else math.nan if a < 0 else a), "floor": (1, _whole(math.floor)),
    "ceil": (1, _whole(math.ceil)), "trunc": (1, _whole(math.trunc)), "rint": (1, _whole(round)), "round": (1, _whole(_away)),
    "copysign": (2, lambda t, a, b: math.copysign(a, b)), "div": (2, lambda t, a, b: rounded(_divided(a, b), t)),
    "rcp": (1, lambda t, a: rounded(_divided(1.0, a), t)), "fmod": (2, _numpy(np.fmod)), "hypot": (2, _numpy(np.hypot)), "pow": (2, _numpy(np.power)),
    "atan2": (2, _numpy(np.arctan2)), "rsqrt": (1, _numpy(lambda a: 1 / np.sqrt(a))), "exp10": (1, _numpy(lambda a: np.power(type(a)(10), a))),
    **{f"to_{kind}": (1, lambda t, a, kind=kind: small_bits(a, kind)) for kind in _SMALL},
    "erf": (1, _of_f64(math.erf)), "erfc": (1, _of_f64(math.erfc)),
    **{name: (1, _numpy(getattr(np, other))) for name, other in {
        "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan", "atanh": "arctanh", "cbrt": "cbrt", "cos": "cos",
        "cosh": "cosh", "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log10": "log10", "log1p": "log1p", "log2": "log2", "sin": "sin",
        "sinh": "sinh", "tan": "tan", "tanh": "tanh"}.items()},
}
QUESTIONS = {"isfinite": math.isfinite, "isinf": math.isinf, "isnan": math.isnan}
