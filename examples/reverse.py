"""Reverse each run of 256 elements in place, through shared memory.

In CUDA, everyone forgets the `__syncthreads()` between writing the tile and reading it backwards at least once.  Snap infers it:
the partition of `tile` ends, and the next read of `tile` needs all writes of the block.
"""

from __future__ import annotations

import numpy as np
from _run import blocks_for, compare

from snap import *

N = 256  # a Python number outside the kernel is a compile-time constant inside


@kernel(threads=N, where=lambda x, n, blocks: (len(x) >= n >= 0, blocks <= 2**23))
def reverse(x: ptr(int), n: int):
    with each(block) as b:
        start: int = b * N
        length: int = min(N, n - start)  # the last run may be short
        tile: shared(int[N])
        with each(thread, tile) as t:  # now within the block
            if t < length:
                tile[t] = x[start + t]
        with each(thread, x) as t:
            if t < length:
                x[start + t] = tile[length - 1 - t]


def expected(x):
    return np.concatenate([x[start : start + N][::-1] for start in range(0, len(x), N)]) if len(x) else x


def main():
    rng = np.random.default_rng(0)
    for n in (0, 1, 256, 1_021):
        x = rng.integers(-1000, 1000, n, dtype=np.int32)
        compare(f"reverse, n = {n}", reverse, blocks_for(n, N), [x, n], {0: expected(x)})


if __name__ == "__main__":
    main()
