"""A kernel takes scalars, vectors and pointers, also in a record: arrays are memory."""

from __future__ import annotations

from typing import NamedTuple

from snap import *


class Filter(NamedTuple):
    n: int
    taps: float[4]


@kernel(threads=32)
def k(
    v: float[2, 4],  #~ SNAP018
    w: ref(float[4]),  #~ SNAP018
    f: Filter,  #~ SNAP018
    y: ptr(float),
):
    with each(thread, y) as i:
        y[i] = v[1, 2] + w[2]
