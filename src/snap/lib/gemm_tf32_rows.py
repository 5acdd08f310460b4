"""The kernel of `snap.lib.gemm_tf32` for a B that lies row after row, not along k.

Input:      A of M x A1, B of K x B1, C of M x C1, f32, rows of whole 16 bytes; K <= A1, and what is beyond K in A is
zero
Output:     C = A @ B, or A @ B added to C
Invariant:  what lies outside of a matrix is read as zero and not written.  Both matrices are rounded to tf32 while they
are loaded
Non-goals:  other layouts; which tiles are best (gemm_tf32.py)

The instruction takes tiles along k only, but one of its operands may come from registers, which threads read from
shared memory in any order.  So a tile of C is computed turned round, C.T = B.T @ A.T: B.T from registers, A from shared
memory.  Which column of B is which row of that product is free: they are dealt out so that threads that read or write
together meet in no bank (see `place`).  Fragments of B take turns in two sets of registers: one is read while the other
is multiplied.
"""

from __future__ import annotations

import functools

from snap import *

DEPTH = 32  # of k in a stage: 128 bytes, a row of a swizzled tile
STEP = 2 * DEPTH  # of k in a turn of the loop: a stage for each set of registers
BOX = 32  # columns of a box of B and of C, rows of one of C: 128 bytes
HALF = BOX // 2  # sums a thread has of a box of C
SHARED = 192 * 1024  # bytes for stages; the rest of a multiprocessor's is for tiles that leave
# columns: tiles are taken in bands so wide, row by row, so that blocks that run together share rows and columns
BAND = 2048


@functools.cache
def handover(SUMS, THREADS):
    """How a thread leaves its sums for the thread in its place of another block, which waits for them and adds them."""
    READ = SUMS if SUMS <= 64 else SUMS // 2  # at a time

    @device
    @requires(thread[1])
    def leave(
        acc: ref(float[SUMS]) @ thread[1],
        parts: ptr(float) @ grid[1],
        ready: ptr(int) @ grid[1],
        block: int @ thread[1],
        me: int @ thread[1],
    ):
        for j in unroll(range(SUMS)):
            atomic.store(parts, (block * SUMS + j) * THREADS + me, acc[j])
        atomic.store(ready, block * THREADS + me, 1, order="release")

    @device
    @requires(thread[1])
    def collect(
        acc: ref(float[SUMS]) @ thread[1],
        parts: ptr(float) @ grid[1],
        ready: ptr(int) @ grid[1],
        block: int @ thread[1],
        me: int @ thread[1],
    ):
        while atomic.load(ready, block * THREADS + me, order="acquire") == 0:
            pass
        for c in unroll(range(SUMS // READ)):
            part: float[READ]
            for j in unroll(range(READ)):
                part[j] = atomic.load(parts, (block * SUMS + c * READ + j) * THREADS + me)
            for j in unroll(range(READ)):
                acc[c * READ + j] += part[j]

    return leave, collect


@functools.cache
def tf32_rows(BM, BN, TEAM=1, HOW="whole"):
    """C = A @ B.  TEAM blocks, a cluster, have tiles of BM x BN side by side: each loads its part of A's tile for all
    of them.

    HOW it is done: "whole" tiles are taken in turns, t, t + teams, ...  "added": a piece of work is a tile and one of
    `slices` parts of K, and what comes of it is added to C by the units that copy boxes.  "divided": as "whole", but
    the steps of k of the first `divided` tiles, one tile after another, are dealt out to the teams, `share` to each, no
    more than a tile has.  So a team has the end of one tile and the beginning, or the middle, of the next.  It begins
    with the latter and leaves its sums in `parts`; then it finishes the former, with what the teams before it have
    left.  Each thread waits for, and adds, what the thread in its place has left, in the order of the teams.  All
    blocks run at the same time, and leave their sums before they wait: nothing hangs.
    """
    C_THREADS = 2 * BN  # a warpgroup multiplies 64 columns
    T = C_THREADS + 128
    STAGES = min(8, SHARED // ((BM + BN) * DEPTH * 4))
    WIDE = max(1, BAND // (TEAM * BN))
    ADDED, DIVIDED = HOW == "added", HOW == "divided"
    OWN = not ADDED  # a tile of C is one team's alone
    PIECES = 2 if DIVIDED else 0  # of divided tiles, for each team
    SUMS = BM // 2  # of a thread
    leave, collect = handover(SUMS, C_THREADS)

    @kernel
    @requires(grid[1], cluster[1], block[TEAM], thread[T], cooperative=DIVIDED)
    def gemm_tf32(
        A: ptr(const(float), (M, A1)) @ grid[1],
        B: ptr(const(float), (B0, B1)) @ grid[1],
        C: ptr(float, (M, C1)) @ grid[1],
        A1: int @ grid[1],
        B0: int @ grid[1],
        B1: int @ grid[1],
        C1: int @ grid[1],
        M: int @ grid[1],
        N: int @ grid[1],
        K: int @ grid[1],
        slices: int @ grid[1],
        parts: ptr(float) @ grid[1],
        ready: ptr(int) @ grid[1],
        divided: int @ grid[1],
        share: int @ grid[1],
    ):
        with group(grid[1]):
            team: int @ cluster[1] = id()
            teams: int = count(cluster[1])
            down: int = (M + BM - 1) / BM
            across: int = (N + TEAM * BN - 1) / (TEAM * BN)
            steps: int = (K + STEP - 1) / STEP
            with partition(C, p=cluster[1], f=lambda i, j: (i, j), disjoint=OWN) as C_team:
                with group(cluster[1]):
                    A_slots: pipeline(shared(float[BM, DEPTH], swizzle=128, copies=block), STAGES)
                    B_slots: pipeline(shared(float[BN // BOX, DEPTH, BOX], swizzle=128, across=block), STAGES)
                    C_slots: pipeline(shared(float[BN // BOX, BOX, BOX], swizzle=128, across=block), 2)
                    rank: int @ block[1] = id()
                    me: int @ thread[1] = id() % T
                    box: int @ thread[64] = id() % (T / 64)
                    quad: int @ thread[1] = id() % 4
                    # It has columns `place` and `place ^ 4` of its box.  A warp reads chunks c and c ^ 5 of 4 rows, and
                    # writes those of 4 others
                    place: int @ thread[1] = id() / 4 % 4 + id() / 16 % 2 * 20 + id() / 32 % 2 * 8
                    acc: float[SUMS] @ thread[1]
                    x: float[DEPTH // 2] @ thread[1]
                    y: float[DEPTH // 2] @ thread[1]
                    if C_THREADS == 256:
                        match split(thread, C_THREADS, 128):
                            case 0:
                                intrinsic.setmaxnreg(232)
                            case 1:
                                intrinsic.setmaxnreg(40)
                    begin: int = min(team * share, divided * steps)
                    end: int = min(begin + share, divided * steps)
                    for job in range((down * across * slices - divided - team + teams - 1) / teams + PIECES):
                        t: int = divided + team + (job - PIECES) * teams
                        first: int = 0
                        last: int = steps
                        if ADDED:
                            slice: int = t / (down * across)
                            t = t % (down * across)
                            first = int(i64(steps) * slice / slices)
                            last = int(i64(steps) * (slice + 1) / slices)
                        if DIVIDED:
                            if job < PIECES:
                                final: int = (end - 1) / steps
                                t = final if job == 0 else begin / steps
                                first = max(begin - t * steps, 0)
                                last = min(end - t * steps, steps)
                                if begin == end or (job == 1 and t == final):
                                    last = first  # nothing is left to do
                        band: int = t / (WIDE * down)
                        within: int = t % (WIDE * down)
                        wide: int = min(WIDE, across - band * WIDE)
                        m0: int = within / wide * BM
                        n0: int @ block[1] = ((band * WIDE + within % wide) * TEAM + rank) * BN
                        for k in range(first, last):
                            with stage(B_slots) as b:
                                with claim(b, p=thread[128]) as bp:
                                    match split(thread, C_THREADS, 128):
                                        case 0:
                                            pass
                                        case 1:
                                            for p in unroll(range(BN // BOX)):
                                                async_copy(
                                                    tile(bp, (p, 0, 0), (1, DEPTH, BOX)),
                                                    B,
                                                    at=(k * STEP, n0 + p * BOX),
                                                    type="tf32",
                                                )
                                with claim(b, p=thread[C_THREADS]) as bc:
                                    match split(thread, C_THREADS, 128):
                                        case 0:
                                            for s in unroll(range(DEPTH // 8)):
                                                for e in unroll(range(4)):
                                                    x[4 * s + e] = bc[box, 8 * s + e / 2 * 4 + quad, place ^ e % 2 * 4]
                                        case 1:
                                            pass
                            with stage(A_slots) as a:
                                with claim(a, p=thread[128]) as ap:
                                    match split(thread, C_THREADS, 128):
                                        case 0:
                                            pass
                                        case 1:
                                            async_copy(ap, A, at=(m0, k * STEP), type="tf32")
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
                                                async_copy(
                                                    tile(bp, (p, 0, 0), (1, DEPTH, BOX)),
                                                    B,
                                                    at=(k * STEP + DEPTH, n0 + p * BOX),
                                                    type="tf32",
                                                )
                                with claim(b, p=thread[C_THREADS]) as bc:
                                    match split(thread, C_THREADS, 128):
                                        case 0:
                                            for s in unroll(range(DEPTH // 8)):
                                                for e in unroll(range(4)):
                                                    y[4 * s + e] = bc[box, 8 * s + e / 2 * 4 + quad, place ^ e % 2 * 4]
                                        case 1:
                                            pass
                            with stage(A_slots) as a:
                                with claim(a, p=thread[128]) as ap:
                                    match split(thread, C_THREADS, 128):
                                        case 0:
                                            pass
                                        case 1:
                                            async_copy(ap, A, at=(m0, k * STEP + DEPTH), type="tf32")
                                with claim(a, p=thread[C_THREADS]) as ac:
                                    match split(thread, C_THREADS, 128):
                                        case 0:
                                            with group(warpgroup):
                                                wgmma(acc, y, ac)
                                        case 1:
                                            pass
                        if DIVIDED:
                            match split(thread, C_THREADS, 128):
                                case 0:
                                    with group(thread[1]):
                                        if first < last and last < steps:
                                            leave(acc, parts, ready, team * TEAM + rank, me)
                                        if 0 < first and first < last and last == steps:
                                            for other in range(t * steps / share, team):
                                                collect(acc, parts, ready, other * TEAM + rank, me)
                                case 1:
                                    pass
                        if not DIVIDED or (first < last and last == steps):
                            with partition(
                                C_team, p=thread[64], f=lambda i, j: (m0 + i, n0 + BOX * box + j), disjoint=OWN
                            ) as C_own:
                                for q in unroll(range(BM // BOX)):
                                    with stage(C_slots) as c:
                                        with partition(c, p=thread[64], f=lambda i, j: (rank, box, i, j)) as own:
                                            match split(thread, C_THREADS, 128):
                                                case 0:
                                                    with group(thread[64]):
                                                        with partition(
                                                            own, p=thread[1], f=lambda i, h: (i, place ^ 4 * h)
                                                        ) as cell:
                                                            with group(thread[1]):
                                                                for g in unroll(range(BOX // 8)):
                                                                    for h in unroll(range(2)):
                                                                        for e in unroll(range(2)):
                                                                            cell[8 * g + 2 * quad + e, h] = acc[
                                                                                HALF * q + 4 * g + 2 * h + e
                                                                            ]
                                                        if ADDED:
                                                            async_reduce(C_own, own, at=(BOX * q, 0), op="add")
                                                        else:
                                                            async_copy(C_own, own, at=(BOX * q, 0))
                                                case 1:
                                                    pass

    return gemm_tf32
