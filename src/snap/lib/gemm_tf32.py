"""`snap.lib.gemm_tf32`: a product of f32 matrices on the tensor cores, which multiply with 10 bits after the point (tf32) and add in f32.

Input:      a of M x K, b of K x N, both f32
Output:     a @ b of M x N
Invariant:  the kernels read both operands in boxes: rows of whole 16 bytes, what lies outside of a matrix is read as zero and not written
Non-goals:  other GPUs than Hopper's

The instruction takes tiles that lie along k only.  So does b if it is the transpose of a row-major matrix (`w.T`): the kernels below are for that.
A row-major b goes through registers (gemm_tf32_rows.py).
"""

from __future__ import annotations

import functools

from snap import *
from snap.lib.arrays import Argument
from snap.lib.gemm_tf32_rows import EFFORT, WIDTH, tf32_rows_pairs, tf32_rows_slices
from snap.lib.sgemm import matrix, product_shape, row_major
from snap.lib.transposition import transpose
from snap.runtime.arrays import classify

DEPTH = 32  # of k in a stage: 128 bytes, a row of a swizzled tile
HEIGHT = 128  # rows of a tile: two warpgroups that multiply
WIDTHS = {256: 4, 192: 4, 128: 5}  # columns of a tile: stages that fit
BAND = 16  # tiles are taken in bands of so many rows of them, column by column: blocks that run together share rows and columns
TILE_COST = 8  # what a tile takes besides its products, in columns
LEAST_STEPS = 4  # that a slice of K is worth


def gemm_tf32(a, b):
    """`a @ b` for f32 matrices, multiplied as tf32."""
    left, right = matrix("gemm_tf32", "a", a), matrix("gemm_tf32", "b", b)
    rows, columns = product_shape("gemm_tf32", left, right)
    depth = left.shape[1]
    if rows * columns * depth == 0:
        return left.new((rows, columns), zero=True)
    blocks, along = left.multiprocessors(), flipped(right)
    lies_along = along.info.contiguous
    size, slices = tiling(rows, columns, depth, blocks) if lies_along else tiling(columns, rows, depth, blocks, EFFORT)
    A, B = in_boxes(in_rows(left)).array, in_boxes(along if lies_along else in_rows(right)).array
    C = left.new((rows, -(-columns // 4) * 4), zero=slices > 1)
    down, across = (-(-rows // HEIGHT), -(-columns // size)) if lies_along else (-(-columns // WIDTH), -(-rows // size))
    extents = (rows, columns, C.shape[1], A.shape[1]) if lies_along else (rows, columns, depth, A.shape[1], B.shape[1], C.shape[1])
    if slices == 1 and down > 1 and blocks > 1:
        pairs = tf32_pairs if lies_along else tf32_rows_pairs
        pairs(size)[2 * min(-(-down // 2) * across, blocks // 2)](A, B, C, *extents)
    else:
        pieces = tf32_slices if lies_along else tf32_rows_slices
        pieces(size, slices == 1)[min(down * across * slices, blocks)](A, B, C, *extents, slices)
    return C if C.shape[1] == columns else row_major(cut(left, C, columns)).array


def tiling(rows: int, columns: int, depth: int, blocks: int, effort: dict[int, int] | None = None) -> tuple[int, int]:
    """Columns of a tile, and into how many slices K is cut where tiles alone would leave multiprocessors without work.  Tiles
    that are computed turned round have so many rows.  effort: the columns that tiles of each width take the time of."""
    down, steps = -(-rows // HEIGHT), -(-depth // DEPTH)

    def slices(width: int) -> int:
        return max(1, min(blocks // (down * -(-columns // width)), steps // LEAST_STEPS))

    def cost(width: int) -> float:
        pieces = down * -(-columns // width) * slices(width)
        return -(-pieces // blocks) * (-(-steps // slices(width)) * (effort or {}).get(width, width) + TILE_COST * steps / slices(width))

    width = min(WIDTHS, key=cost)
    return width, slices(width)


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
    room = given.new((rows, -(-columns // 4) * 4), zero=True)
    if given.info.family == "torch":
        room[:, :columns].copy_(given.array.detach())
    else:
        room[:, :columns] = given.array
    return Argument(room, classify(room), given.type)


def cut(like: Argument, array: object, columns: int) -> Argument:
    return Argument(array[:, :columns], classify(array[:, :columns]), like.type)


@functools.cache
def tf32_slices(BN, WRITE, GROUP=BAND):
    """C = A @ B.T.  A block takes pieces t, t + blocks, ... of the work; a piece is a tile of C and one of `slices` parts of K.

    WRITE: there is one slice.  Without it pieces are added to what is in C, by the units that copy boxes.
    """
    STAGES, BM, T, C_THREADS = WIDTHS[BN], HEIGHT, 384, 256

    @kernel
    @requires(grid[1], block[1], thread[T])
    def gemm_tf32(A: ptr(const(float), (M, K)) @ grid[1], B: ptr(const(float), (N, K)) @ grid[1], C: ptr(float, (M, room)) @ grid[1],
                  M: int @ grid[1], N: int @ grid[1], room: int @ grid[1], K: int @ grid[1], slices: int @ grid[1]):
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
                    C_slots: pipeline(shared(float[2, 64, DEPTH], swizzle=128), 2)
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
                        band: int = place / (GROUP * across)
                        within: int = place % (GROUP * across)
                        height: int = min(GROUP, down - band * GROUP)
                        m0: int = (band * GROUP + within % height) * BM
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


@functools.cache
def tf32_pairs(BN, GROUP=BAND // 2):
    """C = A @ B.T, by pairs of blocks whose tiles lie one above the other: each loads half of B's tile for both."""
    STAGES, BM, T, C_THREADS = WIDTHS[BN], HEIGHT, 384, 256

    @kernel
    @requires(grid[1], cluster[1], block[2], thread[T])
    def gemm_tf32(A: ptr(const(float), (M, K)) @ grid[1], B: ptr(const(float), (N, K)) @ grid[1], C: ptr(float, (M, room)) @ grid[1],
                  M: int @ grid[1], N: int @ grid[1], room: int @ grid[1], K: int @ grid[1]):
        with group(grid[1]):
            c0: int @ cluster[1] = id()
            clusters: int = count(cluster[1])
            down: int = (M + 2 * BM - 1) / (2 * BM)
            across: int = (N + BN - 1) / BN
            with partition(C, p=cluster[1], f=lambda i, j: (i, j), disjoint=True) as C_cluster:
                with group(cluster[1]):
                    A_slots: pipeline(shared(float[BM, DEPTH], swizzle=128, across=block), STAGES)
                    B_slots: pipeline(shared(float[BN, DEPTH], swizzle=128, copies=block), STAGES)
                    C_slots: pipeline(shared(float[2, 64, DEPTH], swizzle=128, across=block), 2)
                    r: int @ block[1] = id()
                    w: int @ warpgroup = id() % 3
                    acc: float[BN // 2] @ thread[1]
                    match split(thread, C_THREADS, 128):
                        case 0:
                            intrinsic.setmaxnreg(240)
                        case 1:
                            intrinsic.setmaxnreg(24)
                    for t in range(c0, down * across, clusters):
                        band: int = t / (GROUP * across)
                        within: int = t % (GROUP * across)
                        height: int = min(GROUP, down - band * GROUP)
                        m0: int @ block[1] = (band * GROUP + within % height) * (2 * BM) + r * BM
                        n0: int = within / height * BN
                        for k in range((K + DEPTH - 1) / DEPTH):
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
                                                wgmma(acc, tile(ac, (64 * w, 0), (64, DEPTH)), bc, zero=(k == 0))
                                        case 1:
                                            pass
                        with partition(C_cluster, p=warpgroup, f=lambda i, j: (m0 + 64 * w + i, n0 + j), disjoint=True) as C_own:
                            for q in unroll(range(BN // DEPTH)):
                                with stage(C_slots) as c:
                                    with partition(c, p=warpgroup, f=lambda i, j: (r, w, i, j)) as own:
                                        match split(thread, C_THREADS, 128):
                                            case 0:
                                                with group(warpgroup):
                                                    store_acc(own, acc, first=DEPTH * q)
                                                    async_copy(C_own, own, at=(0, DEPTH * q))
                                            case 1:
                                                pass

    return gemm_tf32
