"""C's names of the ends of ranges are numbers here."""

from snap import *


@kernel(threads=32)
def k(x: ptr(const(int)), y: ptr(int), z: ptr(float)):
    with each(thread, y, z) as i:
        least: int = INT_MAX  #~ SNAP019
        most: u32 = UINT32_MAX  #~ SNAP019
        below: i64 = LLONG_MIN  #~ SNAP019
        y[i] = x[i]
        z[i] = -FLT_MAX  #~ SNAP019
