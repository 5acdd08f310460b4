"""Two kinds of turns, of which there are not equally many: the kernel is right, and that no wait is endless is not shown, since how far the two have come is not compared."""

from __future__ import annotations

from snap import *


@kernel(threads=64, proved=True, where=lambda x, blocks: (len(x) >= 1, blocks == 1))
def example(x: ptr(int), n: int):
    with each(block):
        for k in range(n):
            with each(warp):
                for i in range(n):
                    with turn(), one(thread):  #~ SNAP026
                        atomic.add(x, 0, 1)
                with turn(), one(thread):  #~ SNAP026
                    atomic.add(x, 0, 1)
