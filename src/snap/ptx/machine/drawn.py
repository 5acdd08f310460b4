"""Schedules drawn from a seed: which threads go on, and how far.

Rule: some of the warps that can go on do, each with its threads whose next instruction stands first in the text (as
compilers let branches meet again), now and then with others of its threads, for a number of instructions that is drawn,
too.  Every schedule that comes out is one that GPUs since Volta may choose (in the stack mode: GPUs before it); a
program whose result depends on it has a race, or waits for nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from snap.ptx.machine.lanes import WARP, WITH_WARP, Lanes

if TYPE_CHECKING:
    from snap.ptx.machine.threads import Machine
    from snap.ptx.machine.warps import StackMachine

FARTHEST = 200  # instructions until others are drawn
OTHERS = 0.2  # how often a warp's other threads go on before the foremost
SHARES = (0.05, 0.5, 0.9, 1.0)  # of the warps that stand at one instruction, how many go on


class Drawn:
    def __init__(self, seed: int):
        self.seed = abs(seed)
        self.random = np.random.default_rng(self.seed)  # as the CPU machine's are

    def next(self, m: Machine, ready: np.ndarray) -> tuple[int, Lanes]:
        """Draw who goes on, and where."""

        some = np.flatnonzero(ready)
        first = int(some[self.random.integers(len(some))])
        foremost = np.where(ready, m.pc, np.iinfo(np.int32).max).reshape(-1, WARP).min(axis=1)
        if self.random.random() < OTHERS:
            foremost[first // WARP] = m.pc[first]
        pc = int(foremost[first // WARP])
        warps = (foremost == pc) & (self.random.random(len(m.since)) < self.random.choice(SHARES))
        warps[first // WARP] = True
        here = m.pc == pc
        mine = here & ready & np.repeat(warps, WARP) | here & (m.state == WITH_WARP)
        return pc, m.lane[mine]

    def next_warps(self, m: StackMachine, ready: np.ndarray) -> tuple[int, np.ndarray]:
        """The same for warps that have one program counter each."""
        some = np.flatnonzero(ready)
        first = int(some[self.random.integers(len(some))])
        share = self.random.choice(SHARES)
        mine = self.random.random(len(m.since)) < share
        mine[first] = True
        return int(m.warp_pc[first]), mine

    def choose(self, targets: Mapping[int, int]) -> int:
        """Draw where the warp of an indirect branch goes first."""
        return int(self.random.choice(sorted(targets)))

    def reach(self) -> int:
        return int(self.random.integers(1, FARTHEST))
