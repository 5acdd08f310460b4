"""`intrinsic.bitcast` keeps the bits and changes the type."""

from __future__ import annotations

import numpy as np

from snap import *


@kernel
@requires(grid[1], block[1], thread[32])
def bits(x: ptr(const(float)) @ grid[1], out: ptr(u32) @ grid[1], back: ptr(float) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        u: u32 @ thread[1] = intrinsic.bitcast(x[i], u32)
        with partition(out, p=thread[1], offset=i) as mine:
            mine[0] = u
        with partition(back, p=thread[1], offset=i) as mine:
            mine[0] = intrinsic.bitcast(u ^ u32(0x80000000), float)


def check():
    x = np.linspace(-3, 5, 32, dtype=np.float32)
    out, back = np.zeros(32, np.uint32), np.zeros(32, np.float32)
    bits[1](x, out, back)
    np.testing.assert_array_equal(out, x.view(np.uint32))
    np.testing.assert_array_equal(back, -x)
