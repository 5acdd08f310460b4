"""Roles that lie aligned in no order: the message speaks of roles, as the text does."""

from __future__ import annotations

from snap import *


@kernel(threads=256)
def shared_out(x: ptr(const(float)), y: ptr(float)):
    with each(block) as b:
        s: shared(float[96])
        load, compute = roles(96, 160)  #~ SNAP004
        with load(s), each(thread, s) as t:
            s[t] = x[b * 96 + t]
        with compute(), each(thread, y) as t:
            y[b * 160 + t] = s[t % 96]
