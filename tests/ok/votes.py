"""Votes, ballots and matches take a value from each lane and give back one for the warp; blocks vote too."""

from __future__ import annotations

import numpy as np

from snap import *


@kernel(threads=64, where=lambda blocks, x: (len(x) >= 64 * blocks, blocks <= 1))
def vote(x: ptr(const(int)), out: ptr(int, (8, 64))):
    i: int @ thread[1] = id()
    v: int @ thread[1] = x[i]
    with partition(out, p=thread[1], f=lambda k: (k, i)) as mine, each(block):
        with each(warp):
            some, every = intrinsic.any(v == 3), intrinsic.all(v < 8)
            if some:  # the warp agrees, so the warp may branch
                mine[0] = 1
            mine[1] = int(every)
            mine[2] = int(intrinsic.ballot(v > 3))
            mine[3] = int(intrinsic.match_any(v))
            mine[4] = int(intrinsic.match_all(v / 100))
        mine[5] = int(intrinsic.syncthreads_or(v == 7))
        mine[6] = int(intrinsic.syncthreads_and(v >= 0))
        mine[7] = intrinsic.syncthreads_count(v == 1)


def bits(mask):
    return sum(1 << k for k in range(32) if mask[k])


def check():
    rng = np.random.default_rng(3)
    x = rng.integers(0, 8, 64).astype(np.int32)
    x[:32][x[:32] == 3] = 2
    out = np.zeros((8, 64), np.int32)
    vote[1](x, out)
    for w in range(2):
        v, got = x[32 * w : 32 * w + 32], out[:, 32 * w : 32 * w + 32].view(np.uint32)
        assert (got[0] == int((v == 3).any())).all()
        assert (got[1] == 1).all()
        assert (got[2] == bits(v > 3)).all()
        assert got[3].tolist() == [bits(v == u) for u in v]
        assert (got[4] == 0xFFFFFFFF).all()
    assert (out[5] == int((x == 7).any())).all() and (out[6] == 1).all() and (out[7] == (x == 1).sum()).all()
