"""1-D stencil: y[i] = (x[i-1] + 2*x[i] + x[i+1]) / 4, with the ends of x held at zero.

Each block stages its 256 elements and one neighbor on either side in shared memory.  The first two threads of the first
warp load the two neighbors: a `split` states that, and costs an `if` in the generated code.
"""

from __future__ import annotations

import numpy as np
from _run import blocks_for, compare

from snap import *

T = 256


@kernel(threads=T, where=lambda x, y, n, blocks: (len(x) >= n, len(y) >= n, blocks <= 2**22))
def stencil(x: ptr(const(float)), y: ptr(float), n: int):
    with each(block) as b:
        start: int = b * T
        s: shared(float[T + 2])  # s[k] is x[start - 1 + k]
        with each(thread, s) as t:
            s[t + 1] = x[start + t] if start + t < n else 0.0
        with one(thread[2], s), each(thread, s) as e:  # 0: left, 1: right
            at: int = start - 1 + e * (T + 1)
            s[e * (T + 1)] = x[at] if at >= 0 and at < n else 0.0
        with each(thread, y) as t:
            if start + t < n:
                y[start + t] = 0.25 * (s[t] + 2.0 * s[t + 1] + s[t + 2])


def expected(x):
    padded = np.pad(x.astype(np.float64), 1)
    return (padded[:-2] + 2 * padded[1:-1] + padded[2:]) / 4


def main():
    rng = np.random.default_rng(0)
    for n in (0, 1, 2, 256, 1_009):
        x = rng.standard_normal(n, dtype=np.float32)
        compare(f"stencil, n = {n}", stencil, blocks_for(n, T), [x, np.zeros_like(x), n], {1: expected(x)}, rtol=1e-5, atol=1e-6)


if __name__ == "__main__":
    main()
