"""Captured constants: numbers, bools, types, privileges and closures; taken when the function is defined."""

from __future__ import annotations

import numpy as np

from snap import *

SCALE = 3
ELEMENT = u16
TEAM = thread[16]
VERBOSE = False


def make(bias):
    @kernel(threads=64, where=lambda blocks, out: len(out) >= 64 * blocks)
    def stamp(out: ptr(ELEMENT)):
        with each(TEAM, out) as team, each(thread, out) as t:
            if VERBOSE:
                out[16 * team + t] = ELEMENT(0)
            else:
                out[16 * team + t] = ELEMENT(SCALE * t + bias)

    return stamp


plus_ten, plus_forty = make(10), make(40)
SCALE = 5  # too late for both


def check():
    for stamp, bias in ((plus_ten, 10), (plus_forty, 40)):
        out = np.zeros(128, np.uint16)
        stamp[2](out)
        np.testing.assert_array_equal(out, 3 * (np.arange(128) % 16) + bias)
