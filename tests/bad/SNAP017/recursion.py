"""A device function calls itself."""

from __future__ import annotations

from snap import *


@device
@requires(thread[1])
def factorial(n: int @ thread[1]) -> int @ thread[1]:
    r: int = 1
    if n > 1:
        r = n * factorial(n - 1)  #~ SNAP017
    return r
