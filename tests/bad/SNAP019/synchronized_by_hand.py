"""Barriers, fences and waits are inferred."""

from __future__ import annotations

from snap import *


@kernel(threads=64)
def example(out: ptr(float)):
    with each(block):
        __syncthreads()  #~ SNAP019
        syncthreads()  #~ SNAP019
        __threadfence()  #~ SNAP019
        __pipeline_wait_prior(0)  #~ SNAP019
