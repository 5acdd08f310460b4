"""Bits of words: counting, finding, fields, masks.

Input: an instruction's words behind its name.  Output: its operation, or None where there is no such form.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from snap.machine.lanes import numbers
from snap.ptx.instructions.integers import Maker, Words
from snap.ptx.instructions.operation import Operation
from snap.ptx.text.types import DTYPE

WIDE = ("u32", "u64", "s32", "s64")
LONG = ("b32", "b64")


def _places(x: np.ndarray, bits: int) -> np.ndarray:
    """Compute where a field begins, or how long it is: for words of 32 bits the lower eight bits count. For 64 bits the
    ISA says the same, and an H200 takes all of them: 256 is beyond the word, and not 0.
    """
    return np.minimum(x & np.uint32(255) if bits == 32 else x, np.uint32(255))


def field_mask(length: np.ndarray, dtype: np.dtype) -> np.ndarray:
    bits = 8 * dtype.itemsize
    few = np.minimum(length, np.uint32(bits - 1)).astype(dtype)
    return np.where(length >= bits, ~dtype.type(0), (dtype.type(1) << few) - dtype.type(1))


def bfi(words: Words) -> Operation | None:
    type = words[-1]

    def compute(a: np.ndarray, b: np.ndarray, at: np.ndarray, length: np.ndarray) -> np.ndarray:
        bits = 8 * a.dtype.itemsize
        at, length = _places(at, bits), _places(length, bits)
        few = np.minimum(at, np.uint32(bits - 1)).astype(a.dtype)
        mask = np.where(at < bits, field_mask(length, a.dtype) << few, a.dtype.type(0))
        return a << few & mask | b & ~mask

    return Operation((type, type, "u32", "u32"), type, compute) if len(words) == 1 and type in LONG else None


def bfe(words: Words) -> Operation | None:
    """A signed field that goes beyond the word has the word's own sign."""
    type = words[-1]
    if len(words) != 1 or type not in WIDE:
        return None
    bits = 8 * DTYPE[type].itemsize

    def compute(a: np.ndarray, at: np.ndarray, length: np.ndarray) -> np.ndarray:
        at, length = np.broadcast_arrays(_places(at, bits), _places(length, bits))
        plain = a.view(f"u{a.dtype.itemsize}")
        mask = field_mask(length, plain.dtype)
        few = np.minimum(at, np.uint32(bits - 1)).astype(plain.dtype)
        found = np.where(at < bits, plain >> few, plain.dtype.type(0)) & mask
        if a.dtype.kind == "u":
            return found
        last = np.minimum(at + length - np.uint32(1), np.uint32(bits - 1)).astype(plain.dtype)
        negative = (plain >> last & plain.dtype.type(1) != 0) & (length > 0)
        left = np.where(at < bits, np.uint32(bits) - np.minimum(at, np.uint32(bits)), np.uint32(0))
        inside = field_mask(np.minimum(length, left), plain.dtype)
        return np.where(negative, found & inside | ~inside, found).view(a.dtype)

    return Operation((type, "u32", "u32"), type, compute)


def find(words: Words) -> Operation | None:
    """The place of the first bit that is no sign, from above; all ones where there is none."""
    type, counts = words[-1], words[:-1] == ("shiftamt",)
    if type not in WIDE or not counts and len(words) != 1:
        return None
    bits = 8 * DTYPE[type].itemsize

    def compute(a: np.ndarray) -> np.ndarray:
        plain = np.where(a < 0, ~a, a).view(f"u{a.dtype.itemsize}")
        zeros = numbers.leading_zeros(plain).astype(np.int64)
        place = zeros if counts else bits - 1 - zeros
        return np.where(plain == 0, np.uint32(0xFFFFFFFF), place.astype(np.uint32)).astype(np.uint32)

    return Operation((type,), "u32", compute)


def counted(function: Callable) -> Maker:
    def made(words: Words) -> Operation | None:
        fits = len(words) == 1 and words[0] in LONG
        return Operation(words, "u32", lambda a: function(a).astype(np.uint32)) if fits else None

    return made


def reversed_bits(words: Words) -> Operation | None:
    return Operation(words, words[0], numbers.reverse_bits) if len(words) == 1 and words[0] in LONG else None


def fns(words: Words) -> Operation | None:
    """The n-th bit that is set, from a base on: upwards for positive n, downwards for negative; all ones for none.  An
    H200 gives 0 for the least n, which has no magnitude; a base above 31 is left open by the ISA.
    """

    def one(mask: int, base: int, n: int) -> int:
        if n == -(1 << 31):
            return 0
        if base > 31:
            return 0xFFFFFFFF
        if n == 0:
            return base if mask >> base & 1 else 0xFFFFFFFF
        set_ones = [p for p in (range(base, 32) if n > 0 else range(base, -1, -1)) if mask >> p & 1]
        return set_ones[abs(n) - 1] if abs(n) <= len(set_ones) else 0xFFFFFFFF

    def compute(mask: np.ndarray, base: np.ndarray, n: np.ndarray) -> np.ndarray:
        mask, base, n = np.broadcast_arrays(mask, base, n)
        return np.array([one(*v) for v in zip(mask.tolist(), base.tolist(), n.tolist())], np.uint32)

    return Operation(("b32", "b32", "s32"), "b32", compute) if words == ("b32",) else None


def szext(words: Words) -> Operation | None:
    """The lower n bits, with their sign or with zeros above."""
    if len(words) != 2 or words[0] not in ("clamp", "wrap") or words[1] not in ("s32", "u32"):
        return None

    def compute(a: np.ndarray, n: np.ndarray) -> np.ndarray:
        a, n = np.broadcast_arrays(a, n & np.uint32(31) if words[0] == "wrap" else np.minimum(n, np.uint32(32)))
        gone = np.minimum(np.uint32(32) - n, np.uint32(31)).astype(a.dtype)
        return np.where(n == 0, a.dtype.type(0), np.where(n >= 32, a, a << gone >> gone))

    return Operation((words[1], "u32"), words[1], compute)


def bmsk(words: Words) -> Operation | None:
    """Make a mask of some ones, from a place on."""
    if len(words) != 2 or words[0] not in ("clamp", "wrap") or words[1] != "b32":
        return None

    def compute(at: np.ndarray, length: np.ndarray) -> np.ndarray:
        if words[0] == "wrap":
            at, length = at & np.uint32(31), length & np.uint32(31)
        at, length = np.minimum(at, np.uint32(32)).astype(np.uint64), np.minimum(length, np.uint32(32))
        ones = (np.uint64(1) << length.astype(np.uint64)) - np.uint64(1)
        return (ones << at).astype(np.uint32)

    return Operation(("u32", "u32"), "b32", compute)
