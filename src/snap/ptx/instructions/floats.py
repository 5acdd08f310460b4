"""Floating-point arithmetic: what these instructions compute.

Input: an instruction's words behind its name.  Output: its operation, or None where there is no such form.  PTX ISA,
"Floating Point Instructions", "Half Precision", "Mixed Precision".  Approximations are the exact result rounded, which
is within the documented error; where a table of a GPU's results is known for all operands (16 bits), they are the
GPU's (approximations.py).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from snap.machine.lanes import numbers
from snap.ptx.instructions.approximations import settled
from snap.ptx.instructions.integers import Maker, Words, halves
from snap.ptx.instructions.operation import Operation
from snap.ptx.instructions.rounding import (
    BF16_NAN,
    FLOATS,
    ROUNDING,
    Compute,
    begun,
    ended,
    floating,
    flushed,
    one_nan,
    packed,
    quiet,
    which_nan,
    wide,
)

# Which modifiers each type has.
_MODS = {
    "f32": {*ROUNDING, "ftz", "sat"},
    "f64": {*ROUNDING},
    "f16": {"rn", "ftz", "sat"},
    "bf16": {"rn"},
}
_FUSED = {**_MODS, "f16": {"rn", "ftz", "sat", "relu"}, "bf16": {"rn", "relu"}}
DOUBLED = {"f16x2": "f16", "bf16x2": "bf16"}


def arithmetic(op: str) -> Maker:
    """add, sub, mul, fma; also of two halves, of two f32 (`f32x2`), and with one operand wider (`add.f32.f16`)."""
    count = 3 if op == "fma" else 2
    allowed = _FUSED if op == "fma" else _MODS

    def made(words: Words) -> Operation | None:
        *mods, type = words
        if type in DOUBLED:
            inner = made((*mods, DOUBLED[type]))
            return None if inner is None else Operation((type,) * count, type, halves(inner.compute, DOUBLED[type]))
        if type == "f32x2":
            inner = made((*mods, "f32")) if "sat" not in mods else None
            return None if inner is None else Operation((type,) * count, type, _two(inner.compute))
        if type in ("f16", "bf16") and mods and mods[-1] == "f32":
            return _mixed(op, mods[:-1], type)
        if type not in FLOATS or not _agree(mods, allowed[type]):
            return None
        return Operation((type,) * count, type, floating(op, type, set(mods)))

    return made


def _agree(mods: list[str], allowed: set[str]) -> bool:
    """All are known, each is said once, and at most one direction."""
    return set(mods) <= allowed and len(set(mods)) == len(mods) and sum(m in ROUNDING for m in mods) <= 1


def _mixed(op: str, mods: list[str], type: str) -> Operation | None:
    """The last operand and the result are f32; what is narrower is exact in it."""
    if op == "mul" or not _agree(mods, {*ROUNDING, "sat"}):
        return None
    compute = floating(op, "f32", set(mods))

    def as_f32(x: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return wide(x, type).astype(np.float32)

    if op == "fma":
        return Operation((type, type, "f32"), "f32", lambda a, b, c: compute(as_f32(a), as_f32(b), c))
    return Operation((type, "f32"), "f32", lambda a, c: compute(as_f32(a), c))


def _two(compute: Compute) -> Compute:
    """Apply an operation to each of two f32 in 64 bits."""

    def both(*xs: np.ndarray) -> np.ndarray:
        parts = [compute(*((x >> np.uint64(k)).astype(np.uint32).view(np.float32) for x in xs)) for k in (0, 32)]
        low, high = (p.view(np.uint32).astype(np.uint64) for p in parts)
        return low | high << np.uint64(32)

    return both


def fused(words: Words) -> Operation | None:
    return arithmetic("fma")(words)


# ---- quotients, roots -----------------------------------------------------------------------------------------------


def quotient(words: Words) -> Operation | None:
    *mods, type = words
    if type == "f64" and _agree(mods, {*ROUNDING}) and len(mods) == 1:
        return Operation((type, type), type, floating("div", type, set(mods)))
    if type != "f32":
        return None
    if mods in (["approx"], ["approx", "ftz"], ["full"], ["full", "ftz"]):
        exact = floating("div", type, set(mods) - {"approx", "full"})
        if "full" in mods:
            return Operation((type, type), type, exact)

        def compute(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            """Compute a * (1 / b): for the largest b the reciprocal is zero."""
            found = exact(a, b)
            huge = (np.abs(b) > 2.0**126) & np.isfinite(b)
            none = np.isinf(a) | np.isnan(found)
            far = np.where(none, np.float32(np.nan), np.copysign(np.float32(0), found))
            return one_nan(np.where(huge, far, found).astype(np.float32))

        return Operation((type, type), type, compute)
    if len(mods) > 2 or not _agree(mods, {*ROUNDING, "ftz"}) or not set(mods) & set(ROUNDING):
        return None
    return Operation((type, type), type, floating("div", type, set(mods)))


def reciprocal(words: Words) -> Operation | None:
    *mods, type = words
    if type in ("f32", "f64") and _directed(mods, type):
        divide = floating("div", type, set(mods) - {"approx"})
        return Operation((type,), type, lambda x: divide(np.ones(1, x.dtype), x))
    if (mods, type) == (["approx", "ftz"], "f64"):
        return Operation((type,), type, _upper(lambda x: 1 / x))
    return None


def root(words: Words) -> Operation | None:
    *mods, type = words
    if type in ("f32", "f64") and _directed(mods, type):
        return Operation((type,), type, floating("sqrt", type, set(mods) - {"approx"}))
    return None


def _directed(mods: list[str], type: str) -> bool:
    """A direction, or (f32) `.approx`, and `.ftz` behind it."""
    first, *more = mods or [""]
    plain = first in ROUNDING or first == "approx" and type == "f32"
    return plain and more in ([], ["ftz"] if type == "f32" else [])


def inverse_root(words: Words) -> Operation | None:
    *mods, type = words
    if type == "f32" and mods in (["approx"], ["approx", "ftz"]):
        return Operation((type,), type, _approximated(lambda x: 1 / np.sqrt(x), type, set(mods)))
    if type == "f64" and mods == ["approx"]:
        return Operation((type,), type, _approximated(lambda x: 1 / np.sqrt(x), type, set()))
    if type == "f64" and mods == ["approx", "ftz"]:
        return Operation((type,), type, _upper(lambda x: 1 / np.sqrt(x)))
    return None


def _upper(function: Callable) -> Compute:
    """Approximate from the upper 32 bits of an f64: the lower ones are taken and given as zero."""

    def compute(x: np.ndarray) -> np.ndarray:
        keep = np.uint64(0xFFFFFFFF_00000000)
        tiny = np.finfo(np.float64).tiny
        with np.errstate(all="ignore"):
            short = (x.view(np.uint64) & keep).view(np.float64)
            short = np.where(np.abs(short) < tiny, np.copysign(0.0, short), short)
            found = function(short)
            found = np.where(np.abs(found) < tiny, np.copysign(0.0, found), found)
            bits = found.view(np.uint64)
            rounded = (bits + np.uint64(0x80000000)) & keep
        return np.where(np.isfinite(found), rounded, bits).view(np.float64)

    return compute


# ---- functions ------------------------------------------------------------------------------------------------------


def _approximated(function: Callable, type: str, mods: set[str]) -> Compute:
    """Computed in f64 and rounded once."""

    def compute(x: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            (x,) = begun((x,), type, mods)
            return ended(packed(np.asarray(function(wide(x, type))), type), type, mods)

    return compute


def function(name: str) -> Maker:
    plain = {"ex2": np.exp2, "lg2": np.log2, "sin": np.sin, "cos": np.cos, "tanh": np.tanh}[name]

    def made(words: Words) -> Operation | None:
        *mods, type = words
        if type in DOUBLED:
            inner = made((*mods, DOUBLED[type]))
            return None if inner is None else Operation((type,), type, halves(inner.compute, DOUBLED[type]))
        forms = _FUNCTIONS.get((name, type), ())
        if tuple(mods) not in forms:
            return None
        compute = _approximated(plain, type, set(mods) - {"approx"})
        return Operation((type,), type, settled(name, type, mods, compute) if type in ("f16", "bf16") else compute)

    return made


_PLAIN = (("approx",), ("approx", "ftz"))
_FUNCTIONS: dict[tuple[str, str], tuple[Words, ...]] = {
    ("ex2", "f32"): _PLAIN,
    ("lg2", "f32"): _PLAIN,
    ("sin", "f32"): _PLAIN,
    ("cos", "f32"): _PLAIN,
    ("tanh", "f32"): (("approx",),),
    ("ex2", "f16"): (("approx",),),
    ("ex2", "bf16"): (("approx", "ftz"),),
    ("tanh", "f16"): (("approx",),),
    ("tanh", "bf16"): (("approx",),),
}


# ---- signs, least and greatest --------------------------------------------------------------------------------------


def negated(words: Words) -> Operation | None:
    return _sign(words, lambda bits, top: bits ^ top)


def absolute(words: Words) -> Operation | None:
    return _sign(words, lambda bits, top: bits & ~top)


def _sign(words: Words, change: Callable) -> Operation | None:
    """Give the sign. A NaN stays what arithmetic makes of it: an H200 adds -0."""
    *mods, type = words
    if type in DOUBLED:
        inner = _sign((*mods, DOUBLED[type]), change)
        return None if inner is None else Operation((type,), type, halves(inner.compute, DOUBLED[type]))
    if type not in FLOATS or mods not in ([], ["ftz"] if type in ("f32", "f16") else []):
        return None

    def compute(x: np.ndarray) -> np.ndarray:
        bits = x.view(f"u{x.dtype.itemsize}")
        found = change(bits, bits.dtype.type(1 << 8 * bits.itemsize - 1)).view(x.dtype)
        if type == "f64":
            return np.where(np.isnan(x), quiet(x), found)
        nan = np.isnan(numbers.from_bf16_bits(x)) if type == "bf16" else np.isnan(x)
        found = np.where(nan, BF16_NAN if type == "bf16" else one_nan(x), found)
        return flushed(found, type) if mods else found

    return Operation((type,), type, compute)


def least(greatest: bool) -> Maker:
    """A number wins over NaN, and -0 is less than +0.  `.NaN`: NaN wins.  `.xorsign.abs`: of the magnitudes, with the
    product's sign.  Of f32 also three.
    """

    def made(words: Words) -> Operation | None:
        *mods, type = words
        if type in DOUBLED:
            inner = made((*mods, DOUBLED[type]))
            return None if inner is None else Operation((type,) * 2, type, halves(inner.compute, DOUBLED[type]))
        flush = {"ftz"} if type in ("f32", "f16") else set()
        if type not in FLOATS or not set(mods) <= {*flush, "NaN", "xorsign", "abs"} or type == "f64" and mods:
            return None
        if ("xorsign" in mods) != ("abs" in mods):
            return None
        return Operation((type,) * 2, type, _chosen(greatest, type, set(mods)))

    return made


def _chosen(greatest: bool, type: str, mods: set[str]) -> Compute:
    def compute(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            a, b = np.broadcast_arrays(*begun((a, b), type, mods))
            x, y = (numbers.from_bf16_bits(v) if type == "bf16" else v for v in (a, b))
            sign = np.signbit(x) ^ np.signbit(y)
            if "abs" in mods:
                x, y = np.abs(x), np.abs(y)
            first = (x > y) | (x == y) & ~np.signbit(x) if greatest else (x < y) | (x == y) & np.signbit(x)
            found = np.where(first, x, y)
            nan = np.isnan(x) | np.isnan(y) if "NaN" in mods else np.isnan(x) & np.isnan(y)
            found = np.where(np.isnan(x), y, np.where(np.isnan(y), x, found))
            if "xorsign" in mods:
                found = np.where(sign, -found, found)
            if type == "bf16":
                return np.where(nan, BF16_NAN, numbers.bf16_bits(found.astype(np.float32)))
            if type == "f64":
                return which_nan("min", np.where(nan, np.nan, found), (x, y))
            return one_nan(np.where(nan, found.dtype.type(np.nan), found))

    return compute


def least_of_three(greatest: bool, words: Words) -> Operation | None:
    """Take the least of three f32, from sm_100 on: `.abs` takes the magnitudes of all."""
    *mods, type = words
    if type != "f32" or not set(mods) <= {"ftz", "NaN", "abs"}:
        return None
    two = _chosen(greatest, type, set(mods) - {"abs"})
    size = np.abs if "abs" in mods else (lambda x: x)
    return Operation((type,) * 3, type, lambda a, b, c: two(two(size(a), size(b)), size(c)))


def copied_sign(words: Words) -> Operation | None:
    if len(words) != 1 or words[0] not in ("f32", "f64"):
        return None

    def compute(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        whole = np.dtype(f"u{a.dtype.itemsize}")
        top = whole.type(1 << 8 * whole.itemsize - 1)
        return (a.view(whole) & top | b.view(whole) & ~top).view(a.dtype)

    return Operation(words * 2, words[0], compute)
