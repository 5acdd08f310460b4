"""What the PTX machine says where the ISA is open, asked of a GPU."""

from __future__ import annotations

import numpy as np
import pytest
from ptx import carries
from ptx.tables import Gpu


@pytest.mark.parametrize("bits", (32, 64))
def test_carries_of_mixes(bits):
    gpu, words = Gpu(), carries.words(bits)
    for mix in carries.mixes(bits):
        out = np.zeros((carries.ROWS, carries.LENGTH), words.dtype)
        gpu.run(carries.text(mix, bits), [words], out, grid=1, block=carries.ROWS)
        for row, got in zip(words, out):
            assert got.tolist() == carries.expected(mix, row, bits), (mix, row.tolist())
