"""A parameter of an instruction that its text does not use: the text cannot mean what the body does."""

from __future__ import annotations

from snap import *


@instruction(thread, text="__brev({x})")
def turned(x: u32, n: int) -> u32:  #~ SNAP018
    return brev(x) >> u32(n)
