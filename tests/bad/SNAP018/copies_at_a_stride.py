"""Copies of every other block have an option of their own."""

from __future__ import annotations

from snap import *


@kernel(threads=32, cluster=4)
def example(y: ptr(int)):
    with each(cluster, y):
        s: shared(int[64, 32], copies=block.every(2)[2])  #~ SNAP018
