"""`snap cudac`: kernels of .cu files, listed, run, and searched for races."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("clang.cindex", reason="libclang is not installed")

from snap.cli.app import app  # noqa: E402

FORMS = Path(__file__).parents[1] / "cudac" / "programs" / "forms.cu"
RACY = "__global__ void __launch_bounds__(64) k(int* a) { __shared__ int s[64]; s[threadIdx.x] = a[threadIdx.x]; a[threadIdx.x] = s[63 - threadIdx.x]; }\n"


def said(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["cudac", *words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def test_names():
    code, text = said("names", str(FORMS))
    assert code == 0 and text.split() == ["reduce", "vec", "search", "scan", "mm", "rows<...>"]


def test_a_run_shows_the_arrays():
    code, text = said("run", f"{FORMS}:reduce", "--grid", "2", "--args", "ones:i32:500", "zeros:i32:1", "500")
    assert code == 0 and "in  int32[500]  1 1 1" in text and "out  int32[1]  500" in text


def test_races_are_told_with_the_exit_code(tmp_path):
    file = tmp_path / "a.cu"
    file.write_text(RACY)
    code, text = said("races", str(file), "--args", "arange:i32:64")
    assert code == 1 and "data race" in text
    file.write_text(RACY.replace("; a[", "; __syncthreads(); a["))
    assert said("races", str(file), "--args", "arange:i32:64")[0] == 0


@pytest.mark.parametrize("words", [("names", "nowhere.cu"), ("run", f"{FORMS}:nobody"), ("run", f"{FORMS}:reduce"), ("run", f"{FORMS}:mm", "--grid", "0"), ("run", f"{FORMS}:mm", "--block", "x")])
def test_what_is_refused_ends_with_2(words):
    assert said(*words)[0] == 2
