"""`assert` holds for every thread that reaches it; a failing one stops the CPU machine with the message."""

from __future__ import annotations

import numpy as np

from snap import *


@kernel(threads=32, where=lambda n, out, x: (len(x) >= n, len(out) >= n))
def checked(x: ptr(const(int)), out: ptr(int), n: int):
    assert n > 0
    with each(thread, out) as i:
        if i < n:
            assert x[i] >= 0, "negative input"
            out[i] = x[i]


def check():
    x, out = np.arange(40, dtype=np.int32), np.zeros(40, np.int32)
    checked[2](x, out, 40)
    np.testing.assert_array_equal(out, x)
    x[33] = -1
    try:
        checked.launch(x, out, 40, blocks=2, seed=0)  # on the CPU machine, always: a failed assertion ends a GPU's context
    except Exception as error:
        assert "negative input" in str(error)
    else:
        raise AssertionError("the assertion did not fail")
