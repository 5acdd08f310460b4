"""`blocks=` is a number, or a function that makes it."""

from __future__ import annotations

from snap import *


@kernel(threads=64, blocks="n")  #~ SNAP018
def example(out: ptr(int), n: int):
    pass
