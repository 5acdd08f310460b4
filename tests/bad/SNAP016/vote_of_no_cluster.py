"""There are no clusters in this kernel."""

from __future__ import annotations

from snap import *


@kernel(threads=64)
def example(x: ptr(const(float)), out: ptr(float)):
    i: int @ thread[1] = id()
    n: int @ block[1] = intrinsic.count_cluster(x[i] > 1.0)  #~ SNAP016
