"""`snap.lib.softmax`: exp(x - max) / sum of each row, the last axis of an array.

Input:      an array of floats
Output:     an array like it
Invariant:  a row that fits in the registers of its team is read once and written once; a longer one is read twice.  Sums are f32, or f64 for f64
Non-goals:  other axes; masks
"""

from __future__ import annotations

import functools
import math

from snap import *
from snap.ir.types import F32, F64
from snap.lib.arrays import FLOATS, argument
from snap.lib.operators import element, word

LOG2E = math.log2(math.e)
LOWEST = {F32: -3.0e38, F64: -1.0e308}  # below every finite value that matters, and finite: its difference to -inf is -inf
WARP_WORDS, BLOCK_ITEMS = 4, 32  # words a lane where a warp takes a row; elements a thread where a block does
ROWS = 4  # rows a block where a warp takes a row


def softmax(x, type=None):
    """The softmax of each row: of `x[..., :]`."""
    given = argument("softmax", "x", x, FLOATS, type=type)
    out = given.new(given.shape)
    if given.size == 0:
        return out
    length = given.shape[-1] if given.shape else 1
    rows = given.size // length
    inside = F64 if given.type == F64 else F32
    width = given.width(length)
    words = length // width
    if words <= 32 * WARP_WORDS:
        per_lane = 1 << max(0, -(-words // 32) - 1).bit_length()
        softmax_by_warps(given.type, inside, width, per_lane)[-(-rows // ROWS)](given.array, out, rows, length)
        return out
    for threads in (64, 128, 256, 512, 1024):
        per_thread = -(-words // threads)
        if per_thread * width <= BLOCK_ITEMS:
            softmax_by_blocks(given.type, inside, width, per_thread, threads)[rows](given.array, out, rows, length)
            return out
    softmax_of_long_rows(given.type, inside, width)[rows](given.array, out, rows, length)
    return out


@functools.cache
def power(inside):
    """2 to the power of a value; f32's approximate form is exact to 2 units in the last place."""
    return _power_f32() if inside == F32 else _power_f64()


def _power_f32():
    @device
    @requires(thread[1])
    def power(x: float @ thread[1]) -> float @ thread[1]:
        return fast.exp2(x)

    return power


def _power_f64():
    @device
    @requires(thread[1])
    def power(x: f64 @ thread[1]) -> f64 @ thread[1]:
        return exp2(x)

    return power


# Each thread takes exponentials against its own maximum, as soon as its elements are there; teams then agree on one maximum, and every thread
# scales by how far its own was below it.  Words beyond the row count as -inf, which adds nothing; a row of nothing but -inf is 0/0, as in torch.


@functools.cache
def softmax_by_warps(type, inside, WIDTH, K):
    E, A, W, low, nothing, T = element(type), element(inside), word(type, WIDTH), LOWEST[inside], -math.inf, 32 * ROWS
    power_of_two = power(inside)

    @kernel
    @requires(grid[1], block[1], thread[T])
    def softmax(x: ptr(const(E)) @ grid[1], out: ptr(E) @ grid[1], M: int @ grid[1], N: int @ grid[1]):
        with group(grid[1]):
            row: int @ warp = id()
            words: int = N / WIDTH
            with partition(out.view(W), p=warp, disjoint=True) as written:
                with group(warp):
                    l: int @ thread[1] = id()
                    first: i64 = i64(row) * words
                    if row < M:
                        raw: E[K, WIDTH] @ thread[1]
                        v: A[K, WIDTH] @ thread[1]
                        top: A @ thread[1] = A(low)
                        total: A @ thread[1] = A(0)
                        with group(thread[1]):
                            for k in unroll(range(K)):
                                if k * 32 + l < words:
                                    raw.view(W)[k, 0] = x.view(W)[first + (k * 32 + l)]
                            for k in unroll(range(K)):
                                for i in unroll(range(WIDTH)):
                                    v[k, i] = A(raw[k, i]) if k * 32 + l < words else A(nothing)
                                    top = max(top, v[k, i])
                        highest: A = intrinsic.reduce_max(top)
                        for k in unroll(range(K)):
                            for i in unroll(range(WIDTH)):
                                v[k, i] = power_of_two((v[k, i] - highest) * A(LOG2E))
                                total += v[k, i]
                        scale: A = A(1) / intrinsic.reduce_add(total)
                        for k in unroll(range(K)):
                            for i in unroll(range(WIDTH)):
                                raw[k, i] = E(v[k, i] * scale)
                        with partition(written, p=thread[1], f=lambda k: first + (k * 32 + l)) as cell:
                            with group(thread[1]):
                                for k in unroll(range(K)):
                                    if k * 32 + l < words:
                                        cell[k] = raw.view(W)[k, 0]

    return softmax


@functools.cache
def agreement(inside, T):
    """f(top, total) -> the scale of this thread's exponentials: its own maximum and sum against those of the block."""
    A, WARPS, low = element(inside), T // 32, LOWEST[inside]
    power_of_two = power(inside)

    @device
    @requires(block[1], thread[T])
    def agree(top: A @ thread[1], total: A @ thread[1]) -> A @ thread[1]:
        tops: shared(A[WARPS])
        totals: shared(A[WARPS])
        w: int @ warp = id()
        with partition(tops, p=warp, offset=w) as top_of, partition(totals, p=warp, offset=w) as total_of:
            with group(warp):
                highest: A = intrinsic.reduce_max(top)
                scaled: A @ thread[1] = power_of_two((top - highest) * A(LOG2E))
                sum: A = intrinsic.reduce_add(total * scaled)
                with claim(top_of, p=thread[1]) as a, claim(total_of, p=thread[1]) as b:
                    match split(thread):
                        case 1:
                            a[0] = highest
                            b[0] = sum
        above: A @ thread[1] = A(low)
        for k in unroll(range(WARPS)):
            above = max(above, tops[k])
        all_of_them: A @ thread[1] = A(0)
        for k in unroll(range(WARPS)):
            part: A @ thread[1] = power_of_two((tops[k] - above) * A(LOG2E))
            all_of_them += totals[k] * part
        own: A @ thread[1] = power_of_two((top - above) * A(LOG2E))
        return own / all_of_them

    return agree


@functools.cache
def softmax_by_blocks(type, inside, WIDTH, K, T):
    E, A, W, low, nothing = element(type), element(inside), word(type, WIDTH), LOWEST[inside], -math.inf
    power_of_two, agree = power(inside), agreement(inside, T)

    @kernel
    @requires(grid[1], block[1], thread[T])
    def softmax(x: ptr(const(E)) @ grid[1], out: ptr(E) @ grid[1], M: int @ grid[1], N: int @ grid[1]):
        with group(grid[1]):
            row: int @ block[1] = id()
            words: int = N / WIDTH
            with partition(out.view(W), p=block[1], disjoint=True) as written:
                with group(block[1]):
                    t: int @ thread[1] = id()
                    first: i64 = i64(row) * words
                    raw: E[K, WIDTH] @ thread[1]
                    v: A[K, WIDTH] @ thread[1]
                    top: A @ thread[1] = A(low)
                    total: A @ thread[1] = A(0)
                    with group(thread[1]):
                        for k in unroll(range(K)):
                            if k * T + t < words:
                                raw.view(W)[k, 0] = x.view(W)[first + (k * T + t)]
                        for k in unroll(range(K)):
                            for i in unroll(range(WIDTH)):
                                v[k, i] = A(raw[k, i]) if k * T + t < words else A(nothing)
                                top = max(top, v[k, i])
                        for k in unroll(range(K)):
                            for i in unroll(range(WIDTH)):
                                v[k, i] = power_of_two((v[k, i] - top) * A(LOG2E))
                                total += v[k, i]
                    scale: A @ thread[1] = agree(top, total)
                    for k in unroll(range(K)):
                        for i in unroll(range(WIDTH)):
                            raw[k, i] = E(v[k, i] * scale)
                    with partition(written, p=thread[1], f=lambda k: first + (k * T + t)) as cell:
                        with group(thread[1]):
                            for k in unroll(range(K)):
                                if k * T + t < words:
                                    cell[k] = raw.view(W)[k, 0]

    return softmax


@functools.cache
def softmax_of_long_rows(type, inside, WIDTH, T=1024):
    E, A, W, low = element(type), element(inside), word(type, WIDTH), LOWEST[inside]
    power_of_two, agree = power(inside), agreement(inside, T)

    @kernel
    @requires(grid[1], block[1], thread[T])
    def softmax(x: ptr(const(E)) @ grid[1], out: ptr(E) @ grid[1], M: int @ grid[1], N: int @ grid[1]):
        with group(grid[1]):
            row: int @ block[1] = id()
            words: int = N / WIDTH
            with partition(out.view(W), p=block[1], disjoint=True) as written:
                with group(block[1]):
                    t: int @ thread[1] = id()
                    first: i64 = i64(row) * words
                    raw: E[WIDTH] @ thread[1]
                    top: A @ thread[1] = A(low)
                    total: A @ thread[1] = A(0)
                    with group(thread[1]):
                        for j in range(t, words, T):
                            raw.view(W)[0] = x.view(W)[first + j]
                            higher: A = top
                            for i in unroll(range(WIDTH)):
                                higher = max(higher, A(raw[i]))
                            total *= power_of_two((top - higher) * A(LOG2E))
                            for i in unroll(range(WIDTH)):
                                total += power_of_two((A(raw[i]) - higher) * A(LOG2E))
                            top = higher
                    scale: A @ thread[1] = agree(top, total)
                    with partition(written, p=thread[1], f=lambda j: first + j) as cell:
                        with group(thread[1]):
                            for j in range(t, words, T):
                                raw.view(W)[0] = x.view(W)[first + j]
                                for i in unroll(range(WIDTH)):
                                    raw[i] = E(power_of_two((A(raw[i]) - top) * A(LOG2E)) * scale)
                                cell[j] = raw.view(W)[0]

    return softmax
