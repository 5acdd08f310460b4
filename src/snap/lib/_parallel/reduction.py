"""`snap.lib.reduce`: all elements of an array combined into one.

Input:      an array, an operator
Output:     an array of shape () on the same device
Invariant:  one pass over the memory; the order in which elements are combined depends on the kind of GPU only, so
            floats repeat
Non-goals:  reductions along an axis
"""

from __future__ import annotations

import functools

from snap import *
from snap._compiler.ir.hardware import SM_THREADS
from snap._compiler.ir.types import BOOL, F32, F64, I32, I64, U32, U64, Scalar
from snap.host.arguments.arrays import ArrayFamily
from snap.host.errors import LaunchError
from snap.lib._calls.arrays import FLOATS, NUMBERS, SIGNED, argument
from snap.lib._calls.operators import element, identity_of_call, operator, word
from snap.lib._calls.public_types import ArrayT, DType, Operation
from snap.lib._calls.recorded import launch, recorded
from snap.lib._calls.renamed import renamed
from snap.lib.block import reduce as block_reduce

THREADS, WORDS = 512, 2  # threads a block, words of 16 bytes that each of them has in flight
ONE_THREADS, ONE_WORDS = 1024, 4  # likewise, of a block that takes everything
RESIDENT = SM_THREADS  # a multiprocessor
ALONE = 2  # tiles that one block takes alone: no tickets are drawn then


@recorded
@renamed(type="dtype")
def reduce(x: ArrayT, op: Operation = "add", identity: object = None, dtype: DType | None = None) -> ArrayT:
    """Combine all elements of `x` by `op`: "add", "mul", "min", "max", "and", "or", "xor", or a Snap device function
    (a, b) -> a op b with its `identity`, which must be associative and commutative.

    Sums and products of integers are 64 bits wide, as NumPy's. f16 and bf16 are combined in f32 and rounded once.
    """
    given = argument("reduce", "x", x, (BOOL, *NUMBERS), dtype=dtype, rows=True)
    inside, result = carried(given.type, op, unsigned=given.info.family is not ArrayFamily.TORCH)
    nothing = identity_of_call("reduce", op, identity, given.type, inside)
    if given.size == 0 and op in ("min", "max"):
        raise LaunchError("snap.lib.reduce", f"is empty, and an empty array has no {op}", "x")
    width = given.width()
    tiles = -(-given.size // (ONE_THREADS * ONE_WORDS * width))
    out = given.new((), None if result == given.type else result)
    if tiles <= ALONE:
        run = reduction(given.type, inside, result, width, op, nothing, True, ONE_THREADS, ONE_WORDS)
        launch(run, 1, given.array, out, given.new((1,), inside), given.new((1,), I32), given.size)
        return out
    blocks = min(RESIDENT // THREADS * given.multiprocessors(), -(-given.size // (THREADS * WORDS * width)))
    run = reduction(given.type, inside, result, width, op, nothing)
    launch(run, blocks, given.array, out, given.new((blocks,), inside), given.zeros(1, I32), given.size)
    return out


def carried(type: Scalar, op: object, unsigned: bool) -> tuple[Scalar, Scalar]:
    """Return the type that values are combined in, at least 32 bits wide so that blocks can hand them over, and the
    type of the result. torch has no unsigned sums.
    """
    if type in FLOATS:
        return (F64 if type == F64 else F32), type
    if op in ("add", "mul"):
        wide = I64 if type in SIGNED or type == BOOL or not unsigned else U64
        return wide, wide
    return (type if type.bits >= 32 else I32 if type in SIGNED else U32), type


# SINGLE: one block takes everything.  Else blocks hand in what they have, and the last one combines that, and leaves
# the ticket at zero as it was.


@functools.cache
def reduction(type, inside, result, WIDTH, op, nothing, SINGLE=False, T=THREADS, U=WORDS):
    E, A, R, W = element(type), element(inside), element(result), word(type, WIDTH)
    combine = operator(op, inside, nothing).each
    in_block = block_reduce(A, op, None if isinstance(op, str) else nothing)

    @kernel(
        threads=T,
        where=lambda x, out, partial, ticket, n, blocks: (
            len(x) >= n >= 0,
            len(out) >= 1,
            not SINGLE or blocks == 1,
            SINGLE or len(partial) >= blocks,
            len(ticket) >= 1,
            blocks <= 2**30,
        ),
    )
    def reduce_all(x: ptr(const(E)), out: ptr(R), partial: ptr(A), ticket: ptr(i32), n: i64):
        blocks, words = count(block[1]), n / WIDTH
        rounds: i64 = words / (i64(blocks) * (T * U))  # in which every block has a whole tile
        with each(block, out, disjoint=out) as b:
            t: int @ thread[1] = id()
            v, raw, own = registers(A[WIDTH], E[U, WIDTH], A(nothing))
            with each(thread):
                v = A(nothing)
                for r in range(rounds):
                    for u in unroll(range(U)):
                        raw.view(W)[u, 0] = x.view(W)[(r * blocks + b) * (T * U) + (u * T + t)]
                    for u, i in unroll(range(shape=(U, WIDTH))):
                        v[i] = combine(v[i], A(raw[u, i]))
                # The words that are left: no more than a tile for every block, so all are in flight at once, too.
                for u in unroll(range(U)):
                    if (rounds * U + u) * blocks * T + (i64(b) * T + t) < words:
                        raw.view(W)[u, 0] = x.view(W)[(rounds * U + u) * blocks * T + (i64(b) * T + t)]
                for u in unroll(range(U)):
                    if (rounds * U + u) * blocks * T + (i64(b) * T + t) < words:
                        for i in unroll(range(WIDTH)):
                            v[i] = combine(v[i], A(raw[u, i]))
                if b == 0 and words * WIDTH + t < n:
                    own = A(x[words * WIDTH + t])
                for i in unroll(range(WIDTH)):
                    own = combine(own, v[i])
            last: bool = True
            own = in_block(own)
            if not SINGLE:
                order: shared(int[1])
                with one(thread, order):
                    atomic.store(partial, b, own)
                    order[0] = atomic.add(ticket, 0, 1, order="acq_rel")
                last = order[0] == blocks - 1  # all the others have handed theirs in
                if last:
                    own = A(nothing)
                    with each(thread):
                        for k in range(t, blocks, T):
                            own = combine(own, atomic.load(partial, k))
                    own = in_block(own)
                    with one(thread):
                        atomic.store(ticket, 0, 0)
            with each(thread, out, disjoint=out), trust("tickets are counted from zero: one block draws the last one"):
                if last and t == 0:
                    out[0] = R(own)

    return reduce_all
