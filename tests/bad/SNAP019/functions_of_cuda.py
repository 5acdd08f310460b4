"""CUDA's functions have types and masks in their names; Snap's do not."""

from __future__ import annotations

from snap import *


@kernel(threads=64)
def example(x: ptr(float), out: ptr(float)):
    with each(thread, out) as i:
        out[i] = __expf(x[i])  #~ SNAP019
        out[i] = fmaxf(x[i], 0.0)  #~ SNAP019
        out[i] = float(__popcll(3))  #~ SNAP019
        out[i] = __int_as_float(3)  #~ SNAP019
        out[i] = bitcast(3, float)  #~ SNAP019
        out[i] = __shfl_down_sync(0xFFFFFFFF, x[i], 1)  #~ SNAP019
        atomicMax(out, 0)  #~ SNAP019
        out[threadIdx.x] = 0.0  #~ SNAP019
