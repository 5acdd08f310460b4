"""The option is called threads."""

from __future__ import annotations

from snap import *


@kernel(thread=64)  #~ SNAP018
def example(out: ptr(float)):
    pass
