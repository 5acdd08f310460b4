"""A table is a part of the program's text: it is small, and of a type that Snap has."""

from __future__ import annotations

import numpy as np

from snap import *

PHASES = np.exp(2j * np.pi * np.arange(8) / 8)
SINES = np.sin(np.linspace(0.0, 1.0, 100_000))


@kernel(threads=32)
def example(y: ptr(float)):
    with each(thread, y) as i:
        y[i] = float(SINES[i])  #~ SNAP018
        y[i] = PHASES[i % 8]  #~ SNAP018
        SINES[i] = 0.0  #~ SNAP018
