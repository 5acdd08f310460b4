"""`blocks=` is a function of the kernel's own parameters."""

from __future__ import annotations

from snap import *


@kernel(threads=64, blocks=lambda m: -(-m // 64))  #~ SNAP018
def example(out: ptr(int), n: int):
    pass
