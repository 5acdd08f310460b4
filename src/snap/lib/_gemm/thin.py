"""As kernels.py, for products of few rows, which take as long as B takes to load: a tile's columns take the place
of an instruction's 64 rows.

Input:      as kernels.py; A lies row after row; where k is divided, room for sums of f32, those of a tile for each
            block
Output:     a kernel: C = activation(A @ B + bias), sums in f32
Invariant:  any extents; one cluster a tile.  Sums are added in the order of k: they are the same each time
Non-goals:  speed where A has more rows than a tile

So a tile is as high as A, and hardly anything outside of A is loaded: boxes take longer where they reach out of a
matrix.  With tiles of 64 rows, 1 x 4096 x 4096 took 23 us, and 64 x 4096 x 4096 17 us.
"""

from __future__ import annotations

import functools

from snap import *
from snap.lib._gemm.body import PLAIN, Epilogue, load_b, multiplied, of_slices, sizes
from snap.lib._gemm.choice import THIN_STAGES
from snap.lib._gemm.parts import activation_function

SHARED = 108 * 1024  # bytes for stages: a multiprocessor has room for two blocks


@functools.cache
def thin_kernel(type, out_type, B_TURNED, ROWS=8, BN=64, epilogue: Epilogue = PLAIN, SLICES=1):
    """As gemm_kernel.  The blocks of a cluster multiply a slice of k each, and then each finishes a share of the tile's
    columns.
    """
    # The product is that of the transposes: B's columns are its rows.
    g = sizes(type, out_type, BN, ROWS, B_TURNED, True, epilogue, room=SHARED, most=THIN_STAGES)
    OWN, active = BN // SLICES, activation_function(epilogue.activation)  # OWN: columns that a block finishes

    @inline
    def body(A, B, C, bias, M, N, K, room, met):
        down, steps = (M + ROWS - 1) / ROWS, (K + g.DEPTH - 1) / g.DEPTH
        t: int @ cluster[1] = id()
        with (
            partition(room, p=cluster[1], offset=t * (SLICES * ROWS * BN), disjoint=True) as parts,
            each(cluster, C, disjoint=C),
        ):
            rank: int @ block[1] = id()
            w: int @ warpgroup = id() % (g.CONSUMERS + 1)
            me: int @ thread[1] = id() % g.T
            m0, n0 = t % down * ROWS, t / down * BN
            begin, end = rank * steps / SLICES, (rank + 1) * steps / SLICES
            # A thread holds columns column and column + 8, and rows row + 8i and row + 8i + 1.
            column, row = me / 32 * 16 + me % 32 / 4, me % 4 * 2
            compute, load = roles(g.C_THREADS, 128)
            with each(block, parts, C, disjoint=(parts, C)):
                acc: float[ROWS // 2] @ thread[1]
                multiplied(g, compute, load, load_b, acc, B, A, n0, m0, begin, end, 0, w)
                with compute(), each(thread, parts, C, disjoint=(parts, C)):
                    for e in unroll(range(ROWS // 2)):
                        i, j = row + 8 * (e / 4) + e % 2, column + 8 * (e / 2 % 2)
                        if SLICES > 1:
                            parts[(rank * ROWS + i) * BN + j] = acc[e]
                        elif m0 + i < M and n0 + j < N:
                            plus = float(bias[n0 + j]) if g.BIASED else 0.0
                            C[m0 + i, n0 + j] = g.O(active(acc[e] + plus))
            if SLICES > 1:
                with each(block, C, disjoint=C), each(thread, C, disjoint=C):
                    for e in range(me, ROWS * OWN, g.T):
                        i, j = e / OWN, rank * OWN + e % OWN
                        if m0 + i < M and n0 + j < N:
                            x: float = parts[i * BN + j]
                            for r in unroll(range(1, SLICES)):
                                x += parts[(r * ROWS + i) * BN + j]
                            if g.BIASED:
                                x += float(bias[n0 + j])
                            C[m0 + i, n0 + j] = g.O(active(x))

    return of_slices(g, body, ROWS, BN, SLICES, ROWS * BN if SLICES > 1 else 0)
