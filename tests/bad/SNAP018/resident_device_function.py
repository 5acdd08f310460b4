"""How many blocks are resident is a matter of the kernel."""

from __future__ import annotations

from snap import *


@device
@requires(thread[32], resident=2)  #~ SNAP018
def example(x: int @ thread[1]) -> int @ thread[1]:
    return x + 1
