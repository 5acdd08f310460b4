"""As kernels.py, for floats of 8 bits whose products are added up in f32.

Input:      kinds of floats, sizes of tiles; at a launch, A of M x K and B of N x K, with rows of whole 16 bytes
Output:     a kernel: C = activation(A @ B.T * scales + bias)
Invariant:  any extents; the sums of each 128 products are added in f32: the tensor cores add with fewer bits
Non-goals:  sums as the tensor cores add them up, for which tiles may be larger (kernels.py)

Two warpgroups have a half of a tile each, its rows, or its columns where it has 64 rows.  While one adds its sums, the
tensor cores have nothing but the other one's products.  Were both to add at the same time, they would have none: they
are two roles, of which the second takes over a step's tiles when the first has multiplied them.  So the first is ahead,
and begins the next tile while the second ends this one; a role of its own stores boxes.  Of wide tiles a thread has no
room for two sets of sums: their columns are multiplied in PARTS, and one part's sums are added before the next one
begins.

Large products have a kernel of their own, `halves_kernel`.  Both warpgroups are one role, and each has a set of sums
for either half of its columns: while one is added, the other is multiplied.  Tiles are 224 columns wide, for which
there are registers.  8192^3 and 16384^3 take 4% less time so, and 4096^3, of fewer rounds, more.
"""

from __future__ import annotations

import functools
import math

from snap import *
from snap._compiler.ir.types import F32, U8
from snap.lib._calls.arrays import MAX_SIDE
from snap.lib._calls.operators import element, scalar
from snap.lib._gemm.body import PLAIN, Epilogue, in_bands
from snap.lib._gemm.parts import Scaling, completing, depth_of, promoting

DEPTH = depth_of(U8)  # of k in a stage
SHARED = 192 * 1024  # bytes for stages; the rest of a multiprocessor's is for tiles that leave
MOST_STAGES = 12
WITH_TILES, LEAVING = 226 * 1024, 2  # bytes for stages and for tiles that leave; of these so many at a time
WIDEST = 192  # columns of a warpgroup whose sums there is room for twice


def of_tiles(THREADS, HIGH, WIDE, body, out_type, epilogue):
    """The kernel that runs `body`, for tiles of HIGH rows and WIDE columns."""
    BIASED, SCALED, ROWS = epilogue.bias_type is not None, epilogue.scaled is not None, epilogue.scaled == Scaling.ROWS
    E, O, V, F = element(U8), element(out_type), element(epilogue.bias_type or U8), element(F32 if SCALED else U8)

    @kernel(
        threads=THREADS,
        where=lambda bias, a_scale, b_scale, M, N, K, C1, blocks: (
            1 <= M <= MAX_SIDE,
            1 <= N <= min(C1, MAX_SIDE),
            0 <= K <= MAX_SIDE,
            not BIASED or len(bias) >= N,
            not SCALED or len(a_scale) >= (M if ROWS else 1),
            not SCALED or len(b_scale) >= (N if ROWS else 1),
            blocks <= 2**16,
            ((M + HIGH - 1) // HIGH) * ((N + WIDE - 1) // WIDE) <= 2**27,
            ((M + HIGH - 1) // HIGH) * ((N + WIDE - 1) // WIDE) * ((K + DEPTH - 1) // DEPTH) <= blocks * 2**29,
        ),
    )
    def gemm(
        A: ptr(const(E), (M, A1)),
        B: ptr(const(E), (N, B1)),
        C: ptr(O, (M, C1)),
        bias: ptr(const(V)),
        a_scale: ptr(const(F)),
        b_scale: ptr(const(F)),
        M: int,
        N: int,
        K: int,
        A1: int,
        B1: int,
        C1: int,
    ):
        body(A, B, C, bias, a_scale, b_scale, M, N, K)

    return gemm


@functools.cache
def promoted_kernel(kind, out_type, BM=128, BN=192, BAND=8, epilogue: Epilogue = PLAIN):
    """kind: of A's and B's floats; scaled: see parts.py.  Arrays that are not used (a bias, scales) may be any."""
    E, O = element(U8), element(out_type)
    OWN = BN if BM == 128 else BN // 2  # columns of a warpgroup
    BELOW, BESIDE = (64, 0) if BM == 128 else (0, OWN)  # where the second half begins
    PARTS, STAGES = 1 if OWN <= WIDEST else 2, min(MOST_STAGES, SHARED // ((BM + BN) * DEPTH))
    SUMS, FEW = OWN // 2, OWN // 2 // PARTS
    WIDE = math.gcd(OWN, 128 // scalar(out_type).bytes)  # columns that leave at a time
    SWIZZLE = WIDE * scalar(out_type).bytes
    multiply, add = promoting(BM, BN, OWN, kind, PARTS)
    complete = completing(SUMS, OWN, U8, epilogue)

    @inline
    def body(A, B, C, bias, a_scale, b_scale, M, N, K):
        teams, down, across = count(block[1]), (M + BM - 1) / BM, (N + BN - 1) / BN
        with each(block, C, disjoint=C) as team:
            A_slots: pipeline(shared(E[BM, DEPTH], swizzle=128), STAGES)
            B_slots: pipeline(shared(E[BN, DEPTH], swizzle=128), STAGES)
            C_one: pipeline(shared(O[64, WIDE], swizzle=SWIZZLE), 2)
            C_other: pipeline(shared(O[64, WIDE], swizzle=SWIZZLE), 2)
            me: int @ thread[1] = id()
            row: int @ thread[1] = me % 128 / 32 * 16 + me % 32 / 4  # its first of its warpgroup's
            acc, sums = registers(float[SUMS], float[FEW])
            one, other, load, store = roles(128, 128, 128, 128, registers=(232, 232, 24, 24))
            for t in range(team, down * across, teams):
                i, j = in_bands(t, down, across, BAND)
                m0, n0 = i * BM, j * BN
                with one():
                    acc = 0.0
                with other():
                    acc = 0.0
                for k in range((K + DEPTH - 1) / DEPTH):
                    with stage(A_slots) as a, stage(B_slots) as b:
                        with load(a, b):
                            async_copy(a, A, at=(m0, k * DEPTH))
                            async_copy(b, B, at=(n0, k * DEPTH))
                        with one(a, b), each(warpgroup):
                            multiply(acc, sums, a, b, 0)
                        with one(), each(thread):
                            add(acc, sums)
                        with other(a, b), each(warpgroup):
                            multiply(acc, sums, a, b, 1)
                        with other(), each(thread):
                            add(acc, sums)
                with one(), each(warp):
                    complete(acc, a_scale, b_scale, bias, m0 + row, M, n0, N)
                with other(), each(warp):
                    complete(acc, a_scale, b_scale, bias, m0 + BELOW + row, M, n0 + BESIDE, N)
                for q in unroll(range(OWN // WIDE)):
                    with stage(C_one) as c:
                        with one(c), each(warpgroup, c):
                            store_acc(c, acc, first=WIDE * q)
                        with store(c), each(warpgroup, C, disjoint=C):
                            async_copy(C, c, at=(m0, n0 + WIDE * q))
                for q in unroll(range(OWN // WIDE)):
                    with stage(C_other) as c:
                        with other(c), each(warpgroup, c):
                            store_acc(c, acc, first=WIDE * q)
                        with store(c), each(warpgroup, C, disjoint=C):
                            async_copy(C, c, at=(m0 + BELOW, n0 + BESIDE + WIDE * q))

    return of_tiles(512, BM, BN, body, out_type, epilogue)


@functools.cache
def halves_kernel(kind, out_type, BM=128, BN=224, BAND=8, epilogue: Epilogue = PLAIN):
    """As promoted_kernel, for tiles of 128 rows."""
    E, O = element(U8), element(out_type)
    SUMS, CUT, FEW = BN // 2, BN // 2, BN // 4  # sums of a thread; columns of a half, and sums of it
    WIDE = math.gcd(BN, 128 // scalar(out_type).bytes)  # columns that leave at a time
    SWIZZLE = WIDE * scalar(out_type).bytes
    STAGES = min(MOST_STAGES, (WITH_TILES - 2 * LEAVING * 64 * SWIZZLE) // ((BM + BN) * DEPTH))
    complete = completing(SUMS, BN, U8, epilogue)

    @device(warpgroup)
    def multiply(
        sums: ref(float[FEW]),
        a: ptr(const(shared(E)), (BM, DEPTH)),
        b: ptr(const(shared(E)), (BN, DEPTH)),
        w: int,
        half: int,
    ):
        wgmma(sums, tile(a, (64 * w, 0), (64, DEPTH)), tile(b, (CUT * half, 0), (CUT, DEPTH)), zero=True, type=kind)

    @inline
    def body(A, B, C, bias, a_scale, b_scale, M, N, K):
        teams, down, across = count(block[1]), (M + BM - 1) / BM, (N + BN - 1) / BN
        with each(block, C, disjoint=C) as team:
            A_slots: pipeline(shared(E[BM, DEPTH], swizzle=128), STAGES)
            B_slots: pipeline(shared(E[BN, DEPTH], swizzle=128), STAGES)
            C_slots: pipeline(shared(O[2, 64, WIDE], swizzle=SWIZZLE), LEAVING)
            w: int @ warpgroup = id()
            row: int @ thread[1] = id() % 128 / 32 * 16 + id() % 32 / 4  # its first of its warpgroup's
            acc, x, y = registers(float[SUMS], float[FEW], float[FEW])
            compute, load = roles(256, 128, registers=(232, 40))
            for t in range(team, down * across, teams):
                i, j = in_bands(t, down, across, BAND)
                m0, n0 = i * BM, j * BN
                with compute():
                    acc = 0.0
                for k in range((K + DEPTH - 1) / DEPTH):
                    with stage(A_slots) as a, stage(B_slots) as b:
                        with load(a, b):
                            async_copy(a, A, at=(m0, k * DEPTH))
                            async_copy(b, B, at=(n0, k * DEPTH))
                        with compute(a, b), each(warpgroup):
                            multiply(x, a, b, w, 0)
                            multiply(y, a, b, w, 1)
                    with compute(), each(thread):
                        for j in unroll(range(FEW)):
                            acc[j] += x[j]
                    with compute(), each(thread):
                        for j in unroll(range(FEW)):
                            acc[FEW + j] += y[j]
                with compute(), each(warp):
                    complete(acc, a_scale, b_scale, bias, m0 + 64 * w + row, M, n0, N)
                for q in unroll(range(BN // WIDE)):
                    with stage(C_slots) as c, compute(), each(warpgroup, c, C, disjoint=C):
                        store_acc(c[w], acc, first=WIDE * q)
                        async_copy(C, c[w], at=(m0 + 64 * w, n0 + WIDE * q))

    return of_tiles(384, BM, BN, body, out_type, epilogue)
