"""Conditions are Python, where `/` makes a float."""

from __future__ import annotations

from snap import *


@device(thread, where=lambda n: n / 2 >= 1)  #~ SNAP028
def half(n: int) -> int:
    return n / 2
