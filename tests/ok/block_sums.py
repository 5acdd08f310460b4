"""The kernel of docs/pictures/privileges.svg: each warp adds up 32 elements, the block the sums of its warps.
"""

import numpy as np

from snap import *


@kernel(threads=128, where=lambda blocks, out, x: (len(x) >= 128 * blocks, len(out) >= blocks))
def block_sums(x: ptr(const(float)), out: ptr(float)):
    i: int @ thread[1] = id()
    with each(block) as b:
        sums: shared(float[4])
        with each(warp) as w:
            warp_sum: float @ warp = intrinsic.reduce_add(x[i])
            with one(thread, sums):
                sums[w] = warp_sum
        total: float = sums[0] + sums[1] + sums[2] + sums[3]
        with one(thread, out):
            out[b] = total


def check():
    x, out = np.arange(256, dtype=np.float32), np.zeros(2, np.float32)
    block_sums[2](x, out)
    np.testing.assert_array_equal(out, x.reshape(2, 128).sum(axis=1))
    assert not block_sums.races(x, out, blocks=2)
