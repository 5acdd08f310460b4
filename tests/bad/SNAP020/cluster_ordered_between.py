"""The blocks of a cluster must wait for each other between the two parts of their one barrier."""

from __future__ import annotations

from snap import *


@kernel(threads=64, cluster=2)
def k(x: ptr(const(int)), y: ptr(int)):
    with each(cluster) as c:
        given: shared(int[64], across=block)
        b: int @ block[1] = id()
        t: int @ thread[1] = id() % 64
        intrinsic.arrive()
        with each(thread, given):
            given[b, t] = x[c * 128 + b * 64 + t]
        v: int @ thread[1] = given[1 - b, t]  #~ SNAP020
        intrinsic.wait()
        with each(thread, y):
            y[c * 128 + b * 64 + t] = v
