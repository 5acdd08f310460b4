"""The linter, the formatter and the type checker have nothing to say.  What they are asked, and which of their rules are switched off and why, stands
in pyproject.toml."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
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


HEAD = re.compile(r"(Input|Output|Invariant|Non-goals|Rule|Sources?):")


def test_heads_are_tables():
    """A module's head whose words stand in a column is a table: what goes on is written behind the column, and not below its words."""
    wrong = []
    for file in sorted((ROOT / "src" / "snap").rglob("*.py")):
        said = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
        for part in said.split("\n\n"):
            if re.search(r"^(Input|Output|Invariant|Non-goals): {2,}", part, re.M):
                wrong += [f"{file.name}: {line}" for line in part.splitlines() if not HEAD.match(line) and not line.startswith(" " * 12)]
    assert not wrong


def test_what_runs_before_a_commit_is_what_the_suite_asks():
    """The versions of pre-commit's hooks are those of the extra `test`."""
    rev = re.search(r"ruff-pre-commit\n +rev: v(.+)", (ROOT / ".pre-commit-config.yaml").read_text())[1]
    assert f'"ruff=={rev}"' in (ROOT / "pyproject.toml").read_text()


def test_the_forge_asks_every_python_that_is_supported():
    said = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    assert re.search(r"python: \[(.+)\]", (ROOT / ".github" / "workflows" / "ci.yml").read_text())[1] == ", ".join(f'"{one}"' for one in said)
