"""A box loaded in the one case of a split is loaded by the block."""

from __future__ import annotations

import numpy as np

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def k(x: ptr(const(int), (M, 64)) @ grid[1], y: ptr(int) @ grid[1], M: int @ grid[1]):
    with group(grid[1]):
        with partition(y, p=block[1], f=lambda i: i) as yc:
            with group(block[1]):
                q: pipeline(shared(int[4, 64]), 2)
                t: int @ thread[1] = id() % 64
                acc: int @ thread[1] = 0
                for k in range(M / 4):
                    with stage(q) as s:
                        with claim(s, p=thread[64]) as m:
                            match split(thread):
                                case 64:
                                    async_copy(m, x, at=(4 * k, 0))
                        with claim(s, p=thread[64]) as m:
                            match split(thread):
                                case 64:
                                    for i in range(4):
                                        acc = acc * 3 + m[i, 63 - t]
                with partition(yc, p=thread[1], f=lambda i: t) as c:
                    c[0] = acc


def arguments():
    return [np.arange(20 * 64, dtype=np.int32).reshape(20, 64)**2 % 61, np.zeros(64, np.int32), 20]
