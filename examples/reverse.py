"""Reverse each run of 256 elements in place, through shared memory.

In CUDA the line that everyone forgets once is the `__syncthreads()` between writing the tile and reading it backwards.  Here it is
inferred: the partition of `tile` ends, and the next read of `tile` needs all writes of the block.
"""

from __future__ import annotations

import numpy as np
from _run import blocks_for, compare

from snap import *

N = 256  # a Python number outside the kernel is a compile-time constant inside


@kernel
@requires(grid[1], block[1], thread[N])
def reverse(x: ptr(int) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        b: int @ block[1] = id()
        start: int @ block[1] = b * N
        length: int @ block[1] = min(N, n - start)  # the last run may be short
        with partition(x, p=block[1], offset=start) as run:  # this block's part of x
            with group(block[1]):
                tile: shared(int[N])
                t: int @ thread[1] = id()  # now within the block
                with partition(tile, p=thread[1], offset=t) as slot:
                    with group(thread[1]):
                        if t < length:
                            slot[0] = run[t]
                with partition(run, p=thread[1], offset=t) as mine:
                    with group(thread[1]):
                        if t < length:
                            mine[0] = tile[length - 1 - t]


def expected(x):
    return np.concatenate([x[start : start + N][::-1] for start in range(0, len(x), N)]) if len(x) else x


def main():
    rng = np.random.default_rng(0)
    for n in (0, 1, 256, 1_021):
        x = rng.integers(-1000, 1000, n, dtype=np.int32)
        compare(f"reverse, n = {n}", reverse, blocks_for(n, N), [x, n], {0: expected(x)})


if __name__ == "__main__":
    main()
