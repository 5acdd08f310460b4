"""Threads that look at the clock, or count, while they wait for what nobody does: a bound stops them.

Input: a machine, now and then.  Output: `too long`, with who waits, and where.  Such loops are never again where they
were, so that liveness.py and livelock.py find nothing, and they may end by themselves.  Rule:

  looks(i)      = i reads %clock or %globaltimer, or is nanosleep, mbarrier.try_wait or .test_wait, atom, or a strong ld
  still(t0, t1) = no byte of global and shared memory, no mbarrier and no printed text changes, and no thread leaves
  work(t0, t1)  = PRICE * instructions of groups of threads + instructions of threads: the machine's time
  stop(t1)      = still(t0, t1), work(t0, t1) > bound, and each thread that can go on, and has in the last PART of the
                  time since t0, has executed some i with looks(i) in it
  bound         = WORK, or `limit=` where that is more and given; none where there is no limit

So who computes without a look is waited for, by all others, too.  Non-goals: memory through caches, where loads may
still bring something new: there the limit says the last word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from snap.ptx.machine import reports
from snap.ptx.machine.lanes import GONE, READY, Lanes, Step
from snap.ptx.machine.memory import Memory
from snap.ptx.program.operands import Special
from snap.ptx.watch.observer import Watched

if TYPE_CHECKING:
    from snap.ptx.machine.threads import Machine
    from snap.ptx.program.resolve import Instruction

WORK = 1 << 27  # a few seconds
PRICE = 1000  # what an instruction costs beside its threads
PART = 8  # of the time without a change, the last eighth
OFTEN = 64  # turns from one look to the next
LIMIT = 1 << 34  # instructions of threads, if nothing else is said
CLOCKS = frozenset(("%clock", "%clock64", "%clock_hi", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"))
STRONG = frozenset(("volatile", "relaxed", "acquire", "mmio"))


def looks(one: Instruction) -> bool:
    """Test whether an instruction is one by which threads wait."""
    name, *words = one.parts
    if name in ("nanosleep", "atom"):
        return True
    if name == "ld":
        return not STRONG.isdisjoint(words)
    if name == "mbarrier":
        return words[0] in ("try_wait", "test_wait")
    return any(isinstance(o, Special) and o.name in CLOCKS for o in one.operands)


class Waiting:
    def __init__(self, machine: Machine):
        self.machine = machine
        found = machine.memory.memory if isinstance(machine.memory, Watched) else machine.memory
        self.memory: Memory | None = found if isinstance(found, Memory) else None
        limit = machine.limit
        self.bound = None if limit is None else WORK if limit == LIMIT else max(WORK, limit)
        self.looked = np.full(len(machine.lane), -1, np.int64)  # when each thread has last
        self.turns = 0
        self.clock = self.threads = 0  # when something has changed last
        self.seen: object = None

    def watched(self, act: Step, one: Instruction) -> Step:
        """An instruction that also notes who looks."""
        if not looks(one):
            return act

        def step(lanes: Lanes) -> None:
            self.looked[lanes] = self.machine.clock
            act(lanes)

        return step

    def marks(self) -> object:
        """Return what changes besides memory, and never comes back to what it was."""

        m = self.machine
        barriers = {key: (b.count, b.pending, b.bytes, b.phase) for key, b in m.mbarriers.items()}
        return barriers, len(m.printed), m.barriers.reduced, int(np.count_nonzero(m.state == GONE))

    def changed(self) -> None:
        m = self.machine
        self.clock, self.threads, self.seen = m.clock, m.counters.thread_instructions, self.marks()

    def turn(self) -> None:
        """At the beginning of each turn, where nobody else asks whether memory is still."""
        self.turns += 1
        if self.turns % OFTEN or self.memory is None:
            return
        if not self.memory.still:
            self.memory.still = True
            self.changed()
        self.look()

    def look(self) -> None:
        """stop(now), where memory has been still since `changed`."""

        m = self.machine
        work = PRICE * (m.clock - self.clock) + m.counters.thread_instructions - self.threads
        if self.bound is None or work <= self.bound:
            return
        if self.seen != self.marks():
            self.changed()
            return
        recently = m.clock - (m.clock - self.clock) // PART
        if (self.looked[(m.state == READY) & (m.ran >= recently)] >= recently).all():
            raise reports.waited(m, m.clock - self.clock)
