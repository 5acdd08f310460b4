"""A function that fits blocks of 64 threads is called by blocks of 128: the error names the call and its count."""

from __future__ import annotations

from snap import *


@device(block, thread[64])
def two_roles(x: ptr(int)):
    load, compute = roles(32, 32)  #~ SNAP003
    with compute(x), each(thread, x) as t:
        x[t] = t


@kernel(threads=128)
def example(x: ptr(int)):
    with each(block, x):
        two_roles(x)
