"""`snap.lib.reduce`: all elements of an array combined into one.

Input:      an array, an operator
Output:     an array of shape () on the same device
Invariant:  one pass over the memory; the order in which elements are combined depends on the number of multiprocessors only, so floats repeat
Non-goals:  reductions along an axis
"""

from __future__ import annotations

import functools

from snap import *
from snap.ir.types import BOOL, F32, F64, I32, I64, U32, U64, Scalar
from snap.lib import block as of_block
from snap.lib.arrays import FLOATS, NUMBERS, SIGNED, argument
from snap.lib.operators import element, identity_of_call, operator, word
from snap.runtime.errors import LaunchError

THREADS, WORDS = 1024, 4  # threads a block, words of 16 bytes that each of them has in flight
RESIDENT = 2048 // THREADS  # blocks a multiprocessor


def reduce(x, op="add", identity=None, type=None):
    """All elements of `x` combined by `op`: "add", "mul", "min", "max", "and", "or", "xor", or a Snap device function (a, b) -> a op b with its
    `identity`, which must be associative and commutative.

    Sums and products of integers are 64 bits wide, as NumPy's; f16 and bf16 are combined in f32 and rounded once.
    """
    given = argument("reduce", "x", x, (BOOL, *NUMBERS), type=type)
    inside, result = carried(given.type, op, unsigned=given.info.family != "torch")
    nothing = identity_of_call("reduce", op, identity, given.type, inside)
    if given.size == 0 and op in ("min", "max"):
        raise LaunchError("snap.lib.reduce", f"is empty, and nothing has no {op}", "x")
    width = given.width()
    tile = THREADS * WORDS * width
    blocks = max(1, min(RESIDENT * given.multiprocessors(), -(-given.size // tile)))
    out = given.new((), None if result == given.type else result)
    run = reduction(given.type, inside, result, width, op, nothing)
    run[blocks](given.array, out, given.new((blocks,), inside), given.new((1,), I32, zero=True), given.size)
    return out


def carried(type: Scalar, op: object, unsigned: bool) -> tuple[Scalar, Scalar]:
    """What values are combined in, at least 32 bits wide so that blocks can hand them over, and what comes out.  torch has no unsigned sums."""
    if type in FLOATS:
        return (F64 if type == F64 else F32), type
    if op in ("add", "mul"):
        wide = I64 if type in SIGNED or type == BOOL or not unsigned else U64
        return wide, wide
    return (type if type.bits >= 32 else I32 if type in SIGNED else U32), type


@functools.cache
def reduction(type, inside, result, WIDTH, op, nothing):
    E, A, R, W, T, U = element(type), element(inside), element(result), word(type, WIDTH), THREADS, WORDS
    combine = operator(op, inside, nothing).each
    in_block = of_block.reduce(A, T, op, None if isinstance(op, str) else nothing)

    @kernel
    @requires(grid[1], block[1], thread[T])
    def reduce_all(x: ptr(const(E)) @ grid[1], out: ptr(R) @ grid[1], partial: ptr(A) @ grid[1], ticket: ptr(i32) @ grid[1], n: i64 @ grid[1]):
        with group(grid[1]):
            b: int @ block[1] = id()
            blocks: int = count(block[1])
            words: i64 = n / WIDTH
            rounds: i64 = words / (i64(blocks) * (T * U))  # in which every block has a whole tile
            with partition(out, p=block[1], disjoint=True) as result_cell:
                with group(block[1]):
                    order: shared(int[1])
                    t: int @ thread[1] = id()
                    v: A[WIDTH] @ thread[1]
                    raw: E[U, WIDTH] @ thread[1]
                    one: A @ thread[1] = A(nothing)
                    with group(thread[1]):
                        for i in unroll(range(WIDTH)):
                            v[i] = A(nothing)
                        for r in range(rounds):
                            for u in unroll(range(U)):
                                raw.view(W)[u, 0] = x.view(W)[(r * blocks + b) * (T * U) + (u * T + t)]
                            for u in unroll(range(U)):
                                for i in unroll(range(WIDTH)):
                                    v[i] = combine(v[i], A(raw[u, i]))
                        for j in range(rounds * blocks * (T * U) + (i64(b) * T + t), words, i64(blocks) * T):
                            raw.view(W)[0, 0] = x.view(W)[j]
                            for i in unroll(range(WIDTH)):
                                v[i] = combine(v[i], A(raw[0, i]))
                        if b == 0 and words * WIDTH + t < n:
                            one = A(x[words * WIDTH + t])
                        for i in unroll(range(WIDTH)):
                            one = combine(one, v[i])
                    of_this: A = in_block(one)
                    with claim(order, p=thread[1]) as slot:
                        match split(thread):
                            case 1:
                                atomic.store(partial, b, of_this)
                                slot[0] = atomic.add(ticket, 0, 1, order="acq_rel")
                    if order[0] == blocks - 1:  # this block is the last one: all the others have handed theirs in
                        rest: A @ thread[1] = A(nothing)
                        with group(thread[1]):
                            for k in range(t, blocks, T):
                                rest = combine(rest, atomic.load(partial, k))
                        all_of_them: A = in_block(rest)
                        with claim(result_cell, p=thread[1]) as cell:
                            match split(thread):
                                case 1:
                                    cell[0] = R(all_of_them)

    return reduce_all
