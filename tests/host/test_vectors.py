"""Vectors among a kernel's arguments."""

from __future__ import annotations

import numpy as np
import pytest

from snap import *


@kernel
@requires(grid[1], block[1], thread[32])
def filled(y: ptr(float) @ grid[1], v: float4 @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], offset=i) as mine:
            with group(thread[1]):
                mine[0] = v.x + v.w * float(i)


@pytest.mark.parametrize("options", [{}, {"seed": 1}])
def test_a_vector_is_passed_as_its_parts(options):
    y = np.zeros(32, np.float32)
    filled.launch(y, (1, 2, np.float32(3), 4), blocks=1, **options)
    assert (y == 1 + 4 * np.arange(32)).all()
