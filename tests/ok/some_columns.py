"""`wgmma` with `columns=`: the first columns of b into the first of an accumulator that has more, of b as it lies and
transposed, in turns with all of them; and a tile at the edge, in a loop of its own.
"""

from __future__ import annotations

import numpy as np

from snap import *


@kernel(threads=128, where=lambda blocks: blocks == 1)
def in_turns(a: ptr(const(bf16), (64, 64)), b: ptr(const(bf16), (64, 64)), bt: ptr(const(bf16), (64, 64)), c: ptr(float, (64, 64))):
    with each(block, c):
        left: shared(bf16[64, 64], swizzle=128)
        right: shared(bf16[64, 64], swizzle=128)
        turned: shared(bf16[1, 64, 64], swizzle=128)
        acc: float[32] @ thread[1]
        async_copy(left, a, at=(0, 0))
        async_copy(right, b, at=(0, 0))
        async_copy(turned, bt, at=(0, 0))
        wgmma(acc, left, right)
        wgmma(acc, left, right, columns=24)
        wgmma(acc, left, turned.T, columns=40)
        wgmma(acc, left, turned.T, columns=64)
        with each(thread, c):
            for j in range(32):
                c[acc_row(j, warpgroup), acc_column(j, warpgroup)] = acc[j]


@kernel(
    threads=256,
    where=lambda columns, depth, blocks: blocks == 1 and 1 <= columns <= 2**20 and 1 <= depth <= 2**8,
)
def at_the_edge(
    a: ptr(const(bf16), (64, depth)),
    b: ptr(const(bf16), (columns, depth)),
    c: ptr(float, (64, columns)),
    columns: int,
    depth: int,
):
    with each(block, c):
        A: pipeline(shared(bf16[64, 64], swizzle=128), 2)
        B: pipeline(shared(bf16[128, 64], swizzle=128), 2)
        acc: float[64] @ thread[1]
        multiply, load = roles(128, 128)
        for n0 in range(0, columns, 128):
            if columns - n0 <= 64:
                for k in range((depth + 63) / 64):
                    with stage(A) as left, stage(B) as right:
                        with load(left, right):
                            async_copy(left, a, at=(0, 64 * k))
                            async_copy(right, b, at=(n0, 64 * k))
                        with multiply(left, right):
                            wgmma(acc, left, right, zero=(k == 0), columns=64)
            else:
                for k in range((depth + 63) / 64):
                    with stage(A) as left, stage(B) as right:
                        with load(left, right):
                            async_copy(left, a, at=(0, 64 * k))
                            async_copy(right, b, at=(n0, 64 * k))
                        with multiply(left, right):
                            wgmma(acc, left, right, zero=(k == 0))
            with multiply(c), each(thread, c):
                for j in range(64):
                    if n0 + acc_column(j, warpgroup) < columns:
                        c[acc_row(j, warpgroup), n0 + acc_column(j, warpgroup)] = acc[j]


def bits(x):
    return (x.view(np.uint32) >> 16).astype(np.uint16)


def check():
    rng = np.random.default_rng(11)
    a, b, bt = rng.integers(-3, 4, (3, 64, 64)).astype(np.float32)
    c = np.zeros((64, 64), np.float32)
    in_turns[1](bits(a), bits(b), bits(bt), c)
    some = np.where(np.arange(64) < 24, a @ b.T, 0) + np.where(np.arange(64) < 40, a @ bt, 0)
    np.testing.assert_array_equal(c, a @ b.T + a @ bt + some)
    for columns in (40, 64, 65, 128, 300):
        a, b = rng.integers(-3, 4, (64, 136)).astype(np.float32), rng.integers(-3, 4, (columns, 136)).astype(np.float32)
        c = np.zeros((64, columns), np.float32)
        at_the_edge[1](bits(a), bits(b), c, columns, 136)
        np.testing.assert_array_equal(c, a @ b.T)
