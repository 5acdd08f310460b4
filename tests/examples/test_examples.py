"""Every example runs on the CPU machine, agrees with NumPy, and says so in a line of its own."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py") if not path.stem.startswith("_"))
PROGRAMS = [name for name in NAMES if name != "demo"]


@pytest.fixture(autouse=True)
def examples_on_path(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield
    for name in [*NAMES, "_run"]:
        sys.modules.pop(name, None)


def test_the_required_examples_are_there():
    required = {"figure2", "figure5", "figure6", "saxpy", "reverse", "block_reduce", "warp_reduce", "transpose", "histogram", "matmul_naive",
                "matmul_tiled", "matmul_tf32", "softmax", "stencil", "shortest_paths", "demo"}
    assert required <= set(NAMES)


@pytest.mark.parametrize("name", PROGRAMS)
def test_example(name, capsys):
    importlib.import_module(name).main()
    lines = capsys.readouterr().out.splitlines()
    assert lines and all("agrees with NumPy on cpu" in line for line in lines)


def test_demo(capsys):
    importlib.import_module("demo").main()
    output = capsys.readouterr().out
    assert "agrees with NumPy" in output
    assert "__global__ void" in output and "mma.sync" in output
    assert "error[SNAP008]" in output and "figure6_broken.py" in output
