"""What is handed over in turns is not followed: the kernel is right, and that no wait is endless is not shown."""

from __future__ import annotations

from snap import *


@kernel(threads=64, proved=True, where=lambda x, blocks: (len(x) >= 1, blocks == 1))
def example(x: ptr(int)):
    with each(block), each(warp):
        with turn(), one(thread):  #~ SNAP026 SNAP026 SNAP026 SNAP026 SNAP026
            atomic.add(x, 0, 1)
