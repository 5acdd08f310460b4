"""`snap.lib.gemm_tf32`: a product of f32 matrices on the tensor cores, which multiply with 10 bits after the point
(tf32) and add in f32.

Input:      a of M x K, b of K x N, both f32
Output:     a @ b of M x N.  Factors are rounded to tf32.  Where K is cut into slices the order of their sums, and so
the last bits, may differ
Invariant:  the kernels read both operands in boxes: rows of whole 16 bytes, what lies outside of a matrix is read as
zero and not written
Non-goals:  other GPUs than Hopper's

The instruction takes tiles that lie along k only.  So does b if it is the transpose of a row-major matrix (`w.T`): the
kernel below is for that. A row-major b goes through registers (gemm_tf32_rows.py).
"""

from __future__ import annotations

import functools
import math

from snap import *
from snap.lib.arrays import Argument, exchange
from snap.lib.gemm_tf32_rows import BAND, DEPTH, SHARED, STEP, handover, tf32_rows
from snap.lib.sgemm import matrix, product_shape, row_major
from snap.lib.transposition import transpose
from snap.record import record
from snap.runtime.arrays import classify

LINE = 128  # bytes, of which the rows of copies are multiples
SECTOR = 32  # bytes


def gemm_tf32(a, b):
    """`a @ b` for f32 matrices, multiplied as tf32."""
    left, right = matrix("gemm_tf32", "a", a), matrix("gemm_tf32", "b", b)
    rows, columns = product_shape("gemm_tf32", left, right)
    depth = left.shape[1]
    if rows * columns * depth == 0:
        return left.new((rows, columns), zero=True)
    turned = flipped(right)
    lies_along = turned.info.contiguous
    A, B = in_boxes(in_rows(left)), in_boxes(turned if lies_along else in_rows(right))
    plan = planned(rows, columns, depth, left.multiprocessors(), lies_along, load_cost(A), load_cost(B))
    C = left.new((rows, columns if columns % 4 == 0 else filled_up(columns)), zero=plan.slices > 1)
    room = (plan.blocks * plan.height * plan.width, plan.blocks * 256) if plan.divided else (0, 0)
    run = (tf32_along if lies_along else tf32_rows)(plan.height, plan.width, plan.team, plan.how)
    run[plan.blocks](
        A.array,
        B.array,
        C,
        A.shape[1],
        *B.shape,
        C.shape[1],
        rows,
        columns,
        depth,
        plan.slices,
        *exchange(left, *room),
        plan.divided,
        plan.share,
    )
    return C if C.shape[1] == columns else row_major(cut(left, C, columns)).array


# ---- who computes what ----------------------------------------------------------------------------------------------

SIDES = ((128, 256), (128, 192), (128, 128), (64, 128))  # of tiles: the one that warpgroups divide, the other
MOST_PARTS = 8  # of a tile that is divided
LEAST_STEPS = 4  # that a slice of K is worth

# Cycles of an H200's multiprocessor, as measured.
ISSUE = 16  # a step of DEPTH along k takes a 32nd of the tile's elements and this
LEAST = 300  # at least
FRAGMENTS = 4  # to read a column of B into registers, which waits for products of an element of each row, 2 a row
LINES, PARTS_OF_LINES, PARTS_OF_SECTORS = (
    2.1,
    3.5,
    4.8,
)  # to load a row of DEPTH elements, when all multiprocessors do so: by where it begins
MULTICAST = 1.25  # loads of a team take so much longer than their rows
WEIGHT = 0.05  # of loads that nothing waits for: they take power
TEAM = 2500  # blocks of a cluster wait for each other when they begin and end
TILE, SUM = 2300, 0.17  # a tile besides its steps, and each element of it
ADDITION = 13000  # C is set to zero first, and added to
DIVISION, PART = 25000, 5000  # the last round's tiles divided; each part that is added


@record
class Plan:
    """height, width: of a tile; team: blocks of a cluster; how, slices, divided, share: see gemm_tf32_rows.py"""

    cycles: float
    height: int
    width: int
    team: int
    blocks: int
    how: str = "whole"
    slices: int = 1
    divided: int = 0
    share: int = 1


# Each multiprocessor runs one block at a time, so what counts is how long the busiest takes.  Measured on an H200:
# - Two blocks that share a tile of b, or of a where b goes through registers, load less.  That counts where tiles are
# small or many.
# - The last round is seldom full: 8192^3 has 15.5 rounds of tiles.  Divided along k among all, it takes half as long:
# 2.5% less time at 8192^3.
#   At 4096^3, where an eighth of a round would be saved, exchanging sums takes longer than that, by 1.6%.
# - Setting C to zero and adding slices to it takes long for a small product: 1000^3 takes 17% less time with tiles of
# 64 x 128, of which there are
#   enough.
@functools.lru_cache(4096)
def planned(
    rows: int,
    columns: int,
    depth: int,
    multiprocessors: int,
    lies_along: bool,
    a_row: float = LINES,
    b_row: float = LINES,
) -> Plan:
    """The plan that takes the fewest cycles, by the figures above."""
    turn = DEPTH if lies_along else STEP
    steps = -(-depth // turn)
    short_extent, long_extent = (rows, columns) if lies_along else (columns, rows)
    short_row, long_row = (a_row, b_row) if lies_along else (b_row, a_row)
    found = []
    for (short, long), team in ((sides, team) for sides in SIDES for team in (1, 2) if team <= multiprocessors):
        height, width = (short, long) if lies_along else (long, short)
        teams, tiles = multiprocessors // team, -(-short_extent // (short * team)) * -(-long_extent // long)
        slices = max(1, min(teams // tiles, steps * turn // DEPTH // LEAST_STEPS))
        products = max(short * long / 32 + ISSUE, LEAST, 0 if lies_along else FRAGMENTS * short + 2 * long)
        asked_for = (short * short_row + long * long_row / team) * (1 if team == 1 else MULTICAST)

        def step(busy: int) -> float:
            """Of k, when so many teams work."""
            loads = asked_for * math.sqrt(min(1, busy / teams))
            return turn / DEPTH * (max(products, loads) + WEIGHT * loads)

        def plan(cycles: float, *rest: object) -> Plan:
            return Plan(cycles + (TEAM if team > 1 else 0), height, width, team, *rest)

        tile = TILE + SUM * short * long
        whole, left = divmod(tiles, teams)
        until = whole * (steps * step(teams) + tile)
        found.append(plan(until + (left > 0) * (steps * step(tiles) + tile), team * min(tiles, teams)))
        if slices > 1:
            found.append(
                plan(
                    ADDITION + -(-steps // slices) * step(tiles * slices) + tile, team * tiles * slices, "added", slices
                )
            )
        share = max(-(-left * steps // teams), -(-steps // MOST_PARTS))
        if left and share < steps:
            cycles = until + share * step(teams) + tile + DIVISION + PART * -(-steps // share)
            found.append(plan(cycles, team * teams, "divided", 1, left, share))
    return min(found, key=lambda plan: plan.cycles)


def load_cost(given: Argument) -> float:
    row = given.shape[1] * given.type.bytes | given.info.pointer
    return LINES if row % LINE == 0 else PARTS_OF_LINES if row % SECTOR == 0 else PARTS_OF_SECTORS


# ---- arrays ---------------------------------------------------------------------------------------------------------


def flipped(given: Argument) -> Argument:
    """The transpose, where it lies."""
    return Argument(given.array.T, classify(given.array.T), given.type)


def in_rows(given: Argument) -> Argument:
    """The matrix, or a copy of it that lies row after row."""
    turned = flipped(given)
    if given.info.contiguous or not turned.info.contiguous:
        return row_major(given)
    array = transpose(turned.array)
    return Argument(array, classify(array), given.type)


def in_boxes(given: Argument) -> Argument:
    """The matrix if boxes can be made of it, else a copy whose rows are filled up with zeros."""
    rows, columns = given.shape
    if given.width(columns) == 4:
        return given
    room = given.new((rows, filled_up(columns)), zero=True)
    if given.info.family == "torch":
        room[:, :columns].copy_(given.array.detach())
    else:
        room[:, :columns] = given.array
    return Argument(room, classify(room), given.type)


def filled_up(columns: int) -> int:
    return -(-columns // (LINE // 4)) * (LINE // 4)


def cut(like: Argument, array: object, columns: int) -> Argument:
    return Argument(array[:, :columns], classify(array[:, :columns]), like.type)


# ---- the kernel for a B that lies along k ---------------------------------------------------------------------------


@functools.cache
def tf32_along(BM, BN, TEAM=1, HOW="whole"):
    """C = A @ B.T.  As tf32_rows; blocks of a team have tiles one above the other, and each loads its part of B's tile
    for all of them.
    """
    CONSUMERS = BM // 64  # warpgroups that multiply
    C_THREADS = 128 * CONSUMERS
    T = C_THREADS + 128
    STAGES = min(8, SHARED // ((BM + BN) * DEPTH * 4))
    HIGH = max(1, BAND // (TEAM * BM))
    ADDED, DIVIDED = HOW == "added", HOW == "divided"
    OWN = not ADDED  # a tile of C is one team's alone
    PIECES = 2 if DIVIDED else 0  # of divided tiles, for each team
    SUMS = BN // 2  # of a thread
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
            down: int = (M + TEAM * BM - 1) / (TEAM * BM)
            across: int = (N + BN - 1) / BN
            steps: int = (K + DEPTH - 1) / DEPTH
            with partition(C, p=cluster[1], f=lambda i, j: (i, j), disjoint=OWN) as C_team:
                with group(cluster[1]):
                    A_slots: pipeline(shared(float[BM, DEPTH], swizzle=128, across=block), STAGES)
                    B_slots: pipeline(shared(float[BN, DEPTH], swizzle=128, copies=block), STAGES)
                    C_slots: pipeline(shared(float[BM // 16, 16, DEPTH], swizzle=128, across=block), 2)
                    rank: int @ block[1] = id()
                    w: int @ warpgroup = id() % (CONSUMERS + 1)
                    warp: int @ thread[32] = id() % (T / 32)
                    me: int @ thread[1] = id() % T
                    row: int @ thread[1] = (
                        id() / 4 % 8
                    )  # it has rows `row` and `row + 8` of its warp's, and of each 8 columns `pair` and the next
                    pair: int @ thread[1] = id() % 4 * 2
                    acc: float[SUMS] @ thread[1]
                    if CONSUMERS == 2:
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
                        band: int = t / (HIGH * across)
                        within: int = t % (HIGH * across)
                        high: int = min(HIGH, down - band * HIGH)
                        m0: int @ block[1] = ((band * HIGH + within % high) * TEAM + rank) * BM
                        n0: int = within / high * BN
                        for k in range(first, last):
                            with stage(A_slots) as a, stage(B_slots) as b:
                                with claim(a, p=thread[128]) as ap, claim(b, p=thread[128]) as bp:
                                    match split(thread, C_THREADS, 128):
                                        case 0:
                                            pass
                                        case 1:
                                            async_copy(ap, A, at=(m0, k * DEPTH), type="tf32")
                                            async_copy(bp, B, at=(n0, k * DEPTH), type="tf32")
                                with claim(a, p=thread[C_THREADS]) as ac, claim(b, p=thread[C_THREADS]) as bc:
                                    match split(thread, C_THREADS, 128):
                                        case 0:
                                            with group(warpgroup):
                                                wgmma(acc, tile(ac, (64 * w, 0), (64, DEPTH)), bc, zero=(k == first))
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
                                C_team, p=thread[32], f=lambda i, j: (m0 + 16 * warp + i, n0 + j), disjoint=OWN
                            ) as C_own:
                                for q in unroll(range(BN // DEPTH)):
                                    with stage(C_slots) as c:
                                        with partition(c, p=thread[32], f=lambda i, j: (rank, warp, i, j)) as own:
                                            match split(thread, C_THREADS, 128):
                                                case 0:
                                                    with group(thread[32]):
                                                        with partition(
                                                            own,
                                                            p=thread[1],
                                                            f=lambda h, g, e: (row + 8 * h, 8 * g + pair + e),
                                                        ) as cell:
                                                            with group(thread[1]):
                                                                for g in unroll(range(DEPTH // 8)):
                                                                    for h in unroll(range(2)):
                                                                        for e in unroll(range(2)):
                                                                            # Half of the threads begin with the second
                                                                            # column: no two meet in a bank.
                                                                            odd: bool = (pair < 4) == (e == 1)
                                                                            one: float = acc[
                                                                                DEPTH // 2 * q + 4 * g + 2 * h
                                                                            ]
                                                                            next: float = acc[
                                                                                DEPTH // 2 * q + 4 * g + 2 * h + 1
                                                                            ]
                                                                            cell[h, g, int(odd)] = next if odd else one
                                                        if ADDED:
                                                            async_reduce(C_own, own, at=(0, DEPTH * q), op="add")
                                                        else:
                                                            async_copy(C_own, own, at=(0, DEPTH * q))
                                                case 1:
                                                    pass

    return gemm_tf32
