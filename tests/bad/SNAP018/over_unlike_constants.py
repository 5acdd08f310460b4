"""A loop is written out for constants of one kind."""

from __future__ import annotations

from snap import *


@kernel(threads=32)
def k(y: ptr(float), n: int):
    with each(thread, y) as t:
        for f in unroll((1, 0.5)):  #~ SNAP018
            y[t] *= f
        for m in unroll((n, 2)):  #~ SNAP018
            y[t] += float(m)
        for p in unroll(((1, 2), (3, 4))):  #~ SNAP018
            y[t] += float(p)
