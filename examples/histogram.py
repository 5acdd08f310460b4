"""Histogram of bytes: bins in shared memory, one set a warp, added up at the end.

Warps do not disturb one another while they count; atomics settle what the lanes of one warp do to the same bin.  The compiler puts
in two barriers: after the bins are zeroed, and before they are added up.
"""

from __future__ import annotations

import numpy as np
from _run import blocks_for, compare

from snap import *

WARPS = 8
T = 32 * WARPS


@kernel
@requires(grid[1], block[1], thread[T])
def histogram(x: ptr(const(u8)) @ grid[1], counts: ptr(u32) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        stride: int = count(thread[1])
        with group(block[1]):
            bins: shared(u32[WARPS, 256])
            t: int @ thread[1] = id()
            w: int @ warp = id()
            with partition(bins, p=thread[1], f=lambda k: (k, t)) as column:  # 256 threads, 256 bins
                for k in range(WARPS):
                    column[k] = 0
            with partition(bins, p=warp, f=lambda v: (w, v)) as mine:
                with group(thread[1]):
                    for j in range(i, n, stride):
                        atomic.add(mine, int(x[j]), 1)
            total: u32 @ thread[1] = 0
            for k in range(WARPS):
                total += bins[k, t]
            # Atomics may be used on memory that many share: `counts` still belongs to the grid.
            atomic.add(counts, t, total)


def main():
    rng = np.random.default_rng(0)
    for n in (0, 1, 10_007):
        x = rng.integers(0, 256, n).astype(np.uint8)
        blocks = min(3, blocks_for(n, T))
        compare(f"histogram, n = {n}", histogram, blocks, [x, np.zeros(256, np.uint32), n], {1: np.bincount(x, minlength=256)})


if __name__ == "__main__":
    main()
