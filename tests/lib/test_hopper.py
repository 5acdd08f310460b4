"""The Hopper GEMM to be read first: short, right for any extents, proved, and found by the library's documentation."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import numpy as np
import pytest

from snap.lib._gemm import hopper

from .test_gemm import unpacked

ROOT = Path(__file__).resolve().parents[2]


def bits(x: np.ndarray) -> np.ndarray:
    return (x.view(np.uint32) >> 16).astype(np.uint16)


@pytest.mark.parametrize("tile, shape, blocks", [((128, 256), (200, 264, 72), 2), ((128, 256), (300, 520, 136), 3), ((128, 128), (129, 8, 8), 1)])
def test_any_extents(tile, shape, blocks):
    m, n, k = shape
    random = np.random.default_rng(m)
    a, b = (random.integers(-2, 3, extents).astype(np.float32) for extents in ((m, k), (k, n)))
    c = np.full((m, n), 0x7FC0, np.uint16)
    hopper.hopper_gemm(*tile)[blocks](bits(a), bits(b), c, m, n, k)
    np.testing.assert_array_equal(unpacked(c), a @ b)


def test_it_is_proved_for_all_sizes():
    proof = hopper.hopper_gemm().prove()
    assert bool(proof), str(proof)


def test_it_can_be_read():
    text = inspect.getsource(hopper)
    (maker,) = (node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef))
    assert len(text.splitlines()) <= 70 and maker.end_lineno - maker.lineno < 45
    assert [arg.arg for arg in maker.args.args] == ["BM", "BN"]
    library = (ROOT / "docs" / "library.md").read_text()
    assert ast.get_source_segment(text, maker) in library, "the documentation shows the kernel as it is"
    assert library.index("def hopper_gemm") < library.index("snap.lib.reduce(")
