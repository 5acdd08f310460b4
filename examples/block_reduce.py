"""Sum of an array, one partial sum per block: the tree reduction in shared memory.

`block_sum` is a device function.  Its signature states what CUB's documentation says in words: the whole block of 256 threads
calls it together, every thread brings its own value, and the result is the same for all of them.
"""

from __future__ import annotations

import numpy as np
from _run import blocks_for, compare

from snap import *

T = 256


@device(block[1], thread[T])
def block_sum(v: float @ thread[1]) -> float:
    s: shared(float[T])
    with each(thread, s) as t:
        s[t] = v
    half: int = T / 2
    while half > 0:  # `half` belongs to the block, so the block loops as one
        with each(thread, s) as t:
            if t < half:
                s[t] = s[t] + s[t + half]
        half = half / 2
    return s[0]  # shared memory that no thread writes now: one value for the block


@kernel(threads=T, where=lambda x, partial, n, blocks: (len(x) >= n, len(partial) >= blocks, blocks <= 2**22, n <= 2**30))
def sum_blocks(x: ptr(const(float)), partial: ptr(float), n: int):
    i: int @ thread[1] = id()
    stride: int = count(thread[1])
    with each(block) as b:
        v: float @ thread[1] = 0.0
        with each(thread):
            for j in range(i, n, stride):
                v += x[j]
        total: float = block_sum(v)
        with one(thread, partial):  # one thread writes the block's result
            partial[b] = total


def expected(x, blocks):
    """Compute the same sum in the same order: by threads, then by halves."""
    padded = np.zeros((-(-max(len(x), 1) // (blocks * T)), blocks, T), np.float32)
    padded.reshape(-1)[: len(x)] = x
    s = np.zeros((blocks, T), np.float32)
    for row in padded:
        s = s + row
    while s.shape[1] > 1:
        half = s.shape[1] // 2
        s = s[:, :half] + s[:, half:]
    return s[:, 0]


def main():
    rng = np.random.default_rng(0)
    for n in (0, 1, 255, 4_099):
        x = rng.standard_normal(n, dtype=np.float32)
        blocks = min(4, blocks_for(n, T))
        compare(f"block_reduce, n = {n}", sum_blocks, blocks, [x, np.zeros(blocks, np.float32), n], {1: expected(x, blocks)})


if __name__ == "__main__":
    main()
