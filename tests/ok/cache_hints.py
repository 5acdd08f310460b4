"""Loads, stores and asynchronous copies that say how the caches treat them; prefetches. None of it changes a result.
"""

from __future__ import annotations

import numpy as np

from snap import *


@kernel(threads=64, where=lambda n, x, y: (len(x) >= n, len(y) >= n))
def streamed(x: ptr(const(float4)), y: ptr(float4), n: int):
    """Read once and written once: past the L1, and the first to leave the L2."""
    with each(thread, y) as i:
        if i >= n:
            return
        intrinsic.prefetch(x[i + 1024])  # beyond the end is nothing
        v: float4 = intrinsic.load(x[i], cache="cs")
        w: float4 = intrinsic.load(y[i], cache="cg", l2="evict_first")
        intrinsic.store(y[i], float4(v.x + w.w, v.y + w.z, v.z + w.y, v.w + w.x), cache="cs")


@kernel(threads=64, where=lambda b, blocks, d, h, k: (len(b) >= 64 * blocks, len(h) >= 64 * blocks, len(d) >= 64 * blocks, len(k) >= 64 * blocks))
def of_all_sizes(b: ptr(u8), h: ptr(f16), d: ptr(double4), k: ptr(i64)):
    with each(thread, b, h, d, k) as i:
        intrinsic.store(b[i], intrinsic.load(b[i], cache="lu") + 3, cache="wt")
        intrinsic.store(h[i], intrinsic.load(h[i], cache="no_allocate") * f16(2.0), cache="no_allocate")
        v: double4 = intrinsic.load(d[i], cache="cv", l2="evict_last")
        intrinsic.store(d[i], double4(v.w, v.z, v.y, v.x), cache="cg", l2="evict_normal")
        intrinsic.store(k[i], k[i] + intrinsic.load(k[i], cache="ca"), cache="wb", l2="evict_unchanged")


@kernel(threads=64, where=lambda blocks, x, y: (len(x) >= 64, len(y) >= 64, blocks == 1))
def handed_on(x: ptr(int), y: ptr(int)):
    """A load with a hint is ordered as every load: here behind the barrier for x."""
    with each(block, x, y):
        i: int @ thread[1] = id()
        with partition(x, p=thread[1], offset=i) as mine:
            intrinsic.store(mine[0], mine[0] * 2, cache="cs")
        with partition(y, p=thread[1], offset=i) as out:
            out[0] = intrinsic.load(x[63 - i], cache="cg")


@kernel(threads=128, where=lambda blocks: blocks <= 2**26)
def copied(a: ptr(const(float), (M, 64)), c: ptr(float, (M, 64)), M: int):
    """Asynchronous copies, of elements and of boxes (TMA)."""
    with each(block, c) as b:
        s: shared(float[32, 64])
        t: shared(float4[128])
        i: int @ thread[1] = id()
        intrinsic.prefetch(s, a, at=(32 * b + 64, 0))  # the box after next; beyond the end is nothing
        async_copy(s, a, at=(32 * b, 0), l2="evict_first")
        with partition(t, p=thread[1], offset=i) as mine:
            async_copy(mine[0], a.view(float4)[i, 3], valid=i < M, l2="evict_last")
        with partition(s, p=thread[1], f=lambda k: (k, i % 64)) as column:
            for k in range(16):
                column[k + 16 * (i / 64)] += t[(i + 64) % 128].x
        async_copy(c, s, at=(32 * b, 0), l2="evict_first")
        async_reduce(c, s, at=(32 * b, 0), l2="evict_normal")


def check():
    rng = np.random.default_rng(2)
    x, y = (rng.integers(-9, 9, 4 * 130).astype(np.float32) for _ in range(2))
    want = x + y.reshape(-1, 4)[:, ::-1].ravel()
    assert not streamed.races(x, y.copy(), 130, blocks=3, seeds=2)
    streamed[3](x, y, 130)
    np.testing.assert_array_equal(y, want)

    d = rng.integers(-9, 9, 4 * 64).astype(np.float64)
    b, h, k = np.arange(192, 256, dtype=np.uint8), np.arange(64, dtype=np.float16), np.arange(64) << 40
    want = b + np.uint8(3), h * 2, d.reshape(-1, 4)[:, ::-1].ravel(), k * 2
    of_all_sizes[1](b, h, d, k)
    for one, other in zip((b, h, d, k), want):
        np.testing.assert_array_equal(one, other)

    x, y = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    assert not handed_on.races(x.copy(), y, blocks=1, seeds=4)
    handed_on[1](x, y)
    np.testing.assert_array_equal(y, 2 * np.arange(64)[::-1])

    a = rng.integers(-9, 9, (48, 64)).astype(np.float32)
    c = np.zeros_like(a)
    copied[2](a, c, 48)
    added = np.tile(np.pad(a[:, 12], (0, 80))[(np.arange(128) + 64) % 128].reshape(2, 64).repeat(16, 0), (2, 1))[:48]
    np.testing.assert_array_equal(c, 2 * (a + added))
