"""A record that is declared in code of a block is one for the block: a thread that writes a field has none of its own."""

from typing import NamedTuple

from snap import *


class Best(NamedTuple):
    at: int = 0
    value: float = 0.0


@kernel(threads=64)
def k(y: ptr(float)):
    with each(block, y):
        best: Best = Best()
        with each(thread, y) as i:
            best.at = 7  #~ SNAP005
            y[i] = float(best.at) + best.value
