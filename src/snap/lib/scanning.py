"""`snap.lib.scan`: each element becomes all elements up to it combined, in one pass over the memory.

Input:      an array of one dimension, an operator
Output:     an array like it
Invariant:  every element is read once and written once; tiles are numbered in the order in which blocks begin them, so look-back always ends
Non-goals:  scans along an axis; floats that repeat bit for bit (how far a tile looks back depends on timing)
"""

from __future__ import annotations

import functools

from snap import *
from snap.ir.types import F32, F64, I32, I64, U32, Scalar
from snap.lib.arrays import FLOATS, NUMBERS, SIGNED, argument
from snap.lib.lookback import look_back, words
from snap.lib.operators import element, operator, word
from snap.lib.warp import scan as warp_scan
from snap.runtime.errors import LaunchError

THREADS, REGISTERS = 256, 48  # threads a block, registers each of them holds elements in: three such blocks fill a multiprocessor


def scan(x, op="add", exclusive=False, identity=None, type=None):
    """Element k of the result is elements 0 .. k of `x` combined by `op`; exclusive: 0 .. k-1, beginning with the operator's identity.

    `op` is "add", "mul", "min", "max", "and", "or", "xor", or an associative Snap device function (a, b) -> a op b with its `identity`.  The
    result has the type of `x`: integers wrap; f16 and bf16 are combined in f32 and rounded once.
    """
    given = argument("scan", "x", x, NUMBERS, rank=1, type=type)
    inside = carried(given.type)
    try:
        nothing = operator(op, inside, identity).identity
    except (TypeError, ValueError) as problem:
        raise LaunchError("snap.lib.scan", str(problem), "op") from None
    if nothing is None:
        raise LaunchError("snap.lib.scan", "a function of your own needs the value that changes nothing beside it", "identity")
    out = given.new(given.shape)
    if given.size == 0:
        return out
    width = given.width()
    tiles = -(-given.size // (THREADS * words_of_thread(inside, width) * width))
    run = scan_kernel(given.type, inside, width, op, bool(exclusive), nothing)
    run[tiles](given.array, out, given.new((words(inside, tiles),), I64, zero=True), given.size)
    return out


def carried(type: Scalar) -> Scalar:
    """At least 32 bits wide, so that blocks can hand values over; what is added there and cut off is what would have wrapped."""
    if type in FLOATS:
        return F64 if type == F64 else F32
    return type if type.bits >= 32 else I32 if type in SIGNED else U32


def words_of_thread(inside: Scalar, width: int) -> int:
    return min(16, max(1, 4 * REGISTERS // (inside.bytes * width)))


@functools.cache
def scan_kernel(type, inside, WIDTH, op, EXCLUSIVE, nothing):
    E, A, W, T, K = element(type), element(inside), word(type, WIDTH), THREADS, words_of_thread(inside, WIDTH)
    WARPS, PART = T // 32, 32 * K * WIDTH
    TILE = WARPS * PART
    combine = operator(op, inside, nothing).each
    in_warp = warp_scan(inside, op)
    known = look_back(inside, op, nothing)

    @kernel
    @requires(grid[1], block[1], thread[T])
    def scan_tiles(x: ptr(const(E)) @ grid[1], out: ptr(E) @ grid[1], status: ptr(i64) @ grid[1], n: i64 @ grid[1]):
        with group(grid[1]):
            with partition(out, p=block[1], disjoint=True) as part:
                with group(block[1]):
                    slot: shared(int[1])
                    sums: shared(A[WARPS])
                    prefix: shared(A[WARPS])  # what comes before each warp
                    t: int @ thread[1] = id()
                    w: int @ warp = id()
                    l: int @ thread[1] = t % 32
                    with claim(slot, p=thread[1]) as one:
                        match split(thread):
                            case 1:
                                one[0] = int(atomic.add(status, 0, 1))
                    tile_id: int = slot[0]
                    start: i64 = i64(tile_id) * TILE
                    at: int @ thread[1] = w * PART + l * WIDTH  # this thread's first element in the tile; its words lie 32 words apart
                    whole: bool = start + TILE <= n
                    raw: E[K, WIDTH] @ thread[1]
                    v: A[K, WIDTH] @ thread[1]
                    if whole:
                        for k in unroll(range(K)):
                            raw.view(W)[k, 0] = x.view(W)[start / WIDTH + (w * (32 * K) + k * 32 + l)]
                        for k in unroll(range(K)):
                            for i in unroll(range(WIDTH)):
                                v[k, i] = A(raw[k, i])
                    else:
                        with group(thread[1]):
                            for k in unroll(range(K)):
                                for i in unroll(range(WIDTH)):
                                    v[k, i] = A(nothing)
                                    if start + (at + k * (32 * WIDTH) + i) < n:
                                        v[k, i] = A(x[start + (at + k * (32 * WIDTH) + i)])
                    total: A @ thread[1] = A(nothing)  # of the warp's words so far
                    before: A[K] @ thread[1]  # of the warp's elements before each word
                    with group(warp):
                        for k in unroll(range(K)):
                            for i in unroll(range(1, WIDTH)):
                                v[k, i] = combine(v[k, i - 1], v[k, i])
                            upto: A @ thread[1] = in_warp(v[k, WIDTH - 1])
                            below: A @ thread[1] = intrinsic.shfl_up(upto, 1)
                            before[k] = combine(total, below if l > 0 else A(nothing))
                            of_word: A = intrinsic.shfl(upto, 31)
                            total = combine(total, of_word)
                    with partition(sums, p=thread[1], offset=w) as cell:
                        with group(thread[1]):
                            if l == 0:
                                cell[0] = total
                    with claim(prefix, p=thread[32]) as of_warps:
                        match split(thread):
                            case 32:
                                lane: int @ thread[1] = id()
                                s: A @ thread[1] = sums[lane] if lane < WARPS else A(nothing)
                                all_upto: A @ thread[1] = in_warp(s)
                                come: A = known(status, tile_id, intrinsic.shfl(all_upto, 31))
                                left: A @ thread[1] = intrinsic.shfl_up(all_upto, 1)
                                mine: A @ thread[1] = combine(come, left if lane > 0 else A(nothing))
                                with partition(of_warps, p=thread[1], offset=lane) as cell:
                                    with group(thread[1]):
                                        if lane < WARPS:
                                            cell[0] = mine
                    for k in unroll(range(K)):
                        base: A @ thread[1] = combine(prefix[w], before[k])
                        last: A @ thread[1] = base
                        for i in unroll(range(WIDTH)):
                            now: A @ thread[1] = combine(base, v[k, i])
                            raw[k, i] = E(last if EXCLUSIVE else now)
                            last = now
                    if whole:
                        with partition(part.view(W), p=thread[1], f=lambda k: start / WIDTH + (w * (32 * K) + k * 32 + l)) as cell:
                            for k in unroll(range(K)):
                                cell[k] = raw.view(W)[k, 0]
                    else:
                        with partition(part, p=thread[1], f=lambda k, i: start + (at + k * (32 * WIDTH) + i)) as cell:
                            with group(thread[1]):
                                for k in unroll(range(K)):
                                    for i in unroll(range(WIDTH)):
                                        if start + (at + k * (32 * WIDTH) + i) < n:
                                            cell[k, i] = raw[k, i]

    return scan_tiles
