"""Roles that ask for more threads than a block has: the message speaks of roles, as the text does."""

from __future__ import annotations

from snap import *


@kernel(threads=256)
def shared_out(x: ptr(const(float)), y: ptr(float)):
    with each(block) as b:
        s: shared(float[128])
        compute, load = roles(256, 128)  #~ SNAP003
        with load(s), each(thread, s) as t:
            s[t] = x[b * 128 + t]
        with compute(), each(thread, y) as t:
            y[b * 256 + t] = s[t % 128]
