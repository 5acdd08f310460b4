"""The points of the examples, as `snap explain` words them, against golden files; those of tests/ok lie beside their programs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from corpus import ROOT, Program, compare

from snap.api import SnapFunction
from snap.cli.explain import point_words

GOLDEN = Path(__file__).resolve().parent / "golden"
EXAMPLES = [Program(path) for path in sorted((ROOT / "examples").glob("[a-z]*.py")) if path.stem != "demo"]  # which shows figure 6 once more
VALUES = {"matmul_tiled": {"TILE": 16}, "transpose": {"TILE": 32, "ROWS": 8}}  # of generic kernels


@pytest.mark.parametrize("program", EXAMPLES, ids=lambda program: program.path.stem)
def test_points(program, monkeypatch, request):
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    before = set(sys.modules)
    kernels = {id(f): f for f in program.execute().values() if isinstance(f, SnapFunction) and f.is_kernel}
    for name in {path.stem for path in (ROOT / "examples").glob("*.py")} & (set(sys.modules) - before):
        del sys.modules[name]
    lines = []
    for kernel in kernels.values():
        found = kernel.syncs(**(VALUES[kernel.__name__] if kernel.generic else {}))
        lines += [f"{kernel.__name__}: {len(found)} point{'s' * (len(found) != 1)}", *(f"  line {p.span.line}: {point_words(p)}" for p in found)]
    compare(GOLDEN / f"{program.path.stem}.sync", "\n".join(lines), request.config.getoption("--update-golden"))


def test_every_golden_file_is_used():
    assert {path.stem for path in GOLDEN.glob("*")} == {program.path.stem for program in EXAMPLES}
