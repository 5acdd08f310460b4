"""Observe the PTX machine while it runs: what observers are told, and when.

Input: a machine that tells what it does.  Output: nothing here; counters.py, races.py, checks.py and tracing.py make
something of it.  Invariant: who looks on changes nothing, and a machine without watchers does not know of them: its
memory is the plain one.  Accesses are told by instruction, when it has been executed, each with the bytes it touched.
Non-goals: what they mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from snap.ptx.machine.lanes import Lanes

if TYPE_CHECKING:
    from snap.ptx.errors import PtxFault
    from snap.ptx.instructions.mbarriers import Mbarrier
    from snap.ptx.machine.memory import Memory
    from snap.ptx.machine.threads import Machine
    from snap.ptx.program.resolve import Instruction

BarrierKey = tuple[int, int]  # of an mbarrier: its block, and the byte of its shared memory


@dataclass(slots=True)
class Touch:
    """Some lanes' accesses to one space: where in its bytes, how wide, and whether they write; value: what is written.
    unit: the thread on whose behalf TMA or a tensor core does it, or None where the lanes do it themselves.
    """

    space: str
    at: np.ndarray
    lanes: np.ndarray
    width: int
    write: bool
    value: np.ndarray | None = None
    unit: int | None = None


class Watch:
    """Receive what an observer may be told. It overrides what it wants to know."""

    def __init__(self, machine: Machine):
        self.machine = machine

    def issued(self, one: Instruction, lanes: Lanes, acting: Lanes, pc: int) -> None:
        """These lanes have come to an instruction; `acting`: whose guard holds, and who need not wait for others."""

    def executed(self, one: Instruction, lanes: Lanes, pc: int, touches: list[Touch]) -> None:
        """These lanes have executed an instruction whose guard held, or have come to a barrier."""

    def stepped(self, pc: int, warps: np.ndarray) -> None:
        """In the stack mode: these warps have executed the instruction; `machine.warp_state(warp)` is what they are."""

    def arrived(self, lanes: Lanes, number: np.ndarray) -> None:
        """Lanes have come to barriers of their block; it may let them go at once."""

    def let_go(self, lanes: Lanes, full: np.ndarray) -> None:
        """`full`: by block and number, the barriers to which all have come; lanes: who waited there."""

    def arrived_at_cluster(self, lanes: Lanes) -> None:
        """Lanes have come to the barrier of their cluster."""

    def let_go_of_cluster(self, lanes: Lanes) -> None:
        """They wait no longer for their cluster."""

    def counted(self, key: BarrierKey, barrier: Mbarrier, lane: int | None) -> None:
        """A thread arrives at an mbarrier or, without one, bytes do; its phase has not ended yet."""

    def passed(self, key: BarrierKey, barrier: Mbarrier, lane: int) -> None:
        """A thread has seen that the phase before this one is over."""

    def shuffled(self, lanes: Lanes, source: Lanes, mask: np.ndarray, together: Lanes) -> None:
        """Lanes take values from others, in range; mask: what each one names; together: all that execute it."""

    def ended(self) -> None:
        """Every thread has left.  What is wrong is raised."""

    def found(self) -> list[PtxFault]:
        """Return what is wrong so far, where the run was stopped by something else."""
        return []


class Watched:
    """Memory that keeps what is touched until the instruction is over."""

    def __init__(self, memory: Memory):
        self.memory = memory
        self.touches: list[Touch] = []
        self.unit: int | None = None

    def __getattr__(self, name: str):
        return getattr(self.memory, name)

    def read(self, space: str, address: np.ndarray, thread: np.ndarray, width: int) -> np.ndarray:
        found, at = self.memory.located(space, address, thread, width)
        self.touches.append(Touch(found.name, at, thread, width, False, unit=self.unit))
        return self.memory.read(space, address, thread, width)

    def write(self, space: str, address: np.ndarray, thread: np.ndarray, value: np.ndarray) -> None:
        found, at = self.memory.located(space, address, thread, value.dtype.itemsize)
        self.touches.append(Touch(found.name, at, thread, value.dtype.itemsize, True, value, self.unit))
        self.memory.write(space, address, thread, value)

    def taken(self) -> list[Touch]:
        """Return what was touched since the last time."""
        touches, self.touches, self.unit = self.touches, [], None
        return touches


def joined(touches: list[Touch]) -> list[Touch]:
    """Elements of one vector, side by side, are one access."""
    out: list[Touch] = []
    for t in touches:
        last = out[-1] if out else None
        beside = (
            last is not None
            and (last.space, last.write, last.unit) == (t.space, t.write, t.unit)
            and len(last.at) == len(t.at)
            and (last.lanes is t.lanes or np.array_equal(last.lanes, t.lanes))
            and np.array_equal(last.at + last.width, t.at)
        )
        if beside and last is not None:
            out[-1] = Touch(t.space, last.at, t.lanes, last.width + t.width, t.write, None, t.unit)
        else:
            out.append(t)
    return out
