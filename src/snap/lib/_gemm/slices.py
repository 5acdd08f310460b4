"""As kernels.py, for products of few tiles and many steps: the steps of a tile are dealt out to the blocks of a
cluster.

Input:      as kernels.py, and room for sums of f32: those of a tile for each block
Output:     a kernel: C = activation(A @ B + bias), sums in f32
Invariant:  any extents; one cluster a tile.  Sums are added in an order that depends on the column alone: they are the
            same each time
Non-goals:  products that have a tile for every multiprocessor

A block multiplies a slice of k, and finishes a share of the tile's columns: it gives the sums of the other columns
away, and adds what it is given.  Sums of small tiles go through the L2 cache, and blocks wait for each other once.
Those of two blocks with larger tiles go from shared memory to shared memory, where stages were: blocks then wait a
second time, until nobody multiplies.  128 x 4096 x 4096 takes 4% less time so, 512 x 4096 x 14336 3%, and 64 x 4096 x
4096 8% more.
"""

from __future__ import annotations

import functools

from snap import *
from snap.lib._gemm.body import PLAIN, Epilogue, in_bands, multiplied, of_slices, sizes
from snap.lib._gemm.parts import finishing

SHARED = 224 * 1024  # bytes for stages; tiles leave through the same


# A block's own columns are the first of its sums, those of the block i further on (after the last comes the first) part
# i.  Where parts are whole panels, B's are loaded in this order; else sums are moved when they are given away.
def in_order(g):
    """Decide whether B is loaded so that a block's own columns come first."""
    return g.B_ALONG or g.OWN % g.DEPTH == 0


@inline
def load_from(g, to, B, n0, k, skip):
    """B's tile, from column `skip` of it on, and then those before."""
    if g.B_ALONG:
        for p in unroll(range(g.SLICES)):
            async_copy(tile(to, (0, p * g.OWN, 0), (1, g.OWN, g.DEPTH)), B, at=(n0 + (skip + p * g.OWN) % g.BN, k))
    else:
        for p in unroll(range(g.B_PANELS)):
            async_copy(to[p], B, at=(k, n0 + (skip + p * g.DEPTH) % g.BN))


@inline
def products(g, compute, load, acc, A, B, m0, n0, begin, end, skip, w):
    """Multiply the tiles of a block's steps."""
    multiplied(g, compute, load, load_from, acc, A, B, m0, n0, begin, end, skip, w)


@inline
def given_away(g, ORDERS, acc, rank):
    """i, first: the sums from `first` on are for the block i further on."""
    for r in unroll(range(ORDERS)):
        if ORDERS == 1 or rank == r:
            for i in unroll(range(1, g.SLICES)):
                yield i, (r + i) % g.SLICES * g.FEW
            if r > 0:
                for j in unroll(range(g.FEW)):
                    acc[j] = acc[r * g.FEW + j]


@inline
def leave_columns(g, compute, finish, FINISHED, acc, bias, C, rank, m0, first, w, N):
    """The sums of OWN columns, from `first` on, are finished and stored."""
    if FINISHED:
        with compute(), each(warp):
            finish(acc, bias, first, N)
    C_tiles: shared(g.O[g.OWN // g.WIDE, g.CONSUMERS, 64, g.WIDE], swizzle=g.C_SWIZZLE, across=block)
    with compute(), each(warpgroup, C_tiles, C, disjoint=C):
        for q in unroll(range(g.OWN // g.WIDE)):
            store_acc(C_tiles[rank, q, w], acc, first=g.WIDE * q)
            async_copy(C, C_tiles[rank, q, w], at=(m0 + 64 * w, first + g.WIDE * q))


@functools.cache
def slices_kernel(type, out_type, A_TURNED, B_TURNED, BM=64, BN=64, BAND=16, epilogue: Epilogue = PLAIN, SLICES=2):
    """As gemm_kernel."""
    g = sizes(type, out_type, BM, BN, not A_TURNED, B_TURNED, epilogue, SLICES, room=SHARED)
    finish, FINISHED = finishing(g.SUMS, g.OWN, type, epilogue), epilogue.completes
    ORDERS, GIVEN = 1 if in_order(g) else SLICES, (SLICES - 1) * g.FEW * g.C_THREADS
    NEAR = SLICES == 2 and BM >= 128  # sums go from shared memory to shared memory

    @inline
    def body(A, B, C, bias, M, N, K, room, met):
        down, across, steps = (M + BM - 1) / BM, (N + BN - 1) / BN, (K + g.DEPTH - 1) / g.DEPTH
        t: int @ cluster[1] = id()
        with (
            partition(room, p=cluster[1], offset=t * (SLICES * GIVEN), disjoint=True) as parts,
            each(cluster, C, disjoint=C),
        ):
            rank: int @ block[1] = id()
            w: int @ warpgroup = id() % (g.CONSUMERS + 1)
            me: int @ thread[1] = id() % g.T
            acc, given = registers(float[g.SUMS], float[g.SUMS - g.FEW])
            compute, load = roles(g.C_THREADS, 128, registers=(152, 56) if g.CONSUMERS == 3 else ())
            i, j = in_bands(t, down, across, BAND)
            m0, n0, own = i * BM, j * BN, rank * g.OWN  # its first column
            begin, end = rank * steps / SLICES, (rank + 1) * steps / SLICES
            if NEAR:
                with each(block):
                    products(g, compute, load, acc, A, B, m0, n0, begin, end, own if ORDERS == 1 else 0, w)
                near: shared(float[GIVEN], across=block)
                with compute(), each(thread, near, disjoint=near):
                    for i, first in given_away(g, ORDERS, acc, rank):
                        for j in unroll(range(g.FEW // 4)):
                            near.view(float4)[(rank + i) % SLICES, ((i - 1) * (g.FEW // 4) + j) * g.C_THREADS + me] = (
                                acc.view(float4)[first / 4 + j]
                            )
                with each(block), compute(), each(thread):
                    for j in unroll(range((g.SUMS - g.FEW) // 4)):
                        given.view(float4)[j] = near.view(float4)[rank, j * g.C_THREADS + me]
                    for i, j in unroll(range(shape=(SLICES - 1, g.FEW))):
                        acc[j] += given[i * g.FEW + j]
            else:
                with each(block, parts.view(float4), disjoint=parts):
                    products(g, compute, load, acc, A, B, m0, n0, begin, end, own if ORDERS == 1 else 0, w)
                    with compute(), each(thread, parts, disjoint=parts):
                        for i, first in given_away(g, ORDERS, acc, rank):
                            to: int = ((rank + i) % SLICES * (SLICES - 1) + i - 1) * (g.FEW // 4)
                            for j in unroll(range(g.FEW // 4)):
                                parts[(to + j) * g.C_THREADS + me] = acc.view(float4)[first / 4 + j]
                with each(block), compute(), each(thread):
                    for j in unroll(range((g.SUMS - g.FEW) // 4)):
                        given.view(float4)[j] = parts.view(float4)[
                            (rank * ((SLICES - 1) * g.FEW // 4) + j) * g.C_THREADS + me
                        ]
                    for i, j in unroll(range(shape=(SLICES - 1, g.FEW))):
                        acc[j] += given[i * g.FEW + j]
            leave_columns(g, compute, finish, FINISHED, acc, bias, C, rank, m0, n0 + own, w, N)

    return of_slices(g, body, BM, BN, SLICES, (SLICES - 1) * BM * g.OWN)
