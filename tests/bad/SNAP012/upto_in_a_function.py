"""The kernel declares what a launch gives; a function is handed it."""

from __future__ import annotations

from snap import *


@device(block[1], thread[64])
def example(n: int):
    s: shared(float[n], upto=4096)  #~ SNAP012
