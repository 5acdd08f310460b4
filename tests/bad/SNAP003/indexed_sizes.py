"""The form with constant sizes is counted the same way."""

from __future__ import annotations

from snap import *

PRODUCERS = 32
CONSUMERS = 256


@kernel
@requires(grid[1], block[1], thread[256])
def example(out: ptr(int) @ grid[1]):
    with group(block[1]):
        match split(thread, CONSUMERS, PRODUCERS):
            case 0:
                pass
            case 1:  #~ SNAP003
                pass
