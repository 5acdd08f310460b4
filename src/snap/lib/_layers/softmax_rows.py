"""`snap.lib.softmax`: exp(x - max) / sum of each row, the last axis of an array.

Input:      an array of floats
Output:     an array like it
Invariant:  a row that fits in the registers of its team is read once and written once; a longer one is read twice.
            Sums are f32, or f64 for f64
Non-goals:  other axes; masks
"""

from __future__ import annotations

import functools
import math
import sys

from snap import *
from snap._compiler.ir.hardware import WARP
from snap._compiler.ir.types import F32, F64
from snap.host.errors import LaunchError
from snap.lib._calls.arrays import FLOATS, argument, check_sides, told
from snap.lib._calls.operators import element, word
from snap.lib._calls.public_types import ArrayT, DType
from snap.lib._calls.recorded import launch, recorded
from snap.lib._calls.renamed import renamed, warn_of
from snap.lib._parallel.teams import most_blocks, team
from snap.surface import TypeName

LOG2E = math.log2(math.e)
LOWEST = {
    F32: -(2.0 - 2.0**-23) * 2.0**127,
    F64: -sys.float_info.max,
}  # no finite value is below, and its difference to -inf is -inf
# Words a lane where a warp takes a row; registers a thread holds elements in where a block does.
WARP_WORDS, BLOCK_REGISTERS = 4, 32
WARP_THREADS = 128  # threads a block where a warp, or some of its lanes, take a row


@recorded
@renamed(type="dtype")
def softmax(x: ArrayT, dim: int = -1, dtype: DType | None = None) -> ArrayT:
    """Compute the softmax of each row.  `dim`, as in torch, is the last axis and no other."""
    if isinstance(dim, (str, type, TypeName)):  # the second argument was the type once
        warn_of("snap.lib.softmax(x, type)", "snap.lib.softmax(x, dtype=...)")
        return softmax(x, dtype=dim)
    given = argument("softmax", "x", x, FLOATS, dtype=dtype, rows=True)
    if isinstance(dim, bool) or dim not in (-1, max(0, len(given.shape) - 1)):
        problem = f"is the last axis, -1, not {told(dim)}: move the axis there first, `x.movedim({told(dim)}, -1)`"
        raise LaunchError("snap.lib.softmax", problem, "dim")
    check_sides("softmax", "x", given)
    out = given.new(given.shape)
    if given.size == 0:
        return out
    length = given.shape[-1] if given.shape else 1
    rows = given.size // length
    inside = F64 if given.type == F64 else F32
    width = given.width(length)
    words = length // width
    if words <= WARP * WARP_WORDS:
        # Two words a lane are faster than twice the lanes.
        lanes = min(32, next_power(words if words <= 8 else -(-words // 2)))
        run = softmax_by_warps(given.type, inside, width, next_power(-(-words // lanes)), lanes)
        launch(run, -(-rows * lanes // WARP_THREADS), given.array, out, rows, length)
        return out
    width = given.width()
    ragged = length % width != 0
    words = length // width + (2 if ragged else 0)  # at most
    for blocks, threads in (
        (1, 64),
        (1, 128),
        (1, 256),
        (1, 512),
        *((blocks, 512) for blocks in clusters(given, rows, ragged)),
    ):
        per_thread = -(-words // (blocks * threads))  # 1,024 threads would have too few registers each
        if per_thread * width * inside.bytes <= 4 * BLOCK_REGISTERS:
            run = softmax_by_blocks(given.type, inside, width, per_thread, threads, ragged, blocks)
            launch(run, rows * blocks, given.array, out, rows, length)
            return out
    launch(softmax_of_long_rows(given.type, inside, width), rows, given.array, out, rows, length)
    return out


def clusters(given, rows: int, ragged: bool) -> tuple[int, ...]:
    """List how many blocks may share a row that one block cannot hold. Blocks of large clusters wait long for one
    another. If there are rows for all SMs, going through them twice is faster, and so it is if words hold elements of
    two rows.
    """
    if most_blocks(given) == 1 or ragged:
        return ()
    return (most_blocks(given),) if rows * most_blocks(given) <= 2 * given.multiprocessors() else (2,)


def next_power(count: int) -> int:
    return 1 << (count - 1).bit_length()


@functools.cache
def power(inside):
    """2 to the power of a value; f32's approximate form is exact to 2 units in the last place."""
    return _power_f32() if inside == F32 else _power_f64()


def _power_f32():
    @device(thread)
    def power(x: float) -> float:
        return fast.exp2(x)

    return power


def _power_f64():
    @device(thread)
    def power(x: f64) -> f64:
        return exp2(x)

    return power


# Words beyond a row count as -inf, which adds nothing; a row of nothing but -inf is 0/0, as in torch.


@functools.cache
def softmax_by_warps(type, inside, WIDTH, K, L=32, T=WARP_THREADS):
    """L lanes of a warp take a row, K words each.  Rows beyond the last are computed from nothing, and not written."""
    E, A, W, low, nothing = element(type), element(inside), word(type, WIDTH), LOWEST[inside], -math.inf
    STEPS = L.bit_length() - 1
    power_of_two = power(inside)

    @kernel(threads=T, where=lambda x, out, M, N: (M >= 0, N >= 0, N % WIDTH == 0, len(x) >= M * N, len(out) >= M * N))
    def softmax(x: ptr(const(E)), out: ptr(E), M: int, N: int):
        row: int @ thread[L] = id()
        words: int = N / WIDTH
        with each(warp, out.view(W), disjoint=out):
            l: int @ thread[1] = id() % L
            first, there = i64(row) * words, words if row < M else 0
            raw, v, top, total = registers(E[K, WIDTH], A[K, WIDTH], A(low), A(0))
            with each(thread):
                for k in unroll(range(K)):
                    if k * L + l < there:
                        raw.view(W)[k, 0] = x.view(W)[first + (k * L + l)]
                for k, i in unroll(range(shape=(K, WIDTH))):
                    v[k, i] = A(raw[k, i]) if k * L + l < there else A(nothing)
                    top = max(top, v[k, i])
            for s in unroll(range(STEPS)):
                top = max(top, intrinsic.shfl_xor(top, L >> (s + 1)))
            for k, i in unroll(range(shape=(K, WIDTH))):
                v[k, i] = power_of_two((v[k, i] - top) * A(LOG2E))
                total += v[k, i]
            for s in unroll(range(STEPS)):
                total += intrinsic.shfl_xor(total, L >> (s + 1))
            scale: A @ thread[1] = A(1) / total
            raw = [[E(v[k, i] * scale) for i in range(WIDTH)] for k in range(K)]
            with each(thread, out, disjoint=out):
                for k in unroll(range(K)):
                    if k * L + l < there:
                        out[first + (k * L + l)] = raw.view(W)[k, 0]

    return softmax


# Where a row has more than a warp, each thread takes exponentials against its own maximum, as soon as its elements are
# there; the team then agrees on one maximum, and every thread scales by how far its own was below it.
@functools.cache
def agreement(inside, T, C=1):
    """f(top, total) -> the scale of this thread's exponentials: its own maximum and sum against those of its team, C
    blocks of T threads.
    """
    A, WARPS, low, held = element(inside), T // WARP, LOWEST[inside], team(C, T)
    power_of_two = power(inside)

    @device(block, thread[T])
    def of_block(both: ref(A[2])):
        tops, totals = shared(A[WARPS]), shared(A[WARPS])
        with each(warp, tops, totals) as w:
            highest: A = intrinsic.reduce_max(both[0])
            scaled: A @ thread[1] = power_of_two((both[0] - highest) * A(LOG2E))
            sum: A = intrinsic.reduce_add(both[1] * scaled)
            with one(thread, tops, totals):
                tops[w], totals[w] = highest, sum
        both[0], both[1] = A(low), A(0)
        for k in unroll(range(WARPS)):
            both[0] = max(both[0], tops[k])
        for k in unroll(range(WARPS)):
            both[1] += totals[k] * power_of_two((tops[k] - both[0]) * A(LOG2E))

    @device(*held)
    def agree(top: A @ thread[1], total: A @ thread[1]) -> A @ thread[1]:
        both: A[2] @ thread[1] = [top, total]
        of_block(both)
        if C > 1:
            of_blocks: shared(A[2], across=block)
            with each(block, of_blocks), one(thread, of_blocks):
                of_blocks[0], of_blocks[1] = both[0], both[1]
            for k in unroll(range(C)):
                both[0] = max(both[0], of_blocks[k, 0])
            both[1] = A(0)
            for k in unroll(range(C)):
                both[1] += of_blocks[k, 1] * power_of_two((of_blocks[k, 0] - both[0]) * A(LOG2E))
        return power_of_two((top - both[0]) * A(LOG2E)) / both[1]

    return agree


# Rows of any length are read in whole words where the array begins at one.  RAGGED rows begin `lead` elements inside a
# word, and end inside one: such words hold elements of two rows.  Elements of the other row count as -inf and are not
# written; only at the array's end is a word not whole. A row that one block cannot hold is held by a cluster of C.


@functools.cache
def softmax_by_blocks(type, inside, WIDTH, K, T, RAGGED=False, C=1):
    E, A, W, low, nothing = element(type), element(inside), word(type, WIDTH), LOWEST[inside], -math.inf
    power_of_two, agree = power(inside), agreement(inside, T, C)
    held, S = team(C, T), C * T
    TEAM = held[0]

    @kernel(
        threads=T,
        cluster=C if C > 1 else None,
        where=lambda x, out, M, N, blocks: (
            blocks <= C * M,
            0 <= N <= 2**31 - 2**16,
            RAGGED or N % WIDTH == 0,
            len(x) >= M * N,
            len(out) >= M * N,
        ),
    )
    def softmax(x: ptr(const(E)), out: ptr(E), M: int, N: int):
        with each(TEAM, out, disjoint=out) as row:
            first, there = i64(row) * N / WIDTH, i64(M) * N / WIDTH  # whole words before the row, and of the array
            lead = int(i64(row) * N - first * WIDTH) if RAGGED else 0
            words = (lead + N + (WIDTH - 1)) / WIDTH
            raw, v, top, total = registers(E[K, WIDTH], A[K, WIDTH], A(low), A(0))
            with each(thread) as t:
                for k in unroll(range(K)):
                    if k * S + t < words:
                        if not RAGGED or first + (k * S + t) < there:
                            raw.view(W)[k, 0] = x.view(W)[first + (k * S + t)]
                        else:
                            for i in unroll(range(WIDTH)):
                                if (k * S + t) * WIDTH + i < lead + N:
                                    raw[k, i] = x[(first + (k * S + t)) * WIDTH + i]
                for k, i in unroll(range(shape=(K, WIDTH))):
                    at = (k * S + t) * WIDTH + i
                    ours = at >= lead and at < lead + N if RAGGED else k * S + t < words
                    v[k, i] = A(raw[k, i]) if ours else A(nothing)
                    top = max(top, v[k, i])
                for k, i in unroll(range(shape=(K, WIDTH))):
                    v[k, i] = power_of_two((v[k, i] - top) * A(LOG2E))
                    total += v[k, i]
            scale: A @ thread[1] = agree(top, total)
            raw = [[E(v[k, i] * scale) for i in range(WIDTH)] for k in range(K)]
            with each(thread, out, disjoint=out) as t:
                for k in unroll(range(K)):
                    if k * S + t < words:
                        if not RAGGED or (k * S + t) * WIDTH >= lead and (k * S + t + 1) * WIDTH <= lead + N:
                            out.view(W)[first + (k * S + t)] = raw.view(W)[k, 0]
                        else:
                            for i in unroll(range(WIDTH)):
                                if (k * S + t) * WIDTH + i >= lead and (k * S + t) * WIDTH + i < lead + N:
                                    out[(first + (k * S + t)) * WIDTH + i] = raw[k, i]

    return softmax


@functools.cache
def softmax_of_long_rows(type, inside, WIDTH, U=4, T=512):
    """Twice through the row: for its maximum and sum, and, from the L2 cache if it is not very long, for the quotients.
    Each time a thread has U words in flight.  Its elements are `lead .. left` of a word, none where the row has ended.
    """
    E, A, W, low, nothing = element(type), element(inside), word(type, WIDTH), LOWEST[inside], -math.inf
    power_of_two, agree = power(inside), agreement(inside, T)

    @device(thread)
    def load(x: ptr(const(E)), first: i64, there: i64, left: int, lead: int, v: ref(A[U, WIDTH])):
        raw: E[U, WIDTH]
        for u in unroll(range(U)):
            if left > u * (T * WIDTH):
                if first + u * T < there:
                    raw.view(W)[u, 0] = x.view(W)[first + u * T]
                else:
                    for i in unroll(range(WIDTH)):
                        if u * (T * WIDTH) + i < left:
                            raw[u, i] = x[(first + u * T) * WIDTH + i]
        for u, i in unroll(range(shape=(U, WIDTH))):
            v[u, i] = A(raw[u, i]) if u * (T * WIDTH) + i >= lead and u * (T * WIDTH) + i < left else A(nothing)

    @kernel(
        threads=T,
        where=lambda x, out, M, N, blocks: (blocks <= M, 0 <= N <= 2**31 - 2**16, len(x) >= M * N, len(out) >= M * N),
    )
    def softmax(x: ptr(const(E)), out: ptr(E), M: int, N: int):
        with each(block, out, disjoint=out) as row:
            first, there = i64(row) * N / WIDTH, i64(M) * N / WIDTH
            start = int(i64(row) * N - first * WIDTH)
            words = (start + N + (WIDTH - 1)) / WIDTH
            v, done, top, total = registers(A[U, WIDTH], E[U, WIDTH], A(low), A(0))
            with each(thread) as t:
                for j in range(t, words, T * U):
                    load(x, first + j, there, start + N - j * WIDTH, start - j * WIDTH, v)
                    higher: A = top
                    for u, i in unroll(range(shape=(U, WIDTH))):
                        higher = max(higher, v[u, i])
                    total *= power_of_two((top - higher) * A(LOG2E))
                    for u, i in unroll(range(shape=(U, WIDTH))):
                        total += power_of_two((v[u, i] - higher) * A(LOG2E))
                    top = higher
            scale: A @ thread[1] = agree(top, total)
            with each(thread, out, disjoint=out) as t:
                for j in range(t, words, T * U):
                    load(x, first + j, there, start + N - j * WIDTH, start - j * WIDTH, v)
                    left, lead = start + N - j * WIDTH, start - j * WIDTH
                    done = [
                        [E(power_of_two((v[u, i] - top) * A(LOG2E)) * scale) for i in range(WIDTH)] for u in range(U)
                    ]
                    for u in unroll(range(U)):
                        if u * (T * WIDTH) >= lead and u * (T * WIDTH) + WIDTH <= left:
                            out.view(W)[first + (j + u * T)] = done.view(W)[u, 0]
                        else:
                            for i in unroll(range(WIDTH)):
                                if u * (T * WIDTH) + i >= lead and u * (T * WIDTH) + i < left:
                                    out[(first + (j + u * T)) * WIDTH + i] = done[u, i]

    return softmax
