"""`@requires` says at least: one function, called from blocks of 64 and of 256 threads, and by one that asks for less."""

from __future__ import annotations

import numpy as np

from snap import *


@device
@requires(block[1], thread[1])
def load(src: ptr(const(int)) @ block[1], total: int @ block[1], dst: ptr(int) @ block[1]):
    threads: constexpr(int) = count(thread)
    with each(thread, dst) as t:
        for k in range(t, total, threads):
            dst[k] = src[k]


@device(block, warp)
def reversed_sums(src: ptr(const(int)), total: int, dst: ptr(int)):
    warps: constexpr(int) = count(warp)
    cells: shared(int[warps])
    with each(warp, cells) as w:
        s: int = intrinsic.reduce_add(src[32 * w] + 0 * total)
        with one(thread, cells):
            cells[w] = s
    with each(thread, dst) as t:
        if t < warps:
            dst[t] = cells[warps - 1 - t]


@device(block)
def both(src: ptr(const(int)), total: int, dst: ptr(int)):
    load(src, total, dst)


@kernel(threads=64, where=lambda blocks, n, x, y, z: (blocks == 1, len(x) >= 64, len(x) >= n, len(y) >= n, len(z) >= 2, n <= 2**30))
def small(x: ptr(const(int)), y: ptr(int), z: ptr(int), n: int):
    with each(block, y, z):
        both(x, n, y)
        reversed_sums(x, n, z)


@kernel(threads=256, where=lambda blocks, n, x, y, z: (blocks == 1, len(x) >= 256, len(x) >= n, len(y) >= n, len(z) >= 8, n <= 2**30))
def large(x: ptr(const(int)), y: ptr(int), z: ptr(int), n: int):
    with each(block, y, z):
        load(x, n, y)
        reversed_sums(x, n, z)


def check():
    x = np.arange(1000, dtype=np.int32)
    for kernel_, warps in (small, 2), (large, 8):
        y, z = np.zeros(1000, np.int32), np.zeros(warps, np.int32)
        kernel_[1](x, y, z, 1000)
        np.testing.assert_array_equal(y, x)
        np.testing.assert_array_equal(z, 32 * x[: 32 * warps : 32][::-1])
