"""Bytes that arrays take one after the other: what threads did there comes before what boxes do, however many arrays had them in between."""

from __future__ import annotations

import numpy as np
import pytest
from sync.small import compiled

TAKEN_TWICE = """from __future__ import annotations
from snap import *

@kernel(threads=64, smem=576)
def k(out: ptr(int), x: ptr(const(int), (64, 32)), n: int):
    with each(block):
        v: int @ thread[1] = 0
        if n >= 0:
            s: shared(int[4, 32])
            with each(thread, s, shape=(2, 32)) as (i, j):
                s[i, j] = i
                s[i + 2, j] = j
            with each(thread) as t:
                v = s[3 - t / 32, 31 - t % 32]
        a: shared(int[{rows}, 32])
        b: shared(int[2, 32])
        async_copy(b, x, at=(4, 0))
        with each(thread, out) as t:
            out[t] = v + b[t / 32, t % 32]
"""


@pytest.mark.parametrize("rows", [1, 2])
def test_an_array_that_nobody_touches_does_not_end_what_came_before(rows):
    """`a` takes the first bytes of `s`, and needs no fence; `b` takes others, into which boxes are loaded."""
    kernel = compiled(TAKEN_TWICE.format(rows=rows))
    out, x = np.zeros(64, np.int32), np.arange(2048, dtype=np.int32).reshape(64, 32)
    assert not kernel.races(out, x, 3, blocks=1, seeds=8)
    assert any(p.fence for p in kernel.syncs())
