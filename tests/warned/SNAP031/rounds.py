"""Barriers in loops between parts that may be apart."""

from __future__ import annotations

from snap import *


@kernel(threads=128, blocks=1)
def strides(x: ptr(float), w: int, n: int):
    with each(block, x):
        for m in range(n):
            with each(thread, x) as t:  #~ SNAP031
                x[m * w + t] += 1.0


@kernel(threads=128, blocks=1)
def scattered(x: ptr(float), at: ptr(const(int)), n: int):
    with each(block, x):
        t: int @ thread[1] = id()
        for m in range(n):
            with partition(x, p=thread[1]) as mine, group(thread[1]):  #~ SNAP031
                mine[at[128 * m + t]] = 1.0


@kernel(threads=128, blocks=1)
def neighbors(x: ptr(float), n: int):
    """These meet, certainly: no promise would be true."""
    with each(block, x):
        for _ in range(n):
            next: float @ thread[1]
            with each(thread) as t:
                next = x[(t + 1) % 128]
            with each(thread, x) as t:
                x[t] = next


@kernel(threads=128, blocks=1)
def allowed(x: ptr(float), w: int, n: int):
    with each(block, x):
        for m in range(n):
            with each(thread, x) as t:  # snap: ok SNAP031
                x[m * w + t] += 1.0
        with each(thread, x) as t:
            x[w * t] += 1.0
