"""A launch gives blocks a shape; that of other units is written."""

from __future__ import annotations

from snap import *


@kernel(threads=64)
def example(out: ptr(int)):
    with each(thread, out, shape=...) as (i, j):  #~ SNAP018
        out[i] = j
