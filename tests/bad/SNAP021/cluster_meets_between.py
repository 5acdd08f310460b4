"""A cluster has one barrier: between its two parts it cannot meet by another collective."""

from __future__ import annotations

from snap import *


@kernel(threads=64, cluster=2)
def k(x: ptr(const(int)), y: ptr(int)):
    with each(cluster, y):
        v: int @ thread[1] = x[id()]
        intrinsic.arrive()
        some: bool @ cluster[1] = intrinsic.any_cluster(v > 0)  #~ SNAP021
        intrinsic.wait()
        with each(thread, y) as t:
            y[t] = v if some else 0
