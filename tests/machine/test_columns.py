"""`wgmma` with `columns=` reads the columns that it multiplies, and no others: those may never have been written."""

from __future__ import annotations

import numpy as np
import pytest

from snap import *


def of_columns(COLUMNS):
    @kernel(threads=128)
    def product(a: ptr(const(bf16), (64, 64)), b: ptr(const(bf16), (64, 64)), c: ptr(float, (64, 32))):
        with each(block, c):
            left: shared(bf16[64, 64], swizzle=128)
            right: shared(bf16[64, 64], swizzle=128)  # [k, n], of which threads write the first half
            acc: float[32] @ thread[1]
            async_copy(left, a, at=(0, 0))
            with each(thread, right) as t:
                for k in range(t / 32, 64, 4):
                    right[k, t % 32] = b[k, t % 32]
            wgmma(acc, left, right.T, columns=COLUMNS)
            with each(thread, c):
                for j in range(16):
                    c[acc_row(j, warpgroup), acc_column(j, warpgroup)] = acc[j]

    return product


def bits(x):
    return (x.view(np.uint32) >> 16).astype(np.uint16)


@pytest.mark.parametrize("how", [{}, {"seed": 1}], ids=str)
def test_columns_that_are_not_multiplied_are_not_read(how):
    a, b = np.random.default_rng(1).integers(-3, 4, (2, 64, 64)).astype(np.float32)
    c = np.zeros((64, 32), np.float32)
    of_columns(32).launch(bits(a), bits(b), c, blocks=1, **how)
    np.testing.assert_array_equal(c, (a @ b)[:, :32])


@pytest.mark.parametrize("how", [{}, {"seed": 1}], ids=str)
def test_columns_that_are_multiplied_are(how):
    a, b = np.zeros((2, 64, 64), np.float32)
    with pytest.raises(Exception, match="before anything was written"):
        of_columns(40).launch(bits(a), bits(b), np.zeros((64, 32), np.float32), blocks=1, **how)
