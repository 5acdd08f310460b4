"""As slices.py, where the blocks that share a tile are anywhere on the GPU: as many slices as fill it.

Input:      as slices.py; room for sums of f32, those of a tile for each block; a counter for each thread of a
            tile, all of them zero
Output:     a kernel: C = activation(A @ B + bias), sums in f32
Invariant:  any extents; all blocks run at the same time, one tile for SLICES of them.  Sums are added in an order that
            depends on the column alone: they are the same each time.  Counters are zero again in the end
Non-goals:  products of two slices a tile, for which clusters wait for each other faster

Clusters of four blocks leave multiprocessors without any, and 32 tiles of four slices do not fit: 128 x 4096 x 14336
and 1024 x 1024 x 8192 are such products.  Threads meet, not blocks: what a thread gives away is taken by the threads in
its place, which count on one word, first that they have given, then that they have taken.
"""

from __future__ import annotations

import functools

from snap import *
from snap.lib._gemm.body import PLAIN, Epilogue, in_bands, of_slices, sizes
from snap.lib._gemm.parts import finishing
from snap.lib._gemm.slices import SHARED, given_away, in_order, leave_columns, products


@functools.cache
def splits_kernel(type, out_type, A_TURNED, B_TURNED, BM=128, BN=128, BAND=8, epilogue: Epilogue = PLAIN, SLICES=4):
    """As slices_kernel."""
    g = sizes(type, out_type, BM, BN, not A_TURNED, B_TURNED, epilogue, SLICES, room=SHARED)
    finish, FINISHED = finishing(g.SUMS, g.OWN, type, epilogue), epilogue.completes
    ORDERS = 1 if in_order(g) else SLICES

    @inline
    def body(A, B, C, bias, M, N, K, room, met):
        down, across, steps = (M + BM - 1) / BM, (N + BN - 1) / BN, (K + g.DEPTH - 1) / g.DEPTH
        team: int @ cluster[1] = id()
        t, rank = team / SLICES, team % SLICES
        with each(cluster, C, disjoint=C):
            alone: int @ block[1] = id()  # of its cluster's blocks
            w: int @ warpgroup = id() % (g.CONSUMERS + 1)
            me: int @ thread[1] = id() % g.T
            acc, given = registers(float[g.SUMS], float[g.SUMS - g.FEW])
            compute, load = roles(g.C_THREADS, 128)
            i, j = in_bands(t, down, across, BAND)
            m0, n0, own = i * BM, j * BN, rank * g.OWN  # its first column
            begin, end = rank * steps / SLICES, (rank + 1) * steps / SLICES
            with each(block):
                products(g, compute, load, acc, A, B, m0, n0, begin, end, own if ORDERS == 1 else 0, w)
                with compute(), each(thread):
                    # Part i - 1 of what a block is given comes from the block i before it.
                    for i, first in given_away(g, ORDERS, acc, rank):
                        to: int = ((t * SLICES + (rank + i) % SLICES) * (SLICES - 1) + i - 1) * g.FEW
                        for j in unroll(range(g.FEW)):
                            atomic.store(room, (to + j) * g.C_THREADS + me, acc[first + j])
                    atomic.add(met, t * g.C_THREADS + me, 1, order="acq_rel")
                    while atomic.load(met, t * g.C_THREADS + me, order="acquire") < SLICES:
                        pass
                    for j in unroll(range(g.SUMS - g.FEW)):
                        given[j] = atomic.load(room, (team * (g.SUMS - g.FEW) + j) * g.C_THREADS + me)
                    for i, j in unroll(range(shape=(SLICES - 1, g.FEW))):
                        acc[j] += given[i * g.FEW + j]
                    if atomic.add(met, t * g.C_THREADS + me, 1, order="acq_rel") == 2 * SLICES - 1:
                        atomic.store(met, t * g.C_THREADS + me, 0)
            leave_columns(g, compute, finish, FINISHED, acc, bias, C, alone, m0, n0 + own, w, N)

    return of_slices(g, body, BM, BN, SLICES, (SLICES - 1) * BM * g.OWN, cooperative=True)
