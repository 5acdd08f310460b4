"""16,384 bytes may be asked for, and 8,192 are declared."""

from __future__ import annotations

from snap import *


@kernel(threads=64, smem=8192)  #~ SNAP013
def example(out: ptr(float), n: int):
    with each(block, out):
        s: shared(float[n], upto=4096)
        with each(thread, s) as t:
            s[t] = 1.0
