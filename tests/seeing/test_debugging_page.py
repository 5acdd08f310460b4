"""docs/debugging.md: its programs for a GPU compile, and its script finds all of its commands."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from snap.api import SnapFunction
from snap.diag.source import register_source

DOCS = Path(__file__).resolve().parents[2] / "docs"
_spec = importlib.util.spec_from_file_location("docs_make_debugging", DOCS / "make_debugging.py")
make_debugging = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(make_debugging)
PAGE = make_debugging.PAGE.read_text()
PROGRAMS = make_debugging.programs(PAGE)


@pytest.mark.parametrize("name", [name for name, text in PROGRAMS.items() if "import torch" in text])
def test_its_kernels_compile(name):
    text = PROGRAMS[name].replace("import torch\n", "\n")
    text = text[: next(re.finditer(r"^.*torch\.", text, re.MULTILINE)).start()]
    register_source(name, text)
    names: dict = {"__name__": name}
    exec(compile(text, name, "exec"), names)
    kernels = [k for k in names.values() if isinstance(k, SnapFunction) and k.is_kernel]
    assert kernels and all(k.cubin()[:4] == b"\x7fELF" for k in kernels)


def test_every_program_is_run():
    commands = [command for command, _ in make_debugging.OUTPUT.findall(PAGE)]
    assert len(commands) == PAGE.count("```console") == len(PROGRAMS)
    assert {word for command in commands for word in command.split() if word.endswith(".py")} == set(PROGRAMS)


def test_a_command_runs_in_its_folder(tmp_path, monkeypatch):
    (tmp_path / "hello.py").write_text("import snap, os\nprint('hello from', os.getcwd() + '/', '==123==')\n")
    assert make_debugging.run("python hello.py", tmp_path) == "hello from  ==1==\n"
    assert make_debugging.run("no-such-tool hello.py", tmp_path) is None


def test_what_a_profiler_says_of_itself_is_left_out(tmp_path):
    assert make_debugging.shown("==PROF== Connected\n[12] python@host\n  sums (4096, 1, 1)\n", tmp_path) == "  sums (4096, 1, 1)\n"


def test_the_line_that_the_page_names():
    text = PROGRAMS["sums.py"].splitlines()
    (number,) = set(re.findall(r"sums\.py(?:\", line |:)(\d+)", PAGE))
    assert "mine += x[row" in text[int(number) - 1]
