"""Arrays of the library: what lack of memory looks like, and what is no plain array."""

from __future__ import annotations

import numpy as np
import pytest

import snap
from snap._compiler.ir.types import BF16, F32, I64
from snap.lib._calls import arrays

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


def test_masks_are_not_lost_in_silence():
    masked = np.ma.masked_array(np.arange(6, dtype=np.float32).reshape(2, 3), [[True, False, False]] * 2)
    for call, name in (
        (lambda: snap.lib.reduce(masked), "x"), (lambda: snap.lib.softmax(masked), "x"),
        (lambda: snap.lib.gemv(masked, np.zeros(3, np.float32)), "a"), (lambda: snap.lib.sgemm(masked, np.zeros((3, 1), np.float32)), "a"),
    ):
        with pytest.raises(snap.LaunchError, match=rf"`{name}` of .*masked.*`.filled\(...\)`"):
            call()
    assert snap.lib.reduce(masked.filled(0)) == 12 and snap.lib.reduce(masked.compressed()) == 12


@pytest.mark.parametrize("rows", [0, 2])
def test_a_factor_is_a_number_even_where_nothing_is_computed(rows):
    with pytest.raises(snap.LaunchError, match="`alpha` of `snap.lib.sgemm`.*a str"):
        snap.lib.sgemm(np.zeros((rows, 2), np.float32), np.zeros((2, 2), np.float32), alpha="z")


@pytest.mark.parametrize("type", [F32, I64, BF16], ids=str)
def test_what_a_kernel_does_not_touch_takes_no_memory(type):
    """It is kept, and the first call may be made where memory belongs to a graph."""
    given = arrays.argument("f", "x", np.zeros(4, np.float32), (F32,), 1)
    made = arrays.nothing(given, type)
    assert made is arrays.nothing(given, type) and made.nbytes == 0 and made.dtype.itemsize == type.bytes
    left, flags = arrays.exchange(given, 0, 0)
    assert left.nbytes == flags.nbytes == 0 and [one.size for one in arrays.exchange(given, 3, 2)] == [3, 2]
