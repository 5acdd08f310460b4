"""C = A.T @ B with both operands as they lie, [K, M] and [K, N]: tiles of 64 columns, side by side, of which a cluster's two blocks share B's.
"""

from __future__ import annotations

import numpy as np

from snap import *


@kernel(threads=256, cluster=2, where=lambda M, N, K, blocks: (M % 128 == 0, 128 <= M <= 2**30, N % 128 == 0, 128 <= N <= 2**30, 8192 * blocks <= M * N))
def product(A: ptr(const(bf16), (K, M)), B: ptr(const(bf16), (K, N)), C: ptr(bf16, (M, N)), M: int, N: int, K: int):
    with each(cluster, C, disjoint=C) as c:
        A_slots, B_slots = pipeline(shared(bf16[64, 64], swizzle=128, across=block), 3), pipeline(shared(bf16[2, 64, 64], swizzle=128, copies=block), 3)
        C_tile, acc = shared(bf16[2, 64, 64], swizzle=128, across=block), registers(float[64])
        r = ids(block)
        m0, n0 = (c / (N / 128) * 2 + r) * 64, c % (N / 128) * 128
        compute, load = roles(128, 128)
        for k in range(K / 64):
            with stage(A_slots) as a, stage(B_slots) as b:
                with load(a, b):
                    async_copy(a, A, at=(k * 64, m0))
                    async_copy(b, B, at=(k * 64, n0))
                with compute(a, b):
                    wgmma(acc, a.T, b.T, zero=(k == 0))
        with compute(C_tile), each(warpgroup, C, disjoint=C):
            for p in unroll(range(2)):
                store_acc(C_tile[p], acc, first=p * 64)
            async_copy(C, C_tile, at=(m0, n0))


def check():
    for m, n, k in ((128, 128, 64), (256, 256, 320)):
        rng = np.random.default_rng(m)
        a, b = (rng.integers(-2, 3, shape).astype(np.float32) for shape in ((k, m), (k, n)))
        bits = [(x.view(np.uint32) >> 16).astype(np.uint16) for x in (a, b)]
        c = np.zeros((m, n), np.uint16)
        product[m * n // 8192](*bits, c, m, n, k)
        np.testing.assert_array_equal((c.astype(np.uint32) << 16).view(np.float32), a.T @ b)
    assert not product.races(*bits, c, m, n, k, blocks=2, seeds=2)
