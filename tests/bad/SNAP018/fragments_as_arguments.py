"""A parameter that is a fragment takes that one, or a plain array."""

from __future__ import annotations

from snap import *


@device(warp)
def added(acc: ref(fragment.C(float[16, 8])), a: fragment.A(float[16, 8]) @ thread[1]):
    for i in range(4):
        acc[i] += a[i]


@kernel
@requires(grid[1], block[1], thread[32])
def example():
    with group(warp):
        a: fragment.A(float[16, 8]) @ thread[1]
        c: fragment.C(float[16, 8]) @ thread[1]
        plain: float[4] @ thread[1]
        added(c, a)
        added(plain, plain)
        added(a, a)  #~ SNAP018
        added(c, c)  #~ SNAP018
