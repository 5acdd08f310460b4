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
        outer = x.shape[:-2]
        made = np.zeros((*outer, len(part), of), x.dtype)
        made[..., part, :] = x
        return made.reshape(*outer, blocks, threads + short)[..., :threads]

    return back(function(**{name: there(x) for name, x in given.items()}))
