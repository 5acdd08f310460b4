"""A launch gives a block its shared memory before anything runs: what an array holds is not known then."""

from __future__ import annotations

from snap import *


@kernel(threads=64)
def example(sizes: ptr(const(int)), out: ptr(float)):
    with each(block, out):
        s: shared(float[sizes[0]], upto=4096)  #~ SNAP018
