"""A role that does not begin at a multiple of its size: the message speaks of roles, as the text does."""

from __future__ import annotations

from snap import *


@kernel(threads=384)
def shared_out(x: ptr(const(float)), y: ptr(float)):
    with each(block) as b:
        s: shared(float[128])
        load, compute = roles(128, 256)  #~ SNAP004
        with load(s), each(thread, s) as t:
            s[t] = x[b * 128 + t]
        with compute(), each(thread, y) as t:
            y[b * 256 + t] = s[t % 128]
