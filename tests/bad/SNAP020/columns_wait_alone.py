"""No barrier tells the threads of a column from their neighbors, and within the columns' code nobody else is there to wait."""

from __future__ import annotations

from snap import *

column = thread.every(32)[8]


@kernel(threads=256)
def example(x: ptr(const(int)), y: ptr(int)):
    with each(block, y):
        s: shared(int[32, 8])
        with each(column, s, y) as j:
            with each(thread, s) as i:
                s[j, i] = x[i]
            with each(thread, y) as i:
                y[8 * j + i] = s[j, 7 - i]  #~ SNAP020
