"""96 threads hold no whole columns of 8 threads at a stride of 16: these fill every 128."""

from __future__ import annotations

from snap import *


@kernel(threads=96)
def example(y: ptr(int)):
    with each(block, y):
        with group(thread.every(16)[8]):  #~ SNAP002
            pass
        with group(warp.every(2)[3]):  #~ SNAP002
            pass
