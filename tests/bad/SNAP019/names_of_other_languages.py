"""What CUDA, Numba, Triton and cooperative groups write: each is told what Snap writes instead."""

from __future__ import annotations

from snap import *


@kernel(threads=64)
def example(x: ptr(float)):
    with each(block) as b:
        with each(thread, x) as t:
            barrier()  #~ SNAP019
            cuda.syncthreads()  #~ SNAP019
            grid.sync()  #~ SNAP018
            i: int = cuda.grid(1)  #~ SNAP019
            j: int = blockIdx.x  #~ SNAP019
            k: int = tl.program_id(0)  #~ SNAP019
            x[t] = -inf  #~ SNAP019
