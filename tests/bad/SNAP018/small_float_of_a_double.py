"""A float of 8 bits is rounded once, from f32."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def example():
    with group(warp):
        x: f64 @ thread[1] = 0.1
        b: u8 @ thread[1] = to_e4m3(x)  #~ SNAP018
