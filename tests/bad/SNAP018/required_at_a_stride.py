"""A function requires neighbors: the groups are the caller's."""

from __future__ import annotations

from snap import *


@device(thread.every(2)[8])  #~ SNAP018
def of_a_column(v: int) -> int:
    return v


@kernel(threads=32)
def example(y: ptr(int)):
    pass
