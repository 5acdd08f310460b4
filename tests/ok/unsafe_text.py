"""`unsafe.cuda` with a result, with memory, and with Python functions that stand for it on the CPU machine."""

from __future__ import annotations

import numpy as np

from snap import *


def popcount(x):
    return np.array([bin(int(v) & 0xFFFFFFFF).count("1") for v in np.ravel(x)], np.int32).reshape(np.shape(x))


@device(thread)
def ones(x: u32) -> int:
    return unsafe.cuda("__popc({x})", x=x, type=int, cpu=popcount)


def halfway(a, b):
    return (a.astype(np.int64) + b >> 1).astype(np.int32)


@device(thread)
def average(a: int, b: int) -> int:
    return unsafe.cuda("__hadd({a}, {b})", a=a, b=b, type=int, cpu=halfway)


@kernel(threads=32, where=lambda blocks, x: (len(x) >= 32 * blocks, blocks <= 1))
def use(x: ptr(const(u32)), out: ptr(int, (2, 32))):
    with each(thread, out) as i:
        out[0, i] = ones(x[i])
        out[1, i] = average(i, 2147483647)


def check():
    x = (np.arange(32, dtype=np.uint64) * 2654435761 % 2**32).astype(np.uint32)
    out = np.zeros((2, 32), np.int32)
    use[1](x, out)
    np.testing.assert_array_equal(out[0], popcount(x))
    np.testing.assert_array_equal(out[1], (np.arange(32, dtype=np.int64) + 2147483647) // 2)
