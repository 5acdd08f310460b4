"""C = A.T @ B with both operands as they lie, [K, M] and [K, N]: tiles of 64 columns, side by side, of which a cluster's two blocks share B's."""

from __future__ import annotations

import numpy as np

import snap
from snap import *


@kernel
@requires(grid[1], cluster[1], block[2], thread[256])
def product(A: ptr(const(bf16), (K, M)) @ grid[1], B: ptr(const(bf16), (K, N)) @ grid[1], C: ptr(bf16, (M, N)) @ grid[1],
            M: int @ grid[1], N: int @ grid[1], K: int @ grid[1]):
    with group(grid[1]):
        c: int @ cluster[1] = id()
        with partition(C, p=cluster[1], f=lambda i, j: (i, j), disjoint=True) as C_cluster:
            with group(cluster[1]):
                A_slots: pipeline(shared(bf16[64, 64], swizzle=128, across=block), 3)
                B_slots: pipeline(shared(bf16[2, 64, 64], swizzle=128, copies=block), 3)
                C_tile: shared(bf16[2, 64, 64], swizzle=128, across=block)
                r: int @ block[1] = id()
                m0: int @ block[1] = (c / (N / 128) * 2 + r) * 64
                n0: int = c % (N / 128) * 128
                acc: float[64] @ thread[1]
                for k in range(K / 64):
                    with stage(A_slots) as a, stage(B_slots) as b:
                        with claim(a, p=thread[128]) as ap, claim(b, p=thread[128]) as bp:
                            match split(thread):
                                case 128:
                                    pass
                                case 128:
                                    async_copy(ap, A, at=(k * 64, m0))
                                    for p in unroll(range(2)):
                                        async_copy(tile(bp, (p, 0, 0), (1, 64, 64)), B, at=(k * 64, n0 + p * 64))
                        with claim(a, p=thread[128]) as ac, claim(b, p=thread[128]) as bc:
                            match split(thread):
                                case 128:
                                    wgmma(acc, ac.T, bc.T, zero=(k == 0))
                with partition(C_cluster, p=thread[128], f=lambda i, j: (m0 + i, n0 + j), disjoint=True) as own:
                    with partition(C_tile, p=thread[128], f=lambda p, i, j: (r, p, i, j)) as out:
                        match split(thread):
                            case 128:
                                for p in unroll(range(2)):
                                    store_acc(tile(out, (p, 0, 0), (1, 64, 64)), acc, first=p * 64)
                                for p in unroll(range(2)):
                                    async_copy(own, tile(out, (p, 0, 0), (1, 64, 64)), at=(0, p * 64))


def check():
    for m, n, k in ((128, 128, 64), (256, 256, 320)):
        rng = np.random.default_rng(m)
        a, b = (rng.integers(-2, 3, shape).astype(np.float32) for shape in ((k, m), (k, n)))
        bits = [(x.view(np.uint32) >> 16).astype(np.uint16) for x in (a, b)]
        c = np.zeros((m, n), np.uint16)
        product[m * n // 8192](*bits, c, m, n, k)
        np.testing.assert_array_equal((c.astype(np.uint32) << 16).view(np.float32), a.T @ b)
    assert not snap.races(product, *bits, c, m, n, k, blocks=2, seeds=2)
