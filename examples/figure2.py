"""Figure 2 of the paper: a warp issues a tensor-core instruction on registers.

`with group(thread[32])` is what makes the call legal: 32 threads, all present, the first one's number a multiple of 32.  Corrections:
the body is inside the group, and the result goes to C (the figure writes it over A, whose shape it does not have).  Around it is
a frame that launches it and stores the result.
"""

from __future__ import annotations

import numpy as np
from _run import compare

from snap import *

WARPS = 3


@ccuda("global")
@requires(grid[1], block[1], thread[32 * WARPS], where=lambda out, blocks: (len(out) >= 384 * blocks, blocks <= 2**22))
def figure2(out: ptr(float) @ grid[1]):
    with group(grid[1]):
        tid: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=tid * 4) as mine:
            with group(thread[32]):
                A: float[4] @ thread[1]
                B: float[2] @ thread[1]
                C: float[4] @ thread[1]

                # Populate A with unique values
                for i in range(0, 4, 1):
                    A[i] = tid * 4 + i
                    C[i] = 0
                # Populate B with unique values
                for i in range(0, 2, 1):
                    B[i] = tid * 4 + i

                # Issue tensor-core op.
                intrinsic.mma(
                    A[0], A[1], A[2], A[3],
                    B[0], B[1],
                    C[0], C[1], C[2], C[3],
                    out=[C[0], C[1], C[2], C[3]])

                for i in range(0, 4, 1):
                    mine[i] = C[i]


def expected(warps):
    """Compute the result from the layout of the fragments: lane l holds A[l/4 (+8), l%4 (+4)], B[l%4 (+4), l/4] and C[l/4 (+8), 2*(l%4) (+1)]."""
    result = np.zeros((warps, 32, 4), np.float32)
    lane = np.arange(32)
    g, t = lane // 4, lane % 4
    for w in range(warps):
        value = (32 * w + lane) * 4
        a, b = np.zeros((16, 8)), np.zeros((8, 8))
        a[g, t], a[g + 8, t], a[g, t + 4], a[g + 8, t + 4] = value, value + 1, value + 2, value + 3
        b[t, g], b[t + 4, g] = value, value + 1
        c = a @ b
        result[w] = np.stack([c[g, 2 * t], c[g, 2 * t + 1], c[g + 8, 2 * t], c[g + 8, 2 * t + 1]], axis=1)
    return result.reshape(-1)


def main():
    compare("figure 2", figure2, 2, [np.zeros(2 * WARPS * 128, np.float32)], {0: expected(2 * WARPS)})


if __name__ == "__main__":
    main()
