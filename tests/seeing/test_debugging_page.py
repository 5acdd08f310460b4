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


@pytest.mark.parametrize("name", PROGRAMS)
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
    assert {command.split()[-1] for command in commands} == set(PROGRAMS)


def test_a_command_runs_in_its_folder(tmp_path, monkeypatch):
    (tmp_path / "hello.py").write_text("import snap, os\nprint('hello from', os.getcwd() + '/', '==123==')\n")
    assert make_debugging.run("python hello.py", tmp_path) == "hello from  ==1==\n"
    assert make_debugging.run("no-such-tool hello.py", tmp_path) is None


def test_a_table_of_lines():
    text = '==PROF== Connected\n"Kernel","sums"\n"#","Source","Warp Stall Sampling (All Samples)","Instructions Executed"\n"14","for k","0","0"\n"15","mine += x[row]","42","1024"\n'
    shown = make_debugging.by_line(text).splitlines()
    assert len(shown) == 2 and shown[1].split() == ["15", "42", "1024", "mine", "+=", "x[row]"]
    assert make_debugging.by_line("nothing") == "nothing"


def test_the_line_that_the_page_names():
    text = PROGRAMS["sums.py"].splitlines()
    (number,) = set(re.findall(r"sums\.py(?:\", line |:)(\d+)", PAGE))
    assert "mine += x[row" in text[int(number) - 1]
