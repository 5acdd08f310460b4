"""The last iteration of a loop with constant bounds reads behind the end."""

from __future__ import annotations

from snap import *


@kernel(threads=64)
def halo(x: ptr(const(float)), y: ptr(float)):
    with each(block, y) as b:
        s: shared(float[64 + 4])
        with each(thread, s) as t:
            s[t] = x[64 * b + t]
            if t < 4:
                s[64 + t] = x[64 * b + 64 + t]
        with each(thread, y) as t:
            total = 0.0
            for k in range(6):
                total += s[t + k]  #~ SNAP018
            y[64 * b + t] = total
