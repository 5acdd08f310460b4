from __future__ import annotations

import io
import json
import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snap.diag.error import Diagnostic, Label
from snap.diag.render import render, to_json, wants_color
from snap.diag.source import register_source
from snap.diag.span import Span

GATE = """\
from snap import *


@kernel
@requires(grid[1], block[1], thread[256])
def gate(a: ptr(int) @ grid[1]):
    with group(grid[1]):
        pass
    flag: bool @ thread[1] = a[id()] > 0


    with group(block[1]):
        x: int = 3
        if flag:
            pass
"""


def at(filename: str, line: int, column: int, end_column: int, end_line: int | None = None) -> Span:
    return Span(filename, line, column, end_line or line, end_column)


def gate_diagnostic() -> Diagnostic:
    register_source("examples/gate.py", GATE)
    return Diagnostic(
        "SNAP006",
        "`flag` may differ between threads of this block",
        at("examples/gate.py", 14, 11, 15),
        label="decides control flow for the whole block",
        secondary=(Label(at("examples/gate.py", 12, 4, 25), "from here 256 threads act as one"),
                   Label(at("examples/gate.py", 9, 4, 8), "varies per thread")),
        note="threads that disagree would separate, and the barrier on line 16 would hang",
        help="agree first: `any_flag: bool @ block[1] = intrinsic.syncthreads_or(flag)`",
    )


def test_the_form_of_the_design():
    assert render(gate_diagnostic()) == """\
error[SNAP006]: `flag` may differ between threads of this block
  --> examples/gate.py:14:12
   |
 9 |     flag: bool @ thread[1] = a[id()] > 0
   |     ---- varies per thread
12 |     with group(block[1]):
   |     --------------------- from here 256 threads act as one
14 |         if flag:
   |            ^^^^ decides control flow for the whole block
   = note: threads that disagree would separate, and the barrier on line 16 would hang
   = help: agree first: `any_flag: bool @ block[1] = intrinsic.syncthreads_or(flag)`"""


def test_labels_on_one_line_stack():
    register_source("<one line>", "a[i] = b[j]")
    others = (Label(at("<one line>", 1, 7, 11), "down"), Label(at("<one line>", 1, 9, 10), "inner"))
    diagnostic = Diagnostic("SNAP005", "m", at("<one line>", 1, 0, 4), "up", others)
    assert render(diagnostic).splitlines()[3:] == [
        "1 | a[i] = b[j]",
        "  | ^^^^ up",
        "  |        ---- down",
        "  |          - inner",
    ]


def test_a_span_of_several_lines_is_underlined_on_its_first_without_the_comment():
    register_source("<several>", "x = f('#',   # why\n      2)")
    lines = render(Diagnostic("SNAP018", "m", at("<several>", 1, 4, 8, end_line=2))).splitlines()
    assert lines[3:] == ["1 | x = f('#',   # why", "  |     ^^^^^^"]


@pytest.mark.parametrize("line, column, end, caret", [
    ("\tx = yy", 5, 7, "        ^^"),
    (" \tx = yy", 6, 8, "        ^^"),
    ("変数 = 値", 0, 2, "^^^^"),
    ("変数 = 値", 5, 6, "       ^^"),
    ("e\u0301 = z", 5, 6, "    ^"),
    ("x", 7, 9, " ^"),
    ("x", 0, 0, "^"),
])
def test_carets_stand_under_what_they_mean(line, column, end, caret):
    register_source("<wide>", line)
    assert render(Diagnostic("SNAP018", "m", at("<wide>", 1, column, end))).splitlines()[-1] == f"  | {caret}"


def test_other_files_have_a_place_of_their_own():
    register_source("a.py", "call(x)")
    register_source("b.py", "\n\n\n\n\n\n\n\n\ndef call(y):")
    diagnostic = Diagnostic("SNAP008", "m", at("a.py", 1, 0, 7), "here", (Label(at("b.py", 10, 0, 11), "requires more"),))
    assert render(diagnostic).splitlines() == [
        "error[SNAP008]: m",
        "  --> a.py:1:1",
        "   |",
        " 1 | call(x)",
        "   | ^^^^^^^ here",
        "  ::: b.py:10:1",
        "   |",
        "10 | def call(y):",
        "   | ----------- requires more",
    ]


def test_source_that_is_gone_leaves_the_place():
    assert render(Diagnostic("SNAP017", "m", at("<gone>", 12, 4, 6), "why")).splitlines() == [
        "error[SNAP017]: m", "  --> <gone>:12:5", "   |", "12 |", "   | ^ why"]


def test_paths_below_the_working_directory_are_relative(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    inside, outside = str(tmp_path / "dir" / "k.py"), os.path.join(os.path.dirname(tmp_path), "k.py")
    assert " --> dir/k.py:1:1\n" in render(Diagnostic("SNAP017", "m", at(inside, 1, 0, 1)))
    assert f" --> {outside}:1:1\n" in render(Diagnostic("SNAP017", "m", at(outside, 1, 0, 1)))


def test_control_characters_do_not_reach_the_terminal():
    register_source("<escape>", "x = '\x1b[31m'")
    assert "\x1b" not in render(Diagnostic("SNAP017", "\x1b]0;title", at("<escape>", 1, 4, 10)))


def test_colour_only_adds_codes():
    diagnostic = gate_diagnostic()
    colored = render(diagnostic, color=True)
    assert colored != render(diagnostic)
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == render(diagnostic)


def test_who_wants_colour(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    closed = io.StringIO()
    closed.close()
    assert wants_color(Terminal())
    assert not wants_color(io.StringIO())
    assert not wants_color(closed)
    assert not wants_color(None)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not wants_color(Terminal())


def test_json():
    data = json.loads(json.dumps(to_json(gate_diagnostic())))
    assert data["file"] == "examples/gate.py"
    assert data["range"] == {"start": {"line": 14, "column": 12}, "end": {"line": 14, "column": 16}}
    assert (data["code"], data["severity"]) == ("SNAP006", "error")
    assert data["message"].startswith("`flag`") and data["label"] and data["note"] and data["help"]
    assert [related["range"]["start"]["line"] for related in data["related"]] == [12, 9]
    assert data["related"][0]["message"] == "from here 256 threads act as one"


@given(st.text(max_size=30), st.integers(0, 40), st.integers(0, 40), st.integers(0, 3), st.text(max_size=10))
def test_any_text_and_any_span_render(line, column, end, extra, message):
    register_source("<any>", line)
    shown = render(Diagnostic("SNAP018", message, at("<any>", 1, column, end, 1 + extra), message)).split("\n")
    assert len(shown) == 5 and shown[4].startswith("  | ")
