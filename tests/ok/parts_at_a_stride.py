"""Parts of a warp whose lanes are at a stride: votes, shuffles and reductions go by member, and barriers by mask."""

from __future__ import annotations

import numpy as np

from snap import *

quad = thread[4]
by_four = thread.every(4)[8]  # lanes k, k + 4, ..., k + 28
quads = quad.every(2)[2]  # lanes 0..3 and 8..11; 4..7 and 12..15


@kernel(threads=64, where=lambda x, y: (len(x) >= 64, len(y) >= 512), blocks=1)
def collectives(x: ptr(const(int)), y: ptr(int)):
    t: int @ thread[1] = id()
    v: int @ thread[1] = x[t]
    with each(by_four, y) as p:
        i: int @ thread[1] = id()
        up, down = intrinsic.shfl_up(v, 1 + p % 3), intrinsic.shfl_down(v, 3)
        other: int @ thread[1] = intrinsic.shfl_xor(v, 5)
        next: int @ thread[1] = intrinsic.shfl(v, (i + 1) % 8)
        sum: int = 0
        if p % 2 == 0:  # parts of one warp go different ways
            sum = intrinsic.reduce_add(v, where=v > 0)
        even: u32 = intrinsic.ballot(v % 2 == 0)
        alike: u32 @ thread[1] = intrinsic.match_any(v % 3)
        first: int = intrinsic.shfl(v, 0)
        with each(thread, y):
            y[t] = up
            y[64 + t] = down
            y[128 + t] = other
            y[192 + t] = next
            y[256 + t] = sum
            y[320 + t] = int(even)
            y[384 + t] = int(alike)
            y[448 + t] = first


@kernel(threads=64, where=lambda x, y: (len(x) >= 64, len(y) >= 192), blocks=1)
def of_quads(x: ptr(const(float)), y: ptr(float)):
    t: int @ thread[1] = id()
    with each(block, y):
        s: shared(float[64])
        with each(quads, s, y) as q:
            with each(thread, s) as i:
                s[8 * q + i] = x[t]
            with each(thread, y) as i:
                y[t] = s[8 * q + 7 - i]
            largest: float = intrinsic.reduce_max(x[t])
            chosen: bool @ thread[1] = intrinsic.elect()
            turned: float @ thread[1] = intrinsic.shfl_xor(x[t], 4)
            with each(thread, y):
                y[64 + t] = largest if chosen else 0.0
                y[128 + t] = turned


def check():
    x = np.random.default_rng(0).integers(-50, 50, 64).astype(np.int32)
    y = np.zeros(512, np.int32)
    collectives(x, y)
    v = x.reshape(2, 8, 4).transpose(0, 2, 1).reshape(8, 8)  # part, member
    k, p = np.arange(8), np.arange(8)[:, None]
    up, down = k - (1 + p % 3), k + 3 + 0 * p
    want = [
        np.take_along_axis(v, np.where(up < 0, k, up), 1),
        np.take_along_axis(v, np.where(down > 7, k, down), 1),
        v[:, k ^ 5],
        v[:, (k + 1) % 8],
        np.where(p % 2 == 0, (v * (v > 0)).sum(1, keepdims=True), 0) + 0 * k,
        ((v % 2 == 0) << k).sum(1, keepdims=True) + 0 * k,
        ((v[:, None] % 3 == v[:, :, None] % 3) << k).sum(2),
        v[:, :1] + 0 * k,
    ]
    found = y.reshape(8, 2, 8, 4).transpose(0, 1, 3, 2).reshape(8, 8, 8)
    np.testing.assert_array_equal(found, np.stack(want))

    x, y = np.random.default_rng(1).normal(size=64).astype(np.float32), np.zeros(192, np.float32)
    of_quads(x, y)
    turn = lambda a: a.reshape(-1, 2, 2, 4).transpose(0, 2, 1, 3).reshape(-1, 8)  # noqa: E731
    v, (back, largest, other) = turn(x), (turn(part) for part in y.reshape(3, 64))
    np.testing.assert_array_equal(back, v[:, ::-1])
    np.testing.assert_array_equal(largest, np.where(k == 0, v.max(1, keepdims=True), 0))
    np.testing.assert_array_equal(other, v[:, k ^ 4])
