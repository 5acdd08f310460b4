"""Compute y = a*x + y, one thread per element.

In CUDA: `int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = a * x[i] + y[i];`
"""

from __future__ import annotations

import numpy as np
from _run import blocks_for, compare

from snap import *


@kernel(threads=256, where=lambda x, y, n, blocks: (len(x) >= n, len(y) >= n, blocks <= 2**23))  # exactly 256 threads per block
def saxpy(a: float, x: ptr(const(float)), y: ptr(float), n: int):
    # Every thread of the grid, with its index i.  Only single threads write memory, so the form names y and hands it to them.
    with each(thread, y) as i:
        if i < n:
            y[i] = a * x[i] + y[i]


def main():
    rng = np.random.default_rng(0)
    for n in (0, 1, 255, 256, 10_007):
        x, y = rng.standard_normal((2, n), dtype=np.float32)
        # atol: a*x + y is one fused operation on the machine and two roundings in NumPy.
        compare(f"saxpy, n = {n}", saxpy, blocks_for(n, 256), [2.5, x, y, n], {2: np.float32(2.5) * x + y}, atol=1e-6)


if __name__ == "__main__":
    main()
