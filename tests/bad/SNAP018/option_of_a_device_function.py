"""A device function says who calls it."""

from __future__ import annotations

from snap import *


@device(threads=64)  #~ SNAP018
def example(v: float) -> float:
    return v
