"""As many values as targets."""

from __future__ import annotations

from snap import *


@kernel(threads=32)
def example(x: ptr(const(float)), y: ptr(float)):
    with each(thread, y) as i:
        low, high = x[i], x[i + 1], x[i + 2]  #~ SNAP018
        weights: float[2, 2] = [1.0, 0.5, 0.25, 0.125]  #~ SNAP018
        y[i] = weights[0, 0]
