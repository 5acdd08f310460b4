"""`stmatrix` writes what `ldmatrix` reads; transposed, it writes the transpose."""

from __future__ import annotations

import numpy as np

from snap import *


@kernel(threads=32, where=lambda blocks: blocks <= 1)
def move(x: ptr(const(f16), (16, 8)), y: ptr(f16, (16, 8)), z: ptr(f16, (16, 8))):
    with each(block):
        s, d, frag = shared(f16[16, 8]), shared(f16[16, 8]), registers(f16[4])
        l = ids(thread)
        with each(thread, s, shape=(..., 2)) as (i, j):
            for k in range(4):
                s[i, j * 4 + k] = x[i, j * 4 + k]
        with each(warp, d):
            intrinsic.ldmatrix(frag, s[l % 16, 0])
            intrinsic.stmatrix(d[l % 16, 0], frag)
        with each(thread, y, shape=(..., 2)) as (i, j):
            for k in range(4):
                y[i, j * 4 + k] = d[i, j * 4 + k]
        with each(warp, d):
            intrinsic.ldmatrix(frag, s[l % 16, 0])
            intrinsic.stmatrix(d[l % 16, 0], frag, trans=True)
        with each(thread, z, shape=(..., 2)) as (i, j):
            for k in range(4):
                z[i, j * 4 + k] = d[i, j * 4 + k]


def check():
    x = np.arange(128, dtype=np.float16).reshape(16, 8)
    y, z = np.zeros_like(x), np.zeros_like(x)
    move[1](x, y, z)
    np.testing.assert_array_equal(y, x)
    np.testing.assert_array_equal(z, np.concatenate([x[:8].T, x[8:].T]))
