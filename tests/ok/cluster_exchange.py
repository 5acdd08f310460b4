"""Blocks of a cluster write into each other's memory before anything else happens: all of them must have begun by then.
"""

from __future__ import annotations

import numpy as np

from snap import *


@kernel(threads=64, cluster=4, where=lambda blocks, x, y: (len(x) >= 64 * blocks, len(y) >= 64 * blocks, blocks <= 2**25))
def passed_on(x: ptr(const(int)), y: ptr(int)):
    """Each block gives its values to the next one, round a ring."""
    with each(cluster) as c:
        given: shared(int[64], across=block)
        b: int @ block[1] = id()
        t: int @ thread[1] = id() % 64
        with each(thread, given):
            given[(b + 1) % 4, t] = x[c * 256 + b * 64 + t]
        with each(thread, y):
            y[c * 256 + b * 64 + t] = given[b, t]


def check() -> None:
    for clusters in (1, 3):
        x = np.random.default_rng(clusters).integers(-99, 99, clusters * 256).astype(np.int32)
        y = np.zeros_like(x)
        passed_on[4 * clusters](x, y)
        assert (y.reshape(clusters, 4, 64) == np.roll(x.reshape(clusters, 4, 64), 1, axis=1)).all()
        assert not passed_on.races(x, y, blocks=4 * clusters, seeds=4)


if __name__ == "__main__":
    check()
    print("ok")
