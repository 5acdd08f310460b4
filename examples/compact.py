"""Keep the elements that pass a test, in order: the classic use of a scan.

One kernel counts the elements that each block keeps.  The other adds up the counts of the previous blocks, which gives the start of the block's
part of the result; a scan of the block's own elements gives the place of each.  The block collects them in shared memory first, so that its writes to
global memory are contiguous.  Loads, sums and scans are the library's device functions; for thousands of blocks, compute the starts by
`snap.lib.scan(counts, exclusive=True)` between the two kernels.

No barrier is written here: `snap explain examples/compact.py` shows them all, including those inside the library's functions.
The elements in shared memory need none of their own: the one inside `total` comes between the threads that write them and those that read them.
"""

from __future__ import annotations

import numpy as np
from _run import blocks_for, compare

from snap import *
from snap.lib import block as of_block

T, ITEMS = 128, 4  # threads per block, consecutive elements per thread
PART = T * ITEMS

load = of_block.load(int, ITEMS, "direct")
total = of_block.reduce(int)
places = of_block.scan(int, items=ITEMS, exclusive=True, most=1)  # in place; it returns the block's total


@device(thread)
def wanted(value: int) -> bool:
    return value > 0


@kernel(threads=T, where=lambda x, counts, n, blocks: (len(x) >= n, len(counts) >= blocks, blocks <= 2**21))
def count_wanted(x: ptr(const(int)), counts: ptr(int), n: int):
    with each(block) as b:
        v: int[ITEMS] @ thread[1]
        load(x, b * PART, n, 0, v)
        own: int @ thread[1] = 0
        for k in range(ITEMS):
            own += int(wanted(v[k]))
        kept: int = total(own)  # all threads know it, so any of them may write it
        with one(thread, counts):
            counts[b] = kept


@kernel(threads=T, where=lambda x, counts, n, blocks: (len(x) >= n, len(counts) >= blocks, blocks <= 2**21))
def compact(x: ptr(const(int)), counts: ptr(const(int)), out: ptr(int), n: int):
    with each(block, out, disjoint=out) as b:
        chosen: shared(int[PART])
        v: int[ITEMS] @ thread[1]
        load(x, b * PART, n, 0, v)
        at: int[ITEMS] @ thread[1] = [int(wanted(v[k])) for k in range(ITEMS)]
        kept: int = places(at)  # the number of kept elements before each one
        with each(thread, chosen):
            for k in range(ITEMS):
                if wanted(v[k]):
                    chosen[at[k]] = v[k]
        before: int @ thread[1] = 0
        with each(thread) as t:
            for j in range(t, b, T):
                before += counts[j]
        start: int = total(before)
        with each(thread, out) as t:
            for j in range(t, kept, T):
                with trust("`counts` is what each block keeps, `out` holds all of it, and the first `kept` places are filled"):
                    out[start + j] = chosen[j]


def main():
    rng = np.random.default_rng(0)
    for n in (0, 1, 512, 1_021):
        x = rng.integers(-1000, 1000, n, dtype=np.int32)
        blocks = blocks_for(n, PART)
        tiles = np.pad(x, (0, blocks * PART - n)).reshape(blocks, PART)
        counts = (tiles > 0).sum(axis=1, dtype=np.int32)
        compare(f"counts, n = {n}", count_wanted, blocks, [x, np.zeros_like(counts), n], {1: counts})
        compare(f"compact, n = {n}", compact, blocks, [x, counts, np.zeros(int(counts.sum()), np.int32), n], {2: x[x > 0]})


if __name__ == "__main__":
    main()
