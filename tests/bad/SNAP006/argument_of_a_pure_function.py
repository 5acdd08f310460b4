"""A function that only computes is as uniform as its arguments; one that does more is its threads' own."""

from __future__ import annotations

from snap import *


@device(thread)
def cdiv(a: int, b: int) -> int:
    return (a + b - 1) // b


@device(thread)
def loaded(x: ptr(const(int)) @ grid[1], i: int) -> int:
    return x[i]


@kernel(threads=64)
def example(x: ptr(const(int)), n: int):
    with each(block):
        t: int @ thread[1] = id()
        m: int = cdiv(n, 64)
        for i in range(cdiv(t, m)):  #~ SNAP006
            pass
        first: int = loaded(x, m)  #~ SNAP006
