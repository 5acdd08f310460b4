"""A device function does not know the launch; the kernel passes the shape on."""

from __future__ import annotations

from snap import *


@device(thread)
def columns() -> int:
    return count(block, 1)  #~ SNAP018
