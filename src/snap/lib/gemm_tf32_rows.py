"""Kernels of `snap.lib.gemm_tf32` for a B that lies row after row, not along k.

Input:      A of M x KA, B of K x NB, C of M x room, f32, rows of whole 16 bytes; K <= KA, and what is beyond K in A is zero
Output:     C = A @ B, or A @ B added to C
Invariant:  what lies outside of a matrix is read as zero and not written
Non-goals:  other layouts; which kernel is best

The instruction takes tiles along k only, but one of its operands may come from registers, which threads read from shared memory in any order.  So
a tile of C is computed turned round, C.T = B.T @ A.T: B.T from registers, A from shared memory.  Which column of B is which row of that product is
free: they are dealt out so that threads that read or write together meet in no bank (see `place`, `odd`).  Fragments of B take turns in two
sets of registers: one is read while the other is multiplied.
"""

from __future__ import annotations

import functools

from snap import *

DEPTH = 32  # of k in a stage
STEP = 2 * DEPTH  # of k in a turn of the loop: a stage for each set of registers
WIDTH = 128  # columns of a tile: two warpgroups that multiply
HEIGHTS = {256: 4, 192: 4, 128: 5}  # rows of a tile: stages that fit
EFFORT = {256: 256, 192: 192, 128: 190}  # rows of a tile: the rows it takes the time of; low tiles read more of B for what they multiply
BOX = 32  # columns of a box of B and of C, rows of one of C: 128 bytes, a row of a swizzled tile
HALF = BOX // 2  # sums a thread has of a box of C


@functools.cache
def tf32_rows_slices(BM, WRITE, GROUP=16):
    """C = A @ B.  A block takes pieces t, t + blocks, ... of the work; a piece is a tile of C and one of `slices` parts of K.

    WRITE: there is one slice.  Without it pieces are added to what is in C, by the units that copy boxes.
    """
    STAGES, BN, T, C_THREADS = HEIGHTS[BM], WIDTH, 384, 256

    @kernel
    @requires(grid[1], block[1], thread[T])
    def gemm_tf32(A: ptr(const(float), (M, KA)) @ grid[1], B: ptr(const(float), (K, NB)) @ grid[1], C: ptr(float, (M, room)) @ grid[1],
                  M: int @ grid[1], N: int @ grid[1], K: int @ grid[1], KA: int @ grid[1], NB: int @ grid[1],
                  room: int @ grid[1], slices: int @ grid[1]):
        with group(grid[1]):
            b0: int @ block[1] = id()
            blocks: int = count(block[1])
            down: int = (M + BM - 1) / BM
            across: int = (N + BN - 1) / BN
            steps: int = (K + STEP - 1) / STEP
            with partition(C, p=block[1], f=lambda i, j: (i, j), disjoint=WRITE) as C_block:
                with group(block[1]):
                    A_slots: pipeline(shared(float[BM, DEPTH], swizzle=128), STAGES)
                    B_slots: pipeline(shared(float[BN // BOX, DEPTH, BOX], swizzle=128), STAGES)
                    C_slots: pipeline(shared(float[BN // BOX, BOX, BOX], swizzle=128), 2)
                    box: int @ thread[64] = id()
                    quad: int @ thread[1] = id() % 4
                    # Columns `place` and `place + 4` of the box: a warp reads chunks c and c + 4 of 4 rows that follow each other.
                    place: int @ thread[1] = id() / 4 % 4 + id() / 16 % 2 * 16 + id() / 32 % 2 * 8
                    acc: float[BM // 2] @ thread[1]
                    x: float[DEPTH // 2] @ thread[1]
                    y: float[DEPTH // 2] @ thread[1]
                    match split(thread, C_THREADS, 128):
                        case 0:
                            intrinsic.setmaxnreg(232)
                        case 1:
                            intrinsic.setmaxnreg(40)
                    for t in range(b0, down * across * slices, blocks):
                        slice: int = t / (down * across)
                        rest: int = t % (down * across)
                        band: int = rest / (GROUP * down)
                        within: int = rest % (GROUP * down)
                        wide: int = min(GROUP, across - band * GROUP)
                        m0: int = within / wide * BM
                        n0: int = (band * GROUP + within % wide) * BN
                        first: int = int(i64(steps) * slice / slices)
                        for k in range(first, int(i64(steps) * (slice + 1) / slices)):
                            with stage(B_slots) as b:
                                with claim(b, p=thread[128]) as bp:
                                    match split(thread, C_THREADS, 128):
                                        case 0:
                                            pass
                                        case 1:
                                            for p in unroll(range(BN // BOX)):
                                                async_copy(tile(bp, (p, 0, 0), (1, DEPTH, BOX)), B, at=(k * STEP, n0 + p * BOX))
                                with claim(b, p=thread[C_THREADS]) as bc:
                                    match split(thread, C_THREADS, 128):
                                        case 0:
                                            for s in unroll(range(DEPTH // 8)):
                                                for c in unroll(range(2)):
                                                    for h in unroll(range(2)):
                                                        x[4 * s + 2 * c + h] = bc[box, 8 * s + 4 * c + quad, place + 4 * h]
                                        case 1:
                                            pass
                            with stage(A_slots) as a:
                                with claim(a, p=thread[128]) as ap:
                                    match split(thread, C_THREADS, 128):
                                        case 0:
                                            pass
                                        case 1:
                                            async_copy(ap, A, at=(m0, k * STEP))
                                with claim(a, p=thread[C_THREADS]) as ac:
                                    match split(thread, C_THREADS, 128):
                                        case 0:
                                            with group(warpgroup):
                                                wgmma(acc, x, ac, zero=(k == first))
                                        case 1:
                                            pass
                            with stage(B_slots) as b:
                                with claim(b, p=thread[128]) as bp:
                                    match split(thread, C_THREADS, 128):
                                        case 0:
                                            pass
                                        case 1:
                                            for p in unroll(range(BN // BOX)):
                                                async_copy(tile(bp, (p, 0, 0), (1, DEPTH, BOX)), B, at=(k * STEP + DEPTH, n0 + p * BOX))
                                with claim(b, p=thread[C_THREADS]) as bc:
                                    match split(thread, C_THREADS, 128):
                                        case 0:
                                            for s in unroll(range(DEPTH // 8)):
                                                for c in unroll(range(2)):
                                                    for h in unroll(range(2)):
                                                        y[4 * s + 2 * c + h] = bc[box, 8 * s + 4 * c + quad, place + 4 * h]
                                        case 1:
                                            pass
                            with stage(A_slots) as a:
                                with claim(a, p=thread[128]) as ap:
                                    match split(thread, C_THREADS, 128):
                                        case 0:
                                            pass
                                        case 1:
                                            async_copy(ap, A, at=(m0, k * STEP + DEPTH))
                                with claim(a, p=thread[C_THREADS]) as ac:
                                    match split(thread, C_THREADS, 128):
                                        case 0:
                                            with group(warpgroup):
                                                wgmma(acc, y, ac)
                                        case 1:
                                            pass
                        with partition(C_block, p=thread[64], f=lambda i, j: (m0 + i, n0 + BOX * box + j), disjoint=WRITE) as C_own:
                            for q in unroll(range(BM // BOX)):
                                with stage(C_slots) as c:
                                    with partition(c, p=thread[64], f=lambda i, j: (box, i, j)) as own:
                                        match split(thread, C_THREADS, 128):
                                            case 0:
                                                with group(thread[64]):
                                                    with partition(own, p=thread[1], f=lambda i, h: (i, place + 4 * h)) as cell:
                                                        with group(thread[1]):
                                                            for g in unroll(range(BOX // 8)):
                                                                for h in unroll(range(2)):
                                                                    for e in unroll(range(2)):
                                                                        # Of rows 2 * quad and 2 * quad + 1 half of the threads begin with the second.
                                                                        odd: bool = (quad < 2) == (e == 1)
                                                                        low: float = acc[HALF * q + 4 * g + 2 * h]
                                                                        high: float = acc[HALF * q + 4 * g + 2 * h + 1]
                                                                        cell[8 * g + 2 * quad + int(odd), h] = high if odd else low
                                                    if WRITE:
                                                        async_copy(C_own, own, at=(BOX * q, 0))
                                                    else:
                                                        async_reduce(C_own, own, at=(BOX * q, 0), op="add")
                                            case 1:
                                                pass

    return gemm_tf32


@functools.cache
def tf32_rows_pairs(BM, GROUP=8):
    """C = A @ B, by pairs of blocks whose tiles lie side by side: each loads half of A's tile for both."""
    STAGES, BN, T, C_THREADS = HEIGHTS[BM], WIDTH, 384, 256

    @kernel
    @requires(grid[1], cluster[1], block[2], thread[T])
    def gemm_tf32(A: ptr(const(float), (M, KA)) @ grid[1], B: ptr(const(float), (K, NB)) @ grid[1], C: ptr(float, (M, room)) @ grid[1],
                  M: int @ grid[1], N: int @ grid[1], K: int @ grid[1], KA: int @ grid[1], NB: int @ grid[1], room: int @ grid[1]):
        with group(grid[1]):
            c0: int @ cluster[1] = id()
            clusters: int = count(cluster[1])
            down: int = (M + BM - 1) / BM
            across: int = (N + 2 * BN - 1) / (2 * BN)
            with partition(C, p=cluster[1], f=lambda i, j: (i, j), disjoint=True) as C_cluster:
                with group(cluster[1]):
                    A_slots: pipeline(shared(float[BM, DEPTH], swizzle=128, copies=block), STAGES)
                    B_slots: pipeline(shared(float[BN // BOX, DEPTH, BOX], swizzle=128, across=block), STAGES)
                    C_slots: pipeline(shared(float[BN // BOX, BOX, BOX], swizzle=128, across=block), 2)
                    r: int @ block[1] = id()
                    box: int @ thread[64] = id() % (T / 64)
                    quad: int @ thread[1] = id() % 4
                    # Columns `place` and `place + 4` of the box: a warp reads chunks c and c + 4 of 4 rows that follow each other.
                    place: int @ thread[1] = id() / 4 % 4 + id() / 16 % 2 * 16 + id() / 32 % 2 * 8
                    acc: float[BM // 2] @ thread[1]
                    x: float[DEPTH // 2] @ thread[1]
                    y: float[DEPTH // 2] @ thread[1]
                    match split(thread, C_THREADS, 128):
                        case 0:
                            intrinsic.setmaxnreg(232)
                        case 1:
                            intrinsic.setmaxnreg(40)
                    for t in range(c0, down * across, clusters):
                        band: int = t / (GROUP * down)
                        within: int = t % (GROUP * down)
                        wide: int = min(GROUP, across - band * GROUP)
                        m0: int = within / wide * BM
                        n0: int @ block[1] = (band * GROUP + within % wide) * (2 * BN) + r * BN
                        for k in range(0, K, STEP):
                            with stage(B_slots) as b:
                                with claim(b, p=thread[128]) as bp:
                                    match split(thread, C_THREADS, 128):
                                        case 0:
                                            pass
                                        case 1:
                                            for p in unroll(range(BN // BOX)):
                                                async_copy(tile(bp, (p, 0, 0), (1, DEPTH, BOX)), B, at=(k, n0 + p * BOX))
                                with claim(b, p=thread[C_THREADS]) as bc:
                                    match split(thread, C_THREADS, 128):
                                        case 0:
                                            for s in unroll(range(DEPTH // 8)):
                                                for c in unroll(range(2)):
                                                    for h in unroll(range(2)):
                                                        x[4 * s + 2 * c + h] = bc[box, 8 * s + 4 * c + quad, place + 4 * h]
                                        case 1:
                                            pass
                            with stage(A_slots) as a:
                                with claim(a, p=thread[128]) as ap:
                                    match split(thread, C_THREADS, 128):
                                        case 0:
                                            pass
                                        case 1:
                                            async_copy(ap, A, at=(m0, k))
                                with claim(a, p=thread[C_THREADS]) as ac:
                                    match split(thread, C_THREADS, 128):
                                        case 0:
                                            with group(warpgroup):
                                                wgmma(acc, x, ac, zero=(k == 0))
                                        case 1:
                                            pass
                            with stage(B_slots) as b:
                                with claim(b, p=thread[128]) as bp:
                                    match split(thread, C_THREADS, 128):
                                        case 0:
                                            pass
                                        case 1:
                                            for p in unroll(range(BN // BOX)):
                                                async_copy(tile(bp, (p, 0, 0), (1, DEPTH, BOX)), B, at=(k + DEPTH, n0 + p * BOX))
                                with claim(b, p=thread[C_THREADS]) as bc:
                                    match split(thread, C_THREADS, 128):
                                        case 0:
                                            for s in unroll(range(DEPTH // 8)):
                                                for c in unroll(range(2)):
                                                    for h in unroll(range(2)):
                                                        y[4 * s + 2 * c + h] = bc[box, 8 * s + 4 * c + quad, place + 4 * h]
                                        case 1:
                                            pass
                            with stage(A_slots) as a:
                                with claim(a, p=thread[128]) as ap:
                                    match split(thread, C_THREADS, 128):
                                        case 0:
                                            pass
                                        case 1:
                                            async_copy(ap, A, at=(m0, k + DEPTH))
                                with claim(a, p=thread[C_THREADS]) as ac:
                                    match split(thread, C_THREADS, 128):
                                        case 0:
                                            with group(warpgroup):
                                                wgmma(acc, y, ac)
                                        case 1:
                                            pass
                        with partition(C_cluster, p=thread[64], f=lambda i, j: (m0 + i, n0 + BOX * box + j), disjoint=True) as C_own:
                            for q in unroll(range(BM // BOX)):
                                with stage(C_slots) as c:
                                    with partition(c, p=thread[64], f=lambda i, j: (r, box, i, j)) as own:
                                        match split(thread, C_THREADS, 128):
                                            case 0:
                                                with group(thread[64]):
                                                    with partition(own, p=thread[1], f=lambda i, h: (i, place + 4 * h)) as cell:
                                                        with group(thread[1]):
                                                            for g in unroll(range(BOX // 8)):
                                                                for h in unroll(range(2)):
                                                                    for e in unroll(range(2)):
                                                                        # Of rows 2 * quad and 2 * quad + 1 half of the threads begin with the second.
                                                                        odd: bool = (quad < 2) == (e == 1)
                                                                        low: float = acc[HALF * q + 4 * g + 2 * h]
                                                                        high: float = acc[HALF * q + 4 * g + 2 * h + 1]
                                                                        cell[8 * g + 2 * quad + int(odd), h] = high if odd else low
                                                    async_copy(C_own, own, at=(BOX * q, 0))
                                            case 1:
                                                pass

    return gemm_tf32
