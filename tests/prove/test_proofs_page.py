"""docs/proofs.md says what was measured, and what was measured is still so."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
from corpus import ROOT

sys.path.insert(0, str(ROOT / "docs"))
import make_proofs  # noqa: E402

RESULT = make_proofs.latest()
GENERIC = {"generic_kernel: fill", "split_indexed: roles"}  # constants without defaults: there is no one kernel to prove


def written(folder: Path) -> set[str]:
    """The kernels that the files of a folder define at their top."""
    found = set()
    for path in folder.glob("[a-z]*.py"):
        for f in ast.parse(path.read_text()).body:
            words = {ast.unparse(d).split("(")[0] for d in getattr(f, "decorator_list", ())}
            if isinstance(f, ast.FunctionDef) and "kernel" in words:
                found.add(f"{path.stem}: {f.name}")
    return found


def test_the_page_is_printed_from_the_result():
    text = make_proofs.PAGE.read_text()
    assert make_proofs.page(text, RESULT) == text, "python docs/make_proofs.py"


@pytest.mark.parametrize("group", ["examples", "tests/ok"])
def test_every_kernel_is_listed(group):
    told = {k["kernel"] for k in RESULT["kernels"] if k["group"] == group}
    assert written(ROOT / group) - told <= GENERIC, "python benchmarks/prove/bench.py"


@pytest.mark.parametrize("name", ["saxpy: saxpy", "transpose: transpose", "stencil: stencil"])
def test_what_is_listed_as_proved_is(name, monkeypatch):
    """A sample; the rest is what the benchmark is for."""
    import importlib

    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    stem, kernel = name.split(": ")
    told = next(k for k in RESULT["kernels"] if k["kernel"] == name)
    k = getattr(importlib.import_module(stem), kernel)
    proof = k.prove(**({"TILE": 32, "ROWS": 8} if k.generic else {}))
    assert told["verdict"] == "proved" and proof.verdict == "proved", proof.render()


def test_targets():
    """As many as are proved today stay so; each number may only grow."""
    told = RESULT["summary"]
    seconds = {k["kernel"]: k["seconds"] for k in RESULT["kernels"] if k["group"] == "examples"}
    assert told["examples"]["proved"] >= 16 and seconds.pop("compact: compact") < 15, "it misses the target of 10 s, as the page says"
    assert max(seconds.values()) < 10
    assert told["tests/ok"]["median_s"] < 0.3 and told["tests/ok"]["most_s"] < 10
