"""Every launch of the corpus' programs, run as the PTX that NVRTC makes of it: the arrays are those of the CPU machine."""

from __future__ import annotations

import numpy as np
import pytest
from corpus import OK
from ptx.both import compared

# Functions that are not rounded correctly, and sums of products, which the compiler contracts.
APPROXIMATE = {"tests/ok/math_functions.py": 4e-6, "tests/ok/attention.py": 2e-2, "tests/ok/conjugate_gradient.py": 1e-4}
APPROXIMATE["tests/ok/descend.py"] = 1e-4
LONG = {"tests/ok/attention.py"}  # drawn schedules take a while
TALKS = {"tests/ok/prints.py"}  # what is printed is part of the program's own check


@pytest.mark.parametrize("program", [p for p in OK if p.name not in TALKS], ids=lambda program: program.name)
def test_the_ptx_computes_the_same(program, monkeypatch):
    pytest.importorskip("cuda.bindings.nvrtc")
    launches = compared(monkeypatch, APPROXIMATE.get(program.name, 0), seeded=program.name not in LONG)
    namespace = program.namespace()
    (namespace.get("check") or namespace.get("main"))()
    assert launches


def test_prints_say_the_same(capsys):
    pytest.importorskip("cuda.bindings.nvrtc")
    namespace = next(p for p in OK if p.name == "tests/ok/prints.py").namespace()
    x, h = np.linspace(0, 1, 96, dtype=np.float32), np.array([0x3DCD, 0x4049], np.uint16)
    said = []
    for target in ("cpu", "ptx"):
        namespace["shown"].launch(x, 7, 1 << 40, h, blocks=2, target=target)
        said.append(sorted(capsys.readouterr().out.splitlines()))
    assert said[0] == said[1] and len(said[0]) == 11
