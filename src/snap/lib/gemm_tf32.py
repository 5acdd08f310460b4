"""`snap.lib.gemm_tf32`: a product of f32 matrices on the tensor cores, which multiply with 10 bits after the point (tf32) and add in f32.

Input:      a of M x K, b of K x N, both f32
Output:     a @ b of M x N
Invariant:  the kernel reads both operands along k, in boxes: what lies outside of a matrix is read as zero and not written
Non-goals:  operands that lie the other way: the instruction takes none, they are transposed first
"""

from __future__ import annotations

import functools

from snap import *

DEPTH = 32  # of k in a stage: 128 bytes, a row of a swizzled tile
CONSUMERS = 2  # warpgroups that multiply, each 64 rows of a tile


@functools.cache
def tf32_kernel(BN=256, STAGES=4, BAND=16, WRITE=True):
    """C = A @ B.T.  A block takes pieces t, t + blocks, ... of the work; a piece is a tile of C and one of `slices` parts of K.

    WRITE: there is one slice.  Without it pieces are added to what is in C, by the units that copy boxes.
    """
    BM, T, C_THREADS = 64 * CONSUMERS, 128 * (CONSUMERS + 1), 128 * CONSUMERS

    @kernel
    @requires(grid[1], block[1], thread[T])
    def gemm_tf32(A: ptr(const(float), (M, K)) @ grid[1], B: ptr(const(float), (N, K)) @ grid[1], C: ptr(float, (M, N)) @ grid[1],
                  M: int @ grid[1], N: int @ grid[1], K: int @ grid[1], slices: int @ grid[1]):
        with group(grid[1]):
            b0: int @ block[1] = id()
            blocks: int = count(block[1])
            down: int = (M + BM - 1) / BM
            across: int = (N + BN - 1) / BN
            steps: int = (K + DEPTH - 1) / DEPTH
            with partition(C, p=block[1], f=lambda i, j: (i, j), disjoint=WRITE) as C_block:
                with group(block[1]):
                    A_slots: pipeline(shared(float[BM, DEPTH], swizzle=128), STAGES)
                    B_slots: pipeline(shared(float[BN, DEPTH], swizzle=128), STAGES)
                    C_slots: pipeline(shared(float[CONSUMERS, 64, DEPTH], swizzle=128), 2)
                    w: int @ warpgroup = id()
                    acc: float[BN // 2] @ thread[1]
                    match split(thread, C_THREADS, 128):
                        case 0:
                            intrinsic.setmaxnreg(240)
                        case 1:
                            intrinsic.setmaxnreg(24)
                    for t in range(b0, down * across * slices, blocks):
                        slice: int = t / (down * across)
                        place: int = t % (down * across)
                        band: int = place / (BAND * across)
                        within: int = place % (BAND * across)
                        height: int = min(BAND, down - band * BAND)
                        m0: int = (band * BAND + within % height) * BM
                        n0: int = within / height * BN
                        first: int = int(i64(steps) * slice / slices)
                        for k in range(first, int(i64(steps) * (slice + 1) / slices)):
                            with stage(A_slots) as a, stage(B_slots) as b:
                                with claim(a, p=thread[128]) as ap, claim(b, p=thread[128]) as bp:
                                    match split(thread, C_THREADS, 128):
                                        case 0:
                                            pass
                                        case 1:
                                            async_copy(ap, A, at=(m0, k * DEPTH))
                                            async_copy(bp, B, at=(n0, k * DEPTH))
                                with claim(a, p=thread[C_THREADS]) as ac, claim(b, p=thread[C_THREADS]) as bc:
                                    match split(thread, C_THREADS, 128):
                                        case 0:
                                            with group(warpgroup):
                                                wgmma(acc, tile(ac, (64 * w, 0), (64, DEPTH)), bc, zero=(k == first))
                                        case 1:
                                            pass
                        with partition(C_block, p=warpgroup, f=lambda i, j: (m0 + 64 * w + i, n0 + j), disjoint=WRITE) as C_own:
                            for q in unroll(range(BN // DEPTH)):
                                with stage(C_slots) as c:
                                    with partition(c, p=warpgroup, f=lambda i, j: (w, i, j)) as own:
                                        match split(thread, C_THREADS, 128):
                                            case 0:
                                                with group(warpgroup):
                                                    store_acc(own, acc, first=DEPTH * q)
                                                    if WRITE:
                                                        async_copy(C_own, own, at=(0, DEPTH * q))
                                                    else:
                                                        async_reduce(C_own, own, at=(0, DEPTH * q), op="add")
                                            case 1:
                                                pass

    return gemm_tf32
