"""Arrays of which boxes are copied: what a GPU could not address is refused on the CPU machine as well."""

from __future__ import annotations

import numpy as np
import pytest
from corpus import ROOT, Program

import snap
from snap import LaunchError


@pytest.fixture(scope="module")
def boxes():
    return Program(ROOT / "tests" / "ok" / "boxes.py").namespace()


@pytest.fixture(scope="module")
def transpose(boxes):
    return boxes["transpose"]


def test_rows_of_whole_16_bytes(transpose):
    x, y = np.zeros((32, 33), np.float32), np.zeros((33, 32), np.float32)
    with pytest.raises(LaunchError, match="`x`.*rows must be a multiple of 16 bytes.*36 elements"):
        transpose[2](x, y, 32, 33)


def test_an_empty_array(boxes):
    with pytest.raises(LaunchError, match="`x`.*nothing to copy"):
        boxes["column_sums"][1](np.zeros((0, 128), np.float32), np.zeros((1, 128), np.float32), 0)


def test_an_odd_address_is_refused_as_on_a_gpu(transpose):
    memory = np.arange(32 * 32 + 1, dtype=np.float32)
    x, y = memory[1:].reshape(32, 32), np.zeros((32, 32), np.float32)
    with pytest.raises(snap.MachineError, match="TMA copies boxes of `x`, and it starts 4 bytes past a multiple of 16"):
        transpose[1](x, y, 32, 32)
    transpose[1](x.copy(), y, 32, 32)
    np.testing.assert_array_equal(y, x.T)
