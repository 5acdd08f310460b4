"""One device function on global and on shared memory, const pointers read up, others exactly."""

from __future__ import annotations

import numpy as np

from snap import *


@device(warp)
def copy_reversed(src: ptr(const(int)), dst: ptr(int), at: int):
    with each(thread, dst) as l:
        dst[l] = src[at + 31 - l]


@kernel(threads=64, where=lambda blocks, out, x: (len(x) >= 64 * blocks, len(out) >= 64 * blocks))
def twice(x: ptr(const(int)), out: ptr(int)):
    g: int @ warp = id()
    with partition(out, p=warp, offset=32 * g) as out_warp, each(block):
        s: shared(int[2, 32])
        with each(warp, s) as w:
            copy_reversed(x, s[w], 32 * g)
            copy_reversed(s[w], out_warp, 0)


def check():
    x = np.arange(256, dtype=np.int32) ** 2
    out = np.zeros_like(x)
    twice[4](x, out)
    np.testing.assert_array_equal(out, x)
