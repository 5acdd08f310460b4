"""A device function for a warp holds no blocks to split."""

from __future__ import annotations

from snap import *


@device
@requires(thread[32])
def helper(x: int @ thread[1]):
    match split(block):  #~ SNAP001
        case 1:
            pass
