"""Every atomic, on global and shared memory, with orders and scopes; they give back the old value."""

from __future__ import annotations

import numpy as np

from snap import *


@kernel(threads=64, where=lambda blocks, bits, cells, real, ticket: (len(cells) >= 3, len(bits) >= 3, len(real) >= 1, len(ticket) >= 64 * blocks, blocks <= 2**24))
def all_kinds(cells: ptr(int), bits: ptr(u32), real: ptr(float), ticket: ptr(int)):
    threads: int = count(thread[1])
    with each(thread, ticket) as i:
        old: int = atomic.add(cells, 0, 1)
        atomic.min(cells, 1, i - 20)
        atomic.max(cells, 2, i, order="acq_rel", scope="gpu")
        atomic.and_(bits, 0, ~(u32(1) << u32(i % 32)))
        atomic.or_(bits, 1, u32(1) << u32(i % 8))
        atomic.xor(bits, 2, u32(i))
        atomic.add(real, 0, 0.5)
        assert 0 <= old < threads
        ticket[old] = i


@kernel(threads=32, where=lambda blocks, flag, out: (len(flag) >= 2, len(out) >= 32 * blocks))
def exchange(out: ptr(int), flag: ptr(int)):
    i: int @ thread[1] = id()
    with each(block):
        s: shared(int[2])
        t: int @ thread[1] = id()
        with each(thread, s):
            if t < 2:
                s[t] = 0
        atomic.add(s, 0, t, scope="block")
        won: int @ thread[1] = atomic.cas(s, 1, 0, t + 1, scope="block")
        with each(thread):
            if t == 5:
                atomic.store(flag, 0, 41, order="release")
                atomic.exch(flag, 1, 42)
        with each(thread, out):
            out[i] = won + 100 * atomic.load(s, 0)


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
