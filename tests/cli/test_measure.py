"""`snap measure`: the numbers, and what is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from snap.cli import main

SOURCE = """from __future__ import annotations
from snap import *


@kernel(threads=32, blocks=lambda n: -(-n // 32))
def copied(x: ptr(const(float)), y: ptr(float), n: int, BY: constexpr(int) = 1):
    with each(thread, y) as i:
        if i < n:
            y[i] = x[i * BY]


@kernel(threads=32)
def other(y: ptr(float)):
    with each(thread, y) as i:
        y[i] = 1.0
"""


@pytest.fixture
def snap_command(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["snap", *args])
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capsys.readouterr()
        return left.value.code or 0, out, err

    return run


ARGS = ("--args", "zeros:f32:200", "zeros:f32:64")


def test_measure(snap_command):
    Path("kernels.py").write_text(SOURCE)
    code, out, _ = snap_command("measure", "kernels.py:copied", *ARGS, "40")
    assert code == 0 and out.startswith("copied: 2 blocks of 32 threads; beside each line, the most of a warp")
    assert "y[i] = x[i * BY]  # sectors_ld 4, sectors_st 4" in out and "sectors_ld           4        4         5" in out
    code, out, _ = snap_command("measure", "kernels.py:copied", "--set", "BY=2", "--per", "grid", *ARGS, "40")
    assert code == 0 and "y[i] = x[i * BY]  # sectors_ld 10, sectors_st 5" in out
    code, out, _ = snap_command("measure", "kernels.py:copied", "--json", "--blocks", "1", *ARGS, "32")
    assert code == 0 and json.loads(out)["total"]["bytes"] == {"warp": 256, "block": 256, "grid": 256}


def test_what_cannot_be_measured(snap_command):
    Path("kernels.py").write_text(SOURCE)
    for words, said in (
        (("kernels.py", *ARGS, "40"), "one kernel is measured, and the file has copied, other"),
        (("kernels.py:copied", "--args", "zeros:f32:200"), "takes 3 arguments, and 1 were given"),
        (("kernels.py:other", "--args", "zeros:f32:32"), "--blocks is missing"),
        (("kernels.py:copied", "--per", "thread", *ARGS, "40"), "--per thread"),
        (("kernels.py:copied", "--args", "zeros:i32:200", "zeros:f32:64", "40"), "parameter `x` of `copied`"),
    ):
        code, _, err = snap_command("measure", *words)
        assert code == 2 and said in err, err
    code, _, err = snap_command("measure", "kernels.py:copied", "--args", "zeros:f32:8", "zeros:f32:64", "40")
    assert code == 1 and "is outside of its 8 elements" in err
