"""What the instructions that only compute do: a table.

Input: an instruction's words.  Output: the types of its operands and its result, and a function of NumPy arrays.
Everything is bit-exact where the ISA is: sums and products are rounded once, in the direction that is asked for;
approximations (`ex2.approx`) are the exact result rounded, which is within the documented error.  None where there is
no such instruction here: the machine refuses it by name when it is reached.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from snap.machine import numbers
from snap.ptx.conversions import conversion
from snap.ptx.operation import Operation
from snap.ptx.rounding import FLOATS, ROUNDING, Compute, begun, ended, floating
from snap.ptx.types import DTYPE


def lookup(parts: tuple[str, ...]) -> Operation | None:
    made = _TABLE.get(parts[0])
    if made is None or len(parts) < 2:
        return None
    with np.errstate(all="ignore"):
        return made(parts[1:])


def _rest(words: tuple[str, ...], known: tuple[str, ...]) -> set[str] | None:
    """The modifiers before the type, if all of them are known."""
    found = set(words[:-1])
    return found if found <= set(known) and words[-1] in DTYPE else None


# ---- arithmetic -----------------------------------------------------------------------------------------------------


def _wrapping(op: Callable) -> Compute:
    def compute(*xs: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return op(*xs)

    return compute


def _sum(op: str) -> Callable[[tuple[str, ...]], Operation | None]:
    def made(words: tuple[str, ...]) -> Operation | None:
        type = words[-1]
        if type in ("f16x2", "bf16x2"):
            inner = made((*words[:-1], type[:-2]))
            return None if inner is None else Operation((type, type), type, _halves(inner.compute, type[:-2]))
        if type in FLOATS:
            mods = _rest(words, (*ROUNDING, "ftz", "sat"))
            return None if mods is None else Operation((type, type), type, floating(op, type, mods))
        mods = _rest(words, ("sat",))
        if mods is None:
            return None
        if mods:
            return Operation((type, type), type, _saturated(op)) if type == "s32" else None
        plain = {"add": np.add, "sub": np.subtract}[op]
        return Operation((type, type), type, _wrapping(plain))

    return made


def _saturated(op: str) -> Compute:
    def compute(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        wide = a.astype(np.int64) + (b.astype(np.int64) if op == "add" else -b.astype(np.int64))
        return np.clip(wide, -(1 << 31), (1 << 31) - 1).astype(np.int32)

    return compute


def _halves(compute: Compute, type: str) -> Compute:
    """Of two numbers in a word, each by itself."""

    def both(*xs: np.ndarray) -> np.ndarray:
        low = compute(*((x & np.uint32(0xFFFF)).astype(np.uint16).view(DTYPE[type]) for x in xs))
        high = compute(*((x >> np.uint32(16)).astype(np.uint16).view(DTYPE[type]) for x in xs))
        return low.view(np.uint16).astype(np.uint32) | high.view(np.uint16).astype(np.uint32) << np.uint32(16)

    return both


def _mul(words: tuple[str, ...]) -> Operation | None:
    type = words[-1]
    if type in FLOATS:
        mods = _rest(words, (*ROUNDING, "ftz", "sat"))
        return None if mods is None else Operation((type, type), type, floating("mul", type, mods))
    if type in ("f16x2", "bf16x2"):
        inner = _mul((*words[:-1], type[:-2]))
        return None if inner is None else Operation((type, type), type, _halves(inner.compute, type[:-2]))
    match words[:-1]:
        case ("lo",) | ():
            return Operation((type, type), type, _wrapping(np.multiply))
        case ("hi",):
            return Operation(
                (type, type), type, _wrapping(lambda a, b: numbers.multiply_high(*np.broadcast_arrays(a, b)))
            )
        case ("wide",):
            wide = f"{type[0]}{2 * int(type[1:])}"
            return Operation((type, type), wide, lambda a, b: a.astype(DTYPE[wide]) * b.astype(DTYPE[wide]))
    return None


def _mad(words: tuple[str, ...]) -> Operation | None:
    product = _mul(words)
    if product is None or words[-1] in FLOATS:
        return _fma(words) if words[-1] in FLOATS else None

    def compute(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return product.compute(a, b) + c

    return Operation((*product.operands, product.result), product.result, compute)


def _fma(words: tuple[str, ...]) -> Operation | None:
    type = words[-1]
    if type in ("f16x2", "bf16x2"):
        inner = _fma((*words[:-1], type[:-2]))
        return None if inner is None else Operation((type,) * 3, type, _halves(inner.compute, type[:-2]))
    mods = _rest(words, (*ROUNDING, "ftz", "sat"))
    return None if mods is None or type not in FLOATS else Operation((type,) * 3, type, floating("fma", type, mods))


def _div(words: tuple[str, ...]) -> Operation | None:
    type = words[-1]
    if type in ("f32", "f64"):
        mods = _rest(words, ("rn", "full", "approx", "ftz"))
        return None if mods is None else Operation((type, type), type, _by(np.divide, mods))
    return Operation((type, type), type, _quotient) if words[:-1] == () else None


def _by(function: Callable, mods: set[str]) -> Compute:
    def compute(*xs: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return ended(function(*begun(xs, mods)), mods)

    return compute


def _quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Toward zero; by zero, all bits are set, as the hardware has it (the ISA says: unspecified)."""
    a, b = np.broadcast_arrays(a, b)
    with np.errstate(all="ignore"):
        found = numbers.quotient(a, np.where(b == 0, b.dtype.type(1), b))
    return np.where(b == 0, ~np.zeros((), b.dtype), found)


def _remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a, b = np.broadcast_arrays(a, b)
    with np.errstate(all="ignore"):
        found = numbers.remainder(a, np.where(b == 0, b.dtype.type(1), b))
    return np.where(b == 0, a, found)


def _unary(function: Callable, known: tuple[str, ...] = ("ftz",)) -> Callable[[tuple[str, ...]], Operation | None]:
    def made(words: tuple[str, ...]) -> Operation | None:
        mods = _rest(words, known)
        return None if mods is None else Operation((words[-1],), words[-1], _by(function, mods))

    return made


def _negated(x: np.ndarray) -> np.ndarray:
    return -x if x.dtype.kind != "u" else np.uint16(0x8000) ^ x  # bf16 is kept as bits


def _least(greatest: bool) -> Callable[[tuple[str, ...]], Operation | None]:
    """A number wins over NaN, and -0 is less than +0."""

    def made(words: tuple[str, ...]) -> Operation | None:
        type = words[-1]
        mods = _rest(words, ("ftz", "NaN"))
        if mods is None or type == "bf16":
            return None
        if DTYPE[type].kind != "f":
            return Operation((type, type), type, np.maximum if greatest else np.minimum)

        def compute(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            a, b = np.broadcast_arrays(*begun((a, b), mods))
            with np.errstate(all="ignore"):
                first = (a > b) | (a == b) & ~np.signbit(a) if greatest else (a < b) | (a == b) & np.signbit(a)
                found = np.where(first, a, b)
                if "NaN" in mods:
                    return np.where(np.isnan(a) | np.isnan(b), a.dtype.type(np.nan), found)
                return np.where(np.isnan(a), b, np.where(np.isnan(b), a, found))

        return Operation((type, type), type, compute)

    return made


# ---- bits -----------------------------------------------------------------------------------------------------------


def _logic(function: Callable, count: int = 2) -> Callable[[tuple[str, ...]], Operation | None]:
    return lambda words: Operation((words[-1],) * count, words[-1], function) if len(words) == 1 else None


def _not(words: tuple[str, ...]) -> Operation | None:
    function = np.logical_not if words[-1] == "pred" else np.invert
    return Operation((words[-1],), words[-1], function) if len(words) == 1 else None


def _shift(left: bool) -> Callable[[tuple[str, ...]], Operation | None]:
    """Shifts by more than there are bits shift all of them out."""

    def made(words: tuple[str, ...]) -> Operation | None:
        type = words[-1]
        bits = 8 * DTYPE[type].itemsize

        def compute(a: np.ndarray, n: np.ndarray) -> np.ndarray:
            a, n = np.broadcast_arrays(a, n)
            few = np.minimum(n, np.uint32(bits - 1)).astype(a.dtype)
            if left:
                return np.where(n < bits, a << few, a.dtype.type(0))
            gone = a >> a.dtype.type(bits - 1) if a.dtype.kind == "i" else a.dtype.type(0)
            return np.where(n < bits, a >> few, gone)

        return Operation((type, "u32"), type, compute) if len(words) == 1 else None

    return made


def _funnel(words: tuple[str, ...]) -> Operation | None:
    if words[-1] != "b32" or words[0] not in ("l", "r") or words[1] not in ("wrap", "clamp"):
        return None

    def compute(low: np.ndarray, high: np.ndarray, n: np.ndarray) -> np.ndarray:
        n = (n & np.uint32(31) if words[1] == "wrap" else np.minimum(n, np.uint32(32))).astype(np.uint64)
        word = high.astype(np.uint64) << np.uint64(32) | low.astype(np.uint64)
        return ((word << n) >> np.uint64(32) if words[0] == "l" else word >> n).astype(np.uint32)

    return Operation(("b32", "b32", "u32"), "b32", compute)


def _field_mask(length: np.ndarray, dtype: np.dtype) -> np.ndarray:
    bits = 8 * dtype.itemsize
    few = np.minimum(length, np.uint32(bits - 1)).astype(dtype)
    return np.where(length >= bits, ~dtype.type(0), (dtype.type(1) << few) - dtype.type(1))


def _bfi(words: tuple[str, ...]) -> Operation | None:
    type = words[-1]

    def compute(a: np.ndarray, b: np.ndarray, at: np.ndarray, length: np.ndarray) -> np.ndarray:
        at, length = at & np.uint32(255), length & np.uint32(255)
        bits = 8 * a.dtype.itemsize
        few = np.minimum(at, np.uint32(bits - 1)).astype(a.dtype)
        mask = np.where(at < bits, _field_mask(length, a.dtype) << few, a.dtype.type(0))
        return a << few & mask | b & ~mask

    return Operation((type, type, "u32", "u32"), type, compute) if len(words) == 1 else None


def _bfe(words: tuple[str, ...]) -> Operation | None:
    type = words[-1]
    bits = 8 * DTYPE[type].itemsize

    def compute(a: np.ndarray, at: np.ndarray, length: np.ndarray) -> np.ndarray:
        at, length = np.broadcast_arrays(at & np.uint32(255), length & np.uint32(255))
        plain = a.view(f"u{a.dtype.itemsize}")
        mask = _field_mask(length, plain.dtype)
        few = np.minimum(at, np.uint32(bits - 1)).astype(plain.dtype)
        found = np.where(at < bits, plain >> few, plain.dtype.type(0)) & mask
        if a.dtype.kind == "u":
            return found
        last = np.minimum(at + length - np.uint32(1), np.uint32(bits - 1)).astype(plain.dtype)
        negative = (plain >> last & plain.dtype.type(1) != 0) & (length > 0)
        return np.where(negative, found | ~mask, found).view(a.dtype)

    return Operation((type, "u32", "u32"), type, compute) if len(words) == 1 else None


def _find(words: tuple[str, ...]) -> Operation | None:
    type, shift = words[-1], words[:-1] == ("shiftamt",)
    bits = 8 * DTYPE[type].itemsize

    def compute(a: np.ndarray) -> np.ndarray:
        plain = np.where(a < 0, ~a, a).view(f"u{a.dtype.itemsize}")
        zeros = numbers.leading_zeros(plain).astype(np.int64)
        place = zeros if shift else bits - 1 - zeros
        return np.where(plain == 0, np.uint32(0xFFFFFFFF), place.astype(np.uint32)).astype(np.uint32)

    return Operation((type,), "u32", compute) if shift or len(words) == 1 else None


def _counted(function: Callable) -> Callable[[tuple[str, ...]], Operation | None]:
    return lambda words: (
        Operation((words[-1],), "u32", lambda a: function(a).astype(np.uint32)) if len(words) == 1 else None
    )


def _prmt(words: tuple[str, ...]) -> Operation | None:
    """Bytes chosen from two words; a selector's fourth bit asks for the byte's sign instead."""

    def compute(a: np.ndarray, b: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        word = b.astype(np.uint64) << np.uint64(32) | a.astype(np.uint64)
        out = np.zeros(np.broadcast(word, chosen).shape, np.uint32)
        for k in range(4):
            selector = chosen >> np.uint32(4 * k) & np.uint32(15)
            byte = (word >> (np.uint64(8) * (selector & np.uint32(7)).astype(np.uint64)) & np.uint64(255)).astype(
                np.uint32
            )
            sign = np.where(byte & np.uint32(128) != 0, np.uint32(255), np.uint32(0))
            out |= np.where(selector & np.uint32(8) != 0, sign, byte) << np.uint32(8 * k)
        return out

    return Operation(("b32",) * 3, "b32", compute) if words == ("b32",) else None


def _lop3(words: tuple[str, ...]) -> Operation | None:
    def compute(a: np.ndarray, b: np.ndarray, c: np.ndarray, table: np.ndarray) -> np.ndarray:
        out = np.zeros(np.broadcast(a, b, c).shape, np.uint32)
        for k in range(8):
            if int(table[0]) >> k & 1:
                out |= (a if k & 4 else ~a) & (b if k & 2 else ~b) & (c if k & 1 else ~c)
        return out

    return Operation(("b32", "b32", "b32", "u32"), "b32", compute) if words == ("b32",) else None


def _dot(bits: int) -> Callable[[tuple[str, ...]], Operation | None]:
    def made(words: tuple[str, ...]) -> Operation | None:
        *more, first, second = words
        if first != second or first not in ("s32", "u32"):
            return None
        start = 2 if more == ["hi"] else 0
        return Operation(
            (first, first, first), first, _wrapping(lambda a, b, c: numbers.packed_dot(a, b, c, bits, start))
        )

    return made


# ---- comparisons and choices ----------------------------------------------------------------------------------------

_COMPARE = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


def comparison(word: str, type: str) -> Compute | None:
    """Of floats, `equ` and its like hold of NaN, too; `num` and `nan` ask for it."""
    floats = type in FLOATS
    if floats and word in ("num", "nan"):
        return lambda a, b: (np.isnan(a) | np.isnan(b)) == (word == "nan")
    unordered = floats and len(word) == 3 and word.endswith("u")
    plain = _COMPARE.get(_UNSIGNED.get(word, word[:2] if unordered else word))
    if plain is None:
        return None

    def compute(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            if not floats:
                return plain(a, b)
            nan = np.isnan(a) | np.isnan(b)
            return plain(a, b) | nan if unordered else plain(a, b) & ~nan

    return compute


def _selp(words: tuple[str, ...]) -> Operation | None:
    type = words[-1]
    return Operation((type, type, "pred"), type, lambda a, b, p: np.where(p, a, b)) if len(words) == 1 else None


def _mov(words: tuple[str, ...]) -> Operation | None:
    return Operation((words[-1],), words[-1], lambda a: a) if len(words) == 1 else None


# ---- functions ------------------------------------------------------------------------------------------------------


def _function(function: Callable) -> Callable[[tuple[str, ...]], Operation | None]:
    """Of f32 and f64: computed in f64, rounded once."""

    def made(words: tuple[str, ...]) -> Operation | None:
        type = words[-1]
        mods = _rest(words, ("approx", "rn", "ftz"))
        if mods is None or type not in ("f32", "f64", "f16"):
            return None
        return Operation((type,), type, _by(lambda x: function(x.astype(np.float64)).astype(x.dtype), mods))

    return made


def _tested(words: tuple[str, ...]) -> Operation | None:
    kinds: dict[str, Callable] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda x: ~np.isnan(x),
        "notanumber": np.isnan,
    }
    return Operation((words[-1],), "pred", kinds[words[0]]) if words[0] in kinds else None


_TABLE: dict[str, Callable[[tuple[str, ...]], Operation | None]] = {
    "add": _sum("add"),
    "sub": _sum("sub"),
    "mul": _mul,
    "mad": _mad,
    "fma": _fma,
    "div": _div,
    "rem": lambda words: Operation((words[-1],) * 2, words[-1], _remainder) if len(words) == 1 else None,
    "neg": _unary(_negated),
    "abs": _unary(np.abs),
    "min": _least(False),
    "max": _least(True),
    "and": _logic(np.bitwise_and),
    "or": _logic(np.bitwise_or),
    "xor": _logic(np.bitwise_xor),
    "not": _not,
    "shl": _shift(True),
    "shr": _shift(False),
    "shf": _funnel,
    "bfi": _bfi,
    "bfe": _bfe,
    "bfind": _find,
    "popc": _counted(numbers.population_count),
    "clz": _counted(numbers.leading_zeros),
    "brev": _logic(numbers.reverse_bits, 1),
    "prmt": _prmt,
    "lop3": _lop3,
    "dp4a": _dot(8),
    "dp2a": _dot(16),
    "selp": _selp,
    "mov": _mov,
    "cvt": conversion,
    "copysign": _logic(lambda a, b: np.copysign(b, a)),
    "testp": _tested,
    "sqrt": _unary(np.sqrt, ("rn", "approx", "ftz")),
    "rsqrt": _function(lambda x: 1 / np.sqrt(x)),
    "rcp": _function(lambda x: 1 / x),
    "ex2": _function(np.exp2),
    "lg2": _function(np.log2),
    "sin": _function(np.sin),
    "cos": _function(np.cos),
    "tanh": _function(np.tanh),
}
