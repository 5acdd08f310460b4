"""Threads that wait for what nobody will do: found in the default mode, where each thread has a program counter.

Input: a machine, before each turn.  Output: a `deadlock` that names who waits, where, and at which mbarrier.  Rule (6.5
of the report, liveness, for threads that are scheduled on their own):

  still(t0, t1)       = no byte of global and shared memory, no mbarrier and no printed text changes from t0 to t1
  again(w, t0, t1)    = warp w has at t1 the program counters, registers and local memory that it had at t0, and each of
                        its threads that can go on has gone on in between
  asleep(w, t0, t1)   = no thread of w can go on at t0, nor has in between
  dead(t0, t1)        = still(t0, t1), and for every warp again(w, t0, t) for some t of t0..t1, or asleep(w, t0, t1)

What a thread does follows from its registers and from memory, so that a warp that is again where it was, in a memory
that is still, goes round forever, whatever the schedule; if all do, memory stays as it is.  Nothing is found where a
thread reads the clock or counts its turns (its registers differ; a loop that counts may end: waiting.py has a bound for
these), and where barriers hand on data (`bar.red`).  Looking costs next to nothing while memory changes: threads'
registers are kept only when it has been still for QUIET turns.  Non-goals: the stack mode (livelock.py), memory through
caches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from snap.ptx.machine import reports
from snap.ptx.machine.lanes import GONE, READY, Lanes
from snap.ptx.machine.memory import Memory
from snap.ptx.watch.observer import Watched

if TYPE_CHECKING:
    from snap.ptx.machine.threads import Machine

QUIET = 64  # turns without a change, after which it is worth looking
PATIENT = 256  # turns until the warps are kept anew, doubled each time while memory stays still
MOST = 1 << 28  # bytes of registers and local memory that are kept
WARP = 32


class Liveness:
    def __init__(self, machine: Machine):
        self.machine = machine
        found = machine.memory.memory if isinstance(machine.memory, Watched) else machine.memory
        self.memory: Memory | None = found if isinstance(found, Memory) else None
        self.turns, self.next, self.patience = 0, QUIET, PATIENT
        self.looks = False  # the warps are kept, and compared
        self.seen: object = None  # what must stay equal beside memory
        self.kept: list[np.ndarray] = []
        self.order: list[int] = []  # in which they are compared
        self.clock = 0
        self.again = np.zeros(0, bool)
        self.gone = self.able = self.again

    def look(self, lanes: Lanes) -> None:
        """At the beginning of each turn; lanes: who goes on."""
        self.turns += 1
        if self.looks:
            if self.memory is None or not self.memory.still:
                self.patience = PATIENT
                self._wait(changed=True)
            elif self.turns > self.next:
                self.patience *= 2
                self._wait(changed=False)
            else:
                self._compare(np.unique(lanes // WARP))
                if not self.turns % QUIET:
                    self.machine.waiting.look()
        elif self.turns >= self.next and self.memory is not None:
            still = self.memory.still and self.seen == self.machine.waiting.marks()
            if still and self._keep():
                self.looks, self.next = True, self.turns + self.patience
            else:
                self._wait(changed=not still)

    def stir(self) -> None:
        """Something has changed."""
        if self.memory is not None:
            self.memory.still = False

    def _wait(self, changed: bool) -> None:
        """From now on changes are noticed."""
        waiting = self.machine.waiting
        if changed:
            waiting.changed()
        if self.memory is not None:
            waiting.look()
            self.looks, self.kept = False, []
            self.memory.still = True
            self.machine.awaited.clear()
            self.seen, self.next = waiting.marks(), self.turns + QUIET

    def _own(self) -> list[np.ndarray]:
        """Return what decides, besides memory, what a thread does next; a row for each thread."""
        m = self.machine
        registers = [bits for function in m.registers.values() for bits in function]
        frames = [m.depth, m.base, m.top, *m.frames, *(bits for kept in m.aside.values() for bits in kept)]
        local = self.memory.local if self.memory is not None else None
        rows = [local.data.reshape(len(m.lane), -1)] if local is not None and local.size else []
        return [m.pc, m.state, *registers, m.carry, *frames, *rows]

    def _keep(self) -> bool:
        m, own = self.machine, self._own()
        if sum(bits.nbytes for bits in own) > MOST:
            return False
        self.kept, self.clock = [bits.copy() for bits in own], m.clock
        self.again, self.order = np.zeros(len(m.since), bool), list(range(len(own)))
        self.able, self.gone = self._able(), self._gone()
        return True

    def _able(self) -> np.ndarray:

        return (self.machine.state.reshape(-1, WARP) == READY).any(axis=1)

    def _gone(self) -> np.ndarray:

        return self.machine.state == GONE

    def _compare(self, warps: np.ndarray) -> None:
        """again(w) for the warps that go on now; and whether all is dead."""

        m, own = self.machine, self._own()
        if len(own) != len(self.kept):
            return
        warps = warps[~self.again[warps]]
        ran = (m.ran.reshape(-1, WARP)[warps] >= self.clock) | (m.state.reshape(-1, WARP)[warps] != READY)
        warps = warps[ran.all(axis=1)]
        shape = (len(self.again), -1)
        for at, k in enumerate(self.order):
            warps = warps[(own[k].reshape(shape)[warps] == self.kept[k].reshape(shape)[warps]).all(axis=1)]
            if not len(warps):
                if at > 1:  # the one that differs comes second next time, behind the program counters
                    self.order.insert(1, self.order.pop(at))
                return
        self.again[warps] = True
        gone = self._gone()
        asleep = ~(self.able | self._able()) & (m.since < self.clock)
        whole = self.again | asleep | gone.reshape(-1, WARP).all(axis=1)
        if whole.all() and (gone == self.gone).all() and self.seen == self.machine.waiting.marks():
            raise reports.dead(m)
