"""Blocks find each other's parts where the text says."""

from __future__ import annotations

from snap import *


@kernel(threads=64, cluster=2)
def example(out: ptr(float), n: int):
    with each(cluster, out):
        s: shared(float[n], upto=4096, across=block)  #~ SNAP018
