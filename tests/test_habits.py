"""The linter, the formatter and the type checker have nothing to say.  What they are asked, and which of their rules are switched off and why, stands
in pyproject.toml."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(
    "command",
    [
        ["ruff", "check", "src", "tests", "examples", "benchmarks", "docs"],
        ["ruff", "format", "--check", "src/snap"],
        ["mypy"],
    ],
    ids=["linter", "formatter", "types"],
)
def test_nothing_to_say(command):
    if find_spec(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed: pip install -e '.[test]'")
    said = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True)
    assert said.returncode == 0, said.stdout + said.stderr
