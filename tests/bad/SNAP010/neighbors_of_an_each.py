"""Threads of one `each` that read what others of them write, in every launch."""

from __future__ import annotations

from snap import *


@kernel(threads=64)
def shifted(y: ptr(float)):
    with each(thread, y) as i:
        y[i] = y[i + 1]  #~ SNAP010
