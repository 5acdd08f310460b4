"""Integer arithmetic and bits: what these instructions compute.

Input: an instruction's words behind its name.  Output: its operation, or None where there is no such form.  All sums
and products wrap unless `.sat` is said.  PTX ISA, "Integer Arithmetic Instructions", "Extended-Precision", "Logic and
Shift Instructions".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from snap.machine.lanes import numbers
from snap.ptx.instructions.operation import Operation
from snap.ptx.instructions.rounding import Compute
from snap.ptx.text.types import DTYPE

Words = tuple[str, ...]
Maker = Callable[[Words], Operation | None]
WHOLE = ("u16", "u32", "u64", "s16", "s32", "s64")
PAIRS = {"u16x2": "u16", "s16x2": "s16"}
WORDS = ("b16", "b32", "b64")


def wrapping(op: Callable) -> Compute:
    def compute(*xs: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return op(*xs)

    return compute


def halves(compute: Compute, type: str) -> Compute:
    """Apply an operation to each of two numbers in a word."""

    def both(*xs: np.ndarray) -> np.ndarray:
        low = compute(*((x & np.uint32(0xFFFF)).astype(np.uint16).view(DTYPE[type]) for x in xs))
        high = compute(*((x >> np.uint32(16)).astype(np.uint16).view(DTYPE[type]) for x in xs))
        return low.view(np.uint16).astype(np.uint32) | high.view(np.uint16).astype(np.uint32) << np.uint32(16)

    return both


# ---- arithmetic -----------------------------------------------------------------------------------------------------


def sum(op: str) -> Maker:
    plain: Callable = {"add": np.add, "sub": np.subtract}[op]

    def made(words: Words) -> Operation | None:
        type = words[-1]
        if words[:-1] == ("sat",):
            return Operation((type, type), type, _saturated(plain)) if type == "s32" else None
        if words[:-1] != ():
            return None
        if type in PAIRS:
            return Operation((type, type), type, halves(wrapping(plain), PAIRS[type]))
        return Operation((type, type), type, wrapping(plain)) if type in WHOLE else None

    return made


def _clamped(wide: np.ndarray) -> np.ndarray:
    return np.clip(wide, -(1 << 31), (1 << 31) - 1).astype(np.int32)


def _saturated(op: Callable) -> Compute:
    return lambda a, b: _clamped(op(a.astype(np.int64), b.astype(np.int64)))


def mul(words: Words) -> Operation | None:
    type = words[-1]
    if type not in WHOLE:
        return None
    match words[:-1]:
        case ("lo",) | ():
            return Operation((type, type), type, wrapping(np.multiply))
        case ("hi",):
            high = lambda a, b: numbers.multiply_high(*np.broadcast_arrays(a, b))  # noqa: E731
            return Operation((type, type), type, wrapping(high))
        case ("wide",) if type[1:] != "64":
            wide = f"{type[0]}{2 * int(type[1:])}"
            return Operation((type, type), wide, lambda a, b: a.astype(DTYPE[wide]) * b.astype(DTYPE[wide]))
    return None


def mad(words: Words) -> Operation | None:
    return _with_sum(mul, words)


def _with_sum(product: Maker, words: Words) -> Operation | None:
    """A product and what is added to it; `.hi.sat.s32` clamps the sum."""
    saturated = words == ("hi", "sat", "s32")
    found = product(("hi", "s32") if saturated else words)
    if found is None:
        return None

    def compute(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            if saturated:
                return _clamped(found.compute(a, b).astype(np.int64) + c)
            return found.compute(a, b) + c

    return Operation((*found.operands, found.result), found.result, compute)


def mul24(words: Words) -> Operation | None:
    """Multiply the lower 24 bits: give bits 31 to 0 of the product, or bits 47 to 16."""
    if len(words) != 2 or words[0] not in ("lo", "hi") or words[1] not in ("u32", "s32"):
        return None
    shift = np.int64(16 if words[0] == "hi" else 0)

    def low(x: np.ndarray) -> np.ndarray:
        return (x << x.dtype.type(8) >> x.dtype.type(8)).astype(np.int64)

    return Operation(
        (words[1],) * 2, words[1], lambda a, b: ((low(a) * low(b)) >> shift).astype(np.uint32).view(a.dtype)
    )


def mad24(words: Words) -> Operation | None:
    return _with_sum(mul24, words)


def sad(words: Words) -> Operation | None:
    """c + |a - b|."""
    type = words[-1]
    difference = lambda a, b, c: c + np.where(a < b, b - a, a - b)  # noqa: E731
    return Operation((type,) * 3, type, wrapping(difference)) if len(words) == 1 and type in WHOLE else None


def div(words: Words) -> Operation | None:
    return Operation(words * 2, words[0], _quotient) if len(words) == 1 and words[0] in WHOLE else None


def rem(words: Words) -> Operation | None:
    return Operation(words * 2, words[0], _remainder) if len(words) == 1 and words[0] in WHOLE else None


def _quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Toward zero; by zero, all bits are set, as the hardware has it (the ISA says: unspecified)."""
    a, b = np.broadcast_arrays(a, b)
    with np.errstate(all="ignore"):
        found = numbers.quotient(a, np.where(b == 0, b.dtype.type(1), b))
    return np.where(b == 0, ~np.zeros((), b.dtype), found)


def _remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Compute a remainder; by zero it is that of a quotient by zero."""
    a, b = np.broadcast_arrays(a, b)
    with np.errstate(all="ignore"):
        found = numbers.remainder(a, np.where(b == 0, b.dtype.type(1), b))
    return np.where(b == 0, ~np.zeros((), b.dtype), found)


def negated(words: Words) -> Operation | None:
    return _signed(words, np.negative)


def absolute(words: Words) -> Operation | None:
    return _signed(words, np.abs)


def _signed(words: Words, function: Callable) -> Operation | None:
    if len(words) != 1 or words[0] not in ("s16", "s32", "s64"):
        return None
    return Operation(words, words[0], wrapping(function))


def least(greatest: bool) -> Maker:
    plain: Callable = np.maximum if greatest else np.minimum

    def made(words: Words) -> Operation | None:
        *mods, type = words
        relu = mods == ["relu"]
        if mods and not (relu and type in ("s32", "s16x2")):
            return None
        compute = (lambda a, b: np.maximum(plain(a, b), a.dtype.type(0))) if relu else plain
        if type in PAIRS:
            return Operation((type, type), type, halves(compute, PAIRS[type]))
        return Operation((type, type), type, compute) if type in WHOLE else None

    return made


def dot(bits: int) -> Maker:
    """dp4a, dp2a: bytes of b, and bytes or halves of a, each with a sign of its own."""

    def made(words: Words) -> Operation | None:
        *more, first, second = words
        if {first, second} - {"s32", "u32"} or more not in ([["lo"], ["hi"]] if bits == 16 else [[]]):
            return None
        start = 2 if more == ["hi"] else 0
        kind = "s32" if "s32" in (first, second) else "u32"

        def compute(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
            total = c.astype(np.int64)
            for k in range(32 // bits):
                total = total + word_field(a, bits * k, bits) * word_field(b, 8 * (start + k), 8)
            return total.astype(np.uint32).view(DTYPE[kind])

        return Operation((first, second, kind), kind, compute)

    return made


def word_field(x: np.ndarray, low: int, bits: int) -> np.ndarray:
    """Part of a word, with the word's kind of sign."""
    return (x << x.dtype.type(32 - low - bits) >> x.dtype.type(32 - bits)).astype(np.int64)


# ---- logic and shifts -----------------------------------------------------------------------------------------------


def logic(function: Callable, count: int = 2) -> Maker:
    def made(words: Words) -> Operation | None:
        fits = len(words) == 1 and words[0] in ("pred", *WORDS)
        return Operation(words * count, words[0], function) if fits else None

    return made


def inverted(words: Words) -> Operation | None:
    return logic(np.logical_not if words == ("pred",) else np.invert, 1)(words)


def cnot(words: Words) -> Operation | None:
    """1 for zero, else 0: as C has it."""
    if len(words) != 1 or words[0] not in WORDS:
        return None
    return Operation(words, words[0], lambda a: (a == 0).astype(a.dtype))


def shift(left: bool) -> Maker:
    """Shifts by more than there are bits shift all of them out."""

    def made(words: Words) -> Operation | None:
        type = words[-1]
        if len(words) != 1 or type not in (WORDS if left else (*WORDS, *WHOLE)):
            return None
        bits = 8 * DTYPE[type].itemsize

        def compute(a: np.ndarray, n: np.ndarray) -> np.ndarray:
            a, n = np.broadcast_arrays(a, n)
            few = np.minimum(n, np.uint32(bits - 1)).astype(a.dtype)
            if left:
                return np.where(n < bits, a << few, a.dtype.type(0))
            gone = a >> a.dtype.type(bits - 1) if a.dtype.kind == "i" else a.dtype.type(0)
            return np.where(n < bits, a >> few, gone)

        return Operation((type, "u32"), type, compute)

    return made


def funnel(words: Words) -> Operation | None:
    if len(words) != 3 or words[0] not in ("l", "r") or words[1] not in ("wrap", "clamp") or words[2] != "b32":
        return None

    def compute(low: np.ndarray, high: np.ndarray, n: np.ndarray) -> np.ndarray:
        n = (n & np.uint32(31) if words[1] == "wrap" else np.minimum(n, np.uint32(32))).astype(np.uint64)
        word = high.astype(np.uint64) << np.uint64(32) | low.astype(np.uint64)
        return ((word << n) >> np.uint64(32) if words[0] == "l" else word >> n).astype(np.uint32)

    return Operation(("b32", "b32", "u32"), "b32", compute)


def lop3(words: Words) -> Operation | None:
    return Operation(("b32", "b32", "b32", "u32"), "b32", by_table) if words == ("b32",) else None


def by_table(a: np.ndarray, b: np.ndarray, c: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Any function of three bits: its table's bit 4a + 2b + c."""
    out = np.zeros(np.broadcast(a, b, c).shape, np.uint32)
    for k in range(8):
        if int(table[0]) >> k & 1:
            out |= (a if k & 4 else ~a) & (b if k & 2 else ~b) & (c if k & 1 else ~c)
    return out


def prmt(words: Words) -> Operation | None:
    """Bytes chosen from two words; a selector's fourth bit asks for the byte's sign instead."""
    type, *mode = words
    if type != "b32" or len(mode) > 1 or mode and mode[0] not in _SELECTORS:
        return None

    def compute(a: np.ndarray, b: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        if mode:
            chosen = np.array(_SELECTORS[mode[0]], np.uint32)[chosen & np.uint32(3)]
        word = b.astype(np.uint64) << np.uint64(32) | a.astype(np.uint64)
        out = np.zeros(np.broadcast(word, chosen).shape, np.uint32)
        for k in range(4):
            selector = chosen >> np.uint32(4 * k) & np.uint32(15)
            byte = word >> (np.uint64(8) * (selector & np.uint32(7)).astype(np.uint64)) & np.uint64(255)
            sign = np.where(byte & np.uint64(128) != 0, np.uint64(255), np.uint64(0))
            out |= (np.where(selector & np.uint32(8) != 0, sign, byte) << np.uint64(8 * k)).astype(np.uint32)
        return out

    return Operation(("b32",) * 3, "b32", compute)


# By the lower two bits of the third operand, what a mode asks for as selectors (PTX ISA, "prmt").
_SELECTORS = {
    "f4e": (0x3210, 0x4321, 0x5432, 0x6543),
    "b4e": (0x5670, 0x6701, 0x7012, 0x0123),
    "rc8": (0x0000, 0x1111, 0x2222, 0x3333),
    "ecl": (0x3210, 0x3211, 0x3222, 0x3333),
    "ecr": (0x0000, 0x1110, 0x2210, 0x3210),
    "rc16": (0x1010, 0x3232, 0x1010, 0x3232),
}
