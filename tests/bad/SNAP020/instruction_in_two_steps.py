"""What an instruction means takes a barrier, and its text has no place for one."""

from __future__ import annotations

from snap import *


@instruction(warp, text="rotate({s});")
def rotate(s: ptr(shared(int))):
    with each(thread, s) as lane:
        s[lane] = lane
    with each(thread, s) as lane:
        s[31 - lane] += 1  #~ SNAP020
