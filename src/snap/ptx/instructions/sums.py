"""Add as tensor cores do: the sums of `mma.sync` and `wgmma`, as an H200 has them.

The ISA leaves the precision and the order of these sums open.  The rule here was found with the results that
tests/ptx/tables.py records, and gives all of them bit for bit:

- Products are exact.  All of an instruction (`Rule.many`: at most 16, of 8-bit floats 32) and the sum so far are added
  at once: each is cut off, towards zero, below the bit that lies `Rule.digits` places under the largest exponent among
  them, and what is left is added exactly.  A product's exponent is the sum of its factors' exponents, a subnormal
  factor's is the least of its type; zero has none.
- The total is cut off, towards zero, to the digits of f32 (`Rule.kept`: of 8-bit floats in wgmma 13); a total of f16
  is rounded to nearest.
- `mma.sync` of 8-bit floats is made of two products of f16, which begin at zero: first of the lower two bytes of each
  word, then of the upper two.  C is added to that as an f32.
- f64 goes product by product, each a fused multiply-add; integers are exact.

Input: A (warps, rows, k), B (warps, k, columns), C (warps, rows, columns).  Output: the sums, in C's type.
"""

from __future__ import annotations

import numpy as np

from snap.ptx.instructions import exact
from snap.ptx.instructions.rounding import which_nan
from snap.record import record


@record
class Rule:
    """The least exponents of A's and B's type; how many products are added at once; bits below the largest exponent;
    bits of the result's fraction; whether C is added at last.
    """

    least: tuple[int, int]
    many: int = 16
    digits: int = 25
    kept: int = 23
    apart: bool = False

    def order(self, depth: int) -> list[np.ndarray]:
        """Say which products are added at once, one part after the other."""
        k = np.arange(depth)
        if self.apart:
            k = np.concatenate([k[k % 4 < 2], k[k % 4 >= 2]])
        return [k[start : start + self.many] for start in range(0, depth, self.many)]


LEAST = {"f16": -14, "bf16": -126, "tf32": -126, "e4m3": -6, "e5m2": -14}


def rule(a: str, b: str, grouped: bool) -> Rule:
    """Choose the rule for the types that are multiplied: by mma.sync, or (grouped) wgmma."""
    if a in ("e4m3", "e5m2") and not grouped:
        return Rule((LEAST["f16"], LEAST["f16"]), apart=True)
    least = LEAST.get(a, 0), LEAST.get(b, 0)
    return Rule(least, 32, 13, 13) if a in ("e4m3", "e5m2") else Rule(least)


def added(a: np.ndarray, b: np.ndarray, c: np.ndarray, sums: str, how: Rule) -> np.ndarray:
    if sums == "s32":
        return (a @ b) + c
    if sums == "f64":
        return _one_by_one(a, b, c)
    total = np.zeros_like(c) if how.apart else c
    for some in how.order(a.shape[2]):
        total = _short(_at_once(a[:, :, some], b[:, some], total, how.digits, how.least), sums, how.kept)
    return (total + c).astype(np.float32).astype(np.float64) if how.apart else total


def _one_by_one(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    for k in range(a.shape[2]):
        factors = np.broadcast_arrays(a[:, :, k, None], b[:, None, k])
        c = which_nan("fma", exact.f64("fma", (*factors, c), "rn"), (*factors, c))
    return c


def _exponents(x: np.ndarray, least: int) -> np.ndarray:
    """Return the exponent of each number; for zero, one far below all."""
    found = np.maximum(np.frexp(x)[1] - 1, least)
    return np.where(x == 0, -100_000, found)


def _at_once(a: np.ndarray, b: np.ndarray, c: np.ndarray, digits: int, least: tuple[int, int]) -> np.ndarray:
    """In f64, in which all of it is exact."""
    first, second = _exponents(a, least[0]), _exponents(b, least[1])
    most = _exponents(c, -126)
    for k in range(a.shape[2]):
        np.maximum(most, first[:, :, k, None] + second[:, None, k], out=most)
    scale = np.ldexp(1.0, np.clip(digits - most, -1000, 1000))
    total = np.trunc(c * scale)
    for k in range(a.shape[2]):
        total = total + np.trunc(a[:, :, k, None] * b[:, None, k] * scale)
    return total / scale


def _short(x: np.ndarray, sums: str, kept: int) -> np.ndarray:
    if sums == "f16":
        return x.astype(np.float16).astype(np.float64)
    size = np.abs(x)
    unit = np.ldexp(1.0, np.maximum(np.frexp(size)[1] - 1, -126) - kept)
    found = np.copysign(np.floor(size / unit) * unit, x)
    return np.where(np.isfinite(x), np.where(size >= 2.0**128, np.copysign(np.inf, x), found), x)
