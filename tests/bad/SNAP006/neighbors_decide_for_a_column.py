"""A value of each row differs within a column."""

from __future__ import annotations

from snap import *


@kernel(threads=128)
def example(y: ptr(int)):
    row: int @ thread[16] = id()
    with group(thread.every(16)[8]):
        if row > 2:  #~ SNAP006
            pass
