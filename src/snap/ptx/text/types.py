"""The types of PTX as NumPy has them, and how registers are read and written as them.

A register holds bits: an unsigned integer of its width (a predicate: a truth value).  An instruction reads them as its
own type; a wider register's lower bits, a narrower one's with zeros above (PTX ISA, "Operand Size Exceeding
Instruction-Type Size").
"""

from __future__ import annotations

import numpy as np

from snap.machine.lanes.numbers import from_bf16_bits

TRUTH = np.dtype(bool)
DTYPE = {
    "pred": TRUTH,
    **{f"{kind}{bits}": np.dtype(f"u{bits // 8}") for kind in "bu" for bits in (8, 16, 32, 64)},
    **{f"s{bits}": np.dtype(f"i{bits // 8}") for bits in (8, 16, 32, 64)},
    "f16": np.dtype("f2"),
    "f32": np.dtype("f4"),
    "f64": np.dtype("f8"),
    "tf32": np.dtype("f4"),
    "f16x2": np.dtype("u4"),
    "bf16x2": np.dtype("u4"),
    "u16x2": np.dtype("u4"),
    "s16x2": np.dtype("u4"),
    "f32x2": np.dtype("u8"),
    "bf16": np.dtype("u2"),
    "b128": np.dtype("c16"),  # sixteen bytes that are only moved
}
BITS = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)} | {16: np.dtype("c16")}


def width(type: str) -> int:
    """Bytes."""
    return DTYPE[type].itemsize


def storage(type: str) -> np.dtype:
    """Return the type that holds a register of this type."""
    return DTYPE["pred"] if type == "pred" else BITS[max(width(type), 2)]


def seen(bits: np.ndarray, type: str) -> np.ndarray:
    """A register's bits, as an instruction's type."""
    to = DTYPE[type]
    if TRUTH in (bits.dtype, to):
        return bits if bits.dtype == to else bits.astype(to)
    if bits.dtype.itemsize != to.itemsize:
        bits = bits.astype(BITS[to.itemsize])
    return bits.view(to)


def kept(value: np.ndarray, into: np.dtype) -> np.ndarray:
    """A result, as the register's bits: sign-extended where it is signed and narrower."""
    if TRUTH in (into, value.dtype):
        return value.astype(into)
    if value.dtype.itemsize == into.itemsize:
        return value.view(into)
    if value.dtype.kind == "i":
        return value.astype(f"i{into.itemsize}").view(into)
    return value.view(BITS[value.dtype.itemsize]).astype(into)


def _rounded(value: np.ndarray, to: np.dtype) -> np.ndarray:
    """NaN for a type of integers is some number, and nothing to warn of."""
    with np.errstate(all="ignore"):
        return value.astype(to)


def constant(value: int, kind: str, type: str) -> np.ndarray:
    """An immediate, as an instruction's type; one element, which meets all lanes."""
    to = DTYPE[type]
    if to == TRUTH:
        return np.array([value != 0])
    if kind == "f32":
        bits = np.array([value], np.uint32)
        return bits if to.kind in "ui" and to.itemsize == 4 else _rounded(bits.view(np.float32), to)
    if kind == "f64":
        bits = np.array([value], np.uint64)
        return bits if to.kind in "ui" and to.itemsize == 8 else _rounded(bits.view(np.float64), to)
    if to.kind == "f":
        return np.array([value]).astype(to)
    return np.array([value & ((1 << 8 * to.itemsize) - 1)], BITS[to.itemsize]).view(to)


def number(bits: np.ndarray, type: str) -> np.ndarray:
    """A float's value, wide enough to compute with: bf16 is kept as bits."""
    return from_bf16_bits(bits) if type == "bf16" else bits
