"""The threads of a role arrive, and none of them waits: the next ones to come here would be one arrival ahead."""

from __future__ import annotations

from snap import *


@kernel(threads=128)
def k(x: ptr(const(int)), y: ptr(int)):
    with each(block, y):
        s: shared(int[64])
        a, b = roles(64, 64)
        with a(s):
            with each(thread, s) as t:
                s[t] = x[t]
            intrinsic.arrive()  #~ SNAP021
        with b(y):
            intrinsic.sync()
            with each(thread, y) as t:
                y[t] = x[t]
