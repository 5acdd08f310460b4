"""Load, store and combine elements of memory: what all instructions that touch memory share.

Input: addresses of lanes, in a space or generic.  Output: bits, or memory changed.  Non-goals: which instruction asks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from snap.ptx.instructions.operations import lookup
from snap.ptx.machine.lanes import Lanes
from snap.ptx.program.resolve import Place
from snap.ptx.text.types import BITS

if TYPE_CHECKING:
    from snap.ptx.machine.threads import Machine

REDUCTIONS: dict[str, Callable] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
_ATOMIC = {
    **REDUCTIONS,
    "exch": lambda old, new: new,
    "inc": lambda old, new: np.where(old >= new, old.dtype.type(0), old + old.dtype.type(1)),
    "dec": lambda old, new: np.where((old == 0) | (old > new), new, old - old.dtype.type(1)),
}


def combining(op: str, type: str) -> Callable | None:
    """Return what an atomic does with what was there and what it is given."""
    if type in ("f16", "bf16", "f16x2", "bf16x2"):
        found = lookup((op, "rn", type) if op == "add" else (op, type)) if op in ("add", "min", "max") else None
        return None if found is None else found.compute
    return _ATOMIC.get(op)


def at(m: Machine, place: Place, lanes: Lanes, more: int = 0) -> np.ndarray:
    """Compute where a variable lies in each thread's local memory."""
    if place.space == "frame":
        return (m.base[lanes] + (place.offset + more)).astype(np.uint64)
    return np.full(lanes.shape, place.offset + more, np.uint64)


def loaded(m: Machine, space: str, address: np.ndarray, lanes: Lanes, width: int) -> np.ndarray:
    """The bits at each lane's address; without a space, addresses are generic."""
    if space:
        return m.memory.read(space, address, lanes, width)
    out = np.empty(lanes.shape, BITS[width])
    for where, which, inside in m.memory.split(address):
        if which is None:
            return m.memory.read(where, inside, lanes, width)
        out[which] = m.memory.read(where, inside, lanes[which], width)
    return out


def stored(m: Machine, space: str, address: np.ndarray, lanes: Lanes, value: np.ndarray) -> None:
    if space:
        m.memory.write(space, address, lanes, value)
        return
    for where, which, inside in m.memory.split(address):
        if which is None:
            m.memory.write(where, inside, lanes, value)
        else:
            m.memory.write(where, inside, lanes[which], value[which])
