"""Rows of local arrays as operands: fragments of `mma` by number, accumulators of `wgmma` by number, and rows by
reference; the elements are stored where `acc_row` and `acc_column` say.
"""

from __future__ import annotations

import numpy as np

from snap import *


@device(thread)
def scaled(row: ref(float[4]), by: float):
    for j in range(4):
        row[j] = row[j] * by


@kernel(threads=32, where=lambda blocks: blocks == 1)
def by_a_warp(a: ptr(const(bf16), (16, 32)), b: ptr(const(bf16), (16, 32)), c: ptr(float, (16, 16))):
    with each(block, c):
        rows: shared(bf16[16, 32])
        with each(thread, rows) as t:
            for r in range(16):
                rows[r, t] = a[r, t]
        lane: int @ thread[1] = id()
        left: bf16[2, 8] @ thread[1]
        right: bf16[2, 4] @ thread[1]
        acc: float[2, 4] @ thread[1]
        for k in range(2):
            intrinsic.ldmatrix(left[k], rows[lane % 16, 16 * k + lane / 16 * 8])
        for n in range(2):
            for k in range(2):
                for j in range(4):
                    right[k, j] = b[8 * n + lane / 4, 16 * k + lane % 4 * 2 + j % 2 + j / 2 * 8]
                intrinsic.mma(left[k], right[k], acc[n], out=acc[n])
        with each(thread, c):
            for n in range(2):
                scaled(acc[n], 2.0)
                for j in range(4):
                    c[acc_row(j, warp), 8 * n + acc_column(j, warp)] = acc[n, j]


@kernel(threads=128, where=lambda blocks: blocks == 1)
def by_a_warpgroup(a: ptr(const(bf16), (64, 64)), b: ptr(const(bf16), (64, 64)), c: ptr(float, (64, 64))):
    with each(block, c):
        left: shared(bf16[64, 64], swizzle=128)
        right: shared(bf16[64, 64], swizzle=128)
        acc: float[2, 16] @ thread[1]
        async_copy(left, a, at=(0, 0))
        async_copy(right, b, at=(0, 0))
        for n in range(2):
            wgmma(acc[n], left, tile(right, (32 * n, 0), (32, 64)))
        with each(thread, c):
            for n in range(2):
                for j in range(16):
                    c[acc_row(j, warpgroup), 32 * n + acc_column(j, warpgroup)] = acc[n, j]


def bits(x):
    return (x.view(np.uint32) >> 16).astype(np.uint16)


def check():
    rng = np.random.default_rng(11)
    a, b = rng.integers(-3, 4, (2, 16, 32)).astype(np.float32)
    c = np.zeros((16, 16), np.float32)
    by_a_warp[1](bits(a), bits(b), c)
    np.testing.assert_array_equal(c, 2 * a @ b.T)
    a, b = rng.integers(-3, 4, (2, 64, 64)).astype(np.float32)
    c = np.zeros((64, 64), np.float32)
    by_a_warpgroup[1](bits(a), bits(b), c)
    np.testing.assert_array_equal(c, a @ b.T)
