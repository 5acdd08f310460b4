"""Fills are numbered over the pipeline's lifetime, and this one numbers them anew for every tile."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[128])
def tiles(x: ptr(const(float), (M, K)) @ grid[1], M: int @ grid[1], K: int @ grid[1]):
    with group(grid[1]):
        with group(block[1]):
            rows: pipeline(shared(float[32, 32]), 4)
            t: int @ thread[1] = id()
            total: float @ thread[1] = 0.0
            for m in range(M / 32):
                for k in range(K / 32):
                    with stage(rows, k) as s:  #~ SNAP021
                        async_copy(s, x, at=(32 * m, 32 * k))
                    with stage(rows, k) as s:
                        total += s[t / 32, t % 32]
