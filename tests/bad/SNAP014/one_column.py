"""No case of a split is a column: other threads lie between its own."""

from __future__ import annotations

from snap import *

column = thread.every(16)[8]


@kernel(threads=128)
def example(y: ptr(int)):
    with each(block, y):
        s: shared(int[128])
        with one(column, s):  #~ SNAP014
            with each(thread, s) as t:
                s[t] = t
        with claim(s, p=column) as mine:  #~ SNAP014
            pass
