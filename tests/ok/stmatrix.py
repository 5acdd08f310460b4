"""`stmatrix` writes what `ldmatrix` reads; transposed, it writes the transpose."""

from __future__ import annotations

import numpy as np

from snap import *


@kernel
@requires(grid[1], block[1], thread[32], where=lambda blocks: blocks <= 1)
def move(x: ptr(const(f16), (16, 8)) @ grid[1], y: ptr(f16, (16, 8)) @ grid[1], z: ptr(f16, (16, 8)) @ grid[1]):
    with group(grid[1]):
        l: int @ thread[1] = id()
        part_of = lambda k: (l / 2, l % 2 * 4 + k)
        with partition(y, p=thread[1], f=part_of) as y_part, partition(z, p=thread[1], f=part_of) as z_part, group(block[1]):
            s: shared(f16[16, 8])
            d: shared(f16[16, 8])
            with partition(s, p=thread[1], f=part_of) as part:
                for k in range(4):
                    part[k] = x[l / 2, l % 2 * 4 + k]
            with claim(d, p=thread[32]) as of_warp:
                match split(thread):
                    case 32:
                        frag: f16[4] @ thread[1]
                        intrinsic.ldmatrix(frag, s[l % 16, 0])
                        intrinsic.stmatrix(of_warp[l % 16, 0], frag)
            for k in range(4):
                y_part[k] = d[l / 2, l % 2 * 4 + k]
            with claim(d, p=thread[32]) as of_warp:
                match split(thread):
                    case 32:
                        frag: f16[4] @ thread[1]
                        intrinsic.ldmatrix(frag, s[l % 16, 0])
                        intrinsic.stmatrix(of_warp[l % 16, 0], frag, trans=True)
            for k in range(4):
                z_part[k] = d[l / 2, l % 2 * 4 + k]


def check():
    x = np.arange(128, dtype=np.float16).reshape(16, 8)
    y, z = np.zeros_like(x), np.zeros_like(x)
    move[1](x, y, z)
    np.testing.assert_array_equal(y, x)
    np.testing.assert_array_equal(z, np.concatenate([x[:8].T, x[8:].T]))
