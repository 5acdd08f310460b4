"""`print` is a line of its own, of texts and values: it has no result and no options."""

from __future__ import annotations

from snap import *


@kernel(threads=32)
def example(x: ptr(const(int))):
    with each(thread) as i:
        y = print("hello")  #~ SNAP017
        print(x[i], end="")  #~ SNAP017
