"""Values stand beside texts in `print`, not in them."""

from __future__ import annotations

from snap import *


@kernel(threads=32)
def formatted(x: ptr(const(int))):
    with each(thread) as i:
        print(f"x = {x[i]}")  #~ SNAP017
