"""The guard lets one thread too many through."""

from __future__ import annotations

from snap import *


@kernel(threads=32, proved=True, where=lambda n, x: len(x) >= n)
def example(x: ptr(float), n: int):
    with each(thread, x) as i:
        if i <= n:
            x[i] = 1.0  #~ SNAP023
