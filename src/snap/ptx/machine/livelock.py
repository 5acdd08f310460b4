"""Threads of a warp that wait for each other for ever: found when the machine is in a state that it was in before.

Rule: the machine does the same from the same state, so that a state that comes again comes for ever; where schedules
are drawn, that holds for the last warp that is left.  A state is kept after 256 turns, and again whenever their number
has doubled (Brent); each turn that could equal it is compared.  Where the clock is read nothing is found: there
the bound of waiting.py says the last word.  Output: a `deadlock` that names those who run, and those who cannot go on
before these have left the loop, each with its line.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

import numpy as np

from snap.diag.error import Label
from snap.ptx.errors import PtxFault, PtxFaultKind, from_line
from snap.ptx.machine.memory import Memory
from snap.ptx.machine.reports import ranges
from snap.ptx.machine.states import EVERY, WarpState, lanes_of
from snap.ptx.watch.observer import Watched

if TYPE_CHECKING:
    from snap.ptx.machine.warps import StackMachine

FIRST = 256  # turns before the first state is kept
MOST = 1 << 28  # bytes of a state that are kept


class Livelock:
    def __init__(self, machine: StackMachine):
        self.machine = machine
        self.turns, self.keep = 0, FIRST
        self.pc = -1
        self.small: tuple = ()
        self.large: list[np.ndarray] = []
        self.first = 0  # of the large parts, the one that was different last time

    def look(self, pc: int) -> None:
        """At the beginning of each turn."""
        self.turns += 1
        if self.turns == self.keep:
            self.keep *= 2
            parts = self._parts()
            if sum(part.nbytes for part in parts) <= MOST:
                self.pc, self.small, self.large = pc, self._rest(), [part.copy() for part in parts]
        elif pc == self.pc and np.array_equal(self.machine.warp_pc, self.large[0]) and self._same():
            raise self._report()

    def _same(self) -> bool:
        parts = self._parts()
        order = [self.first, *range(len(parts))]
        if len(parts) != len(self.large):
            return False
        for k in order:
            if not np.array_equal(parts[k], self.large[k]):
                self.first = k
                return False
        return self._rest() == self.small

    def _parts(self) -> list[np.ndarray]:
        """Everything that decides what comes next, as arrays; the order of warps' turns in the place of times."""
        m = self.machine
        memory = m.memory.memory if isinstance(m.memory, Watched) else m.memory
        bytes = [memory.globals.data, memory.shared.data, memory.local.data] if isinstance(memory, Memory) else []
        registers = [bits for function in m.registers.values() for bits in function]
        b = m.barriers
        waits = [b.come, b.asked, b.waits_at, b.said, b.arrived, b.phase, b.joined]
        order = np.argsort(np.where(m.active != 0, m.since, -1), kind="stable")
        frames = [m.depth, m.base, m.top, *m.frames, *(bits for kept in m.aside.values() for bits in kept)]
        return [m.warp_pc, m.active, m.pc, m.state, order, *registers, *bytes, *frames, *waits]

    def _rest(self) -> tuple:
        m = self.machine
        return list(m.held), deepcopy(m.mbarriers), len(m.printed)

    # ---- the report -------------------------------------------------------------------------------------------------

    def _report(self) -> PtxFault:
        m = self.machine
        running = [w for w in range(len(m.held)) if m.active[w]]
        warp = next((w for w in running if self._held_back(w)), running[0])
        s, block = m.warp_state(warp), m.where(32 * warp)[0]
        spin = m.program.instructions[s.pc]
        who = self._named(warp, s.active)
        back = self._held_back(warp)
        labels = [self._label(warp, s, pc, mask) for pc, mask in back.items()]
        lines = [from_line(m.program.instructions[pc], m.program.files) for pc in (s.pc, *back)]
        held = 0
        for mask in back.values():
            held |= mask
        verb = "repeat" if s.active.bit_count() > 1 else "repeats"
        for_whom = f", and {self._named(warp, held)} of the warp cannot go on before" if held else ""
        return PtxFault(
            PtxFaultKind.DEADLOCK,
            f"{who} {verb} a loop in which nothing changes any more{for_whom}",
            spin,
            m.program.files,
            block,
            m.where(32 * warp + lanes_of(s.active)[0])[1],
            label=f"block {block}, {who} {'run' if s.active.bit_count() > 1 else 'runs'} here",
            secondary=tuple(labels[:5]),
            note="; ".join(dict.fromkeys(line for line in lines if line)),
            help="a warp with a stack of tokens leaves a loop when all its threads do: release a lock inside the loop "
            'that takes it, or run with threads that are scheduled on their own, mode="independent"',
        )

    def _held_back(self, warp: int) -> dict[int, int]:
        """Return the threads that wait for a token, by where they would go on."""
        m = self.machine
        s = m.warp_state(warp)
        found: dict[int, int] = {}
        for lane in lanes_of(EVERY & ~(s.active | s.exited)):
            pc = int(m.pc[32 * warp + lane])
            found[pc] = found.get(pc, 0) | 1 << lane
        return found

    def _named(self, warp: int, mask: int) -> str:
        return ranges([self.machine.where(32 * warp + lane)[1] for lane in lanes_of(mask)])

    def _label(self, warp: int, s: WarpState, pc: int, mask: int) -> Label:
        m = self.machine
        why = "has taken another branch"
        if mask & s.broken:
            why = "has left the loop"
        elif mask & s.returned:
            why = "has returned"
        who = f"block {m.where(32 * warp)[0]}, {self._named(warp, mask)}"
        return Label(m.program.instructions[pc].span, f"{who} {why}, and waits to go on here")
