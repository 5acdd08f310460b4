"""A wrong `__restrict__` is seen without a GPU: NVRTC keeps loads from before a barrier, and the PTX machine runs what NVRTC made."""

from __future__ import annotations

import re

import numpy as np
import pytest

from snap import *
from snap import ptx


@kernel(threads=64)
def read_again(y: ptr(int), out: ptr(int)):
    with each(block, y, out) as b:
        before: int @ thread[1] = y[5]
        with one(thread, y):
            y[5] = 7
        with each(thread, out) as t:
            out[64 * b + t] = before + 10 * y[5]


@pytest.mark.parametrize("promised", [False, True])
def test_what_the_compiler_is_promised_decides(promised):
    pytest.importorskip("cuda.bindings.nvrtc")
    from snap.host.compile.nvrtc import compile_ptx

    text = read_again.cuda()
    if promised:
        text = re.sub(r"\bint\* (y|out)\b(?=[,)])", r"int* __restrict__ \1", text)
        assert text.count("__restrict__") == 2
    y, out = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    ptx.run(compile_ptx(text, "sm_90a"), "read_again", 1, 64, [y, out])
    expected = np.full(64, 5 + 10 * 7)
    assert y[5] == 7
    if promised:
        assert (out != expected).any(), "the compiler no longer keeps the load: this test shows nothing"
    else:
        np.testing.assert_array_equal(out, expected)
