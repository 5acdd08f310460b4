"""Histogram of bytes: bins in shared memory, one set per warp, added up at the end.

Warps do not disturb one another while they count; atomics resolve conflicts between the lanes of a warp.  The compiler inserts
two barriers: after the bins are zeroed, and before they are added up.
"""

from __future__ import annotations

import numpy as np
from _run import blocks_for, compare

from snap import *

WARPS = 8
T = 32 * WARPS


@kernel(threads=T, where=lambda x, counts, n, blocks: (len(x) >= n, len(counts) >= 256, blocks <= 2**22, n <= 2**30))
def histogram(x: ptr(const(u8)), counts: ptr(u32), n: int):
    i: int @ thread[1] = id()
    stride: int = count(thread[1])
    with each(block):
        bins: shared(u32[WARPS, 256])
        with each(thread, bins) as t:  # 256 threads, 256 bins
            for k in range(WARPS):
                bins[k, t] = 0
        with each(warp, bins) as w, each(thread):
            for j in range(i, n, stride):
                atomic.add(bins, (w, int(x[j])), 1)
        with each(thread) as t:
            total: u32 = 0
            for k in range(WARPS):
                total += bins[k, t]
            # Atomics work on memory that many threads share: `counts` still belongs to the grid.
            atomic.add(counts, t, total)


def main():
    rng = np.random.default_rng(0)
    for n in (0, 1, 10_007):
        x = rng.integers(0, 256, n).astype(np.uint8)
        blocks = min(3, blocks_for(n, T))
        compare(f"histogram, n = {n}", histogram, blocks, [x, np.zeros(256, np.uint32), n], {1: np.bincount(x, minlength=256)})


if __name__ == "__main__":
    main()
