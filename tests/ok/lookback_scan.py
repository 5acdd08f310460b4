"""Single-pass scan with decoupled look-back: blocks wait for one another through atomics only."""

from __future__ import annotations

import numpy as np

from snap import *

T = 128
ITEMS = 4


@device
@requires(thread[32])
def publish(status: ptr(u64) @ grid[1], tile_id: int @ thread[32], state: int @ thread[32], value: int @ thread[32]):
    match split(thread):
        case 1:
            atomic.store(status, tile_id + 32, u64(state) << 32 | u64(u32(value)), order="release")


@device
@requires(thread[32])
def lookback(status: ptr(u64) @ grid[1], tile_id: int @ thread[32], total: int @ thread[32]) -> int @ thread[32]:
    l: int @ thread[1] = id()
    before: int = 0
    if tile_id > 0:
        publish(status, tile_id, 1, total)
        j: int = tile_id - 1
        go: bool = True
        while go:
            d: u64 @ thread[1] = atomic.load(status, max(j - l, -1) + 32, order="acquire")
            while intrinsic.any(u32(d >> 32) == 0):
                d = atomic.load(status, max(j - l, -1) + 32, order="acquire")
            done: u32 = intrinsic.ballot(u32(d >> 32) == 2)
            first: int = 31 if done == 0 else ffs(done) - 1
            before += intrinsic.reduce_add(int(u32(d)) if l <= first else 0)
            go = done == 0
            j -= 32
    publish(status, tile_id, 2, before + total)
    return before


@kernel
@requires(grid[1], block[1], thread[T])
def scan(x: ptr(const(int)) @ grid[1], out: ptr(int) @ grid[1], status: ptr(u64) @ grid[1], ticket: ptr(int) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        with partition(out, p=thread[1], f=lambda k: k) as mine:
            with group(block[1]):
                t: int @ thread[1] = id()
                slot: shared(int[2])  # the tile's number, and what comes before it
                sums: shared(int[T])
                with claim(slot, p=thread[1]) as one:
                    match split(thread):
                        case 1:
                            one[0] = atomic.add(ticket, 0, 1)
                tile_id: int = slot[0]
                start: int @ thread[1] = tile_id * (T * ITEMS) + t * ITEMS
                v: int[ITEMS] @ thread[1]
                running: int @ thread[1] = 0
                for k in range(ITEMS):
                    running += x[start + k] if start + k < n else 0
                    v[k] = running
                with partition(sums, p=thread[1], offset=t) as cell:
                    cell[0] = running
                with claim(sums, p=thread[1]) as alone:
                    match split(thread):
                        case 1:
                            for k in range(1, T):
                                alone[k] += alone[k - 1]
                with claim(slot, p=thread[32]) as of_warp:
                    match split(thread):
                        case 32:
                            l: int @ thread[1] = id()
                            before: int = lookback(status, tile_id, sums[T - 1])
                            with partition(of_warp, p=thread[1], f=lambda k: k) as cell:
                                with group(thread[1]):
                                    if l == 0:
                                        cell[1] = before
                offset: int @ thread[1] = slot[1] + (sums[t - 1] if t > 0 else 0)
                with group(thread[1]):
                    for k in range(ITEMS):
                        if start + k < n:
                            mine[start + k] = offset + v[k]


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
