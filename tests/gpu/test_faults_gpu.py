"""Kernels that fail on the GPU.  Each takes its process's context with it, so it runs in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src"

HEAD = """
import torch
from snap import *
from snap.runtime.errors import GpuError

@kernel
@requires(grid[1], block[1], thread[32])
def checked(x: ptr(const(int)) @ grid[1], out: ptr(int) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i * n) as mine:
            with group(thread[1]):
                assert x[i] >= 0, "negative input"
                mine[0] = x[i]
"""
TAIL = """
    raise SystemExit("the kernel did not fail")
except RuntimeError:
    pass
try:
    checked[1](x, out, 1)
except GpuError as error:
    print(error)
"""


def output(tmp_path: Path, text: str) -> str:
    path = tmp_path / "fails.py"
    path.write_text(textwrap.dedent(HEAD + text + TAIL))
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(("launch", "words"), [
    ("x[7] = -1\n    checked[1](x, out, 1)", "an `assert` that did not hold"),
    ("checked[1](x, out, 1 << 26)", "out of bounds"),
], ids=["assert", "out of bounds"])
def test_the_next_launch_says_what_happened(tmp_path, launch, words):
    text = f"""
x, out = torch.ones(32, dtype=torch.int32, device="cuda"), torch.zeros(32, dtype=torch.int32, device="cuda")
checked[1](x, out, 1)
assert out.tolist() == [1] * 32
try:
    {launch}
    torch.cuda.synchronize()"""
    told = output(tmp_path, text)
    assert "a kernel that ran before `checked`" in told and words in told and "CPU machine" in told
