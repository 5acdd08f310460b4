"""Finish the sums of GEMM kernels of Hopper, hand them from block to block, and find the group of rows of a tile.

Input:      element types, the layouts of operands, sizes of tiles
Output:     device functions and inlined functions, which the kernels call
Invariant:  a sum is scaled, gets its bias and goes through the activation in f32, and is rounded once
Non-goals:  which team computes which tile, and how its operands are loaded (body.py)
"""

from __future__ import annotations

import functools
import math

from snap import *
from snap._compiler.ir.types import F32, U8
from snap._compiler.ir.word import Word
from snap.lib._calls.arrays import MAX_SIDE
from snap.lib._calls.operators import element
from snap.lib._gemm.body import depth_of, load_b, load_tile
from snap.record import replace


class Scaling(Word):
    """Name how sums of 8-bit floats are scaled."""

    TENSOR = "tensor"  # one number for each matrix
    ROWS = "rows"  # one for each row of `a` and each column of `b`


ACTIVATIONS = (None, "relu", "gelu", "silu")
HALF_ROOT = math.sqrt(0.5)


# ---- which tile -----------------------------------------------------------------------------------------------------


@functools.cache
def grouping(BM):
    """tiles_of_groups(ends, groups, rows of all, across): how many tiles there are, BM rows high, of groups of rows
    that end there.  group_of(t, ..., group, passed, top, rows): the group of tile t, which is this one or a later one:
    its number, the tiles of those before it, its first row, and how many it has.
    """

    @device(
        cluster,
        where=lambda ends, groups, M, across: 0 <= groups <= len(ends) and 0 <= M <= MAX_SIDE and across >= 0,
        ensures=lambda groups, M, across, result: 0 <= result <= (M // BM + groups) * across,
    )
    def tiles_of_groups(ends: ptr(const(int)) @ grid[1], groups: int, M: int, across: int) -> int:
        tiles, covered = 0, 0
        for g in range(groups):
            top = max(min(int(ends[g]), M), covered)
            tiles += (top - covered + BM - 1) / BM * across
            covered = top
        with trust("groups have rows of their own, so all of them have M // BM tiles, and each one more"):
            return tiles

    @device(
        cluster,
        ensures=lambda t, M, across, result: (
            0 <= result.y <= t and t < result.y + (result.w + BM - 1) // BM * across,
            0 <= result.z and 1 <= result.w and result.z + result.w <= M,
        ),
    )
    def group_of(
        t: int,
        ends: ptr(const(int)) @ grid[1],
        M: int,
        across: int,
        group: int,
        passed: int,
        top: int,
        rows: int,
    ) -> int4:
        with trust("t is a tile of this group or of a later one, and groups are one after another, within M rows"):
            while t >= passed + (rows + BM - 1) / BM * across:
                passed += (rows + BM - 1) / BM * across
                group, top = group + 1, top + rows
                rows = max(min(int(ends[group]), M), top) - top
            return int4(group, passed, top, rows)

    return tiles_of_groups, group_of


# ---- operands -------------------------------------------------------------------------------------------------------


@inline
def clear(g, PANELS, HIGH, to, rows, me):
    """Zero the part of a tile's panels that follows `rows` rows. The tile lies across k."""
    with each(thread, to, disjoint=to):
        for i in range(me, HIGH * g.DEPTH, g.C_THREADS):
            if i >= rows * g.DEPTH:
                for p in unroll(range(PANELS)):
                    to[p, i / g.DEPTH, i % g.DEPTH] = g.E(0)


@functools.cache
def promoting(BM, BN, OWN, kind, PARTS=1):
    """multiply(acc, sums, a, b, half), add(acc, sums): what a warpgroup has of the product of two tiles of 8-bit
    floats: a half of it, its rows or, where it has 64, OWN columns.  The tensor cores' sums of a step are added to
    `acc` in f32, part after part of its columns; those of the last one are left in `sums`, for `add`.
    """
    E, DEPTH, SUMS, WIDE, FEW = element(U8), depth_of(U8), OWN // 2, OWN // PARTS, OWN // PARTS // 2
    BELOW, BESIDE = (64, 0) if BM == 128 else (0, OWN)

    @device(thread)
    def add(acc: ref(float[SUMS]), sums: ref(float[FEW])):
        for j in unroll(range(FEW)):
            acc[SUMS - FEW + j] += sums[j]

    @device(warpgroup)
    def multiply(
        acc: ref(float[SUMS]),
        sums: ref(float[FEW]),
        a: ptr(const(shared(E)), (BM, DEPTH)),
        b: ptr(const(shared(E)), (BN, DEPTH)),
        half: int,
    ):
        for p in unroll(range(PARTS - 1)):
            at: int = half * BESIDE + p * WIDE
            wgmma(sums, tile(a, (half * BELOW, 0), (64, DEPTH)), tile(b, (at, 0), (WIDE, DEPTH)), zero=True, type=kind)
            with each(thread):
                for j in unroll(range(FEW)):
                    acc[p * FEW + j] += sums[j]
        last: int = half * BESIDE + OWN - WIDE
        wgmma(sums, tile(a, (half * BELOW, 0), (64, DEPTH)), tile(b, (last, 0), (WIDE, DEPTH)), zero=True, type=kind)

    return multiply, add


@inline
def part_of_tile(g, x, a, panel, quad, place):
    """Read a thread's part of its warpgroup's 64 columns of a tile of f32 that lies across k."""
    for s in unroll(range(g.DEPTH // 8)):
        for e in unroll(range(4)):
            x[4 * s + e] = a[panel, 8 * s + e / 2 * 4 + quad, place ^ e % 2 * 4]


@inline
def through_registers(g, compute, load, acc, x, A_slots, B_slots, A, B, m0, n0, at, begins, u, quad, place):
    """Multiply a step of k of an A of f32 that lies across k: threads read its fragments from shared memory into `x`.
    begins: the step sets the sums instead of adding to them.
    """
    with stage(A_slots) as a:
        with load(a):
            load_tile(g, a, A, False, m0, at)
        with compute(a):
            part_of_tile(g, x, a, u, quad, place)
    with stage(B_slots) as b:
        with load(b):
            load_b(g, b, B, n0, at, 0)
        with compute(b), each(warpgroup):
            wgmma(acc, x, b, zero=begins)


# ---- sums -----------------------------------------------------------------------------------------------------------


@functools.cache
def scaling(SUMS, type, epilogue):
    """scale(acc, scales of a, scales of b, row, rows, first, columns): the sums of a warp's threads, products of floats
    of 8 bits, times what these stand for.  Columns of `b` count from `first` on.
    Their numbers are loaded as `finishing` loads a bias.
    """
    F, WHOLE, LOADS = element(F32 if epilogue.scaled else type), epilogue.scaled == Scaling.TENSOR, -(-SUMS // 32)

    @device(warp)
    def scale(
        acc: ref(float[SUMS]) @ thread[1],
        of_a: ptr(const(F)) @ grid[1],
        of_b: ptr(const(F)) @ grid[1],
        row: int @ thread[1],
        rows: int @ grid[1],
        first: int,
        columns: int @ grid[1],
    ):
        lane: int @ thread[1] = id()
        high: float[2] @ thread[1]
        own: float[2 * LOADS] @ thread[1]
        with each(thread):
            for v in unroll(range(2)):
                high[v] = 0.0
                if WHOLE:
                    high[v] = float(of_a[0]) * float(of_b[0])
                elif row + 8 * v < rows:
                    high[v] = float(of_a[row + 8 * v])
            if not WHOLE:  # of a column that is not there any: so nothing waits for a comparison
                for i, h in unroll(range(shape=(LOADS, 2))):
                    own[2 * i + h] = float(of_b[min(first + 64 * i + 2 * lane + h, columns - 1)])
        for j, h in unroll(range(shape=(SUMS // 4, 2))):
            factor: float @ thread[1] = 1.0
            if not WHOLE:
                factor = intrinsic.shfl(own[2 * (j / 8) + h], j % 8 * 4 + lane % 4)
            with each(thread):
                for v in unroll(range(2)):
                    acc[4 * j + 2 * v + h] = acc[4 * j + 2 * v + h] * high[v] * factor

    return scale


@functools.cache
def finishing(SUMS, COLUMNS, type, epilogue):
    """finish(acc, bias, first, columns): the bias of columns `first` and so on is added to the first sums of a warp's
    threads, those of COLUMNS columns, and they go through the activation.  Lane 4r + q has columns 8j + 2q and
    8j + 2q + 1 of two rows.  It loads the numbers of every eighth j, from r on, and gets the others from the lanes that
    loaded them: beside the sums there are no registers for all of them, and a thread that loads them one after the
    other waits for memory again and again.
    """
    V, BIASED = element(epilogue.bias_type or type), epilogue.bias_type is not None
    active = activation_function(epilogue.activation)
    LOADS = -(-COLUMNS // 64)

    @device(warp)
    def finish(acc: ref(float[SUMS]) @ thread[1], bias: ptr(const(V)) @ grid[1], first: int, columns: int @ grid[1]):
        lane: int @ thread[1] = id()
        own: float[2 * LOADS] @ thread[1]
        if BIASED:
            with each(thread):
                for i, h in unroll(range(shape=(LOADS, 2))):
                    own[2 * i + h] = 0.0
                    if first + 64 * i + 2 * lane + h < columns:
                        own[2 * i + h] = float(bias[first + 64 * i + 2 * lane + h])
        for j, h in unroll(range(shape=(COLUMNS // 8, 2))):
            plus: float @ thread[1] = 0.0
            if BIASED:
                plus = intrinsic.shfl(own[2 * (j / 8) + h], j % 8 * 4 + lane % 4)
            with each(thread):
                for v in unroll(range(2)):
                    acc[4 * j + 2 * v + h] = active(acc[4 * j + 2 * v + h] + plus)

    return finish


@functools.cache
def completing(SUMS, COLUMNS, type, epilogue):
    """complete(acc, scales of a, scales of b, bias, row, rows, first, columns): a warp's sums are scaled, where there
    are scales, and finished.
    """
    SCALED, FINISHED = epilogue.scaled is not None, replace(epilogue, scaled=None).completes
    F, V = element(F32 if SCALED else type), element(epilogue.bias_type or type)
    scale = scaling(SUMS, type, epilogue) if SCALED else None
    finish = finishing(SUMS, COLUMNS, type, epilogue) if FINISHED else None

    @device(warp)
    def complete(
        acc: ref(float[SUMS]) @ thread[1],
        of_a: ptr(const(F)) @ grid[1],
        of_b: ptr(const(F)) @ grid[1],
        bias: ptr(const(V)) @ grid[1],
        row: int @ thread[1],
        rows: int @ grid[1],
        first: int,
        columns: int @ grid[1],
    ):
        if SCALED:
            scale(acc, of_a, of_b, row, rows, first, columns)
        if FINISHED:
            finish(acc, bias, first, columns)

    return complete


# What was multiplied as f32 goes without `store_acc`, so that threads which write together meet in no bank: a thread
# has row `place` and that 8 further on or, TURNED, column `place` and `place ^ 4`.
@inline
def fill(g, boxes, box, acc, q, quad, place, TURNED=False):
    """Sums of columns WIDE * q and so on are put into a box in shared memory, that of a unit of threads."""
    if not g.TF32:
        store_acc(boxes[box], acc, first=g.WIDE * q)
    elif TURNED:
        with each(thread, boxes):
            for c, h, e in unroll(range(shape=(g.WIDE // 8, 2, 2))):
                boxes[box, 8 * c + 2 * quad + e, place ^ 4 * h] = acc[g.WIDE // 2 * q + 4 * c + 2 * h + e]
    else:
        with each(thread, boxes):
            for c, h, e in unroll(range(shape=(g.WIDE // 8, 2, 2))):
                odd: bool = (quad < 2) == (e == 1)  # half of the threads begin with the second column
                even_sum: float = acc[g.WIDE // 2 * q + 4 * c + 2 * h]
                odd_sum: float = acc[g.WIDE // 2 * q + 4 * c + 2 * h + 1]
                boxes[box, place + 8 * h, 8 * c + 2 * quad + int(odd)] = odd_sum if odd else even_sum


@inline
def leave_at_once(g, to, boxes, rank, unit, acc, quad, place, top, side):
    """Put all 64 rows of a warpgroup into boxes, which its warps then send."""
    for q in unroll(range(g.BN // g.WIDE)):
        fill(g, boxes, (rank, unit, q), acc, q, quad, place)
    with each(warp, to, disjoint=to) as v:
        for q in range(v, g.BN // g.WIDE, 4):
            async_copy(to, boxes[rank, unit, q], at=(top, side + g.WIDE * q))


@inline
def leave_box(g, to, boxes, rank, unit, matrix, top, side):
    """Send a box to the result, or to one of several, or add it to the result."""
    if g.BATCH:
        async_copy(to, boxes[rank, unit, 0], at=(matrix, top, side))
    elif g.ADDED:
        async_reduce(to, boxes[rank, unit, 0], at=(top, side), op="add")
    else:
        async_copy(to, boxes[rank, unit, 0], at=(top, side))


@inline
def leave_rows(g, to, wide, top, side, limit, boxes, unit, acc, row, quad):
    """The 64 rows of a warpgroup leave through two boxes in turn; or by threads, row by row, where a box would reach
    beyond row `limit`, to rows that are others'.  row: a thread's first of its warpgroup's; it has columns 2 quad + 8j
    and 2 quad + 8j + 1 of that and of the row 8 further on.
    """
    if top + 64 > limit:
        with each(thread, to, disjoint=to):
            for v in unroll(range(2)):
                if top + row + 8 * v < limit:
                    for j, h in unroll(range(shape=(g.SUMS // 4, 2))):
                        if side + 2 * quad + 8 * j + h < wide:
                            with trust("groups have rows of their own, and a tile is one team's"):
                                to[top + row + 8 * v, side + 2 * quad + 8 * j + h] = g.O(acc[4 * j + 2 * v + h])
    else:
        for q in unroll(range(2 * g.SUMS // g.WIDE)):
            store_acc(boxes[unit, q % 2], acc, first=g.WIDE * q)
            with trust("groups have rows of their own, and a tile is one team's"):
                async_copy(to, boxes[unit, q % 2], at=(top, side + g.WIDE * q))


@functools.cache
def activation_function(name):
    """Make the function that a sum goes through before it is rounded."""

    if name == "relu":

        @device(thread)
        def relu(x: float) -> float:
            return 0.0 if x < 0.0 else x

        return relu
    if name == "gelu":

        @device(thread)
        def gelu(x: float) -> float:
            return 0.5 * x * (1.0 + erf(x * HALF_ROOT))

        return gelu
    if name == "silu":

        @device(thread)
        def silu(x: float) -> float:
            return x / (1.0 + exp(-x))

        return silu
    if name is not None:
        raise KeyError(name)

    @device(thread)
    def same(x: float) -> float:
        return x

    return same


@functools.cache
def handover(SUMS, THREADS, TEAM):
    """Make the functions by which a thread leaves its sums for the thread in its place of another block, which waits
    for them and adds them.
    """
    READ = SUMS if SUMS <= 64 else SUMS // 2  # at a time

    @device(thread)
    def leave(acc: ref(float[SUMS]), parts: ptr(float) @ grid[1], ready: ptr(int) @ grid[1], block: int, me: int):
        for j in unroll(range(SUMS)):
            atomic.store(parts, (block * SUMS + j) * THREADS + me, acc[j])
        atomic.store(ready, block * THREADS + me, 1, order="release")

    @device(thread)
    def collect(
        acc: ref(float[SUMS]),
        parts: ptr(float) @ grid[1],
        ready: ptr(int) @ grid[1],
        first: int,
        end: int,
        rank: int,
        me: int,
    ):
        for team in range(first, end):
            while atomic.load(ready, (team * TEAM + rank) * THREADS + me, order="acquire") == 0:
                pass
            for c in unroll(range(SUMS // READ)):
                at = (team * TEAM + rank) * SUMS + c * READ
                part: float[READ] = [atomic.load(parts, (at + j) * THREADS + me) for j in range(READ)]
                for j in unroll(range(READ)):
                    acc[c * READ + j] += part[j]

    return leave, collect
