"""Conjugate gradients in one launch: the blocks of a cooperative grid compute dot products together, and decide together
when to stop.  What the grid decides is at `grid[1]`, so that the loop it ends may hold barriers of the grid.
"""

from __future__ import annotations

import numpy as np

from snap import *
from snap.lib import block as of_block

T = 64
block_sum = of_block.reduce(float)


@device(grid[1], block[1], thread[T], cooperative=True)
def dot(v: float @ thread[1], parts: ptr(float)) -> float:
    b: int @ block[1] = id()
    with each(block, parts):
        total: float = block_sum(v)
        with one(thread, parts):
            parts[b] = total
    s: float @ thread[1] = 0.0
    for k in range(count(block[1])):
        s += parts[k]
    return intrinsic.broadcast_grid(s)


@kernel(threads=T, cooperative=True, where=lambda b, x, p, parts, steps, n, blocks: (len(b) >= n, len(x) >= n, len(p) >= n, len(p) >= 64 * blocks, len(parts) >= blocks, len(steps) >= 1))
def solve(b: ptr(const(float)), x: ptr(float), p: ptr(float), parts: ptr(float), steps: ptr(int), n: int, most: int, tolerance: float):
    """(2 + 1/4) x[i] - x[i - 1] - x[i + 1] = b[i], one row a thread."""
    i: int @ thread[1] = id()
    inside: bool @ thread[1] = i < n
    mine: float @ thread[1] = 0.0
    residual: float @ thread[1] = b[i] if inside else 0.0
    way: float @ thread[1] = residual
    rr: float = dot(residual * residual, parts)
    step: int = 0
    while intrinsic.any_grid(step < most and abs(residual) > tolerance):
        with each(thread, p) as t:
            p[t] = way
        left: float @ thread[1] = p[i - 1] if i > 0 else 0.0
        right: float @ thread[1] = p[i + 1] if i + 1 < n else 0.0
        product: float @ thread[1] = 2.25 * way - left - right if inside else 0.0
        alpha: float = rr / dot(way * product, parts)
        mine += alpha * way
        residual -= alpha * product
        now: float = dot(residual * residual, parts)
        way = residual + now / rr * way
        rr = now
        step += 1
    with each(thread, x) as t:
        if t < n:
            x[t] = mine
    with one(block, steps), one(thread, steps):
        steps[0] = step


@kernel(threads=T, cluster=2, where=lambda blocks, out, x: (len(x) >= 64 * blocks, 2 * len(out) >= blocks))
def outliers(x: ptr(const(float)), out: ptr(int)):
    """Clusters of two blocks count, vote, and follow one of their threads."""
    i: int @ thread[1] = id()
    with each(cluster, out) as c:
        limit: float = intrinsic.broadcast_cluster(x[i], source=T + 1)
        above: int = intrinsic.count_cluster(x[i] > limit)
        some: bool = intrinsic.any_cluster(x[i] > 9.0)
        every: bool = intrinsic.all_cluster(x[i] > 1.0)
        if some and not every:
            above += 1000
        with one(block, out), one(thread, out):
            out[c] = above


@kernel(threads=T, where=lambda blocks, out, x: (len(x) >= 64 * blocks, len(out) >= blocks))
def agree(x: ptr(const(float)), out: ptr(int)):
    """Of a block the same words are names for `__syncthreads_or` and its kin."""
    i: int @ thread[1] = id()
    with each(block, out) as b:
        n: int = intrinsic.count_block(x[i] > 5.0)
        some: bool = intrinsic.any_block(x[i] > 9.5)
        every: bool = intrinsic.all_block(x[i] > 0.0)
        if some or every:
            n += int(intrinsic.broadcast_block(x[i], source=3))
        with one(thread, out):
            out[b] = n


def check():
    n, blocks = 150, 3
    rng = np.random.default_rng(2)
    b = rng.normal(size=n).astype(np.float32)
    x, p, parts, steps = np.zeros(n, np.float32), np.zeros(blocks * T, np.float32), np.zeros(blocks, np.float32), np.zeros(1, np.int32)
    solve[blocks](b, x, p, parts, steps, n, 100, 1e-5)
    a = 2.25 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
    np.testing.assert_allclose(a @ x, b, atol=1e-4)
    assert 5 < steps[0] < 60, steps
    solve[blocks](b, x, p, parts, steps, n, 3, 1e-5)
    assert steps[0] == 3

    v = (rng.random(4 * T) * 10).astype(np.float32)
    out = np.zeros(2, np.int32)
    outliers[4](v, out)
    want = []
    for w in v.reshape(2, 2 * T):
        want.append((w > w[T + 1]).sum() + 1000 * ((w > 9).any() and not (w > 1).all()))
    np.testing.assert_array_equal(out, want)

    out = np.zeros(4, np.int32)
    agree[4](v, out)
    np.testing.assert_array_equal(out, [(w > 5).sum() + int(w[3]) * ((w > 9.5).any() or (w > 0).all()) for w in v.reshape(4, T)])
