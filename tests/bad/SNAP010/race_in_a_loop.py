"""Two threads of one `each` write the same element in a loop with constant bounds: listing 1 of Descend's paper, without its parentheses."""

from __future__ import annotations

from snap import *


@kernel(threads=256, blocks=4)
def transpose(inp: ptr(const(f64), (64, 64)), out: ptr(f64, (64, 64))):
    with each(block, out, shape=(2, 2)) as (by, bx):
        tmp: shared(f64[1024])
        ty, tx = ids(thread, shape=(8, 32))
        with each(thread, tmp):
            for j in range(0, 32, 8):
                tmp[ty + j * 32 + tx] = inp[by * 32 + ty + j, bx * 32 + tx]  #~ SNAP010
        with each(thread, out):
            for j in range(0, 32, 8):
                out[bx * 32 + ty + j, by * 32 + tx] = tmp[tx * 32 + ty + j]
