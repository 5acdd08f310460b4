"""A product by clusters of 2 x 2 blocks, each with a tile of 64 x 64: the two blocks of a row share the tile of A, the two of a column that of B.  Each loads
half of both, and multicasts it to the blocks that hold a copy.
"""

from __future__ import annotations

import numpy as np

from snap import *


@kernel(threads=256, cluster=4, where=lambda M, N, K, blocks: (M % 128 == 0, 128 <= M <= 2**30, N % 128 == 0, 128 <= N <= 2**30, 4096 * blocks <= M * N))
def product(A: ptr(const(bf16), (M, K)), B: ptr(const(bf16), (N, K)), C: ptr(bf16, (M, N)), M: int, N: int, K: int):
    with each(cluster, C, shape=(..., N / 128), disjoint=C) as (m, n):
        A_slots: pipeline(shared(bf16[64, 64], swizzle=128, copies=block[2]), 3)
        B_slots: pipeline(shared(bf16[64, 64], swizzle=128, copies=block, every=2), 3)
        C_tile: shared(bf16[64, 64], swizzle=128, across=block)
        i, j = ids(block, shape=(2, 2))
        m0: int @ block[1] = m * 128 + i * 64
        n0: int @ block[1] = n * 128 + j * 64
        acc: float[32] @ thread[1]
        compute, load = roles(128, 128)
        for k in range(K / 64):
            with stage(A_slots) as a, stage(B_slots) as b:
                with load(a, b):
                    async_copy(a, A, at=(m0, k * 64))
                    async_copy(b, B, at=(n0, k * 64))
                with compute(a, b):
                    wgmma(acc, a, b, zero=(k == 0))
        with compute(C_tile), each(warpgroup, C, disjoint=C):
            store_acc(C_tile, acc)
            async_copy(C, C_tile, at=(m0, n0))


def check():
    for m, n, k in ((128, 128, 64), (256, 128, 320)):
        rng = np.random.default_rng(m)
        a, b = (rng.integers(-2, 3, shape).astype(np.float32) for shape in ((m, k), (n, k)))
        bits = [(x.view(np.uint32) >> 16).astype(np.uint16) for x in (a, b)]
        c = np.zeros((m, n), np.uint16)
        product[m * n // 4096](*bits, c, m, n, k)
        np.testing.assert_array_equal((c.astype(np.uint32) << 16).view(np.float32), a @ b.T)
    assert not product.races(*bits, c, m, n, k, blocks=4, seeds=2)
