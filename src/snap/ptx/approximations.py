"""Approximations whose results a table of a GPU settles: functions of 16 bits, for each of their operands.

`tests/ptx/tables.py` runs `ex2.approx.f16` and its like on a GPU for all 65,536 operands and writes how far each
result is from the exact one rounded, in units of the last place, to `h200.npz` beside this file.  Where that file has
a function the machine gives the GPU's results; where it has not, the exact ones rounded, which the ISA's bounds allow.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from snap.ptx.rounding import Compute

FILE = Path(__file__).with_name("h200.npz")


@cache
def tables() -> dict[str, np.ndarray]:
    """By name, 65,536 differences of the bits each."""
    if not FILE.exists():
        return {}
    with np.load(FILE) as found:
        return {name: found[name] for name in found.files}


def settled(name: str, type: str, mods: list[str], compute: Compute) -> Compute:
    off = tables().get(".".join((name, *mods, type)))
    if off is None:
        return compute

    def exactly(x: np.ndarray) -> np.ndarray:
        near = compute(x)
        bits = near.view(np.uint16) + off[x.view(np.uint16)].astype(np.uint16)
        return bits.view(near.dtype)

    return exactly
