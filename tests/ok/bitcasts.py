"""`intrinsic.bitcast` keeps the bits and changes the type."""

from __future__ import annotations

import numpy as np

from snap import *


@kernel(threads=32, where=lambda back, blocks, out, x: (len(x) >= 32 * blocks, len(out) >= 32 * blocks, len(back) >= 32 * blocks))
def bits(x: ptr(const(float)), out: ptr(u32), back: ptr(float)):
    with each(thread, out, back) as i:
        u: u32 = intrinsic.bitcast(x[i], u32)
        out[i] = u
        back[i] = intrinsic.bitcast(u ^ u32(0x80000000), float)


def check():
    x = np.linspace(-3, 5, 32, dtype=np.float32)
    out, back = np.zeros(32, np.uint32), np.zeros(32, np.float32)
    bits[1](x, out, back)
    np.testing.assert_array_equal(out, x.view(np.uint32))
    np.testing.assert_array_equal(back, -x)
