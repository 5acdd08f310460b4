"""Warp reductions of integers and floats, `elect`, and `broadcast` over the block."""

from __future__ import annotations

import numpy as np

from snap import *


@kernel(threads=64, where=lambda blocks, real, x: (len(x) >= 64 * blocks, blocks <= 1, len(real) >= 64 * blocks))
def reduce(x: ptr(const(int)), out: ptr(int, (8, 64)), real: ptr(float)):
    i: int @ thread[1] = id()
    v: int @ thread[1] = x[i]
    with partition(out, p=thread[1], f=lambda k: (k, i)) as mine, partition(real, p=thread[1], offset=i) as r, each(block):
        with each(warp):
            mine[0] = intrinsic.reduce_add(v)
            mine[1] = intrinsic.reduce_min(v)
            mine[2] = intrinsic.reduce_max(v)
            mine[3] = int(intrinsic.reduce_and(u32(v)))
            mine[4] = int(intrinsic.reduce_or(u32(v)))
            mine[5] = int(intrinsic.reduce_xor(u32(v)))
            r[0] = intrinsic.reduce_add(float(v) * 0.5)
            mine[6] = int(intrinsic.elect())
        of_thread_40: int = intrinsic.broadcast(v, source=40)
        if of_thread_40 > -1000000:
            mine[7] = of_thread_40 + intrinsic.broadcast(v)


def check():
    rng = np.random.default_rng(0)
    x = rng.integers(-1000, 1000, 64).astype(np.int32)
    out, real = np.zeros((8, 64), np.int32), np.zeros(64, np.float32)
    reduce[1](x, out, real)
    for w in range(2):
        part = slice(32 * w, 32 * w + 32)
        v = x[part]
        right = [v.sum(), v.min(), v.max(), np.bitwise_and.reduce(v), np.bitwise_or.reduce(v), np.bitwise_xor.reduce(v)]
        np.testing.assert_array_equal(out[:6, part], np.repeat(right, 32).reshape(6, 32))
        np.testing.assert_allclose(real[part], v.sum() * 0.5)
        assert out[6, part].sum() == 1
    np.testing.assert_array_equal(out[7], x[40] + x[0])
