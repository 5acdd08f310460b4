"""Arrays of the library: what lack of memory looks like."""

from __future__ import annotations

import numpy as np
import pytest

import snap

HUGE = 2**24  # a matrix of so many rows and columns has more bytes than any machine


def test_lack_of_memory_names_the_array_and_the_argument():
    column, row = np.zeros((HUGE, 1), np.float32), np.zeros((1, HUGE), np.float32)
    said = r"no memory for an array of the shape \(16777216, 16777216\) of float32, needed beside `a` of `snap.lib.sgemm`"
    with pytest.raises(MemoryError, match=said):
        snap.lib.sgemm(column, row)


def test_in_torch_it_is_torchs_error():
    torch = pytest.importorskip("torch")
    with pytest.raises(RuntimeError, match="no memory for an array .* beside `a` of `snap.lib.sgemm`"):
        snap.lib.sgemm(torch.zeros(HUGE, 1), torch.zeros(1, HUGE))
