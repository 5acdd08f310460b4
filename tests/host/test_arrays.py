from __future__ import annotations

import numpy as np
import pytest

from snap._compiler.ir.types import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64
from snap.host.arguments.arrays import _row_major, as_numpy, classify


class Exporter:
    """An array of another library: DLPack and nothing else."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("name, type", [
    ("bool", BOOL), ("int8", I8), ("int16", I16), ("int32", I32), ("int64", I64), ("uint8", U8), ("uint16", U16), ("uint32", U32), ("uint64", U64),
    ("float16", F16), ("float32", F32), ("float64", F64),
])
@pytest.mark.parametrize("wrap", [lambda a: a, Exporter])
def test_dtypes(name, type, wrap):
    array = np.zeros((2, 3), name)
    info = classify(wrap(array))
    assert (info.dtype, info.shape, info.pointer, info.nbytes) == (type, (2, 3), array.ctypes.data, array.nbytes)
    assert info.contiguous and not info.readonly and info.device == "cpu"
    back = as_numpy(info)
    back[1, 2] = 1
    assert array[1, 2] == 1 and back.dtype == array.dtype


def test_dlpack_strides():
    assert not classify(Exporter(np.zeros((4, 6))[:, ::2])).contiguous
    assert not classify(Exporter(np.zeros((4, 6)).T)).contiguous
    assert classify(Exporter(np.zeros((4, 6))[1:3])).contiguous
    assert as_numpy(classify(Exporter(np.zeros((0, 6))))).shape == (0, 6)


def test_ml_dtypes_bfloat16():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = np.ones(4, ml_dtypes.bfloat16)
    info = classify(array)
    assert info.dtype == BF16 and info.holds(BF16) and not info.holds(U16)
    assert as_numpy(info).tolist() == [0x3F80] * 4


@pytest.mark.parametrize("value", [None, 1, 1.5, "text", [1], np.float32(3), np.ndarray, object(), Exporter])
def test_no_array(value):
    assert classify(value) is None


def test_row_major():
    assert _row_major((2, 3), (3, 1))
    assert _row_major((2, 1, 3), (3, 99, 1))
    assert _row_major((0, 3), (7, 7))
    assert not _row_major((2, 3), (1, 2))
    assert not _row_major((4,), (0,))
    assert _row_major((), ())
