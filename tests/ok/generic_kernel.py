"""A kernel generic in constexpr parameters, with privileges that depend on them."""

from __future__ import annotations

import numpy as np

from snap import *


@kernel(threads=lambda T: T)
def fill(out: ptr(int), n: int, T: constexpr(int), UP: constexpr(bool)):
    with each(thread, out, shape=n) as i:
        out[i] = i if UP else n - i


def check():
    for threads in (1, 7, 32, 100):
        for up in (True, False):
            out = np.full(201, -1, np.int32)
            fill[-(-200 // threads)](out, 200, threads, up)
            i = np.arange(200)
            np.testing.assert_array_equal(out, np.append(i if up else 200 - i, -1))
    assert "fill" in fill.specialize(T=32, UP=True).cuda()


GOLDEN = [fill.specialize(T=32, UP=True), fill.specialize(T=100, UP=False)]


GOLDEN = [fill.specialize(T=32, UP=True), fill.specialize(T=7, UP=False)]
