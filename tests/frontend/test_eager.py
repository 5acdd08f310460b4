"""Signatures that Python would evaluate, and stop at, before Snap sees the function."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import snap
from snap.diag.source import register_source

pytestmark = pytest.mark.skipif(sys.version_info >= (3, 14), reason="Python evaluates annotations when they are asked for")
_count = 0


def run(text: str) -> dict[str, object]:
    global _count
    _count += 1
    filename = f"<eager {_count}>"
    text = f"import snap\nfrom snap import *\n{text}"
    register_source(filename, text)
    names: dict[str, object] = {}
    exec(compile(text, filename, "exec", dont_inherit=True), names)
    return names


@pytest.mark.parametrize("text, what", [
    ("@device\n@requires(thread[1])\ndef f(a: ref(float[4]) @ thread[1]):\n    pass\n", "`float[4]` means nothing to Python"),
    ("@requires(thread[1])\n@device\ndef f(a: ref(float[4]) @ thread[1]):\n    pass\n", "`float[4]` means nothing to Python"),
    ("@device(\n    thread\n)\ndef f(v: int, a: ref(int[2, 2])):\n    pass\n", "`int[2, 2]` means nothing to Python"),
    ("@snap.kernel(threads=32)\ndef k(a: ptr(float, (M, 4)), M: int):\n    pass\n", "`M` is not bound yet"),
    ("@kernel(threads=32)\ndef k(a: ptr(float, (4, N // 2)), N: int):\n    pass\n", "`N` is not bound yet"),
    ("@device(thread)\ndef k(v: float) -> Nothing:\n    return v\n", "`Nothing` is not bound yet"),
    ("def make(T):\n    @kernel(threads=32)\n    def k(a: ptr(T, (M,)), M: int):\n        pass\nmake(int)\n", "`M` is not bound yet"),
])
def test_it_is_said_what_to_write(text, what):
    with pytest.raises(snap.SnapError) as caught:
        run(text)
    error = caught.value
    assert error.code == "SNAP017" and error.message.endswith(what)
    assert "from __future__ import annotations" in error.render() and "quote the annotation" in error.render()


@pytest.mark.parametrize("text", [
    "@device(thread)\ndef f(a: 'ref(float[4])'):\n    pass\n",
    "@kernel(threads=32)\ndef k(a: 'ptr(float, (M, 4))', M: int):\n    pass\n",
    "M = 4\n@kernel(threads=32)\ndef k(a: ptr(float, (M, 4))):\n    pass\n",
    "def make(T, N):\n    @kernel(threads=32)\n    def k(a: ptr(T, (N,))):\n        pass\n    return k\nmake(int, 3)\n",
    "@kernel(threads=lambda T: T)\ndef k(a: ptr(u32[4]) if False else ptr(u32), T: constexpr(int)):\n    pass\n",
])
def test_what_python_can_evaluate_is_left_to_it(text):
    run(text)


def test_the_file_says_so_on_the_command_line(tmp_path):
    file = tmp_path / "signature.py"
    file.write_text("from snap import *\n\n\n@device(thread)\ndef f(a: ref(float[4])):\n    pass\n")
    src = Path(snap.__file__).parents[1]
    said = subprocess.run([sys.executable, "-m", "snap", "check", file], capture_output=True, text=True, env={"PYTHONPATH": str(src)})
    assert said.returncode == 1 and "error[SNAP017]" in said.stdout and "Traceback" not in said.stderr
    file.write_text("from snap import *\n\n\n@kernel\n@require(grid[1], block[1], thread[64])\ndef f():\n    pass\n")
    said = subprocess.run([sys.executable, "-m", "snap", "check", file], capture_output=True, text=True, env={"PYTHONPATH": str(src)})
    assert said.returncode == 1 and "help: did you mean `requires`?" in said.stdout
