"""Build every GEMM kernel of Hopper from common parts: sizes, the order of tiles, loads, the products of a step,
the signature.

Input:      element types, the layouts of operands, sizes of tiles
Output:     `sizes`, the constants of a kernel; inlined functions, which stand written out in the kernels
            (kernels.py, slices.py, splits.py, ragged_kernel.py)
Invariant:  what lies outside of a matrix is read as zero.  f32 is rounded to tf32 while it is loaded
Non-goals:  what a kernel does with its sums, and who adds whose (parts.py)

An operand that lies *along* k, with k along its rows, is loaded as one tile [rows, k]; one that lies across it as
panels [k, columns], each as wide as a swizzled row, 128 bytes: of the last one only a part may be multiplied.
"""

from __future__ import annotations

import functools
import math
from collections import namedtuple

from snap import *
from snap._compiler.ir.types import BF16, F16, F32, Scalar
from snap._compiler.ir.word import Word
from snap.lib._calls.operators import element, scalar
from snap.record import record

KINDS = {BF16: "bf16", F16: "f16", F32: "tf32"}  # as what the tensor cores multiply elements; u8 is told
SHARED = 192 * 1024  # bytes for stages; the rest of a multiprocessor's is for tiles that leave
WITH_TILES = 226 * 1024  # bytes for both
MOST_STAGES = 12


class Work(Word):
    """Name what a team takes at a time: see kernels.py."""

    TILES = "tiles"
    AT_ONCE = "at once"
    DIVIDED = "divided"
    ADDED = "added"
    BATCH = "batch"
    DIVIDED_BATCH = "divided batch"
    GROUPS = "groups"


@record
class Epilogue:
    """Describe what happens to sums before they are rounded.

    bias_type   the element type of a bias, None where there is none
    activation  "relu", "gelu", "silu" or None
    scaled      how sums of 8-bit floats are scaled, a `Scaling` (parts.py), or None
    """

    bias_type: Scalar | None = None
    activation: str | None = None
    scaled: Word | None = None

    @property
    def completes(self) -> bool:
        return self != PLAIN


PLAIN = Epilogue()


def depth_of(type: Scalar) -> int:
    """Return the extent of a stage along k: 128 bytes, a row of a swizzled tile."""
    return 128 // scalar(type).bytes


def layout(type: Scalar, extent: int, along: bool) -> tuple[int, int, int]:
    """Lay out an operand's tile in shared memory: its panels, their rows, and their width."""
    depth = depth_of(type)
    return (1, extent, depth) if along else (-(-extent // depth), depth, depth)


def leaves_in(out_type, columns):
    """Return how many columns of a tile leave at a time: a row of them is swizzled, 128 bytes at most."""
    return math.gcd(columns, 128 // scalar(out_type).bytes)


def room_for_stages(out_type, BM, BN):
    """Bytes for stages, beside two slots in which boxes of a tile of BM x BN leave."""
    return min(SHARED, WITH_TILES - 2 * BM * leaves_in(out_type, BN) * scalar(out_type).bytes)


@functools.cache
def sizes(
    type,
    out_type,
    BM,
    BN,
    A_ALONG,
    B_ALONG,
    epilogue=PLAIN,
    SLICES=1,
    kind=None,
    work=Work.TILES,
    room=SHARED,
    most=MOST_STAGES,
):
    """The constants of a kernel: of tiles of BM x BN, of which each of SLICES blocks finishes OWN columns.  kind: of
    floats of 8 bits; work: see kernels.py; room: bytes for at most so many stages.
    """
    E, O, V, TF32 = element(type), element(out_type), element(epilogue.bias_type or type), type == F32
    KIND = kind or KINDS[type]
    (A_PANELS, A_ROWS, DEPTH), (B_PANELS, B_ROWS, DEPTH) = layout(type, BM, A_ALONG), layout(type, BN, B_ALONG)
    STAGE = (BM + B_PANELS * B_ROWS) * DEPTH * scalar(type).bytes  # bytes
    STAGES = min(most, room // STAGE)
    CONSUMERS, C_THREADS, T = BM // 64, 2 * BM, 2 * BM + 128  # warpgroups that multiply, their threads, and all
    OWN, SUMS, FEW = BN // SLICES, BN // 2, BN // 2 // SLICES  # sums of a thread, and of the columns that it finishes
    WIDE = leaves_in(out_type, OWN)
    C_SWIZZLE, BIASED = WIDE * scalar(out_type).bytes, epilogue.bias_type is not None
    BATCH, GROUPED = work in (Work.BATCH, Work.DIVIDED_BATCH), work == Work.GROUPS
    DIVIDED, ADDED, AT_ONCE = work in (Work.DIVIDED, Work.DIVIDED_BATCH), work == Work.ADDED, work == Work.AT_ONCE
    PIECES = 2 if DIVIDED else 0  # of divided tiles, for each team
    OF_A, OF_B = A_PANELS if BATCH else 0, B_PANELS if BATCH or GROUPED else 0  # panels of one of several matrices
    fields = locals()
    return namedtuple("Sizes", fields)(**fields)


def slots_for_boxes(g):
    """Slots in which boxes of a tile leave: for all of them where stages leave room, and two at least."""
    return max(min(g.BN // g.WIDE, (WITH_TILES - g.STAGES * g.STAGE) // (g.BM * g.C_SWIZZLE)), 2)


# ---- which tile -----------------------------------------------------------------------------------------------------


# Tiles are taken in bands of BAND tiles' height, down one column of the band and then the next, so that what runs at
# the same time reads few rows and columns.
@inline
def in_bands(t, down, across, BAND):
    """Return the row and the column of tile t, counted in tiles."""
    band, within = t / (BAND * across), t % (BAND * across)
    height = min(BAND, down - band * BAND)
    return band * BAND + within % height, within / height


# ---- operands -------------------------------------------------------------------------------------------------------


@inline
def load_tile(g, to, array, ALONG, at, k, matrix=0, PANELS=0):
    """Load the tile of an operand from k and from row, or column, `at` on. PANELS: of a tile of one of several
    matrices, `matrix`; 0 if the array is one matrix.
    """
    if PANELS > 0 and ALONG:
        async_copy(to, array, at=(matrix, at, k))
    elif PANELS > 0:
        for p in unroll(range(PANELS)):
            async_copy(to[p], array, at=(matrix, k, at + p * g.DEPTH))
    elif g.TF32:
        async_copy(to, array, at=(at, k) if ALONG else (k, at), type="tf32")
    else:
        async_copy(to, array, at=(at, k) if ALONG else (k, at))


@inline
def load_b(g, to, B, n0, k, matrix):
    load_tile(g, to, B, g.B_ALONG, n0, k, matrix, g.OF_B)


@inline
def steps(g, load, load_b, A_slots, B_slots, A, B, first, last, m0, n0, which=0):
    """Go through the steps of k of a tile, with the stages that hold its operands. load: the role that loads them;
    load_b(g, to, B, n0, k, which): how B is loaded.
    """
    for k in range(first, last):
        at = k * g.DEPTH  # for the whole cluster, whose blocks load together
        with stage(A_slots) as a, stage(B_slots) as b:
            with load(a, b):
                load_tile(g, a, A, g.A_ALONG, m0, at, which, g.OF_A)
                load_b(g, b, B, n0, at, which)
            yield k, a, b


@inline
def multiply_columns(g, acc, a, b, w, k, first, COLUMNS):
    """Add the product of two tiles to the sums of warpgroup w: its 64 rows of `a` times the first columns of `b`. The
    sums begin with step `first`.
    """
    if g.A_ALONG and g.B_ALONG:
        wgmma(acc, tile(a, (0, 64 * w, 0), (1, 64, g.DEPTH)), b, zero=(k == first), type=g.KIND, columns=COLUMNS)
    elif g.A_ALONG:
        wgmma(acc, tile(a, (0, 64 * w, 0), (1, 64, g.DEPTH)), b.T, zero=(k == first), type=g.KIND, columns=COLUMNS)
    elif g.B_ALONG:
        wgmma(acc, a[w].T, b, zero=(k == first), type=g.KIND, columns=COLUMNS)
    else:
        wgmma(acc, a[w].T, b.T, zero=(k == first), type=g.KIND, columns=COLUMNS)


@inline
def multiply(g, acc, a, b, w, k, first):
    """Do the same with all columns of `b`."""
    multiply_columns(g, acc, a, b, w, k, first, g.BN)


# ---- slices of k ----------------------------------------------------------------------------------------------------


@inline
def multiplied(g, compute, load, load_b, acc, A, B, m0, n0, begin, end, which, w):
    """Multiply the tiles of a block's steps."""
    A_slots: pipeline(shared(g.E[g.A_PANELS, g.A_ROWS, g.DEPTH], swizzle=128), g.STAGES)
    B_slots: pipeline(shared(g.E[g.B_PANELS, g.B_ROWS, g.DEPTH], swizzle=128), g.STAGES)
    for k, a, b in steps(g, load, load_b, A_slots, B_slots, A, B, begin, end, m0, n0, which):
        with compute(a, b), each(warpgroup):
            multiply(g, acc, a, b, w, k, begin)


def of_matrices(g, body, where, CLUSTER=1, cooperative=False):
    """The kernel of two matrices that runs `body`.  room, met: sums and numbers that blocks leave for each other; any
    arrays stand for them where they do not.
    """

    @kernel(threads=g.T, cluster=CLUSTER, cooperative=cooperative, where=where)
    def gemm(
        A: ptr(const(g.E), (A0, A1)),
        B: ptr(const(g.E), (B0, B1)),
        C: ptr(g.O, (M, C1)),
        bias: ptr(const(g.V)),
        A0: int,
        A1: int,
        B0: int,
        B1: int,
        C1: int,
        M: int,
        N: int,
        K: int,
        room: ptr(float),
        met: ptr(int),
    ):
        body(A, B, C, bias, M, N, K, room, met)

    return gemm


def of_slices(g, body, HIGH, WIDE, SLICES, ROOM, cooperative=False):
    """The kernel that runs `body`: SLICES blocks share each tile of HIGH rows and WIDE columns, and each leaves ROOM
    sums for others.  The blocks are a cluster, or lie anywhere and all run at the same time.
    """
    BIASED, THREADS = g.BIASED, g.C_THREADS
    where = lambda bias, room, met, M, N, K, C1, blocks: (  # noqa: E731
        1 <= M <= 2**30,
        1 <= N <= min(C1, 2**30),
        1 <= K <= 2**30,
        not BIASED or len(bias) >= N,
        blocks == SLICES * ((M + HIGH - 1) // HIGH) * ((N + WIDE - 1) // WIDE),
        ROOM == 0 or blocks * ROOM <= min(len(room), 2**30),
        not cooperative or blocks // SLICES * THREADS <= len(met),
    )
    return of_matrices(g, body, where, 1 if cooperative else SLICES, cooperative)
