from __future__ import annotations

import copy
import pickle
import re
import sys
import traceback
from pathlib import Path

import pytest

from snap.diag.codes import CODES, WARNINGS
from snap.diag.error import Diagnostic, Label, SnapError
from snap.diag.source import register_source
from snap.diag.span import Span


def error(**changes) -> SnapError:
    register_source("<error>", "first = 1\n    total = größe + 1\nthird(a,\n  b)")
    parts = {"code": "SNAP019", "message": "`größe` is not known", "span": Span("<error>", 2, 12, 2, 17), "label": "not bound",
             "note": "a note", "help": "bind it", "secondary": (Label(Span("<error>", 1, 0, 1, 5), "bound here"),)}
    return SnapError(Diagnostic(**{**parts, **changes}), (Diagnostic("SNAP018", "another", Span("<error>", 3, 0, 4, 4)),))


def test_what_a_user_finds_on_it():
    e = error()
    assert isinstance(e, SyntaxError)
    assert (e.code, e.message, e.filename, e.lineno, e.offset) == ("SNAP019", "`größe` is not known", "<error>", 2, 13)
    assert e.notes == ["a note", "bind it"]
    assert [other.code for other in e.all] == ["SNAP019", "SNAP018"] and e.all[0] is e
    assert str(e) == "SNAP019: `größe` is not known (<error>, line 2)"
    assert e.render().startswith("error[SNAP019]: ")


def test_python_shows_the_line_and_the_caret():
    shown = traceback.format_exception_only(SnapError, error())
    text = "".join(shown)
    assert '  File "<error>", line 2\n    total = größe + 1\n            ^^^^^\n' in text
    assert "snap.SnapError: SNAP019: `größe` is not known" in text
    if sys.version_info >= (3, 11):
        assert "note: a note" in text and "help: bind it" in text and "line 1: bound here" in text and "1 more error" in text


def test_a_span_of_several_lines_ends_with_its_first_for_python():
    text = "".join(traceback.format_exception_only(SnapError, error(span=Span("<error>", 3, 0, 4, 4))))
    assert "    third(a,\n    ^^^^^^^^\n" in text


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_copies_are_the_same(again):
    e, other = error(), again(error())
    assert other.diagnostic == e.diagnostic
    assert [one.diagnostic for one in other.all] == [one.diagnostic for one in e.all]
    assert str(other) == str(e) and other.render() == e.render() and other.all[0] is other


def test_without_source():
    e = SnapError(Diagnostic("SNAP017", "m", Span("<nowhere at all>", 7, 0, 7, 0)))
    assert "line 7" in "".join(traceback.format_exception_only(SnapError, e))


def test_only_known_codes_are_reported():
    source = Path(__file__).resolve().parents[2] / "src" / "snap"
    used = {code for path in source.rglob("*.py") for code in re.findall(r"SNAP\d{3}", path.read_text(encoding="utf-8"))}
    assert used <= {*CODES, *WARNINGS}
