"""Figure 6 of the paper: C = A * B on the tensor cores (tf32), one warp per block, one 16x8 tile of C per block.

M is a multiple of 16, N and K of 8.  Corrections: names that the figure omits are filled in, and the two offsets into C advance by x
(the figure multiplies by it).
"""

from __future__ import annotations

import numpy as np
from _run import compare
from figure5 import simple_mma

from snap import *


@ccuda("global")
# Top-level privilege class and required shared memory usage.
@requires(grid[1], block[1], thread[32], smem=1280, where=lambda A, B, C, M, N, K, blocks: (M % 16 == 0, N % 8 == 0, K % 8 == 0, 8 <= N <= 2**26, 16 <= M <= 2**26, 0 <= K <= 2**26, 128 * blocks == M * N, M * N < 2**31, M * K < 2**31, K * N < 2**31, len(A) >= M * K, len(B) >= K * N, len(C) >= M * N))
def mmaTF32NaiveKernel(
    A: ptr(const(float)) @ grid[1],
    B: ptr(const(float)) @ grid[1],
    C: ptr(float) @ grid[1],
    M: int @ grid[1],
    N: int @ grid[1],
    K: int @ grid[1],
):
    # Replicate this code across 1 grid.
    with group(grid[1]):
        # @ grid[1] inferred from compute privilege
        MMA_M: constexpr(int) = 16
        MMA_N: constexpr(int) = 8
        MMA_K: constexpr(int) = 8
        K_tiles: const(int) = (K + MMA_K - 1) / MMA_K
        num_blocks_n: const(int) = (N + MMA_N - 1) / MMA_N

        # id() function returns the block id, inferred from @ block[1].
        block_row: const(int) @ block[1] = id() / num_blocks_n
        block_col: const(int) @ block[1] = id() % num_blocks_n
        warp_row: const(int) @ block[1] = block_row * MMA_M
        warp_col: const(int) @ block[1] = block_col * MMA_N

        # Give each block an offset into C
        offset = lambda x: warp_row * N + warp_col + x
        with partition(C, p=block[1], f=offset) as C_blk:
            with group(block[1]):
                # SMEM declarations only allowed with block[1] privilege.
                A_smem: shared(float[16 * 8]) @ block[1]
                B_smem: shared(float[8 * 8]) @ block[1]
                C_smem: shared(float[16 * 8]) @ block[1]
                # Now, id() returns the thread id
                idx: int @ thread[1] = id() * 4
                # To write to C_smem, must drop to thread[1] privilege
                with partition(C_smem, p=thread[1], offset=idx) as C_thrd:
                    for i in range(0, 4, 1):
                        with group(thread[1]):
                            C_thrd[i] = 0

                for i in range(0, K_tiles, 1):
                    a_idx: int @ thread[1] = id() * 4
                    # <--- a sync point is inferred here (back edge from for loop)
                    for j in range(0, 4, 1):
                        row: int @ thread[1] = (a_idx + j) / MMA_K
                        col: int @ thread[1] = (a_idx + j) % MMA_K
                        global_row: int @ thread[1] = warp_row + row
                        global_col: int @ thread[1] = i * MMA_K + col
                        with partition(A_smem, p=thread[1], f=lambda x: row * MMA_K + col + x) as As_thrd:
                            with group(thread[1]):
                                As_thrd[0] = A[global_row * K + global_col]

                    b_idx: int @ thread[1] = id() * 2
                    # <--- a sync point is inferred here (back edge from for loop)
                    for j in range(0, 2, 1):
                        row_b: int @ thread[1] = (b_idx + j) / MMA_N
                        col_b: int @ thread[1] = (b_idx + j) % MMA_N
                        global_row_b: int @ thread[1] = i * MMA_K + row_b
                        global_col_b: int @ thread[1] = warp_col + col_b
                        with partition(B_smem, p=thread[1], f=lambda x: row_b * MMA_N + col_b + x) as Bs_thrd:
                            with group(thread[1]):
                                Bs_thrd[0] = B[global_row_b * N + global_col_b]

                    # <--- a sync point is inferred here
                    # Give C_smem to the warp
                    with claim(C_smem, p=thread[32]) as Cs_warp:
                        match split(thread):
                            case 32:
                                # Can pass A_smem and B_smem as arguments to simple_mma,
                                # for those two are declared const: "read up" is okay.
                                simple_mma(A_smem, B_smem, Cs_warp, MMA_K, MMA_N)

                # Write back final result to C
                for j in range(0, 4, 1):
                    flat_idx_c: int @ thread[1] = id() * 4 + j
                    row_c: int @ thread[1] = flat_idx_c / MMA_N
                    col_c: int @ thread[1] = flat_idx_c % MMA_N
                    offset = lambda x: row_c * N + col_c + x
                    with partition(C_blk, p=thread[1], f=offset) as C_thrd:
                        with group(thread[1]):
                            C_thrd[0] = C_smem[row_c * MMA_N + col_c]
    return


def main():
    rng = np.random.default_rng(0)
    for m, n, k in ((16, 8, 8), (48, 24, 40), (32, 16, 0)):
        # Small integers: exact in tf32, so the result is exact too.
        a = rng.integers(-8, 8, (m, k)).astype(np.float32)
        b = rng.integers(-8, 8, (k, n)).astype(np.float32)
        blocks = (m // 16) * (n // 8)
        compare(f"figure 6, {m} x {n} x {k}", mmaTF32NaiveKernel, blocks, [a, b, np.zeros((m, n), np.float32), m, n, k], {2: a @ b})


if __name__ == "__main__":
    main()
