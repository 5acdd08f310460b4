"""Two warpgroups take turns: each multiplies while the other does the arithmetic between its products; four warps write in turn.
"""

from __future__ import annotations

import numpy as np

from snap import *


@kernel(threads=256, where=lambda blocks: blocks == 1)
def powers(x: ptr(const(bf16), (128, 64)), y: ptr(const(bf16), (64, 64)), out: ptr(float, (128, 64)), n: int):
    """A tile of 64 rows each: it is multiplied by y again and again, and halved in between."""
    with each(block, out, disjoint=out):
        ys, os, xs = shared(bf16[64, 64], swizzle=128), shared(float[2, 2, 64, 32], swizzle=128), shared(bf16[128, 64], swizzle=128)
        async_copy(ys, y, at=(0, 0))
        async_copy(xs, x, at=(0, 0))
        acc, a = registers(float[32], bf16[32])
        with each(warpgroup) as w:
            wgmma(acc, tile(xs, (64 * w, 0), (64, 64)), ys, zero=True)
            for i in range(n):
                a = [bf16(acc[j] / 2.0) for j in range(32)]
                with turn():
                    wgmma(acc, a, ys, zero=True)
        with each(warpgroup, os, out) as w:
            for h in range(2):
                store_acc(os[w, h], acc, first=32 * h)
            async_copy(out, os[w], at=(64 * w, 0))


@kernel(threads=128, where=lambda order, n: (len(order) >= 4 * n, n <= 2**20))
def queue(order: ptr(int), n: int):
    """Each warp takes a number when it is its turn: the counter is read and written by atomics, and the order is the turns'."""
    with each(block):
        next_number: shared(int[1])
        with each(thread, next_number) as t:
            if t == 127:
                next_number[0] = 0
        with each(warp) as w:
            for i in range(n):
                with turn(), one(thread):
                    number: int = atomic.add(next_number, 0, 1)
                    assert 0 <= number < 4 * n
                    atomic.store(order, number, 100 * i + w)


def check():
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-1, 2, shape).astype(np.float32) for shape in ((128, 64), (64, 64)))
    y *= rng.random(y.shape) < 0.1
    bits = [(m.view(np.uint32) >> 16).astype(np.uint16) for m in (x, y)]
    for n in (0, 1, 3):
        out = np.zeros((128, 64), np.float32)
        powers[1](*bits, out, n)
        want = x @ y.T
        for _ in range(n):
            want = want / 2 @ y.T
        np.testing.assert_array_equal(out, want)
    order = np.zeros(20, np.int32)
    queue[1](order, 5)
    np.testing.assert_array_equal(order, (100 * np.arange(5)[:, None] + np.arange(4)).reshape(-1))
    assert not powers.races(*bits, out, 3, blocks=1, seeds=4)
    assert not queue.races(order, 5, blocks=1, seeds=4)
    np.testing.assert_array_equal(order, (100 * np.arange(5)[:, None] + np.arange(4)).reshape(-1))
