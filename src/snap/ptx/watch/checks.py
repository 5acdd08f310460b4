"""Two checks that a run may be asked for: shared memory that is read before it was written, and memory that is read
with `ld.global.nc` and written.

`uninitialized`: what a block reads of its shared memory, or another block's, somebody has written before, in this grid.
`nc`: rule (PTX ISA, "ld.global.nc"): memory that is read past coherence is not written while the grid runs, neither
before nor after; which of the two came first in this run does not matter.  Both report the first, and end the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from snap.diag.error import Label
from snap.ptx.errors import PtxFault, PtxFaultKind, from_line
from snap.ptx.machine.lanes import Lanes
from snap.ptx.program.names import Names
from snap.ptx.watch.observer import Touch, Watch

if TYPE_CHECKING:
    from snap.ptx.machine.threads import Machine
    from snap.ptx.program.resolve import Instruction


def _bytes(t: Touch) -> np.ndarray:
    """(lanes, bytes): all that it touches."""
    return t.at[:, None] + np.arange(t.width)


class Uninitialized(Watch):
    def __init__(self, machine: Machine):
        super().__init__(machine)
        self.written = np.zeros(len(machine.memory.shared.data), bool)
        self.names = Names(machine)

    def executed(self, one: Instruction, lanes: Lanes, pc: int, touches: list[Touch]) -> None:
        for t in touches:
            if t.space != "shared":
                continue
            cells = _bytes(t)
            if t.write:
                self.written[cells] = True
                continue
            missing = ~self.written[cells].all(axis=1)
            if missing.any():
                self._report(one, t, int(np.argmax(missing)))

    def _report(self, one: Instruction, t: Touch, k: int) -> None:
        m, at = self.machine, int(t.at[k])
        block, thread = m.where(int(t.lanes[k]) if t.unit is None else t.unit)
        start, name = self.names.piece("shared", at)
        inside = at % m.memory.shared.stride - start
        raise PtxFault(
            PtxFaultKind.UNINITIALISED,
            f"{t.width} bytes at byte {inside} of `{name}` are read before anybody wrote them",
            one,
            m.program.files,
            block,
            thread,
            help="shared memory begins with anything: write it first, and let a barrier come between",
        )


class NotCoherent(Watch):
    """Track, for each byte of global memory, the instruction that wrote it last, and the one that read it past
    coherence, with the lane; -1 for none.
    """

    def __init__(self, machine: Machine):
        super().__init__(machine)
        self.names = Names(machine)
        self.looks = any(one.parts[0] in ("ld", "ldu") and _nc(one) for one in machine.program.instructions)
        size = machine.memory.globals.end if self.looks else 0
        self.writer, self.reader = (np.full((2, size), -1, np.int32) for _ in range(2))

    def executed(self, one: Instruction, lanes: Lanes, pc: int, touches: list[Touch]) -> None:
        if not self.looks:
            return
        for t in touches:
            if t.space != "global" or not (t.write or _nc(one)):
                continue
            mine, other = (self.writer, self.reader) if t.write else (self.reader, self.writer)
            cells = _bytes(t)
            met = other[0][cells] >= 0
            if met.any():
                k, j = np.unravel_index(int(np.argmax(met)), met.shape)
                self._report(one, t, int(k), int(cells[k, j]), other)
            who = t.lanes if t.unit is None else np.full(len(t.lanes), t.unit)
            mine[0][cells] = pc
            mine[1][cells] = who[:, None]

    def _report(self, one: Instruction, t: Touch, k: int, at: int, other: np.ndarray) -> None:
        m = self.machine
        before = m.program.instructions[int(other[0][at])]
        block, thread = m.where(int(t.lanes[k]) if t.unit is None else t.unit)
        first, who = m.where(int(other[1][at]))
        start, name = self.names.piece("global", at)
        does, did = ("writes it", "has read it so") if t.write else ("reads it so", "has written it")
        lines = [line for line in (from_line(one, m.program.files), from_line(before, m.program.files)) if line]
        raise PtxFault(
            PtxFaultKind.NOT_COHERENT,
            f"byte {at - start} of {name} is read through `.nc` in a grid that writes it",
            one,
            m.program.files,
            block,
            thread,
            label=f"block {block}, thread {thread} {does}",
            secondary=(Label(before.span, f"block {first}, thread {who} {did}"),),
            note="; ".join(dict.fromkeys(lines)),
            help="load it without `.nc`: in CUDA, without `__ldg`, and without `const` and `__restrict__` together",
        )


def _nc(one: Instruction) -> bool:
    return one.parts[0] == "ldu" or "nc" in one.parts
