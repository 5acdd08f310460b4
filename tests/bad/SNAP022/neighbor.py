"""A thread reads what its neighbor writes, for some arguments."""

from __future__ import annotations

from snap import *


@kernel(threads=32, proved=True, where=lambda x, by, blocks: (0 <= by <= 4, blocks == 1, len(x) >= 36))
def example(x: ptr(float), by: int):
    with each(thread, x) as i:
        x[i] = x[i + by]  #~ SNAP022
