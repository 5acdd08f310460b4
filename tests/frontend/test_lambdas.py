"""Index functions bound outside the kernel."""

from __future__ import annotations

import sys

import pytest

from snap._compiler.frontend import lambdas
from snap._compiler.frontend.lambdas import lambda_tree
from snap._compiler.frontend.tree import Binary, Lambda, Name, Number, Sequence
from snap.diag.error import SnapError
from snap.diag.source import source_line
from snap.diag.span import Span

ANY = Span("", 1, 0, 1, 0)
STEP = 4


def plus(left: str, right: str | int) -> Binary:
    return Binary("+", Name(left, span=ANY), Number(right, span=ANY) if isinstance(right, int) else Name(right, span=ANY), span=ANY)


def test_one_lambda():
    index = lambda i, j: (j + STEP, i)  # noqa: E731
    parsed, names = lambda_tree(index)
    assert parsed == Lambda(("i", "j"), Sequence((plus("j", "STEP"), Name("i", span=ANY)), span=ANY), span=ANY)
    assert names == {"STEP": 4}
    assert parsed.span.filename == __file__
    assert source_line(__file__, parsed.span.line)[parsed.span.column:parsed.span.end_column] == "lambda i, j: (j + STEP, i)"


def test_closures():
    def make(offset):
        return lambda k: k + offset

    assert lambda_tree(make(3)) == (Lambda(("k",), plus("k", "offset"), span=ANY), {"offset": 3})


def test_several_on_a_line_differ_in_parameters_or_names():
    one, two, three = lambda i: i + 1, lambda k: k + 1, lambda k: k + STEP
    assert [lambda_tree(f)[0].body for f in (one, two, three)] == [plus("i", 1), plus("k", 1), plus("k", "STEP")]


def test_several_on_a_line_that_are_the_same():
    one, two = lambda i: i + 1, lambda i: i + 1
    assert lambda_tree(one) == lambda_tree(two)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="code does not know its columns")
def test_several_on_a_line_told_apart_by_column():
    one, two = lambda i: i + 1, lambda i: i + 2
    const, other = lambda: 0, lambda: 1
    assert [lambda_tree(f)[0].body for f in (one, two)] == [plus("i", 1), plus("i", 2)]
    assert [lambda_tree(f)[0].body.value for f in (const, other)] == [0, 1]


def test_several_that_cannot_be_told_apart(monkeypatch):
    monkeypatch.setattr(lambdas, "_has_position", lambda candidate, code: True)
    one, two = lambda i: i + 1, lambda i: i + 2
    for function in (one, two):
        with pytest.raises(SnapError, match="which of the lambdas") as caught:
            lambda_tree(function)
        assert caught.value.code == "SNAP017"


def test_nested_lambdas():
    outer = lambda i: (lambda k: k + i)  # noqa: E731
    assert lambda_tree(outer)[0].params == ("i",)
    assert lambda_tree(outer(5)) == (Lambda(("k",), plus("k", "i"), span=ANY), {"i": 5})


def test_over_several_lines(define):
    function = define("""
        f = g(a, lambda i:
                 i +
                 STEP)
    """, g=lambda a, f: f, a=0, STEP=8)["f"]
    assert lambda_tree(function) == (Lambda(("i",), plus("i", "STEP"), span=ANY), {"STEP": 8})


def test_functions_that_return_an_expression():
    def index(i):
        """Where row i begins."""
        return i + STEP

    assert lambda_tree(index) == (Lambda(("i",), plus("i", "STEP"), span=ANY), {"STEP": 4})


def test_functions_that_do_more():
    def index(i):
        i += 1
        return i

    with pytest.raises(SnapError, match="index function"):
        lambda_tree(index)


@pytest.mark.parametrize("text", ["lambda i, s=3: i", "lambda *i: i", "lambda i: i[1:2]", "lambda i: [k for k in i]", "lambda i: None"])
def test_refused(define, text):
    with pytest.raises(SnapError) as caught:
        lambda_tree(define(f"f = {text}")["f"])
    assert caught.value.code == "SNAP017" and caught.value.lineno == 1


def test_without_source():
    with pytest.raises(SnapError, match="source of this lambda is not known"):
        lambda_tree(eval("lambda i: i"))


def test_no_function():
    with pytest.raises(SnapError):
        lambda_tree(max)
