"""Which registers a function takes is known when the kernel is compiled."""

from __future__ import annotations

from snap import *


@device(thread)
def doubled(row: ref(float[4])):
    for j in range(4):
        row[j] = row[j] * 2.0


@kernel(threads=32)
def example(y: ptr(float), n: int):
    with each(thread, y) as i:
        rows: float[8, 4]
        for k in range(n):
            doubled(rows[k])  #~ SNAP018
        y[i] = rows[0]  #~ SNAP018
