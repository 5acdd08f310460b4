"""Each warp of the role would load the array on its own."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[96])
def k(x: ptr(const(float), (M, 32)) @ grid[1], y: ptr(float) @ grid[1], M: int @ grid[1]):
    with group(grid[1]):
        with partition(y, p=block[1], f=lambda i: i) as yb:
            with group(block[1]):
                t: int @ thread[1] = id()
                with partition(yb, p=thread[1], f=lambda i: i + t) as mine:
                    row: shared(float[1, 32])
                    for k in range(M):
                        with claim(row, p=thread[64]) as fill:
                            match split(thread, 64, 32):
                                case 0:
                                    with partition(fill, p=thread[32], f=lambda i, j: (i, j)) as part:
                                        with group(thread[32]):
                                            async_copy(part, x, at=(k, 0))  #~ SNAP020
                                case 1:
                                    pass
                        with claim(row, p=thread[32]) as use:
                            match split(thread, 64, 32):
                                case 0:
                                    pass
                                case 1:
                                    mine[0] = use[0, t % 32]
