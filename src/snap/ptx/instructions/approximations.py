"""Approximations whose results a table of a GPU settles: functions of 16 bits, for each of their operands.

`tests/ptx/tables.py` runs `ex2.approx.f16` and its like on a GPU for all 65,536 operands and writes the results to
`h200.npz` beside this file.  Where that file has a function the machine gives the GPU's results; where it has not, the
exact ones rounded, which the ISA's bounds allow.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from snap.ptx.instructions.rounding import Compute

FILE = Path(__file__).with_name("h200.npz")


@cache
def tables() -> dict[str, np.ndarray]:
    """Load, by name, the results for all operands in their order (the file has each less the one before it)."""
    if not FILE.exists():
        return {}
    with np.load(FILE) as found:
        return {name: np.cumsum(found[name], dtype=np.uint16) for name in found.files}


def settled(name: str, type: str, mods: list[str], compute: Compute) -> Compute:
    known = tables().get(".".join((name, *mods, type)))
    if known is None:
        return compute
    return lambda x: known[x.view(np.uint16)].view(x.dtype)
