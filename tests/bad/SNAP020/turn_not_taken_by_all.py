"""The second warpgroup would wait for the first, which never comes."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[256])
def alternate(n: int @ grid[1]):
    with group(grid[1]):
        with group(block[1]):
            w: int @ warpgroup = id()
            with group(warpgroup):
                for k in range(n):
                    if k % 2 == w:
                        with turn():  #~ SNAP020
                            pass
