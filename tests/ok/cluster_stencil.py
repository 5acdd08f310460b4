"""A three-point stencil on rows kept in registers: the blocks of a cluster hand each other their edges through distributed shared memory."""

from __future__ import annotations

import numpy as np

import snap
from snap import *


@kernel
@requires(grid[1], cluster[1], block[4], thread[64])
def stencil(x: ptr(const(float), (R, 64)) @ grid[1], y: ptr(float, (R, 64)) @ grid[1], R: int @ grid[1], steps: int @ grid[1]):
    with group(grid[1]):
        c0: int @ cluster[1] = id()
        with partition(y, p=cluster[1], f=lambda i, j: (8 * c0 + i, j)) as yc:
            with group(cluster[1]):
                edge: pipeline(shared(float[2, 64], across=block), 2)
                b: int @ block[1] = id()
                t: int @ thread[1] = id() % 64
                u: float @ thread[1] = x[8 * c0 + 2 * b, t]
                v: float @ thread[1] = x[8 * c0 + 2 * b + 1, t]
                for s in range(steps):
                    with stage(edge, s) as e:
                        with partition(e, p=thread[1], f=lambda i: (b, i, t)) as mine:
                            mine[0] = u
                            mine[1] = v
                        up: float @ thread[1] = 0.0
                        down: float @ thread[1] = 0.0
                        with group(block[1]):
                            if b > 0:
                                up = e[b - 1, 1, t]
                            if b < 3:
                                down = e[b + 1, 0, t]
                        nu: float @ thread[1] = (up + u + v) / 3.0
                        v = (u + v + down) / 3.0
                        u = nu
                with partition(yc, p=thread[1], f=lambda i: (2 * b + i, t)) as out:
                    out[0] = u
                    out[1] = v


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
    assert not snap.races(stencil, x, y, 16, 3, blocks=8, seeds=4)
