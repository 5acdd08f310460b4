"""Memory decides about an index."""

from __future__ import annotations

from snap import *


@kernel(threads=32, proved=True, where=lambda x, y, at, blocks: (len(x) >= 32, blocks == 1, len(y) >= 32, len(at) >= 32))
def example(x: ptr(const(float)), at: ptr(const(int)), y: ptr(float)):
    with each(thread, y) as i:
        y[i] = x[at[i]]  #~ SNAP023
