"""Parts of a warp, 2 to 16 threads, shuffle, vote, match and reduce by themselves: one row of a sparse matrix each, of
another length each, so that the parts of one warp run their loops a different number of times.
"""

from __future__ import annotations

import numpy as np

from snap import *
from snap.lib import warp as of_warp

upto = of_warp.scan(int, threads=4)


@kernel(threads=64, blocks=lambda rows: -(-rows // 8),
        where=lambda first, rows, n, y: (len(first) >= rows + 1, len(y) >= rows, rows <= 2**30, n <= 2**30))
def spmv(first: ptr(const(int)), column: ptr(const(int), (n,)), a: ptr(const(float), (n,)), x: ptr(const(float), (m,)), y: ptr(float), rows: int, n: int, m: int):
    """What memory has to hold, it says by assertions: rows begin and end in the matrix, which holds columns of x."""
    row: int @ thread[8] = id()
    with partition(y, p=thread[8]) as mine, group(thread[8]):
        lane: int @ thread[1] = id()
        if row < rows:
            assert 0 <= first[row] and first[row + 1] <= n
            total: float = 0.0
            for k in range(first[row], first[row + 1], 8):  # how often, each part decides for itself
                j: int @ thread[1] = k + lane
                assert j >= first[row + 1] or 0 <= column[j] < m
                total += intrinsic.reduce_add(a[j] * x[column[j]], where=j < first[row + 1])
            with one(thread, mine):
                mine[row] = total


@kernel(threads=64, where=lambda blocks, x: (len(x) >= 64 * blocks, blocks <= 1))
def collectives(x: ptr(const(int)), out: ptr(int, (16, 64)), by: int):
    i: int @ thread[1] = id()
    v: int @ thread[1] = x[i]
    with partition(out, p=thread[1], f=lambda k: (k, i)) as mine:
        with group(thread[16]):
            mine[0] = int(intrinsic.ballot(v > 3))  # bit k is thread k of the part
            mine[1] = int(intrinsic.match_any(v))
            mine[2] = int(intrinsic.match_all(v / 100))
            mine[3] = intrinsic.shfl_xor(v, by)  # stays within the part, whatever `by` is
        with group(thread[8]):
            mine[4] = int(intrinsic.any(v == 3))
            mine[5] = int(intrinsic.all(v < 7))
            if intrinsic.shfl(v, 0) > 3:  # parts go different ways
                mine[6] = intrinsic.reduce_max(v)
                intrinsic.syncwarp()
            mine[7] = intrinsic.shfl_down(v, 2, width=4)
        with group(thread[4]):
            mine[8] = upto(v)
            mine[9] = intrinsic.shfl_up(v, 1)
        with group(thread[2]):
            mine[10] = intrinsic.reduce_add(v)
            mine[11] = int(intrinsic.elect())
        with group(warp):
            mine[12] = intrinsic.reduce_min(v, where=v > 4)
            mine[13] = intrinsic.reduce_and(v, where=v > 100)  # for none: what changes nothing, all bits
            mine[14] = intrinsic.reduce_add(x[i + 1000000], where=i < 0)  # is not read where it does not hold


def bits(mask):
    return sum(1 << k for k, b in enumerate(mask) if b)


def check():
    rng = np.random.default_rng(3)
    rows = 37
    lengths = rng.integers(0, 40, rows)
    first = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    column = rng.integers(0, 50, first[-1]).astype(np.int32)
    a, x = (rng.integers(-4, 5, n).astype(np.float32) for n in (first[-1], 50))
    y = np.zeros(rows, np.float32)
    spmv(first, column, a, x, y, rows, len(a), len(x))
    np.testing.assert_array_equal(y, [(a[s:e] * x[column[s:e]]).sum() for s, e in zip(first, first[1:])])

    x = rng.integers(0, 8, 64).astype(np.int32)
    x[16:32] = 5
    out = np.zeros((16, 64), np.int32)
    collectives[1](x, out, 21)
    of = lambda n: np.arange(64) // n * n  # noqa: E731
    p16, p8, p4, p2 = (x.reshape(-1, n) for n in (16, 8, 4, 2))
    np.testing.assert_array_equal(out[0], np.repeat([bits(v > 3) for v in p16], 16))
    np.testing.assert_array_equal(out[1], [bits(x[of(16)[t]:][:16] == x[t]) for t in range(64)])
    np.testing.assert_array_equal(out[2], 0xFFFF)
    np.testing.assert_array_equal(out[3], [x[t ^ 5] for t in range(64)])
    np.testing.assert_array_equal(out[4], np.repeat((p8 == 3).any(axis=1), 8))
    np.testing.assert_array_equal(out[5], np.repeat((p8 < 7).all(axis=1), 8))
    np.testing.assert_array_equal(out[6], np.repeat(np.where(p8[:, 0] > 3, p8.max(axis=1), 0), 8))
    np.testing.assert_array_equal(out[7], [x[t + 2] if t % 4 < 2 else x[t] for t in range(64)])
    np.testing.assert_array_equal(out[8], np.cumsum(p4, axis=1).ravel())
    np.testing.assert_array_equal(out[9], [x[t - 1] if t % 4 else x[t] for t in range(64)])
    np.testing.assert_array_equal(out[10], np.repeat(p2.sum(axis=1), 2))
    np.testing.assert_array_equal(out[11], np.tile([1, 0], 32))
    np.testing.assert_array_equal(out[12], np.repeat([min(v[v > 4]) for v in x.reshape(2, 32)], 32))
    assert (out[13] == -1).all() and (out[14] == 0).all()
