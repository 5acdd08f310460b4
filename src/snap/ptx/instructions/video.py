"""Video instructions of two halves or four bytes (`vadd2`, `vabsdiff4`): each part by itself, or all parts added up.

Input: an instruction's words and the number of its operands.  Output: its operation, or None where there is no such
form.  Masks and selectors of parts are not here, nor those of one number (`vadd`): no compiler writes them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from snap.ptx.instructions.integers import word_field
from snap.ptx.instructions.operation import Operation
from snap.ptx.text.types import DTYPE

_PARTS: dict[str, Callable] = {
    "vadd": np.add,
    "vsub": np.subtract,
    "vabsdiff": lambda a, b: np.abs(a - b),
    "vmin": np.minimum,
    "vmax": np.maximum,
    "vavrg": lambda a, b: np.where(a + b >= 0, a + b + 1 >> 1, a + b >> 1),
}
NAMES = frozenset(f"{name}{count}" for name in _PARTS for count in (2, 4))
_KINDS = ("u32", "s32")


def parts(words: tuple[str, ...]) -> Operation | None:
    """`vadd4.u32.u32.u32`, and `.sat` or `.add` behind it."""
    name, count = words[0][:-1], int(words[0][-1])
    if (
        len(words) not in (4, 5)
        or any(w not in _KINDS for w in words[1:4])
        or words[4:] not in ((), ("sat",), ("add",))
    ):
        return None
    to, first, second = words[1:4]
    bits = 32 // count
    low, high = (0, (1 << bits) - 1) if to == "u32" else (-(1 << bits - 1), (1 << bits - 1) - 1)

    def compute(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        total = c.astype(np.int64) if words[4:] == ("add",) else np.zeros(1, np.int64)
        for k in range(count):
            part = _PARTS[name](word_field(a, k * bits, bits), word_field(b, k * bits, bits))
            if words[4:] == ("add",):
                total = total + part
            else:
                kept = np.clip(part, low, high) if words[4:] else part
                total = total | (kept & (1 << bits) - 1) << k * bits
        return total.astype(np.uint32).view(DTYPE[to])

    return Operation((first, second, to), to, compute)
