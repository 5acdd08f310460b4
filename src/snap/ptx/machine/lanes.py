"""Name what all parts of the PTX machine share: lanes, the states of a thread, and the shape of a launch.

Input: nothing.  Output: types and constants.  Non-goals: running anything (threads.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

WARP = 32
Lanes: TypeAlias = np.ndarray
Step: TypeAlias = Callable[[Lanes], None]

READY, AT_BARRIER, WITH_WARP, GONE = range(4)
EVERYONE = -1  # how many threads a barrier waits for: all of its block
CLUSTER = 16  # the number, beyond the block's own, under which threads wait for their cluster


@dataclass(slots=True)
class Shape:
    """Describe a launch: blocks and threads in x, y and z; blocks of a cluster."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: int = 1
    dynamic: int = 0

    @property
    def blocks(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]
