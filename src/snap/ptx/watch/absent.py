"""Two checks that a run may be asked for: barriers that threads of the block do not come to, and shuffles from lanes
that are not there.

`barriers`: the ISA lets a barrier without a count go when all have come that have not left (5.5.1: a warp that has
completed is not waited for); CUDA C++ says of `__syncthreads()` that all threads of the block come to it.  Rule, with B
for the block's threads, and C for those that came when a barrier without a count lets go: C = B.  And of `.aligned`
barriers (PTX ISA, "bar"): all threads of a warp that stand at one execute it, or none does.
`shuffles`: rule (PTX ISA, "shfl.sync"), with src(t) for the lane that t takes its value from, if that is in range:
src(t) is in t's mask, and executes the instruction together with t.  Else the value is undefined; here it is 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from snap.diag.error import Label
from snap.ptx.errors import PtxFault, PtxFaultKind
from snap.ptx.machine.lanes import CLUSTER, EVERYONE, GONE, Lanes
from snap.ptx.machine.reports import ranges
from snap.ptx.watch.observer import Watch

if TYPE_CHECKING:
    from snap.ptx.machine.threads import Machine
    from snap.ptx.program.resolve import Instruction

WARP = 32
LEAVES = ("exit", "ret")


class BarriersOfAll(Watch):
    def __init__(self, machine: Machine):
        super().__init__(machine)
        self.left_at = np.full(len(machine.lane), -1, np.int32)  # of who has left: where

    def issued(self, one: Instruction, lanes: Lanes, acting: Lanes, pc: int) -> None:
        if one.parts[0] in LEAVES:
            self.left_at[acting] = pc
        if one.guard is None or not one.aligned or one.parts[0] not in ("bar", "barrier") or not len(acting):
            return
        m = self.machine
        here, act = (np.bincount(some // WARP, minlength=len(m.since)) for some in (lanes, acting))
        parted = (act > 0) & (act < here)
        if parted.any():
            warp = int(np.argmax(parted))
            mine = acting[acting // WARP == warp]
            past = np.setdiff1d(lanes[lanes // WARP == warp], mine)
            block, thread = m.where(int(mine[0]))
            raise PtxFault(
                PtxFaultKind.BARRIER_MISMATCH,
                f"{one.name} is executed by whole warps, and {_who(m, past)} of the warp pass it by",
                one,
                m.program.files,
                block,
                thread,
                label=f"block {block}, {_who(m, mine)} execute it",
                help="move the barrier out of the branch",
            )

    def let_go(self, lanes: Lanes, full: np.ndarray) -> None:

        m = self.machine
        there = full & (m.barriers.asked == EVERYONE)
        there[:, CLUSTER] = False
        for block, number in np.argwhere(there).tolist():
            every = np.arange(m.shape.threads) + block * m.width
            gone = every[m.state[every] == GONE]
            came = lanes[(lanes // m.width == block) & (m.barriers.waits_at[lanes] == number)]
            if len(gone) and len(came):
                self._report(block, number, came, gone)

    def _report(self, block: int, number: int, came: Lanes, gone: Lanes) -> None:
        m = self.machine
        one = m.program.instructions[int(m.barriers.since_pc[came[0]])]
        last = int(self.left_at[gone[0]])
        end = m.at if last < 0 else m.program.instructions[last]  # who leaves now has not been told of
        raise PtxFault(
            PtxFaultKind.BARRIER_MISMATCH,
            f"barrier {number} is for all threads of the block, and {_who(m, gone)} have left without it",
            one,
            m.program.files,
            block,
            m.where(int(came[0]))[1],
            label=f"block {block}, {_who(m, came)} come",
            secondary=() if end is one else (Label(end.span, f"block {block}, {_who(m, gone)} leave here"),),
            help="let all threads of the block come to the barrier, and leave after it; or give it a count",
        )


class Shuffles(Watch):
    def shuffled(self, lanes: Lanes, source: Lanes, mask: np.ndarray, together: Lanes) -> None:
        m = self.machine
        here = np.zeros(len(m.lane), bool)
        here[together] = True
        named = (mask.astype(np.uint64) >> (source % WARP).astype(np.uint64) & np.uint64(1)).astype(bool)
        bad = ~(named & here[source])
        if not bad.any():
            return
        k = int(np.argmax(bad))
        block, thread = m.where(int(lanes[k]))
        lane = int(source[k])
        why = "has left" if m.where(lane)[1] < m.shape.threads else "is not there: the block has fewer threads"
        why = why if named[k] else f"the mask {int(mask[k]):#010x} does not name"
        raise PtxFault(
            PtxFaultKind.INACTIVE_LANE,
            f"a value is taken from lane {lane % WARP} of the warp, which {why}",
            m.at,
            m.program.files,
            block,
            thread,
            help="let every lane of the mask come to the shuffle, and take no value from others",
        )


def _who(m: Machine, lanes: Lanes) -> str:
    return ranges([m.where(k)[1] for k in lanes.tolist()])
