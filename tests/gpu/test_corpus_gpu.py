"""Every program of tests/ok, run on the GPU."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).resolve().parents[k]) for k in (0, 1)]
from borrowed import borrow  # noqa: E402
from corpus import OK  # noqa: E402

from snap.host.launch import Launcher  # noqa: E402


@pytest.fixture
def on_the_gpu(monkeypatch):
    launches: list = []
    monkeypatch.setattr(Launcher, "_run_on_cpu", borrow(launches))
    return launches


PRINTS = "tests/ok/prints.py"  # looks at what Python's stdout gets; on a GPU test_seeing_gpu.py compares the lines


@pytest.mark.parametrize("program", [p for p in OK if p.name != PRINTS], ids=lambda program: program.name)
def test_ok_program(program, on_the_gpu):
    namespace = program.execute()
    (namespace.get("check") or namespace.get("main"))()
    assert on_the_gpu, "nothing ran on the GPU"
