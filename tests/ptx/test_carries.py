"""CC.CF between sums and differences: any mix, against one adder's rule in Python's whole numbers (carries.py)."""

from __future__ import annotations

import numpy as np
import pytest
from ptx import carries

from snap.ptx import run


@pytest.mark.parametrize("bits", (32, 64))
def test_mixes_of_sums_and_differences(bits):
    words = carries.words(bits)
    for mix in carries.mixes(bits):
        out = np.zeros((carries.ROWS, carries.LENGTH), words.dtype)
        run(carries.text(mix, bits), "k", 1, carries.ROWS, [words, out])
        for row, got in zip(words, out):
            assert got.tolist() == carries.expected(mix, row, bits), (mix, row.tolist())


def test_a_difference_leaves_the_complement_of_its_borrow():
    """`sub.cc` and `addc`: 1 where nothing was borrowed, as an H200 has it."""
    text = carries.text(("sub.cc", "addc"), 32)
    words = np.zeros((3, 3 * carries.LENGTH), np.uint32)
    words[:, :2] = [[5, 7], [7, 5], [7, 7]]
    out = np.zeros((3, carries.LENGTH), np.uint32)
    run(text, "k", 1, 3, [words, out])
    assert out[:, 1].tolist() == [0, 1, 1]
