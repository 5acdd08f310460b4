"""Local arrays and vectors as values on a GPU: what the CPU machine and NumPy say, bit for bit.  The kernels are those of tests/ok and tests/check.

Each failure says which kernel differs, where first, and both values.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from check import test_tables as of_tables  # noqa: E402
from check import test_vectors as of_vectors  # noqa: E402
from check import test_windows as of_windows  # noqa: E402
from check.test_values import defined  # noqa: E402

from snap._compiler.ir.types import VECTORS  # noqa: E402

rng = np.random.default_rng(17)


def module(name: str):
    """A program of tests/ok."""
    spec = importlib.util.spec_from_file_location(f"values_{name}", ROOT / "tests" / "ok" / f"{name}.py")
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made
    spec.loader.exec_module(made)
    return made


def there(array: object, halves: str = "") -> object:
    """An argument on the GPU; 16 bits that stand for bf16 as torch has them."""
    if not isinstance(array, np.ndarray):
        return array
    if array.dtype == np.uint16 and halves:
        return torch.from_numpy(array.view(np.int16).copy()).cuda().view(torch.bfloat16)
    return torch.from_numpy(array.copy()).cuda()


def compared(kernel, blocks: int, *args: object, halves: str = "") -> None:
    """A launch on the CPU machine and one on the GPU leave the same in every array."""
    here, gpu = [a.copy() if isinstance(a, np.ndarray) else a for a in args], [there(a, halves) for a in args]
    kernel[blocks](*here)
    kernel[blocks](*gpu)
    torch.cuda.synchronize()
    for number, (want, got) in enumerate(zip(here, gpu)):
        if not isinstance(want, np.ndarray):
            continue
        found = got.view(torch.int16).cpu().numpy().view(np.uint16) if got.dtype == torch.bfloat16 else got.cpu().numpy()
        wrong = np.argwhere((want != found) & ~((want != want) & (found != found)))
        first = tuple(wrong[0]) if len(wrong) else ()
        assert not len(wrong), (
            f"`{kernel.definition.tree.name}`: argument {number} differs at {len(wrong)} of {want.size} places, first at {first}:"
            f" {found[first]} on the GPU, {want[first]} on the CPU machine\n{kernel.cuda()}"
        )


def numbers(*shape: int) -> np.ndarray:
    return rng.integers(-3, 4, shape).astype(np.float32)


def test_tuples_and_first_values():
    x = rng.integers(0, 64, 129).astype(np.float32)
    compared(module("several_values").smooth, 2, x, np.zeros(128, np.float32), np.zeros(128, np.int32))


def test_tables_and_vectors():
    compared(module("tables").filtered, 2, numbers(520), np.zeros(512, np.float32), 7)


@pytest.mark.parametrize("dtype", of_tables.DTYPES)
def test_tables_of_every_type(dtype):
    table = np.array([[0, 1, 2], [3, 100, 0]]).astype(dtype)
    compared(defined(of_tables.KERNEL.format("float(W[i % 2, i % 3])"), W=table), 1, np.zeros(32, np.float32), 0)


def test_tables_in_global_memory_and_without_literals():
    large, odd = np.arange(3000, dtype=np.float32), np.array([np.inf, np.nan, -0.0, 1e-45], np.float32)
    compared(defined(of_tables.KERNEL.format("W[i * 93] + V[i % 4]"), W=large, V=odd), 1, np.zeros(32, np.float32), 0)


@pytest.mark.parametrize("name", [n for n in VECTORS if not n.startswith("bf16")])
def test_vectors(name):
    vector = VECTORS[name]
    if vector.elem.name in ("u16", "u32", "u64"):
        pytest.skip("torch has no arithmetic on these, and Snap takes its arrays of them")
    x, w = of_vectors.numbers(vector, 1), of_vectors.numbers(vector, 2)
    for op in ("+", "*", "-") if vector.elem.is_float else ("+", "*", "-", "/", "%", "^"):
        compared(defined(of_vectors.written(vector, op)), 1, x, w, np.zeros(3 * x.size, x.dtype), np.zeros(3 * x.size, x.dtype))


def test_fragments_of_mma_by_number():
    a, b = of_windows.bits(numbers(16, 32)), of_windows.bits(numbers(16, 32))
    compared(module("register_windows").by_a_warp, 1, a, b, np.zeros((16, 16), np.float32), halves="bf16")


def test_accumulators_of_wgmma_by_number():
    a, b = of_windows.bits(numbers(64, 64)), of_windows.bits(numbers(64, 64))
    compared(module("register_windows").by_a_warpgroup, 1, a, b, np.zeros((64, 64), np.float32), halves="bf16")


@pytest.mark.parametrize(
    "body",
    [
        of_windows.PRODUCTS,
        "with group(warpgroup):\n    wgmma(acc, a, b)\n    wgmma(acc[0], a, tile(b, (0, 0), (64, 64)))",
        "wgmma(acc[0], a, tile(b, (0, 0), (64, 64)))\nfor j in range(32):\n    acc[1, j] = acc[0, j]\nwgmma(acc[1], a, tile(b, (64, 0), (64, 64)))",
        "q: bf16[2, 32] @ thread[1]\nfor n in range(2):\n    for j in range(32):\n        q[n, j] = bf16(1.0)\nfor n in range(2):\n"
        "    wgmma(acc[n], a, tile(b, (64 * n, 0), (64, 64)))\n    wgmma(acc[n], q[n], tile(b, (64 * n, 0), (64, 64)))",
    ],
    ids=["rows", "two sizes", "a row from another", "a in rows"],
)
def test_rows_of_accumulators_in_flight(body):
    args = of_windows.bits(numbers(64, 64)), of_windows.bits(numbers(128, 64))
    compared(of_windows.tiles(body), 1, *args, np.zeros((64, 128), np.float32), halves="bf16")


@pytest.mark.parametrize("who, count", [("warp", 2), ("warp", 4), ("warpgroup", 4), ("warpgroup", 64), ("warpgroup", 128)])
def test_where_accumulators_lie(who, count):
    k = defined(of_windows.PLACES.format(count=count, who=who))
    compared(k, 1, np.zeros(160 * count, np.int32), np.zeros(160 * count, np.int32))
