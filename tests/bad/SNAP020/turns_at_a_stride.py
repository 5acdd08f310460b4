"""Groups take turns that follow one another."""

from __future__ import annotations

from snap import *


@kernel(threads=256, blocks=1)
def example(y: ptr(int)):
    with each(block, y), each(thread[256], y):
        with each(warp.every(2)[4], y) as e:
            with turn():  #~ SNAP020
                with each(thread, y) as t:
                    y[128 * e + t] = 1
