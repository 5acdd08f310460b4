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
from snap.host.errors import GpuError

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
WIDE = """
from snap.host.errors import LaunchError

@kernel
@requires(grid[1], block[1], thread[32])
def wide(x: ptr(const(int)) @ grid[1], which: ptr(const(int)) @ grid[1], out: ptr(int) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            with group(thread[1]):
                if i < n:
                    mine[0] = x.view(int4)[i].x + x.view(int4)[i].w
                elif which[i] > 0:
                    mine[0] = x.view(int2)[i].x + x.view(int2)[i].y
                else:
                    mine[0] = x[i]

which, wide_out = torch.zeros(32, dtype=torch.int32, device="cuda"), torch.zeros(32, dtype=torch.int32, device="cuda")
some = torch.arange(256, dtype=torch.int32, device="cuda")
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
    ("x[7] = -1\n    checked[1](x, out, 1)", "an `assert` of `checked` did not hold"),
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
    assert words in told
    if words == "out of bounds":
        assert "a kernel that ran before `checked`" in told and "CPU machine" in told
    else:  # the word in the host's memory says which, where and who
        assert "error[assert]: negative input" in told and "block 0, thread 7" in told


def test_a_slice_that_vectors_do_not_fit_is_refused_and_the_gpu_goes_on(tmp_path):
    text = WIDE + """
x, out = torch.ones(32, dtype=torch.int32, device="cuda"), torch.zeros(32, dtype=torch.int32, device="cuda")
for launch in range(3):  # the first one, and the path of those that follow
    wide[1](some, which, wide_out, 32)
    assert wide_out.tolist() == [8 * i + 3 for i in range(32)]
    try:
        wide[1](some[1:], which, wide_out, 32)
        raise SystemExit("it was launched")
    except LaunchError as error:
        assert error.parameter == "x" and "is 4 past one" in str(error) and ".clone()" in str(error), error
    wide[1](some[1:].clone(), which, wide_out, 32)
    assert wide_out.tolist() == [8 * i + 5 for i in range(32)]
    wide[1](some[1:], which, wide_out, 0)  # never comes to a vector
    assert wide_out.tolist() == [i + 1 for i in range(32)]
checked[1](x, out, 1)
assert out.tolist() == [1] * 32
print("went on")
raise SystemExit(0)
try:
    pass"""
    assert output(tmp_path, text).strip() == "went on"


@pytest.mark.parametrize("loaded", [True, False], ids=["loaded before", "loaded after"])
def test_a_vector_that_memory_decides_on_is_a_fault_with_a_name(tmp_path, loaded):
    text = WIDE + """
x, out = torch.ones(32, dtype=torch.int32, device="cuda"), torch.zeros(32, dtype=torch.int32, device="cuda")
which += 1
{first}
try:
    wide[1](some[1:], which, wide_out, 0)
    torch.cuda.synchronize()"""
    told = output(tmp_path, text.replace("{first}", "checked[1](x, out, 1)" if loaded else ""))
    assert "a kernel that ran before `checked`" in told and "a misaligned address" in told and "a slice may start anywhere" in told
