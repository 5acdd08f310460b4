"""Two threads of one `each` write the same element, in every launch."""

from __future__ import annotations

from snap import *


@kernel(threads=64)
def sums(x: ptr(const(int)), y: ptr(int)):
    with each(block) as b:
        s: shared(int[32])
        with each(thread, s) as t:
            s[t / 2] = x[64 * b + t]  #~ SNAP010
        with each(thread, y) as t:
            y[64 * b + t] = s[t % 32]
