"""Every kernel of docs/cookbook.md on the GPU: the page's own comparisons say True there, too."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).resolve().parent)]
from borrowed import borrow  # noqa: E402

from snap.host.launch import Launcher  # noqa: E402


def load(name):
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "docs" / f"{name}.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_cookbook(monkeypatch):
    run_blocks, launches = load("run_blocks"), []
    monkeypatch.setattr(Launcher, "_run_on_cpu", borrow(launches))
    blocks = run_blocks.blocks_of((ROOT / "docs" / "cookbook.md").read_text())
    namespace, wrong = {"__name__": "__docs__"}, []
    for number, block in enumerate(blocks):
        if block.language != "python":
            continue
        before = len(launches)
        printed = run_blocks.execute(block, f"cookbook_{number}.py", namespace)
        if len(launches) > before and "False" in printed:
            wrong.append(f"{launches[before:]}: the page's comparison printed {printed.strip()!r} on the GPU, and True on the CPU machine")
    assert not wrong, "\n".join(wrong)
    assert len(launches) >= 15, launches
