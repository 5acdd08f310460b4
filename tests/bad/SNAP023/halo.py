"""A shared array has no room for its halo."""

from __future__ import annotations

from snap import *


@kernel(threads=32, proved=True, where=lambda x: len(x) >= 34)
def example(x: ptr(const(float))):
    with each(block):
        s: shared(float[32])
        with each(thread, s) as t:
            s[t + 1] = x[t + 1]  #~ SNAP023
