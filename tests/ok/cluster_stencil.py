"""A three-point stencil on rows kept in registers: the blocks of a cluster hand each other their edges through distributed shared memory.
"""

from __future__ import annotations

import numpy as np

from snap import *


@kernel(threads=64, cluster=4, where=lambda R, blocks: (R >= 2 * blocks, blocks <= 2**30))
def stencil(x: ptr(const(float), (R, 64)), y: ptr(float, (R, 64)), R: int, steps: int):
    with each(cluster) as c:
        edge: pipeline(shared(float[2, 64], across=block), 2)
        b: int @ block[1] = id()
        row: int @ block[1] = 8 * c + 2 * b
        t: int @ thread[1] = id() % 64
        u, v = x[row, t], x[row + 1, t]
        for s in range(steps):
            with stage(edge, s) as e:
                with each(thread, e):
                    e[b, 0, t], e[b, 1, t] = u, v
                up, down = registers(0.0, 0.0)
                with each(block):
                    if b > 0:
                        up = e[b - 1, 1, t]
                    if b < 3:
                        down = e[b + 1, 0, t]
                u, v = (up + u + v) / 3.0, (u + v + down) / 3.0
        with each(thread, y):
            y[row, t], y[row + 1, t] = u, v


def check():
    rng = np.random.default_rng(0)
    x = rng.random((16, 64), np.float32)
    for steps in (0, 1, 5):
        y = np.zeros_like(x)
        stencil[8](x, y, 16, steps)
        want = x.copy()
        for _ in range(steps):
            for c in (0, 8):
                z = np.zeros((10, 64), np.float32)
                z[1:9] = want[c:c + 8]
                want[c:c + 8] = (z[:-2] + z[1:-1] + z[2:]) / np.float32(3)
        np.testing.assert_allclose(y, want, rtol=1e-6)
    assert not stencil.races(x, y, 16, 3, blocks=8, seeds=4)
