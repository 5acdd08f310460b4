"""Constants: a view has fewer places than there are units that would each get one."""

from __future__ import annotations

from snap import *


@kernel(threads=64)
def rows(out: ptr(int)):
    with each(block, out):
        s: shared(int[8, 8])
        v = registers(0)
        with each(thread, s, shape=(8, 8)) as (i, j):
            s[i, j] = 8 * i + j
        with partition(s, p=thread[1], view=views.transposed()) as w, group(thread[1]):  #~ SNAP028
            v += w[0]
        with each(thread, out) as t:
            out[t] = v
