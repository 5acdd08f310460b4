"""The meaning of an instruction takes no turns."""

from __future__ import annotations

from snap import *


@instruction(block[1], thread[64], text="turn({x});")
def turned(x: ptr(int)):
    with each(warp):
        with turn():  #~ SNAP017
            pass
