"""Atomics, hints and asynchronous copies take one value, and an element here is a record; an array in a record has constant indices in memory."""

from __future__ import annotations

from typing import NamedTuple

from snap import *


class Row(NamedTuple):
    v: int[3]
    last: int


@kernel(threads=64, blocks=1)
def example(x: ptr(Row, (64,)), y: ptr(const(Row)), m: int):
    with each(block, x):
        s: shared(Row[64])
        with each(thread, s) as i:
            async_copy(s[i], y[i])  #~ SNAP018
        with each(thread, x) as i:
            atomic.add(x, i, 1)  #~ SNAP018
            intrinsic.store(x[i], 5, cache="cs")  #~ SNAP018
            for j in range(4):
                x[i].v[j] = j  #~ SNAP018
            x[i].v[3] = 0  #~ SNAP018
            x[i].last = y[i].v[m]  #~ SNAP018
            x[i].last = y[i].v[3]  #~ SNAP018
