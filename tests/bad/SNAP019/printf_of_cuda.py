"""CUDA's printf is `print` here."""

from __future__ import annotations

from snap import *


@kernel(threads=32)
def example(x: ptr(const(int))):
    with each(thread) as i:
        printf("%d\n", x[i])  #~ SNAP019
