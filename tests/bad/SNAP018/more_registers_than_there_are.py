"""384 threads start with 168 registers each: two warpgroups with 240 leave 24 for the third."""

from __future__ import annotations

from snap import *


@kernel(threads=384)
def example(out: ptr(int)):
    with each(block):
        compute, load = roles(256, 128, registers=(240, 40))  #~ SNAP018
        with compute(), each(thread):
            pass
