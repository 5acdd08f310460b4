"""Check docs/same-kernel.md: its CUDA kernels compile and compute what NumPy does, and its Triton kernels are Python."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from ptx.test_compilers import compiled_text

from snap import ptx

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("docs_run_blocks", ROOT / "docs" / "run_blocks.py")
run_blocks = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(run_blocks)

BLOCKS = run_blocks.blocks_of((ROOT / "docs" / "same-kernel.md").read_text())
KERNELS = ["saxpy", "transpose", "block_sums", "softmax", "gemm_tile"]


def run(name, grid, block, *arguments):
    """Run the page's CUDA kernel on the PTX machine, with the checks that cost time."""
    [text] = [block.text for block in BLOCKS if block.language == "cuda" and f" {name}(" in block.text]
    ptx.run(compiled_text(text, name=name), name, grid=grid, block=block, arguments=list(arguments), checks=("races", "uninitialized"))


def test_each_kernel_is_there_in_each_language():
    for language, before in (("cuda", "__global__ void "), ("py", "def "), ("python", "def ")):
        texts = [block.text for block in BLOCKS if block.language == language]
        assert [name for name in KERNELS if any(f"{before}{name}(" in text for text in texts)] == KERNELS


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "py"], ids=KERNELS)
def test_triton_is_python(block):
    [function] = ast.parse(block.text).body
    assert [ast.unparse(decorator) for decorator in function.decorator_list] == ["triton.jit"]


def test_saxpy():
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    run("saxpy", 4, 256, np.float32(2.0), x, y, 1000)
    np.testing.assert_array_equal(y, 2 * x + 1)


def test_transpose():
    x, y = np.arange(70 * 50, dtype=np.float32).reshape(70, 50), np.zeros((50, 70), np.float32)
    run("transpose", (2, 3), 256, x, y, 70, 50)
    np.testing.assert_array_equal(y, x.T)


def test_block_sums():
    x, out = np.arange(5000, dtype=np.float32) % 7, np.zeros(4, np.float32)
    run("block_sums", 4, 256, x, out, 5000)
    assert out.sum() == x.sum()


def test_softmax():
    x = np.random.default_rng(0).standard_normal((6, 70), np.float32)
    y, expected = np.zeros_like(x), np.exp(x - x.max(axis=1, keepdims=True))
    run("softmax", 2, 128, x, y, 6, 70)
    np.testing.assert_allclose(y, expected / expected.sum(axis=1, keepdims=True), rtol=1e-5)


def test_gemm_tile():
    a, b = np.random.default_rng(0).integers(-4, 5, (2, 128, 192))
    c = np.zeros((128, 128), np.float32)
    halves = ((values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16) for values in (a, b))
    run("gemm_tile", (2, 2), 128, *halves, c, 128, 128, 192)
    np.testing.assert_array_equal(c, a @ b.T)
