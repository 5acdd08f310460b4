"""A case of 48 threads would be one warp and half of another, 64 threads on."""

from __future__ import annotations

from snap import *


@kernel(threads=256)
def example(y: ptr(int)):
    with group(warp.every(2)[4]):
        match split(thread):
            case 48:  #~ SNAP004
                pass
