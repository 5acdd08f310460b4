"""Values as the groups of threads have them: what a function that means an instruction of a group is given.

Input: values of (blocks, threads), those of local arrays with a dimension before these.  Output: what the function
returns, likewise.  Invariant: a function sees whole groups in which all threads take part, and no others.  Non-goals:
the types of results (source/program.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def by_groups(function: Callable[..., Any], of: int, active: np.ndarray, given: dict[str, Any]) -> Any:
    """Call it with arrays of (groups, lanes), `of` lanes in a row; a result may have one value for each group."""
    blocks, threads = active.shape
    short = -threads % of

    def rows(x: np.ndarray) -> np.ndarray:
        ends = [(0, 0)] * (x.ndim - 1) + [(0, short)]
        return np.pad(x, ends).reshape(*x.shape[:-2], -1, of)

    part = rows(active).all(-1)

    def there(x: Any) -> Any:
        return tuple(map(there, x)) if isinstance(x, tuple) else rows(x)[..., part, :]

    def back(x: Any) -> Any:
        if isinstance(x, (tuple, list)):
            return tuple(map(back, x))
        x = np.asarray(x)
        if x.ndim and (x.ndim < 2 or x.shape[-2] != part.sum() or x.shape[-1] not in (1, of)):
            wanted = f"({part.sum()}, {of}), or ({part.sum()}, 1): one value of each group, `v.max(-1, keepdims=True)`"
            raise ValueError(f"a result has the shape {x.shape}, and groups and lanes are {wanted}")
        outer = x.shape[:-2]
        made = np.zeros((*outer, len(part), of), x.dtype)
        made[..., part, :] = x
        return made.reshape(*outer, blocks, threads + short)[..., :threads]

    return back(function(**{name: there(x) for name, x in given.items()}))


def one_for_each(n: int, active: np.ndarray, value: Any, name: str) -> None:
    """Refuse a result that differs among the n threads that have one value of it."""
    for x in value if isinstance(value, tuple) else (value,):
        x = np.broadcast_to(np.asarray(x), active.shape)
        n = min(n, x.shape[-1])
        short = [(0, 0), (0, -x.shape[-1] % n)]
        rows, there = (np.pad(one, short).reshape(len(one), -1, n) for one in (x, active))
        first = np.take_along_axis(rows, there.argmax(-1)[..., None], -1)
        same = (rows == first) | (rows != rows) & (first != first)
        if not (same | ~there).all():
            raise ValueError(f"{name} is one value for {n} threads, and it returns several")
