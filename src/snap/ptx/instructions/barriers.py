"""Barriers of blocks and clusters: who has come, and who waits.

Rule (PTX ISA, "bar"; the report's 5.5.1, remBar and endBar): a barrier lets its waiters go when as many threads have
come as it was asked for; without a number, all threads of the block that have not left.  With b a block, n a number:

    full(b, n) = come(b, n) > 0 and come(b, n) >= (asked(b, n) or |{t in b : t has not left}|)

Who has left is excused, unless `checks="barriers"` is given (absent.py).  `bar.red` gives each waiter what all
predicates say together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from snap.ptx.errors import PtxFaultKind
from snap.ptx.machine import reports
from snap.ptx.machine.lanes import AT_BARRIER, CLUSTER, EVERYONE, GONE, READY
from snap.ptx.machine.memory import Fault

if TYPE_CHECKING:
    from snap.ptx.machine.threads import Machine

Give = Callable[[np.ndarray, np.ndarray], None]


class Barriers:
    def __init__(self, machine: Machine, count: int):
        self.machine = machine
        blocks = machine.shape.blocks
        self.come = np.zeros((blocks, 17), np.int64)
        self.asked = np.full((blocks, 17), EVERYONE, np.int64)
        self.waits_at = np.full(count, -1, np.int8)
        self.said = np.zeros(count, bool)
        self.since_pc = np.zeros(count, np.int32)  # of who waits: where
        self.aligned = np.array(
            [
                one.parts[0] == "bar" or one.parts[0] == "barrier" and "aligned" in one.parts
                for one in machine.program.instructions
            ]
        )
        self.reductions: dict[int, tuple[str, Give]] = {}
        self.reduced = 0  # how often one has handed on what its threads said
        # Of clusters: threads arrive, and later wait; a phase ends when all that are there have arrived.
        self.arrived = np.zeros(blocks, np.int64)
        self.phase = np.zeros(blocks, np.int64)
        self.joined = np.zeros(count, np.int64)  # by thread: the phase it arrived in, plus one

    @property
    def block(self) -> np.ndarray:
        return self.machine.lane // self.machine.width

    # ---- blocks -----------------------------------------------------------------------------------------------------

    def arrive(self, lanes: np.ndarray, number: np.ndarray, count: np.ndarray | None, wait: bool, pc: int) -> None:
        number = np.broadcast_to(number, lanes.shape).astype(np.int64)
        asked = None if count is None else np.broadcast_to(count, lanes.shape).astype(np.int64)
        self._valid(lanes, number, asked)
        block = lanes // self.machine.width
        if asked is not None:
            coming = self.come[block, number] + np.bincount(block * 16 + number)[block * 16 + number]
            if (coming > asked).any():  # more than one of them takes: warp after warp, each as a barrier of its own
                for start, end in _warps(lanes):
                    self._come(lanes[start:end], number[start:end], asked[start:end], wait, pc)
                return
        self._come(lanes, number, asked, wait, pc)

    def _come(self, lanes: np.ndarray, number: np.ndarray, asked: np.ndarray | None, wait: bool, pc: int) -> None:

        block = lanes // self.machine.width
        before = self.asked[block, number]
        wanted = EVERYONE if asked is None else asked
        odd = (self.come[block, number] > 0) & (before != wanted)
        if odd.any():
            k = int(np.argmax(odd))
            say = lambda n: "all of the block" if n == EVERYONE else f"{n} threads"  # noqa: E731
            raise Fault(
                PtxFaultKind.BARRIER_MISMATCH,
                f"barrier {number[k]} is one of {say(before[k])} for those who wait there, and here of"
                f" {say(EVERYONE if asked is None else asked[k])}",
                k,
            )
        self._add(lanes, block, number)
        self.asked[block, number] = wanted
        if wait:
            self.machine.state[lanes] = AT_BARRIER
            self.waits_at[lanes] = number
            self.since_pc[lanes] = pc
        self.machine.tell("arrived", lanes, number)
        self.release()

    def _add(self, lanes: np.ndarray, block: np.ndarray, number: np.ndarray) -> None:
        np.add.at(self.come, (block, number), 1)

    def _present(self) -> np.ndarray:
        """Count, for each block, the threads that have not left."""

        return (self.machine.state != GONE).reshape(self.machine.shape.blocks, -1).sum(axis=1)

    def _valid(self, lanes: np.ndarray, number: np.ndarray, asked: np.ndarray | None) -> None:
        high = number >= CLUSTER
        if high.any():
            k = int(np.argmax(high))
            raise Fault(PtxFaultKind.BARRIER_MISMATCH, f"barrier {number[k]} of a block, which has 16 (0 to 15)", k)
        if asked is not None:
            odd = (asked % 32 != 0) | (asked == 0)
            if odd.any():
                k = int(np.argmax(odd))
                raise Fault(
                    PtxFaultKind.BARRIER_MISMATCH,
                    f"barrier {number[k]} of {asked[k]} threads: barriers are of whole warps",
                    k,
                )

    def release(self) -> None:
        """Let go whoever waits at a barrier to which all have come."""

        machine = self.machine
        if not self.come.any():
            return
        here = self._present()
        needed = np.where(self.asked == EVERYONE, here[:, None], self.asked)
        full = (self.come > 0) & (self.come >= needed)
        full[:, CLUSTER] = False
        if not full.any():
            return
        waiting = machine.state == AT_BARRIER
        at = np.maximum(self.waits_at, 0)
        free = np.flatnonzero(waiting & (self.waits_at != CLUSTER) & full[self.block, at])
        self._same_place(free)
        machine.state[free] = READY
        machine.tell("let_go", free, full)
        self._reduce(free)
        self.waits_at[free] = -1
        self.come[full] = 0
        self.asked[full] = EVERYONE

    # Rule (PTX ISA, "barrier", `.aligned`): all threads of a warp execute the same barrier instruction.  Ours may come
    # one after the other, so it is looked at when the barrier lets them go.
    def _same_place(self, free: np.ndarray) -> None:
        machine = self.machine
        free = free[self.aligned[self.since_pc[free]]]
        if not len(free):
            return
        first = np.flatnonzero(np.append(True, np.diff(free // 32) != 0))
        came = np.diff(np.append(first, len(free)))
        alive = (machine.state != GONE).reshape(-1, 32).sum(axis=1)[free[first] // 32]
        at = self.since_pc[free]
        bad = (came != alive) | (np.minimum.reduceat(at, first) != np.maximum.reduceat(at, first))
        if bad.any():
            k = int(first[np.argmax(bad)])
            raise reports.parted(machine, free[free // 32 == free[k] // 32])

    def _reduce(self, free: np.ndarray) -> None:
        for pc, (op, give) in list(self.reductions.items()):
            mine = free[self.machine.pc[free] == pc + 1]
            if not len(mine):
                continue
            self.reduced += 1
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
        self.machine.tell("arrived_at_cluster", lanes)
        self.end_phases()

    def end_phases(self) -> None:

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
            machine.tell("let_go_of_cluster", np.flatnonzero(free))
            self.waits_at[free] = -1

    def wait_cluster(self, lanes: np.ndarray) -> None:

        cluster = lanes // self.machine.width // self.machine.shape.cluster
        early = lanes[self.phase[cluster] < self.joined[lanes]]
        self.machine.state[early] = AT_BARRIER
        self.waits_at[early] = CLUSTER


def _warps(lanes: np.ndarray) -> list[tuple[int, int]]:
    """Find where each warp's lanes begin and end."""
    starts = np.flatnonzero(np.append(True, np.diff(lanes // 32) != 0))
    return list(zip(starts.tolist(), [*starts[1:].tolist(), len(lanes)]))
