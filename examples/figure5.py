"""Figure 5 of the paper: the same tensor-core instruction, with operands from memory, as a function other kernels call (figure 6
does).

Corrections: the parameters are used by their names, the strides k and n are parameters too, A[1] and A[2] are loaded in the order the
instruction wants (rows first), c is lowered to thread[1], where the figure says thread[32], and the product is added to c,
as figure 6 needs it.
"""

from __future__ import annotations

import numpy as np
from _run import compare

from snap import *


@ccuda("device")
@requires(thread[32])
def simple_mma(
    a: ptr(const(float)) @ thread[32],
    b: ptr(const(float)) @ thread[32],
    c: ptr(float) @ thread[32],
    k: int @ thread[32],
    n: int @ thread[32],
):
    x: int @ thread[1] = id()
    with group(thread[32]):
        A: float[4] @ thread[1]
        B: float[2] @ thread[1]
        C: float[4] @ thread[1]
        # Reads do not need to be lowered.
        A[0] = a[(x / 4) * k + (x % 4)]
        A[1] = a[(x / 4 + 8) * k + (x % 4)]
        A[2] = a[(x / 4) * k + (x % 4) + 4]
        A[3] = a[(x / 4 + 8) * k + (x % 4) + 4]
        B[0] = b[(x % 4) * n + (x / 4)]
        B[1] = b[(x % 4 + 4) * n + (x / 4)]
        # Must be at thread[1] to write.
        idx: int @ thread[1] = lambda ro, co: (x / 4 + ro) * n + 2 * (x % 4) + co
        with partition(c, p=thread[1], f=idx) as c_thrd:
            C[0] = c_thrd[0, 0]
            C[1] = c_thrd[0, 1]
            C[2] = c_thrd[8, 0]
            C[3] = c_thrd[8, 1]
            intrinsic.mma(
                A[0], A[1], A[2], A[3],
                B[0], B[1],
                C[0], C[1], C[2], C[3],
                out=[C[0], C[1], C[2], C[3]])
            c_thrd[0, 0] = C[0]
            c_thrd[0, 1] = C[1]
            c_thrd[8, 0] = C[2]
            c_thrd[8, 1] = C[3]
        # <-- here c belongs to the warp again; the compiler infers the synchronization


@ccuda("global")
@requires(grid[1], block[1], thread[64], where=lambda a, b, c, blocks: (len(a) >= 256 * blocks, len(b) >= 128 * blocks, len(c) >= 256 * blocks, blocks <= 2**22))
def figure5(a: ptr(const(float)) @ grid[1], b: ptr(const(float)) @ grid[1], c: ptr(float) @ grid[1]):
    """One product of a 16x8 and an 8x8 matrix for each warp."""
    with group(grid[1]):
        w: int @ thread[32] = id()
        with partition(a, p=thread[32], offset=w * 128) as a_warp, partition(b, p=thread[32], offset=w * 64) as b_warp:
            with partition(c, p=thread[32], offset=w * 128) as c_warp:
                with group(thread[32]):
                    simple_mma(a_warp, b_warp, c_warp, 8, 8)


def main():
    rng = np.random.default_rng(0)
    warps = 6
    a = rng.integers(-8, 8, (warps, 16, 8)).astype(np.float32)
    b = rng.integers(-8, 8, (warps, 8, 8)).astype(np.float32)
    c = rng.integers(-8, 8, (warps, 16, 8)).astype(np.float32)
    compare("figure 5", figure5, warps // 2, [a, b, c], {2: c + a @ b})


if __name__ == "__main__":
    main()
