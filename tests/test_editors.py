"""Files with kernels have no error for mypy, and it still sees the Python around the kernels.

pyright has to download node, so it is no part of the suite: `pyright examples tests/ok` finds nothing either, but for
kernels that are called like a word of the language.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CONFIG = """[mypy]
plugins = snap.mypy_plugin
mypy_path = {root}/src:{root}/examples
python_version = 3.11
[mypy-numpy.*,torch.*,cupy.*,cuda.*]
follow_imports = skip
ignore_missing_imports = True
"""
# Kernels of these have the name of a word that the same file imports.
NAMED_LIKE_WORDS = {"counts.py", "decorators.py", "split_indexed.py", "split_literal.py"}
# Fields of these are arrays and pointers, which mypy does not know in classes.
FIELDS = {"records.py"}

pytestmark = [pytest.mark.slow, pytest.mark.skipif(find_spec("mypy") is None, reason="mypy is not installed: pip install -e '.[test]'")]


@pytest.fixture(scope="module")
def mypy(tmp_path_factory):
    """A function that asks mypy about files; what it knows of the package is kept between calls."""
    folder = tmp_path_factory.mktemp("mypy")
    (folder / "mypy.ini").write_text(CONFIG.format(root=ROOT))

    def ask(*files: Path) -> str:
        command = [sys.executable, "-m", "mypy", "--config-file", folder / "mypy.ini", "--cache-dir", folder / "cache", *files]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        said = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder)
        assert "Traceback" not in said.stderr, said.stderr
        return "\n".join(line for line in said.stdout.splitlines() if ": error:" in line)

    return ask


LAYERNORM = '''
from __future__ import annotations

import snap
from snap import *
from snap import kernel as entry
from snap.lib import block as of_block


@device(warp)
def mean(v: float @ thread[1], n: int) -> float @ warp:
    return intrinsic.reduce_add(v) / n


@entry
@requires(grid[1], block[1], thread[128])
def layernorm(x: ptr(const(float), (M, N)) @ grid[1], y: ptr(float, (M, N)) @ grid[1], M: int @ grid[1], N: int @ grid[1]):
    with group(grid[1]):
        row: int @ warp = id()
        with partition(y, p=warp) as mine, group(warp):
            lane: int @ thread[1] = id()
            part: float[4] @ thread[1]
            total: float @ thread[1] = 0.0
            if row < M:
                for j in range(lane, N, 32):
                    total += x[row, j]
                average: float = mean(total, N)
                with partition(mine, p=thread[1]) as cell, group(thread[1]):
                    for j in range(lane, N, 32):
                        cell[row, j] = rsqrt(x[row, j] - average)


class Holder:
    def make(self, T, THREADS: int):
        @snap.kernel(threads=THREADS)
        def inner(x: ptr(T)):
            with each(thread, x) as i:
                x[i] = T(count(block[1]))

        return inner


@device(warp, where=lambda v: v >= 0, ensures=lambda v, result: result >= v, pairs=lambda a, b: True, calls=lambda a, b: True)
def most(v: int @ thread[1], w: int @ thread[1]) -> int @ thread[1]:
    return max(v, w)


layernorm[1](None, None, 4, 64)
text: str = layernorm.cuda() + layernorm.__name__
best = snap.tune(layernorm, {"B": [1, 2]}, None, blocks=3)
tuner = snap.tune.Tuner(layernorm, {})
greatest = of_block.reduce(int, most)
'''


def test_a_file_with_kernels_has_no_error(mypy, tmp_path):
    (tmp_path / "layernorm.py").write_text(LAYERNORM)
    assert mypy(tmp_path / "layernorm.py") == ""
    assert mypy(tmp_path / "layernorm.py") == "", "the second time, with what mypy kept of the first"


def test_python_around_kernels_is_looked_at(mypy, tmp_path):
    (tmp_path / "wrong.py").write_text(LAYERNORM + "number: int = layernorm.cuda()\nlayernorm.nothing()\nundefined\n")
    found = mypy(tmp_path / "wrong.py")
    assert 'expression has type "str"' in found and 'no attribute "nothing"' in found and '"undefined"' in found
    assert found.count("error:") == 3


def test_other_decorators_of_that_name_are_left_alone(mypy, tmp_path):
    (tmp_path / "others.py").write_text(
        "import snap\n\ndef kernel(f: object) -> object:\n    return f\n\n@kernel\ndef f(x: int) -> int:\n    return 'text'\n"
    )
    assert mypy(tmp_path / "others.py").count("error:") == 1


def test_examples_and_corpus_have_no_error(mypy):
    """All of them at once: mypy reads the package once."""
    files = [*(ROOT / "examples").glob("*.py"), *(ROOT / "tests" / "ok").glob("*.py")]
    # Each is a program of its own; two of one name would be one module to mypy.
    names = {file.stem: file for file in files if file.name not in NAMED_LIKE_WORDS | FIELDS}
    assert len(names) > 60
    assert mypy(*names.values()) == ""
