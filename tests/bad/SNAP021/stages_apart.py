"""One stage loads and another uses: the compiler counts them as two fills."""

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
                    rows: pipeline(shared(float[1, 32]), 2)
                    for k in range(M):
                        with stage(rows) as s:
                            with claim(s, p=thread[32]) as fill:
                                match split(thread, 64, 32):
                                    case 0:
                                        pass
                                    case 1:
                                        async_copy(fill, x, at=(k, 0))
                        with stage(rows) as s:  #~ SNAP021
                            with claim(s, p=thread[64]) as use:
                                match split(thread, 64, 32):
                                    case 0:
                                        mine[0] = use[0, t % 32]
                                    case 1:
                                        pass
