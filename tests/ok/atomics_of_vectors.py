"""Atomics that count (`inc`, `dec`), and atomic sums of vectors: pairs of 16 bits everywhere, longer vectors in global memory.
"""

from __future__ import annotations

import numpy as np

from snap import *

T = 64


@kernel(threads=T, where=lambda ring, taken, slots: (len(ring) >= 2, len(taken) >= slots >= 1, slots < 2**31))
def tickets(ring: ptr(u32), taken: ptr(u32), slots: u32):
    """Tickets 0 to slots - 1, again and again, and how often each was drawn; and as many counted down."""
    with group(thread[1]):
        ticket: u32 = atomic.inc(ring, 0, slots - 1)
        assert ticket < slots
        atomic.add(taken, int(ticket), 1)
        atomic.dec(ring, 1, slots, order="acq_rel", scope="gpu")


@kernel(threads=T, where=lambda x, blocks, of_four, of_two, halves, more, bins, wide: (len(x) >= 64 * blocks, len(of_four) >= 4, len(of_two) >= 3, len(halves) >= 2, len(more) >= 1, len(bins) >= 2, len(wide) >= 1))
def summed(x: ptr(const(float4)), of_four: ptr(float4), of_two: ptr(float2), halves: ptr(half2), more: ptr(half4), bins: ptr(bf16_2), wide: ptr(bf16_4)):
    """What all threads add up is the same whatever the order, since it is small whole numbers."""
    i: int @ thread[1] = id()
    v: float4 @ thread[1] = x[i]
    atomic.add(of_four, i % 4, v)
    before: float2 @ thread[1] = atomic.add(of_two, i % 3, float2(v.x, v.w), order="release")
    assert before.x + before.y < 1000.0
    atomic.add(halves, i % 2, half2(f16(v.x), f16(v.y)))
    atomic.add(halves, i % 2, half2(f16(v.z), f16(v.w)), order="acq_rel", scope="system")
    atomic.add(more, 0, half4(f16(v.x), f16(v.y), f16(v.z), f16(v.w)))
    atomic.add(bins, i % 2, bf16_2(bf16(v.x), bf16(v.y)))
    atomic.add(bins, i % 2, bf16_2(bf16(v.z), bf16(v.w)), order="seq_cst")
    atomic.add(wide, 0, bf16_4(bf16(v.x), bf16(v.y), bf16(v.z), bf16(v.w)))


@kernel(threads=T, where=lambda blocks, x, y: (len(x) >= 64, len(y) >= 8 * blocks, blocks <= 2**28))
def in_shared(x: ptr(const(f16)), y: ptr(half2)):
    """Pairs of 16 bits are added in shared memory, too."""
    with each(block, y) as b:
        s: shared(half2[8])
        i: int @ thread[1] = id()
        with partition(s, p=thread[1], offset=i) as mine, group(thread[1]):
            if i < 8:
                mine[0] = half2(f16(0.0), f16(1.0))
        atomic.add(s, i % 8, half2(x[i], f16(1.0)))
        with partition(y, p=thread[1], offset=8 * b + i) as out, group(thread[1]):
            if i < 8:
                out[0] = s[i]


def bits(x):
    """bf16 of small whole numbers, and back."""
    return (np.ascontiguousarray(x, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def floats(b):
    return (b.astype(np.uint32) << 16).view(np.float32)


def check():
    for slots in (1, 5, 1000):
        ring, taken = np.array([0, 3], np.uint32), np.zeros(slots, np.uint32)
        tickets[2](ring, taken, slots)
        np.testing.assert_array_equal(taken, np.bincount(np.arange(2 * T) % slots, minlength=slots))
        down = 3 if slots >= 3 else slots  # what is above the value becomes it
        for _ in range(2 * T - (slots < 3)):
            down = slots if down == 0 else down - 1
        assert ring.tolist() == [2 * T % slots, down]
        assert not tickets.races(ring, taken, slots, blocks=2, seeds=2)

    rng = np.random.default_rng(9)
    x = rng.integers(-3, 4, (T, 4)).astype(np.float32)
    four, two, halves, more = (np.zeros(shape, t) for shape, t in (((4, 4), np.float32), ((3, 2), np.float32), ((2, 2), np.float16), (4, np.float16)))
    bins, wide = np.zeros((2, 2), np.uint16), np.zeros(4, np.uint16)
    for seed in (None, 3):
        for a in (four, two, halves, more, bins, wide):
            a[...] = 0
        summed.launch(x.ravel(), four.ravel(), two.ravel(), halves.ravel(), more, bins.ravel(), wide, blocks=1, seed=seed)
        np.testing.assert_array_equal(four, x.reshape(-1, 4, 4).sum(0))
        np.testing.assert_array_equal(two, [x[k::3][:, [0, 3]].sum(0) for k in range(3)])
        pairs = np.array([x[k::2][:, :2].sum(0) + x[k::2][:, 2:].sum(0) for k in range(2)])
        np.testing.assert_array_equal(halves, pairs)
        np.testing.assert_array_equal(floats(bins), pairs)
        np.testing.assert_array_equal(more, x.sum(0))
        np.testing.assert_array_equal(floats(wide), x.sum(0))
    assert not summed.races(x.ravel(), four.ravel(), two.ravel(), halves.ravel(), more, bins.ravel(), wide, blocks=1, seeds=2)

    h, y = rng.integers(-5, 5, T).astype(np.float16), np.zeros((8, 2), np.float16)
    in_shared[1](h, y.ravel())
    np.testing.assert_array_equal(y, np.stack([h.reshape(-1, 8).sum(0), np.full(8, 9)], 1))
    assert not in_shared.races(h, y.ravel(), blocks=1, seeds=3)
