"""`ldmatrix` (plain and transposed) feeds `mma` of bf16 with f32 accumulators."""

from __future__ import annotations

import numpy as np

from snap import *


@kernel
@requires(grid[1], block[1], thread[32])
def product(a: ptr(const(float), (16, 16)) @ grid[1], b: ptr(const(float), (16, 8)) @ grid[1], c: ptr(float, (16, 8)) @ grid[1]):
    with group(grid[1]):
        l: int @ thread[1] = id()
        with partition(c, p=thread[1], f=lambda i, j: (l / 4 + i, l % 4 * 2 + j)) as mine:
            with group(block[1]):
                sa: shared(bf16[16, 16])
                sb: shared(bf16[16, 8])
                with partition(sa, p=thread[1], f=lambda k: (l / 2, l % 2 * 8 + k)) as part:
                    for k in range(8):
                        part[k] = bf16(a[l / 2, l % 2 * 8 + k])
                with partition(sb, p=thread[1], f=lambda k: (l / 2, l % 2 * 4 + k)) as part:
                    for k in range(4):
                        part[k] = bf16(b[l / 2, l % 2 * 4 + k])
                with group(warp):
                    fa: bf16[8] @ thread[1]
                    fb: bf16[4] @ thread[1]
                    acc: float[4] @ thread[1]
                    # lane l names a row of 8: matrices 0..3 are A's top left, bottom left, top right, bottom right
                    intrinsic.ldmatrix(fa, sa[l % 16, l / 16 * 8])
                    intrinsic.ldmatrix(fb, sb[l % 16, 0], trans=True)
                    for twice in range(2):
                        intrinsic.mma(fa, fb, acc, out=acc)
                    for e in range(4):
                        mine[e / 2 * 8, e % 2] = acc[e]


def check():
    rng = np.random.default_rng(0)
    a = rng.integers(-8, 8, (16, 16)).astype(np.float32)
    b = rng.integers(-8, 8, (16, 8)).astype(np.float32)
    c = np.zeros((16, 8), np.float32)
    product[1](a, b, c)
    np.testing.assert_array_equal(c, 2 * (a @ b))
