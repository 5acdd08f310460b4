"""Barriers that a proof shows to be needless, and some that it does not."""

from __future__ import annotations

from snap import *


@kernel(threads=128, blocks=1, where=lambda x, w, n: (128 <= w < 2**20, 0 <= n < 2**10, len(x) >= n * w))
def strides(x: ptr(float), w: int, n: int):
    with each(block, x):
        for m in range(n):
            with each(thread, x) as t:
                x[m * w + t] += 1.0  #~ SNAP032


@kernel(threads=128, blocks=1, where=lambda x, w, n: (127 <= w < 2**20, 0 <= n < 2**10, len(x) >= n * w + 128))
def meet(x: ptr(float), w: int, n: int):
    with each(block, x):
        for m in range(n):
            with each(thread, x) as t:  # snap: ok SNAP031
                x[m * w + t] += 1.0


@kernel(threads=128, blocks=1, where=lambda x, w, n: (128 <= w < 2**20, 0 <= n < 2**10, len(x) >= n * w), lean=True)
def left_out(x: ptr(float), w: int, n: int):
    with each(block, x):
        for m in range(n):
            with each(thread, x) as t:
                x[m * w + t] += 1.0
