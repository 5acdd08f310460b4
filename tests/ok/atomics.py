"""Every atomic, on global and shared memory, with orders and scopes; they give back the old value."""

from __future__ import annotations

import numpy as np

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def all_kinds(cells: ptr(int) @ grid[1], bits: ptr(u32) @ grid[1], real: ptr(float) @ grid[1], ticket: ptr(int) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        old: int @ thread[1] = atomic.add(cells, 0, 1)
        atomic.min(cells, 1, i - 20)
        atomic.max(cells, 2, i, order="acq_rel", scope="gpu")
        atomic.and_(bits, 0, ~(u32(1) << u32(i % 32)))
        atomic.or_(bits, 1, u32(1) << u32(i % 8))
        atomic.xor(bits, 2, u32(i))
        atomic.add(real, 0, 0.5)
        with partition(ticket, p=thread[1], offset=old) as mine:
            mine[0] = i


@kernel
@requires(grid[1], block[1], thread[32])
def exchange(out: ptr(int) @ grid[1], flag: ptr(int) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            with group(block[1]):
                s: shared(int[2])
                t: int @ thread[1] = id()
                with partition(s, p=thread[1], offset=t) as cell:
                    with group(thread[1]):
                        if t < 2:
                            cell[0] = 0
                atomic.add(s, 0, t, scope="block")
                won: int @ thread[1] = atomic.cas(s, 1, 0, t + 1, scope="block")
                with group(thread[1]):
                    if t == 5:
                        atomic.store(flag, 0, 41, order="release")
                        atomic.exch(flag, 1, 42)
                mine[0] = won
                mine[0] += 100 * atomic.load(s, 0)


def check():
    cells, bits, real = np.array([0, 2**31 - 1, -1], np.int32), np.array([2**32 - 1, 0, 0], np.uint32), np.zeros(1, np.float32)
    ticket = np.full(128, -1, np.int32)
    all_kinds[2](cells, bits, real, ticket)
    np.testing.assert_array_equal(cells, [128, -20, 127])
    np.testing.assert_array_equal(bits, [0, 255, np.bitwise_xor.reduce(np.arange(128))])
    assert real[0] == 64.0
    np.testing.assert_array_equal(np.sort(ticket), np.arange(128))

    out, flag = np.zeros(32, np.int32), np.zeros(2, np.int32)
    exchange[1](out, flag)
    np.testing.assert_array_equal(flag, [41, 42])
    winners = out % 100
    assert (winners == 0).sum() == 1 and len(set(winners[winners != 0].tolist())) == 1
