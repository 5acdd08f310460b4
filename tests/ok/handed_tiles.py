"""Tiles that blocks hand to one another, in order."""
from __future__ import annotations

import numpy as np

from snap import *

T = 128


@kernel(threads=T, cooperative=True, where=lambda blocks, x, tiles, ready, out, n: (len(ready) >= blocks, n == blocks))
def running_sums(x: ptr(const(int), (n, T)), tiles: ptr(int, (n, T)), ready: ptr(int), out: ptr(int, (n, T)), n: int):
    """Block b adds its row to the tile that block b - 1 has left, and leaves the sum for block b + 1, turned round: look-back in a chain."""
    with each(block, out, disjoint=out) as b:
        if b > 0:
            with one(thread):
                while atomic.load(ready, b - 1, order="acquire") == 0:
                    pass
        with each(thread, out) as t:
            total = x[b, t]
            if b > 0:
                total += atomic.load(tiles, (b - 1, T - 1 - t))
            atomic.store(tiles, (b, t), total)
            out[b, t] = total
        with one(thread):
            atomic.store(ready, b, 1, order="release")


@kernel(threads=T, cooperative=True)
def running_sums_plainly(x: ptr(const(int), (n, T)), tiles: ptr(int, (n, T)), ready: ptr(int), n: int):
    """The same by plain loads and stores: blocks meet in the tiles, in the order of the flags."""
    with each(block, tiles) as b:
        if b > 0:
            with one(thread):
                while atomic.load(ready, b - 1, order="acquire") == 0:
                    pass
        total: int @ thread[1] = 0
        with each(thread) as t:
            total = x[b, t]
            if b > 0:
                total += tiles[b - 1, T - 1 - t]
        with each(thread, tiles) as t:
            tiles[b, t] = total
        with one(thread):
            atomic.store(ready, b, 1, order="release")


@kernel(threads=T, where=lambda blocks, x, bins, tickets, out: (len(x) >= T * blocks, len(bins) >= 16, len(tickets) >= 1, len(out) >= 16, blocks <= 2**24))
def bins_of_all(x: ptr(const(int)), bins: ptr(int), tickets: ptr(int), out: ptr(int)):
    """All blocks count by atomics; the one with the last ticket copies what all have counted."""
    blocks = count(block[1])
    with each(block, out, disjoint=out) as b:
        with each(thread) as t:
            atomic.add(bins, x[b * T + t] & 15, 1)
        ticket: int @ thread[1] = 0
        with one(thread):
            ticket = atomic.add(tickets, 0, 1, order="acq_rel")
        if intrinsic.broadcast(ticket) == blocks - 1:
            with each(thread, out) as t, trust("tickets are counted from zero: one block draws the last one"):
                if t < 16:
                    out[t] = atomic.load(bins, t)


@kernel(threads=T, blocks=1, where=lambda x, out: (len(x) >= 32, len(out) >= 32))
def warps_in_a_row(x: ptr(const(int)), out: ptr(int)):
    """Within a block, in its shared memory: each warp hands 32 numbers to the next, turned round."""
    with each(block):
        tile, ready = shared(int[32 * (T // 32)]), shared(int[T // 32])
        with each(thread, tile, ready) as t:
            tile[t] = 0
            if t < T // 32:
                ready[t] = 0
        with each(warp) as w:
            if w > 0:
                with one(thread):
                    while atomic.load(ready, w - 1, order="acquire", scope="block") == 0:
                        pass
            with each(thread) as l:
                mine = x[l] if w == 0 else atomic.load(tile, 32 * w - 1 - l) + 1
                atomic.exch(tile, 32 * w + l, mine)
            with one(thread):
                atomic.store(ready, w, 1, order="release", scope="block")
        with each(thread, out) as t:
            if t < 32:
                out[t] = atomic.load(tile, T - 32 + t)


def check():
    x = (np.arange(5 * T) ** 2 % 1013).astype(np.int32).reshape(5, T)
    expected = x.copy()
    for b in range(1, 5):
        expected[b] += expected[b - 1, ::-1]
    for seed in (None, 0, 1):
        tiles, out = np.zeros((2, 5, T), np.int32)
        running_sums.launch(x, tiles, np.zeros(5, np.int32), out, 5, blocks=5, seed=seed)
        np.testing.assert_array_equal(out, expected)
        tiles[...] = 0
        running_sums_plainly.launch(x, tiles, np.zeros(5, np.int32), 5, blocks=5, seed=seed)
        np.testing.assert_array_equal(tiles, expected)
        out = np.zeros(16, np.int32)
        bins_of_all.launch(x.reshape(-1), np.zeros(16, np.int32), np.zeros(1, np.int32), out, blocks=5, seed=seed)
        np.testing.assert_array_equal(out, np.bincount(x.reshape(-1) & 15, minlength=16))
        out = np.zeros(32, np.int32)
        warps_in_a_row.launch(x[0, :32].copy(), out, blocks=1, seed=seed)
        np.testing.assert_array_equal(out, (x[0, :32] if T // 32 % 2 else x[0, 31::-1]) + T // 32 - 1)
    assert not running_sums.races(x, np.zeros((5, T), np.int32), np.zeros(5, np.int32), np.zeros((5, T), np.int32), 5, blocks=5, seeds=2)
