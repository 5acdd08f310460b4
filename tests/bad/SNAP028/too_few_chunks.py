"""Two chunks for eight warps."""

from __future__ import annotations

from snap import *


@kernel(threads=256)
def tiles(out: ptr(int)):
    with each(block, out):
        s: shared(int[32, 32])
        with partition(s, p=warp, view=views.chunks(16) >> views.transposed() >> views.transposed()) as w, group(warp):  #~ SNAP028
            with each(thread, w):
                w[0, 0] = 1
