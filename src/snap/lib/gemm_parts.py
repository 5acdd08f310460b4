"""What the GEMM kernels of Hopper have in common: how operands lie in shared memory, how they are loaded and
multiplied, what happens to sums, how blocks hand them to each other, and which group of rows a tile belongs to.

Input:      element types, the layouts of operands, sizes of tiles
Output:     device functions, which kernels (gemm_kernels.py, gemm_slices.py) call
Invariant:  what lies outside of a matrix is read as zero.  f32 is rounded to tf32 while it is loaded
Non-goals:  which team computes which tile

An operand that lies *along* k, with k along its rows, is loaded as one tile [rows, k]; one that lies across it as
panels [k, columns], each as wide as a swizzled row, 128 bytes: of the last one only a part may be multiplied.
"""

from __future__ import annotations

import functools
import math

from snap import *
from snap.ir.types import BF16, F16, F32, U8, Scalar
from snap.lib.operators import element, scalar

ACTIVATIONS = (None, "relu", "gelu", "silu")
HALF_ROOT = math.sqrt(0.5)
KINDS = {BF16: "bf16", F16: "f16", F32: "tf32"}  # as what the tensor cores multiply elements; u8 is told


def depth_of(type: Scalar) -> int:
    """Of k in a stage: 128 bytes, a row of a swizzled tile."""
    return 128 // scalar(type).bytes


def layout(type: Scalar, extent: int, along: bool) -> tuple[int, int, int]:
    """Of a tile of an operand in shared memory: panels, their rows, and how wide they are."""
    depth = depth_of(type)
    return (1, extent, depth) if along else (-(-extent // depth), depth, depth)


# ---- which tile -----------------------------------------------------------------------------------------------------


@functools.cache
def grouping(BM):
    """tiles_of_groups(ends, groups, rows of all, across): how many tiles there are, BM rows high, of groups of rows
    that end there.  group_of(t, ..., group, passed, top, rows): the group of tile t, which is this one or a later one:
    its number, the tiles of those before it, its first row, and how many it has.
    """

    @device(cluster)
    def tiles_of_groups(ends: ptr(const(int)) @ grid[1], groups: int, M: int, across: int) -> int:
        tiles, covered = 0, 0
        for g in range(groups):
            tiles += (max(min(int(ends[g]), M) - covered, 0) + BM - 1) / BM * across
            covered = max(covered, min(int(ends[g]), M))
        return tiles

    @device(cluster)
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
        while t >= passed + (rows + BM - 1) / BM * across:
            passed += (rows + BM - 1) / BM * across
            group, top = group + 1, top + rows
            rows = max(min(int(ends[group]), M) - top, 0)
        return int4(group, passed, top, rows)

    return tiles_of_groups, group_of


# ---- operands -------------------------------------------------------------------------------------------------------


@functools.cache
def loading(type, EXTENT, ALONG, STEP, LATER=0, PLACED=False):
    """load(to, array, its extents, k, at, place): the tile of an operand from k * STEP + LATER and row, or column, `at`
    on.  PLACED: the array is several matrices, of which `place` is meant.
    """
    E, (PANELS, ROWS, WIDE), ROUNDED = element(type), layout(type, EXTENT, ALONG), type == F32

    @device(thread[128])
    def load(
        to: ptr(shared(E), (PANELS, ROWS, WIDE)),
        array: ptr(const(E), (places, high, wide) if PLACED else (high, wide)) @ grid[1],
        places: int @ grid[1],
        high: int @ grid[1],
        wide: int @ grid[1],
        k: int,
        at: int,
        place: int,
    ):
        if PLACED and ALONG:
            async_copy(to, array, at=(place, at, k * STEP + LATER))
        elif PLACED:
            for p in unroll(range(PANELS)):
                async_copy(to[p], array, at=(place, k * STEP + LATER, at + p * WIDE))
        elif ALONG and ROUNDED:
            async_copy(to, array, at=(at, k * STEP + LATER), type="tf32")
        elif ALONG:
            async_copy(to, array, at=(at, k * STEP + LATER))
        elif ROUNDED:
            async_copy(to, array, at=(k * STEP + LATER, at), type="tf32")
        else:
            async_copy(to, array, at=(k * STEP + LATER, at))

    return load


@functools.cache
def multiplying(type, BM, A_ALONG, BN, B_ALONG, kind=None):
    """multiply(acc, a, b, w, k, first): what warpgroup w has of the product of two tiles, its 64 rows of `a` times `b`,
    is added to its sums, which begin with step `first`.  kind: of floats of 8 bits, that of `a` and `b`.
    """
    E, DEPTH, SUMS, KIND = element(type), depth_of(type), BN // 2, kind or KINDS[type]
    (AP, AR, AW), (BP, BR, BW) = layout(type, BM, A_ALONG), layout(type, BN, B_ALONG)

    @device(warpgroup)
    def multiply(
        acc: ref(float[SUMS]),
        a: ptr(const(shared(E)), (AP, AR, AW)),
        b: ptr(const(shared(E)), (BP, BR, BW)),
        w: int,
        k: int,
        first: int,
    ):
        if A_ALONG and B_ALONG:
            wgmma(acc, tile(a, (0, 64 * w, 0), (1, 64, DEPTH)), b, zero=(k == first), type=KIND)
        elif A_ALONG:
            wgmma(acc, tile(a, (0, 64 * w, 0), (1, 64, DEPTH)), b.T, zero=(k == first), type=KIND)
        elif B_ALONG:
            wgmma(acc, a[w].T, b, zero=(k == first), type=KIND)
        else:
            wgmma(acc, a[w].T, b.T, zero=(k == first), type=KIND)

    return multiply


@functools.cache
def clearing(type, PANELS, HIGH, THREADS):
    """clear(tile, rows, me): of the panels of a tile that lies across k, what follows so many rows is set to zero."""
    E, WIDE = element(type), depth_of(type)

    @device(thread[THREADS])
    def clear(to: ptr(shared(E), (PANELS, HIGH, WIDE)), rows: int, me: int @ thread[1]):
        with each(thread, to, disjoint=to):
            for i in range(me, HIGH * WIDE, THREADS):
                if i >= rows * WIDE:
                    for p in unroll(range(PANELS)):
                        to[p, i / WIDE, i % WIDE] = E(0)

    return clear


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


@functools.cache
def fragments(DEPTH, PANELS):
    """f(x, a, panel, quad, place): what a thread has of its warpgroup's 64 columns of a tile of f32 that lies across
    k."""

    @device(thread)
    def fragment(
        x: ref(float[DEPTH // 2]),
        a: ptr(const(shared(float)), (PANELS, DEPTH, DEPTH)),
        panel: int,
        quad: int,
        place: int,
    ):
        for s in unroll(range(DEPTH // 8)):
            for e in unroll(range(4)):
                x[4 * s + e] = a[panel, 8 * s + e / 2 * 4 + quad, place ^ e % 2 * 4]

    return fragment


# ---- sums -----------------------------------------------------------------------------------------------------------


@functools.cache
def scaling(SUMS, type, scaled):
    """scale(acc, scales of a, scales of b, row, rows, pair, columns): sums of floats of 8 bits times what these stand
    for.  scaled: "tensor", one number for each matrix, or "rows", one for each row of `a` and each column of `b`.
    """
    F, WHOLE = element(F32 if scaled else type), scaled == "tensor"

    @device(thread)
    def scale(
        acc: ref(float[SUMS]),
        of_a: ptr(const(F)) @ grid[1],
        of_b: ptr(const(F)) @ grid[1],
        row: int,
        rows: int @ grid[1],
        pair: int,
        columns: int @ grid[1],
    ):
        high: float[2]
        for v in unroll(range(2)):
            high[v] = 0.0
            if WHOLE:
                high[v] = float(of_a[0]) * float(of_b[0])
            elif row + 8 * v < rows:
                high[v] = float(of_a[row + 8 * v])
        for j in unroll(range(SUMS // 4)):
            for h in unroll(range(2)):
                factor: float = 1.0
                if not WHOLE:  # of a column that is not there any: so nothing waits for a comparison
                    factor = float(of_b[min(pair + 8 * j + h, columns - 1)])
                for v in unroll(range(2)):
                    acc[4 * j + 2 * v + h] = acc[4 * j + 2 * v + h] * high[v] * factor

    return scale


@functools.cache
def finishing(SUMS, COLUMNS, type, bias_type, activation):
    """finish(acc, bias, first, columns): the bias of columns `first` and so on is added to the first sums of a warp's
    threads, those of COLUMNS columns, and they go through the activation.  Lane 4r + q has columns 8j + 2q and
    8j + 2q + 1 of two rows.  It loads the numbers of every eighth j, from r on, and gets the others from the lanes that
    loaded them: beside the sums there are no registers for all of them, and a thread that loads them one after the
    other waits for memory again and again.
    """
    V, BIASED, active = element(bias_type or type), bias_type is not None, activation_function(activation)
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
def completing(SUMS, COLUMNS, type, scaled, bias_type, activation):
    """complete(acc, scales of a, scales of b, bias, row, rows, first, columns): a warp's sums are scaled, where there
    are scales, and finished.
    """
    F, V, SCALED = element(F32 if scaled else type), element(bias_type or type), scaled is not None
    FINISHED = bias_type is not None or activation is not None
    scale, finish = scaling(SUMS, type, scaled), finishing(SUMS, COLUMNS, type, bias_type, activation)

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
            with each(thread) as lane:
                scale(acc, of_a, of_b, row, rows, first + lane % 4 * 2, columns)
        if FINISHED:
            finish(acc, bias, first, columns)

    return complete


@functools.cache
def leaving(type, out_type, SUMS, HIGH, WIDE, TURNED=False, ADDED=False, PLACED=False):
    """leave(to, its extents, top, side, box, acc, q, quad, place, matrix): sums of columns WIDE * q and so on leave
    through a box in shared memory, that of a unit of threads that has HIGH rows, from row `top` and column `side` on.
    They are stored, or added to what is there.  What was
    multiplied as f32 goes without `store_acc`, so that threads which write together meet in no bank: a thread has row
    `place` and that 8 further on or, TURNED, column `place` and `place ^ 4`.  PLACED: `to` is several matrices, of
    which `matrix` is meant.
    """
    O, UNIT, TF32 = element(out_type), thread[2 * HIGH], type == F32
    DOWN, RIGHT = (WIDE, 0) if TURNED else (0, WIDE)

    @device(UNIT)
    def leave(
        to: ptr(O, (places, high, wide) if PLACED else (high, wide)),
        places: int @ grid[1],
        high: int @ grid[1],
        wide: int @ grid[1],
        top: int,
        side: int,
        box: ptr(shared(O), (HIGH, WIDE)),
        acc: ref(float[SUMS]),
        q: int,
        quad: int @ thread[1],
        place: int @ thread[1],
        matrix: int,
    ):
        if not TF32:
            store_acc(box, acc, first=WIDE * q)
        elif TURNED:
            with each(thread, box):
                for g in unroll(range(WIDE // 8)):
                    for h in unroll(range(2)):
                        for e in unroll(range(2)):
                            box[8 * g + 2 * quad + e, place ^ 4 * h] = acc[WIDE // 2 * q + 4 * g + 2 * h + e]
        else:
            with each(thread, box):
                for g in unroll(range(WIDE // 8)):
                    for h in unroll(range(2)):
                        for e in unroll(range(2)):
                            odd: bool = (quad < 2) == (e == 1)  # half of the threads begin with the second column
                            even_sum: float = acc[WIDE // 2 * q + 4 * g + 2 * h]
                            odd_sum: float = acc[WIDE // 2 * q + 4 * g + 2 * h + 1]
                            box[place + 8 * h, 8 * g + 2 * quad + int(odd)] = odd_sum if odd else even_sum
        if PLACED:
            async_copy(to, box, at=(matrix, top + DOWN * q, side + RIGHT * q))
        elif ADDED:
            async_reduce(to, box, at=(top + DOWN * q, side + RIGHT * q), op="add")
        else:
            async_copy(to, box, at=(top + DOWN * q, side + RIGHT * q))

    return leave


@functools.cache
def leaving_rows(out_type, SUMS, WIDE):
    """leave(to, its extents, top, side, limit, boxes, acc, row, quad): the 64 rows of a warpgroup, through two
    boxes in turn; or by threads, row by row, where a box would reach beyond row `limit`, to rows that are others'.
    row: a thread's first of its warpgroup's; it has columns 2 quad + 8j and 2 quad + 8j + 1 of that and of the row 8
    further on.
    """
    O = element(out_type)

    @device(warpgroup)
    def leave(
        to: ptr(O, (high, wide)),
        high: int @ grid[1],
        wide: int @ grid[1],
        top: int,
        side: int,
        limit: int,
        boxes: ptr(shared(O), (2, 64, WIDE)),
        acc: ref(float[SUMS]),
        row: int @ thread[1],
        quad: int @ thread[1],
    ):
        if top + 64 > limit:
            with each(thread, to, disjoint=to):
                for v in unroll(range(2)):
                    if top + row + 8 * v < limit:
                        for j, h in unroll(range(shape=(SUMS // 4, 2))):
                            if side + 2 * quad + 8 * j + h < wide:
                                to[top + row + 8 * v, side + 2 * quad + 8 * j + h] = O(acc[4 * j + 2 * v + h])
        else:
            for q in unroll(range(2 * SUMS // WIDE)):
                store_acc(boxes[q % 2], acc, first=WIDE * q)
                async_copy(to, boxes[q % 2], at=(top, side + WIDE * q))

    return leave


@functools.cache
def activation_function(name):
    """What happens to a sum before it is rounded."""

    @device(thread)
    def same(x: float) -> float:
        return x

    @device(thread)
    def relu(x: float) -> float:
        return 0.0 if x < 0.0 else x

    @device(thread)
    def gelu(x: float) -> float:
        return 0.5 * x * (1.0 + erf(x * HALF_ROOT))

    @device(thread)
    def silu(x: float) -> float:
        return x / (1.0 + exp(-x))

    return dict(zip(ACTIVATIONS, (same, relu, gelu, silu)))[name]


@functools.cache
def handover(SUMS, THREADS, TEAM):
    """How a thread leaves its sums for the thread in its place of another block, which waits for them and adds them."""
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
