"""`grid` in `where=` is the shape that a launch gives: of a kernel that asks for none, there is none."""

from snap import *


@kernel(threads=64, where=lambda n, grid: 8 * grid[0] <= n)  #~ SNAP018
def fill(out: ptr(int), n: int):
    with each(thread, out) as i:
        if i < n:
            out[i] = 1
