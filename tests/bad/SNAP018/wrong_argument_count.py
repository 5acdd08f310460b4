"""The callee takes two arguments."""

from __future__ import annotations

from snap import *


@device
@requires(thread[1])
def add(a: int @ thread[1], b: int @ thread[1]) -> int @ thread[1]:
    return a + b


@kernel
@requires(grid[1], block[1], thread[32])
def example(x: ptr(const(int)) @ grid[1]):
    with group(thread[1]):
        v: int = add(x[0])  #~ SNAP018
