"""Each block of the cluster copies its share of the tile into all copies: no block may stay away."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], cluster[1], block[2], thread[128])
def load(x: ptr(const(bf16), (M, N)) @ grid[1], M: int @ grid[1], N: int @ grid[1]):
    with group(grid[1]):
        with group(cluster[1]):
            s: shared(bf16[64, 64], swizzle=128, copies=block)
            b: int @ block[1] = id()
            with claim(s, p=thread[32]) as mine:
                match split(thread):
                    case 32:
                        if b == 0:
                            async_copy(mine, x, at=(0, 0))  #~ SNAP006
