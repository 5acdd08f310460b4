"""Single-pass scan with decoupled look-back, as acid a test as there is: blocks wait for one another through atomics only.

The tile's number needs the whole block, the buffer in which a warp reorders its elements that warp alone, the sums of the warps only arrivals by
those that go on, and what comes before the tile the whole block again.  Status words, the ticket and the output need nothing.
"""

from __future__ import annotations

import numpy as np

from snap import *

T, ITEMS = 128, 4
WARPS, PART = T // 32, 32 * ITEMS


@device(warp)
def publish(status: ptr(u64) @ grid[1], tile_id: int, state: int, value: int):
    with one(thread):
        atomic.store(status, tile_id + 32, u64(state) << 32 | u64(u32(value)))


@device(warp)
def lookback(status: ptr(u64) @ grid[1], tile_id: int, total: int) -> int:
    l: int @ thread[1] = id()
    before: int = 0
    if tile_id > 0:
        publish(status, tile_id, 1, total)
        j, go = tile_id - 1, True
        while go:
            assert j >= 0
            d: u64 @ thread[1] = atomic.load(status, max(j - l, -1) + 32)
            while intrinsic.any(u32(d >> 32) == 0):
                d = atomic.load(status, max(j - l, -1) + 32)
            done: u32 = intrinsic.ballot(u32(d >> 32) == 2)
            first: int = 31 if done == 0 else ffs(done) - 1
            before += intrinsic.reduce_add(int(u32(d)) if l <= first else 0)
            j, go = j - 32, done == 0
    publish(status, tile_id, 2, before + total)
    return before


@device(warp)
def warp_scan(value: int @ thread[1]) -> int @ thread[1]:
    l: int @ thread[1] = id()
    total: int @ thread[1] = value
    for step in unroll(range(5)):
        below: int @ thread[1] = intrinsic.shfl_up(total, 1 << step)
        total += below if l >= 1 << step else 0
    return total


@kernel(threads=T, where=lambda ticket, x, out, status, n, blocks: (len(ticket) >= 1, len(x) >= n, len(out) >= n, len(status) >= blocks + 32, blocks <= 2**20))
def scan(x: ptr(const(int)), out: ptr(int), status: ptr(u64), ticket: ptr(int), n: int):
    tiles: int = count(block[1])
    with each(block, out, disjoint=out):
        # The tile's number; room between the order of memory and that of the scan, a part for each warp; what each warp has, and what comes before it.
        slot, trade, sums, prefix = shared(int[1]), shared(int[WARPS, PART]), shared(int[WARPS]), shared(int[WARPS])
        w: int @ warp = id()
        with one(thread, slot):
            slot[0] = atomic.add(ticket, 0, 1)
        tile_id: int = slot[0]
        assert 0 <= tile_id < tiles
        start: int @ warp = (tile_id * WARPS + w) * PART
        # This thread's elements, their sum, and that of the warp's up to them.
        v, own, upto = registers(int[ITEMS], 0, 0)
        with each(warp, trade, sums):
            with each(thread, trade) as l:
                for k in range(ITEMS):
                    trade[w, k * 32 + l] = x[start + k * 32 + l] if start + k * 32 + l < n else 0
            with each(thread) as l:
                for k in range(ITEMS):
                    own += trade[w, l * ITEMS + k]
                    v[k] = own
            upto = warp_scan(own)
            with each(thread, sums) as l:
                if l == 31:
                    sums[w] = upto
        with one(warp, prefix):
            l: int @ thread[1] = id()
            s: int @ thread[1] = sums[l] if l < WARPS else 0
            all_upto: int @ thread[1] = warp_scan(s)
            before: int = lookback(status, tile_id, intrinsic.shfl(all_upto, WARPS - 1))
            with each(thread, prefix):
                if l < WARPS:
                    prefix[l] = before + all_upto - s
        base: int @ warp = prefix[w]
        with each(warp, trade, out, disjoint=out):
            with each(thread, trade) as l:
                for k in range(ITEMS):
                    trade[w, l * ITEMS + k] = base + upto - own + v[k]
            with each(thread, out, disjoint=out) as l:
                for k in range(ITEMS):
                    if start + k * 32 + l < n:
                        out[start + k * 32 + l] = trade[w, k * 32 + l]


def check():
    rng = np.random.default_rng(0)
    for n in (1, 511, 4 * 512 + 7):
        x = rng.integers(-100, 100, n).astype(np.int32)
        out = np.zeros_like(x)
        tiles = -(-n // (T * ITEMS))
        status = np.zeros(32 + tiles, np.uint64)
        status[:32] = 2 << 32  # before the first tile: everything known, sum 0
        scan[tiles](x, out, status, np.zeros(1, np.int32), n)
        np.testing.assert_array_equal(out, np.cumsum(x))
