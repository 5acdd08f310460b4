"""Execute branches, jumps by table, exits and traps.

Input: a machine and an instruction.  Output: a function of the lanes that execute it.  Non-goals: calls and returns
(calls.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from snap.ptx.errors import PtxFaultKind
from snap.ptx.machine.lanes import GONE, READY, WARP, WITH_WARP, Lanes, Step
from snap.ptx.machine.memory import Fault
from snap.ptx.program.resolve import Code, Instruction, Register, Several, listed

if TYPE_CHECKING:
    from snap.ptx.machine.threads import Machine

Target = Callable[[Lanes], np.ndarray]


def bra(m: Machine, one: Instruction, pc: int) -> Step | None:
    to = one.operands[0]
    if not isinstance(to, Code):
        return None

    def step(lanes: Lanes) -> None:
        m.pc[lanes] = to.address

    return step


def target(m: Machine, one: Instruction) -> Target:
    """Compute where a branch or a call leads: for some lanes, the addresses."""
    callee = next((o for o in one.operands if isinstance(o, (Code, Register))), None)
    if one.parts[0] == "brx":
        return _chosen(m, one)
    if isinstance(callee, Code):
        address = np.array([callee.address], np.int32)
        return lambda lanes: address
    if callee is None or one.parts[0] != "call":
        raise Fault(PtxFaultKind.UNKNOWN, f"{one.name} without a label", 0)
    read = m.reader(callee, "u64", one.function)
    return lambda lanes: read(lanes).astype(np.int64)


def _chosen(m: Machine, one: Instruction) -> Target:
    """Choose from a table of labels."""
    index, table = one.operands
    places = np.array([code.address for code in listed(table) if isinstance(code, Code)], np.int32)
    read = m.reader(index, "u32", one.function)

    def found(lanes: Lanes) -> np.ndarray:
        chosen = np.broadcast_to(read(lanes), lanes.shape)
        high = chosen >= len(places)
        if high.any():
            raise Fault(PtxFaultKind.OUT_OF_BOUNDS, f"a branch to one of {len(places)} places", int(np.argmax(high)))
        return places[chosen]

    return found


def brx(m: Machine, one: Instruction, pc: int) -> Step | None:
    if one.parts[1:2] != ("idx",) or not isinstance(one.operands[1], Several):
        return None
    find = target(m, one)

    def step(lanes: Lanes) -> None:
        m.pc[lanes] = find(lanes)

    return step


def leave(m: Machine, one: Instruction, pc: int) -> Step:
    def step(lanes: Lanes) -> None:
        m.state[lanes] = GONE
        left = np.zeros(len(m.since), bool)
        left[lanes // WARP] = True
        m.state[(m.state == WITH_WARP) & left[m.lane // WARP]] = READY  # nobody waits for those who have left
        m.barriers.release()
        if m.shape.cluster > 1:
            m.barriers.end_phases()

    return step


def trap(m: Machine, one: Instruction, pc: int) -> Step:
    def step(lanes: Lanes) -> None:
        raise Fault(PtxFaultKind.TRAP, "the program stops itself here", 0)

    return step
