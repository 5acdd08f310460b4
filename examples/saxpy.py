"""y = a*x + y: one thread an element.

In CUDA: `int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = a * x[i] + y[i];`
"""

from __future__ import annotations

import numpy as np
from _run import blocks_for, compare

from snap import *


@kernel
@requires(grid[1], block[1], thread[256])  # 256 threads a block, exactly; any number of blocks
def saxpy(a: float @ grid[1], x: ptr(const(float)) @ grid[1], y: ptr(float) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        # `@ thread[1]`: every thread has its own i.  Here, at grid[1], id() for a thread is its index in the whole grid.
        i: int @ thread[1] = id()
        # Memory is written by single threads only, so y is handed out: thread i gets y from element i on, under the name `mine`.
        with partition(y, p=thread[1], f=lambda k: i + k) as mine:
            # The guard differs from thread to thread, so it stands where each thread acts alone.
            with group(thread[1]):
                if i < n:
                    mine[0] = a * x[i] + mine[0]


def main():
    rng = np.random.default_rng(0)
    for n in (0, 1, 255, 256, 10_007):
        x, y = rng.standard_normal((2, n), dtype=np.float32)
        # atol: a*x + y is one fused operation on the machine and two roundings in NumPy.
        compare(f"saxpy, n = {n}", saxpy, blocks_for(n, 256), [2.5, x, y, n], {2: np.float32(2.5) * x + y}, atol=1e-6)


if __name__ == "__main__":
    main()
