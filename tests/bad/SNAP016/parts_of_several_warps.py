"""The threads of a column lie in four warps, which have no shuffles between them; nor has setmaxnreg a meaning for every other warpgroup."""

from __future__ import annotations

from snap import *


@kernel(threads=512)
def example(y: ptr(int)):
    t: int @ thread[1] = id()
    with group(thread.every(16)[8]):
        sum: int = intrinsic.reduce_add(t)  #~ SNAP016
    with group(warpgroup.every(2)[2]):
        intrinsic.setmaxnreg(80)  #~ SNAP016
