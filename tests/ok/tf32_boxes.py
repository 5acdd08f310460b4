"""Boxes of f32 that are rounded to tf32 while they are loaded, into one block's memory and into all copies of a cluster's; the same box loaded as it is.
"""

from __future__ import annotations

import numpy as np

from snap import *


@kernel(threads=128, where=lambda blocks: blocks <= 2**27)
def differences(x: ptr(const(float), (M, 32)), y: ptr(float, (M, 32)), M: int):
    """What rounding leaves out."""
    with each(block) as b:
        rounded, given = shared(float[16, 32]), shared(float[16, 32])
        async_copy(rounded, x, at=(16 * b, 0), type="tf32")
        async_copy(given, x, at=(16 * b, 0))
        with each(thread, y, shape=(..., 32)) as (i, j):
            for k in range(4):
                if 16 * b + 4 * k + i < M:
                    y[16 * b + 4 * k + i, j] = given[4 * k + i, j] - rounded[4 * k + i, j]


@kernel(threads=128, cluster=2, where=lambda N, blocks: (N >= 16 * blocks, blocks <= 2**26))
def everywhere(x: ptr(const(float), (M, 32)), y: ptr(float, (N, 32)), M: int, N: int):
    """Each block of a cluster writes what both have loaded."""
    with each(cluster) as c:
        rounded: shared(float[16, 32], copies=block)
        with claim(rounded, p=thread[128]) as all_of_it:
            match split(thread):
                case 128:
                    async_copy(all_of_it, x, at=(16 * c, 0), type="tf32")
        with each(block) as r, each(thread, y, shape=(..., 32)) as (i, j):
            for k in range(4):
                y[(2 * c + r) * 16 + 4 * k + i, j] = rounded[4 * k + i, j]


def nearest(x: np.ndarray) -> np.ndarray:
    """The number with 10 bits after the point that is nearest, ties to even."""
    fraction, exponent = np.frexp(x.astype(np.float64))
    return np.ldexp(np.rint(fraction * 2048) / 2048, exponent).astype(np.float32)


def check() -> None:
    rng = np.random.default_rng(5)
    for rows in (16, 40, 1):
        x = (rng.standard_normal((rows, 32)) * np.exp2(rng.integers(-60, 60, (rows, 32)))).astype(np.float32)
        x[0, :4] = (0.0, 1 + 2**-11, 1 + 3 * 2**-11, -1 - 2**-11)  # a zero, and three that lie between two
        assert not (nearest(x) == x).all()
        y = np.full_like(x, 7)
        differences[-(-rows // 16)](x, y, rows)
        assert (y == x - nearest(x)).all()
        clusters = -(-rows // 16)
        filled = np.concatenate([x, np.zeros((16 * clusters - rows, 32), np.float32)])
        y = np.full((32 * clusters, 32), 7, np.float32)
        everywhere[2 * clusters](x, y, rows, 32 * clusters)
        assert (y.reshape(clusters, 2, 16, 32) == nearest(filled).reshape(clusters, 1, 16, 32)).all()
    assert not differences.races(np.ones((40, 32), np.float32), np.zeros((40, 32), np.float32), 40, blocks=3)


if __name__ == "__main__":
    check()
    print("ok")
