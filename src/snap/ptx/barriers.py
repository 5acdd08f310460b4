"""Barriers of blocks and clusters: who has come, and who waits.

Rule (PTX ISA, "bar"): a barrier lets its waiters go when as many threads have come as it was asked for; without a
number, all threads of the block that have not left.  `bar.red` gives each waiter what all predicates say together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from snap.ptx.machine import Machine

EVERYONE = -1
CLUSTER = 16  # the number, beyond the block's own, under which threads wait for their cluster
Give = Callable[[np.ndarray, np.ndarray], None]


class Barriers:
    def __init__(self, machine: Machine, count: int):
        self.machine = machine
        blocks = machine.shape.blocks
        self.come = np.zeros((blocks, 17), np.int64)
        self.asked = np.full((blocks, 17), EVERYONE, np.int64)
        self.waits_at = np.full(count, -1, np.int8)
        self.said = np.zeros(count, bool)
        self.reductions: dict[int, tuple[str, Give]] = {}
        # Of clusters: threads arrive, and later wait; a phase ends when all that are there have arrived.
        self.arrived = np.zeros(blocks, np.int64)
        self.phase = np.zeros(blocks, np.int64)
        self.joined = np.zeros(count, np.int64)  # by thread: the phase it arrived in, plus one

    @property
    def block(self) -> np.ndarray:
        return self.machine.lane // self.machine.width

    # ---- blocks -----------------------------------------------------------------------------------------------------

    def arrive(self, lanes: np.ndarray, number: np.ndarray, count: np.ndarray | None, wait: bool) -> None:
        from snap.ptx.machine import AT_BARRIER

        block = lanes // self.machine.width
        number = np.broadcast_to(number, lanes.shape).astype(np.int64)
        np.add.at(self.come, (block, number), 1)
        if count is not None:
            self.asked[block, number] = np.broadcast_to(count, lanes.shape)
        if wait:
            self.machine.state[lanes] = AT_BARRIER
            self.waits_at[lanes] = number
        self.release()

    def release(self) -> None:
        """Let go whoever waits at a barrier to which all have come."""
        from snap.ptx.machine import AT_BARRIER, GONE, READY

        machine = self.machine
        if not self.come.any():
            return
        here = (machine.state != GONE).reshape(machine.shape.blocks, -1).sum(axis=1)
        needed = np.where(self.asked == EVERYONE, here[:, None], self.asked)
        full = (self.come > 0) & (self.come >= needed)
        full[:, CLUSTER] = False
        if not full.any():
            return
        waiting = machine.state == AT_BARRIER
        at = np.maximum(self.waits_at, 0)
        free = np.flatnonzero(waiting & (self.waits_at != CLUSTER) & full[self.block, at])
        machine.state[free] = READY
        self._reduce(free)
        self.waits_at[free] = -1
        self.come[full] = 0
        self.asked[full] = EVERYONE

    def _reduce(self, free: np.ndarray) -> None:
        for pc, (op, give) in list(self.reductions.items()):
            mine = free[self.machine.pc[free] == pc + 1]
            if not len(mine):
                continue
            block, number = mine // self.machine.width, self.waits_at[mine]
            votes = np.zeros((self.machine.shape.blocks, 17, 2), np.int64)
            np.add.at(votes, (block, number, self.said[mine].astype(int)), 1)
            no, yes = votes[block, number, 0], votes[block, number, 1]
            give(mine, {"and": no == 0, "or": yes > 0, "popc": yes.astype(np.uint32)}[op])

    # ---- clusters ---------------------------------------------------------------------------------------------------

    def arrive_cluster(self, lanes: np.ndarray) -> None:
        cluster = lanes // self.machine.width // self.machine.shape.cluster
        np.add.at(self.arrived, cluster, 1)
        self.joined[lanes] = self.phase[cluster] + 1
        self.end_phases()

    def end_phases(self) -> None:
        from snap.ptx.machine import AT_BARRIER, GONE, READY

        machine = self.machine
        size = machine.shape.cluster
        here = (machine.state != GONE).reshape(machine.shape.blocks // size, -1).sum(axis=1)
        count = len(here)
        ended = (self.arrived[:count] > 0) & (self.arrived[:count] >= here)
        if ended.any():
            self.phase[:count][ended] += 1
            self.arrived[:count][ended] = 0
            cluster = self.block // size
            free = (machine.state == AT_BARRIER) & (self.waits_at == CLUSTER) & ended[cluster]
            machine.state[free] = READY
            self.waits_at[free] = -1

    def wait_cluster(self, lanes: np.ndarray) -> None:
        from snap.ptx.machine import AT_BARRIER

        cluster = lanes // self.machine.width // self.machine.shape.cluster
        early = lanes[self.phase[cluster] < self.joined[lanes]]
        self.machine.state[early] = AT_BARRIER
        self.waits_at[early] = CLUSTER
