"""`ldmatrix` (plain and transposed) feeds `mma` of bf16 with f32 accumulators."""

from __future__ import annotations

import numpy as np

from snap import *


@kernel(threads=32, where=lambda blocks: blocks == 1)
def product(a: ptr(const(float), (16, 16)), b: ptr(const(float), (16, 8)), c: ptr(float, (16, 8))):
    with each(block):
        sa, sb = shared(bf16[16, 16]), shared(bf16[16, 8])
        fa, fb, acc = registers(bf16[8], bf16[4], float[4])
        with each(thread, sa, sb, shape=(..., 2)) as (i, half):
            for k in range(8):
                sa[i, half * 8 + k] = bf16(a[i, half * 8 + k])
            for k in range(4):
                sb[i, half * 4 + k] = bf16(b[i, half * 4 + k])
        with each(warp):
            l: int @ thread[1] = id()
            # lane l names a row of 8: matrices 0..3 are A's top left, bottom left, top right, bottom right
            intrinsic.ldmatrix(fa, sa[l % 16, l / 16 * 8])
            intrinsic.ldmatrix(fb, sb[l % 16, 0], trans=True)
            for twice in range(2):
                intrinsic.mma(fa, fb, acc, out=acc)
        with each(thread, c, shape=(..., 4)) as (i, j):
            for e in range(4):
                c[i + e / 2 * 8, j * 2 + e % 2] = acc[e]


def check():
    rng = np.random.default_rng(0)
    a = rng.integers(-8, 8, (16, 16)).astype(np.float32)
    b = rng.integers(-8, 8, (16, 8)).astype(np.float32)
    c = np.zeros((16, 8), np.float32)
    product[1](a, b, c)
    np.testing.assert_array_equal(c, 2 * (a @ b))
