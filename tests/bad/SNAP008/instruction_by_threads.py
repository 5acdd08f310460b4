"""An instruction of a warp is executed by a warp."""

from __future__ import annotations

from snap import *


@instruction(warp, text="__reduce_or_sync(~0u, {v})")
def redux(v: u32 @ thread[1]) -> u32:
    return intrinsic.reduce_or(v)


@kernel(threads=32)
def example(x: ptr(u32)):
    with each(thread, x) as i:
        x[i] = redux(x[i])  #~ SNAP008
