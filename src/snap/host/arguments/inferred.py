"""Infer constexpr parameters of a kernel that a launch leaves out: types and sizes, from the arrays that it is given.

Input:      which parameter tells which constexpr parameter, and how (_compiler/frontend/patterns.py); the arguments of
            a launch by name
Output:     a value for each constexpr parameter that was left out
Invariant:  arrays decide; numbers, which are converted, where no array does
Non-goals:  whether the arguments fit (validate.py), calls in kernels (check/functions/inferred.py)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from snap._compiler.ir.types import BOOL, F32, I32
from snap.diag.wording import counted
from snap.host.arguments.arrays import ArrayInfo, BadArray, classify
from snap.host.errors import LaunchError

_NUMBERS = {bool: BOOL, int: I32, float: F32}


def inferred(kernel: str, telling: Sequence[tuple[int, str, Any]], given: Mapping[str, object]) -> dict[str, object]:
    """Return what the arguments say of the constexpr parameters that are left, if it is theirs to say."""
    by_arrays: dict[str, tuple[object, str]] = {}
    by_numbers: dict[str, tuple[object, str]] = {}
    tried: dict[str, list[str]] = {}
    for _, param, hole in telling:
        if param not in given:
            continue
        info = None if hole.scalar else _array(kernel, param, given[param])
        value, why = _of_number(given[param]) if hole.scalar else _of_array(info, hole)
        known = by_numbers if hole.scalar else by_arrays
        if value is None:
            tried.setdefault(hole.name, []).append(f"`{param}` {why}")
        elif known.setdefault(hole.name, (value, param))[0] != value:
            first, by = known[hole.name]
            why = f"`{hole.name}` is {first} by `{by}`, and {value} by `{param}`; pass both the same"
            raise LaunchError(kernel, f"{why}, or give `{hole.name}=`", hole.name)
    found = {**{name: one for name, one in by_numbers.items() if name not in tried}, **by_arrays}
    for name, reasons in tried.items():
        if name not in found:
            told = f"is missing, and the arguments do not tell it: {'; '.join(reasons)}"
            raise LaunchError(kernel, f"{told}; give it, `{name}=...`", name)
    return {name: value for name, (value, _) in found.items()}


def _array(kernel: str, name: str, given: object) -> ArrayInfo | None:
    try:
        return None if type(given) in _NUMBERS else classify(given)
    except BadArray as wrong:
        raise LaunchError(kernel, str(wrong), name) from None


def _of_array(info: ArrayInfo | None, hole: Any) -> tuple[object, str]:
    if info is None:
        return None, "is not an array"
    if hole.axis is None:
        return info.dtype, f"holds {info.dtype_name}, which Snap does not have"
    if len(info.shape) != hole.rank:
        return None, f"has {counted(len(info.shape), 'dimension')}, not {hole.rank}"
    return info.shape[hole.axis], ""


def _of_number(given: Any) -> tuple[object, str]:
    number = given.item() if getattr(given, "shape", None) == () and callable(getattr(given, "item", None)) else given
    return _NUMBERS.get(type(number)), "is not a number"
