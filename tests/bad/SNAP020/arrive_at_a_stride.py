"""Whole warps at a stride have a barrier, and none in two parts."""

from snap import *


@kernel(threads=512, blocks=1)
def k(y: ptr(float, (512,))):
    with each(block, y):
        with each(warp.every(2)[8], y) as i:
            intrinsic.arrive()  #~ SNAP020
            with each(thread, y) as t:
                y[64 * (t / 32) + 32 * i + t % 32] = 1.0
            intrinsic.wait()  #~ SNAP020
