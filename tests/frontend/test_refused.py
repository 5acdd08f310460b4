"""Python that is not Snap: each construct is named, at its place, with what to write instead."""

from __future__ import annotations

import sys

import pytest

from snap._compiler.frontend.parse import parse_function
from snap.diag.error import SnapError
from snap.diag.source import source_line

# statement -> (text of the caret's span on its first line, a word of the message, a word of the help)
REFUSED = [
    ("for i in range(3):\n    pass\nelse:\n    pass", "else", "`else` on a loop", "`bool`"),
    ("while x:\n    pass\nelse:  # else\n    pass", "else", "`else` on a loop", "`bool`"),
    ("try:\n    pass\nfinally:\n    pass", "try:", "`try`", "assert"),
    ("class C:\n    pass", "class C:", "`class`", "float4"),
    ("def g():\n    pass", "def g():", "function inside a function", "@device"),
    ("async def g():\n    pass", "async def g():", "async def", "plain `def`"),
    ("yield x", "yield x", "`yield`", "return"),
    ("y = yield", "yield", "`yield`", "return"),
    ("yield from x", "yield from x", "`yield`", "return"),
    ("y = [i for i in x if i]", "[i for i in x if i]", "comprehension", "for i in range"),
    ("y = [i + j for i in x for j in x]", "[i + j for i in x for j in x]", "comprehension", "one loop for each list"),
    ("y = [i for i, j in x]", "[i for i, j in x]", "comprehension", "for i in range"),
    ("y = {i for i in x}", "{i for i in x}", "comprehension", "local array"),
    ("y = f(i for i in x)", "(i for i in x)", "comprehension", "local array"),
    ("y = {i: i for i in x}", "{i: i for i in x}", "comprehension", "local array"),
    ("y = {1: 2}", "{1: 2}", "dictionary", "local array"),
    ("y = {1, 2}", "{1, 2}", "a set", "bit"),
    ("y = f'{x}'", "f'{x}'", "f-string", "outside"),
    ("y = (z := 3)", "z := 3", "`:=`", "statement of its own"),
    ("f(*x)", "*x", "`*` unpacking", "each value"),
    ("f(**x)", "x", "`**` unpacking", "each argument"),
    ("y = x[1:2]", "1:2", "slice", "tile"),
    ("y = x[1, :]", ":", "slice", "tile"),
    ("y = a in x", "a in x", "`in`", "=="),
    ("y = a not in x", "a not in x", "`not in`", "!="),
    ("y = a is x", "a is x", "`is`", "`==`"),
    ("y = a is not x", "a is not x", "`is not`", "`!=`"),
    ("del x", "del x", "`del`", "block"),
    ("global g", "global g", "`global`", "parameter"),
    ("import os", "import os", "`import`", "top of the file"),
    ("from os import path", "from os import path", "`import`", "top of the file"),
    ("raise x", "raise x", "`raise`", "assert"),
    ("y = z = 0", "y = z", "several targets", "each name"),
    ("y, (z, x) = 0, 1", "(z, x)", "several targets in one", "a, b = b, a"),
    ("[y, [z]] = x", "[z]", "several targets in one", "a, b = b, a"),
    ("y, *z = x", "*z", "`*` unpacking", "each value"),
    ("for i, j in x:\n    pass", "i, j", "loop over", "range(n)"),
    ("x[0]: int = 3", "x[0]", "annotation on an element", "x[i] = value"),
    ("with x as (a, b):\n    pass", "(a, b)", "unpacking", "as name"),
    ("match x:\n    case P:\n        pass", "P", "a name as a `case`", "case 0"),
    ("match x:\n    case 1 if x:\n        pass", "x", "guard", "if"),
    ("match x:\n    case 1 | 2:\n        pass", "1 | 2", "`|`", "one `case`"),
    ("match x:\n    case [a, b]:\n        pass", "[a, b]", "pattern", "case 128"),
    ("match x:\n    case 'a':\n        pass", "'a'", "pattern", "case 128"),
    ("match x:\n    case 1.5:\n        pass", "1.5", "pattern", "case 128"),
    ("match x:\n    case True:\n        pass", "True", "pattern", "case 128"),
    ("match x:\n    case 1 as y:\n        pass", "1 as y", "pattern", "case 128"),
    ("y = 3j", "3j", "complex", "float2"),
    ("y = b'x'", "b'x'", "bytes", "u8"),
    ("y = None", "None", "`None`", "bool"),
    ("return None", "None", "`None`", "plain `return`"),
    ("...", "...", "`...`", "pass"),
    ("y = 'text'", "'text'", "string as a value", "arguments only"),
    ("'comment'", "'comment'", "string as a statement", "#"),
    ("assert x, y", "y", "computed message", "text itself"),
    ("y = len(x)", "len", "`len(...)`", "parameter"),
    ("y = sum(x)", "sum", "`sum(...)`", "reduce_add"),
    ("y = lambda i=x: i", "lambda i=x: i", "lambda", "captured"),
    ("y = lambda *i: i", "lambda *i: i", "lambda", "captured"),
    ("y: '' = 3", "''", "annotation", "privilege"),
    ("y: 'int @' = 3", "'int @'", "annotation", "privilege"),
]
if sys.version_info >= (3, 11):
    REFUSED.append(("try:\n    pass\nexcept* ValueError:\n    pass", "try:", "`try`", "assert"))
if sys.version_info >= (3, 12):
    REFUSED.append(("type T = int", "type T = int", "`type`", "outside"))


def errors_of(function) -> list[SnapError]:
    with pytest.raises(SnapError) as caught:
        parse_function(function)
    return caught.value.all


@pytest.mark.parametrize("text, place, what, instead", REFUSED, ids=[entry[0].splitlines()[0] for entry in REFUSED])
def test_refused(define, text, place, what, instead):
    lines = "\n".join("    " + line for line in text.splitlines())
    error, = errors_of(define(f"def f(x, a):\n    pass\n{lines}")["f"])
    span = error.diagnostic.span
    shown = source_line(span.filename, span.line)
    assert error.code == "SNAP017"
    assert shown[span.column:span.end_column if span.end_line == span.line else None].startswith(place)
    assert what in error.message or what in error.diagnostic.label
    assert instead in error.diagnostic.help
    assert error.message[0] in "`" or error.message[0].islower()
    assert not error.message.endswith(".") and not error.diagnostic.help.endswith(".")


@pytest.mark.parametrize("head, place", [("def f(*args)", "args"), ("def f(**options)", "options"), ("def f(a, *, b)", "b"),
                                         ("async def f()", "async def f():")])
def test_refused_heads(define, head, place):
    error, = errors_of(define(f"{head}:\n    pass")["f"])
    span = error.diagnostic.span
    assert source_line(span.filename, span.line)[span.column:span.end_column] == place


def test_awaiting(define):
    errors = errors_of(define("""
        async def f(x):
            await x
            async for i in x:
                pass
            async with x:
                pass
    """)["f"])
    assert [error.lineno for error in errors] == [1, 2, 3, 5]


def test_all_errors_are_gathered_in_order(define):
    errors = errors_of(define("""
        def f(x, *rest):
            try:
                y = f"{x}"
            except ValueError:
                z = {}
            else:
                len(None)
            finally:
                del x
            if x is rest:
                import os
            def inner():
                yield 3j
    """)["f"])
    assert [error.lineno for error in errors] == [1, 2, 3, 5, 7, 7, 9, 10, 11, 12]
    assert errors[0].all == errors


def test_a_builtins_name_may_be_the_programs_own(define):
    parse_function(define("def f(x):\n    return sum(x)", sum=3)["f"])
    parse_function(define("def f(len):\n    return len(3)")["f"])
    parse_function(define("def f(x):\n    print: int = 3\n    return print(x)")["f"])


def test_unforeseen_failures_have_a_place(define, monkeypatch):
    monkeypatch.setattr("snap._compiler.frontend.parse.StatementParser.body", lambda self, statements: 1 / 0)
    error, = errors_of(define("def f(x):\n    pass")["f"])
    assert (error.code, error.lineno) == ("SNAP017", 1) and "ZeroDivisionError" in error.diagnostic.note
