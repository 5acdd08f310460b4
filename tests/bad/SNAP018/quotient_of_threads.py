"""Decorators are Python: `/` of two integers is a float there."""

from __future__ import annotations

from snap import *

THREADS = 256


@kernel(threads=THREADS / 2)  #~ SNAP018
def example(out: ptr(float)):
    pass
