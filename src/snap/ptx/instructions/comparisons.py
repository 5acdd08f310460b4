"""Comparisons and choices: what `set`, `setp`, `slct`, `selp` and `testp` compute.

Input: an instruction's words behind its name.  Output: its operation, or None where there is no such form.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from snap.machine.lanes import numbers
from snap.ptx.instructions.integers import WHOLE, WORDS, Words
from snap.ptx.instructions.operation import Operation
from snap.ptx.instructions.rounding import FLOATS, Compute, flushed
from snap.ptx.text.types import DTYPE

_COMPARE: dict[str, Callable] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
COMBINE: dict[str, Callable] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def comparison(word: str, type: str, ftz: bool = False) -> Compute | None:
    """Build a comparison. Of floats, `equ` and its like hold of NaN, too; `num` and `nan` ask for it."""
    if type not in FLOATS:
        return _of_integers(word, type)
    unordered = len(word) == 3 and word.endswith("u")
    plain = _COMPARE.get(word[:2] if unordered else word)
    if plain is None and word not in ("num", "nan") or ftz and type not in ("f32", "f16"):
        return None

    def compute(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if type == "bf16":
            a, b = numbers.from_bf16_bits(a), numbers.from_bf16_bits(b)
        if ftz:
            a, b = flushed(a, type), flushed(b, type)
        with np.errstate(all="ignore"):
            nan = np.isnan(a) | np.isnan(b)
            if plain is None:
                return nan == (word == "nan")
            return plain(a, b) | nan if unordered else plain(a, b) & ~nan

    return compute


def _of_integers(word: str, type: str) -> Compute | None:
    if type in WORDS:
        return _COMPARE[word] if word in ("eq", "ne") else None
    if type not in WHOLE:
        return None
    return _COMPARE.get(_UNSIGNED.get(word, word) if type[0] == "u" else word)


def split(words: Words) -> tuple[str, str | None, bool] | None:
    """`lt`, `lt.and`, `lt.and.ftz`: the comparison, what joins it with a predicate, and whether it flushes."""
    first, *more = words
    joined = more.pop(0) if more and more[0] in COMBINE else None
    return (first, joined, bool(more)) if more in ([], ["ftz"]) else None


_TRUE = {"u32": 0xFFFFFFFF, "s32": -1, "u16": 0xFFFF, "s16": -1, "f32": 1.0, "f16": 1.0, "bf16": 0x3F80}


def chosen(words: Words) -> Operation | None:
    """`set`: what holds, as a number: all ones, or 1.0."""
    if len(words) < 3:
        return None
    *rest, to, type = words
    form = split(tuple(rest))
    pair = {"f16x2": "f16", "bf16x2": "bf16"}.get(type)
    if form is None or to not in _TRUE and not (pair and to in (type, "u32", "s32")):
        return None
    holds = comparison(form[0], pair or type, form[2])
    if holds is None:
        return None
    if pair:
        kind = to if to in ("f16x2", "bf16x2") else "u16x2"
        one = np.array(_TRUE[kind[:-2]]).astype(DTYPE[kind[:-2]])
        return None if form[1] else Operation((type, type), to, _halved(holds, pair, one))
    one, none = np.array(_TRUE[to]).astype(DTYPE[to]), DTYPE[to].type(0)

    def compute(a: np.ndarray, b: np.ndarray, *more: np.ndarray) -> np.ndarray:
        found = holds(a, b)
        return np.where(COMBINE[form[1]](found, more[0]) if form[1] else found, one, none)

    return Operation((type, type, "pred") if form[1] else (type, type), to, compute)


def _halved(holds: Compute, type: str, one: np.ndarray) -> Compute:
    word = np.uint32(one.view(np.uint16))

    def compute(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        low, high = (np.where(holds(half(a, k, type), half(b, k, type)), word, np.uint32(0)) for k in range(2))
        return low | high << np.uint32(16)

    return compute


def half(x: np.ndarray, k: int, type: str) -> np.ndarray:
    return (x >> np.uint32(16 * k)).astype(np.uint16).view(DTYPE[type])


def selp(words: Words) -> Operation | None:
    type = words[-1]
    fits = len(words) == 1 and type in (*WORDS, *WHOLE, "f32", "f64")
    return Operation((type, type, "pred"), type, lambda a, b, p: np.where(p, a, b)) if fits else None


def slct(words: Words) -> Operation | None:
    """The first where the third is not negative; of NaN, the second."""
    *mods, type, by = words
    if type not in (*WORDS, *WHOLE, "f32", "f64") or by not in ("s32", "f32") or mods not in ([], ["ftz"]):
        return None
    if mods and by != "f32":
        return None

    def compute(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.where((flushed(c, by) if mods else c) >= 0, a, b)

    return Operation((type, type, by), type, compute)


def tested(words: Words) -> Operation | None:
    if len(words) != 2 or words[1] not in ("f32", "f64"):
        return None
    tiny = np.finfo(DTYPE[words[1]]).tiny
    subnormal = lambda x: (np.abs(x) < tiny) & (x != 0)  # noqa: E731
    kinds: dict[str, Callable] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda x: ~np.isnan(x),
        "notanumber": np.isnan,
        "normal": lambda x: np.isfinite(x) & ~subnormal(x),  # zero is
        "subnormal": subnormal,
    }
    return Operation((words[1],), "pred", kinds[words[0]]) if words[0] in kinds else None
