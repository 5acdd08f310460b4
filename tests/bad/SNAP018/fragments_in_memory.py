"""A fragment lies in registers, by itself."""

from __future__ import annotations

from typing import NamedTuple

from snap import *


class Tile(NamedTuple):
    a: fragment.A(bf16[16, 16])


@kernel
@requires(grid[1], block[1], thread[32])
def example():
    with group(block[1]):
        s: shared(fragment.A(bf16[16, 16]))  #~ SNAP018
        t: Tile @ thread[1]  #~ SNAP018
