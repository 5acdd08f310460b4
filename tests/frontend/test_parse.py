"""Every construct of the language arrives in the tree as written."""

from __future__ import annotations

import pytest

from snap._compiler.frontend import tree
from snap._compiler.frontend.expressions import MAX_DEPTH
from snap._compiler.frontend.parse import parse_function
from snap._compiler.frontend.tree import *
from snap.diag.error import SnapError
from snap.diag.source import source_line
from snap.diag.span import Span

ANY = Span("", 1, 0, 1, 0)


def text_of(span) -> str:
    assert span.line == span.end_line
    return source_line(span.filename, span.line)[span.column:span.end_column]


def name(id: str) -> Name:
    return Name(id, span=ANY)


def number(value) -> Number:
    return Number(value, span=ANY)


@pytest.fixture
def expression(define):
    return lambda text: parse_function(define(f"def f():\n    return {text}")["f"]).body[0].value


@pytest.fixture
def statements(define):
    def parse(text: str):
        lines = "\n".join("    " + line for line in text.splitlines())
        return parse_function(define(f"def f():\n{lines}")["f"]).body

    return parse


@pytest.mark.parametrize("text, expected", [
    ("3", number(3)),
    ("0x10", number(16)),
    ("1e3", number(1000.0)),
    ("True", number(True)),
    ("x.y", Attribute(name("x"), "y", span=ANY)),
    ("x[1]", Subscript(name("x"), (number(1),), span=ANY)),
    ("x[1, a]", Subscript(name("x"), (number(1), name("a")), span=ANY)),
    ("f(a, k=1)", Call(name("f"), (name("a"),), (("k", number(1)),), span=ANY)),
    ("f('s', k='t')", Call(name("f"), (Text("s", span=ANY),), (("k", Text("t", span=ANY)),), span=ANY)),
    ("-a", Unary("-", name("a"), span=ANY)),
    ("not a", Unary("not", name("a"), span=ANY)),
    ("a < b", Compare("<", name("a"), name("b"), span=ANY)),
    ("a < b <= c", Chain(("<", "<="), (name("a"), name("b"), name("c")), span=ANY)),
    ("a and b and c", Logical("and", Logical("and", name("a"), name("b"), span=ANY), name("c"), span=ANY)),
    ("a or b", Logical("or", name("a"), name("b"), span=ANY)),
    ("a if c else b", Conditional(name("c"), name("a"), name("b"), span=ANY)),
    ("lambda i, j: (j, i)", Lambda(("i", "j"), Sequence((name("j"), name("i")), span=ANY), span=ANY)),
    ("[a, 1]", Sequence((name("a"), number(1)), span=ANY)),
    ("()", Sequence((), span=ANY)),
])
def test_expressions(expression, text, expected):
    assert expression(text) == expected


@pytest.mark.parametrize("op", "+ - * / // % ** << >> & | ^ @".split())
def test_binary_operators(expression, statements, op):
    assert expression(f"a {op} b") == Binary(op, name("a"), name("b"), span=ANY)
    assert statements(f"a {op}= b") == (Augment(name("a"), op, name("b"), span=ANY),)


@pytest.mark.parametrize("op", "== != < <= > >=".split())
def test_comparisons(expression, op):
    assert expression(f"a {op} b") == Compare(op, name("a"), name("b"), span=ANY)


def test_spans_of_chains(expression):
    chain = expression("(a < b) and c < d < e")
    assert text_of(chain.right.span) == "c < d < e"
    assert [text_of(part.span) for part in chain.right.operands] == ["c", "d", "e"]


def test_simple_statements(statements):
    assert statements("x: int @ thread[1] = 3") == (
        Declare("x", Binary("@", name("int"), Subscript(name("thread"), (number(1),), span=ANY), span=ANY), number(3), ANY, span=ANY),)
    assert statements("x: int") == (Declare("x", name("int"), None, ANY, span=ANY),)
    assert statements("x[1] = a") == (Assign(Subscript(name("x"), (number(1),), span=ANY), name("a"), span=ANY),)
    assert statements("v.x = a") == (Assign(Attribute(name("v"), "x", span=ANY), name("a"), span=ANY),)
    assert statements("f()") == (Evaluate(Call(name("f"), (), (), span=ANY), span=ANY),)
    assert statements("assert a, 'because'") == (Assert(name("a"), "because", span=ANY),)
    assert statements("assert a") == (Assert(name("a"), "", span=ANY),)
    assert statements("pass\nreturn") == (Pass(span=ANY), Return(None, span=ANY))


def test_loops_and_branches(statements):
    assert statements("if a:\n  pass\nelif b:\n  x = 1\nelse:\n  pass") == (
        If(name("a"), (Pass(span=ANY),), (If(name("b"), (Assign(name("x"), number(1), span=ANY),), (Pass(span=ANY),), span=ANY),), span=ANY),)
    assert statements("while a:\n  break") == (While(name("a"), (Break(span=ANY),), span=ANY),)
    loop, = statements("for i in range(3):\n  continue")
    assert loop == For("i", Call(name("range"), (number(3),), (), span=ANY), (Continue(span=ANY),), ANY, span=ANY)
    assert text_of(loop.name_span) == "i" and text_of(loop.span) == "for i in range(3):"


def test_with_of_several_items_is_nested(statements):
    outer, = statements("with stage(a) as s, stage(b) as t:\n  pass")
    assert outer == With(Call(name("stage"), (name("a"),), (), span=ANY), "s",
                         (With(Call(name("stage"), (name("b"),), (), span=ANY), "t", (Pass(span=ANY),), ANY, ANY, span=ANY),), ANY, ANY, span=ANY)
    assert text_of(outer.head) == "stage(a) as s" and text_of(outer.body[0].head) == "stage(b) as t"
    single, = statements("with group(block[1]):  # why\n  pass")
    assert text_of(single.head) == "with group(block[1]):" and single.name is None and single.name_span is None


def test_match(statements):
    split, = statements("match split(thread):\n  case 32: pass\n  case sizes.P:\n    x = 1\n  case _: pass")
    assert split == Match(Call(name("split"), (name("thread"),), (), span=ANY), (
        MatchCase(number(32), (Pass(span=ANY),), ANY, span=ANY),
        MatchCase(Attribute(name("sizes"), "P", span=ANY), (Assign(name("x"), number(1), span=ANY),), ANY, span=ANY),
        MatchCase(None, (Pass(span=ANY),), ANY, span=ANY),
    ), ANY, span=ANY)
    assert text_of(split.head) == "match split(thread):"
    assert [text_of(case.head) for case in split.cases] == ["case 32:", "case sizes.P:", "case _:"]


def test_functions(define):
    function = parse_function(define("""
        def f(a: int, b: "float @ block[1]" = 3, c=2) -> float:
            '''What it does.'''
            return a
    """, __annotations__={})["f"])
    assert function.params == (
        Parameter("a", name("int"), None, span=ANY),
        Parameter("b", Binary("@", name("float"), Subscript(name("block"), (number(1),), span=ANY), span=ANY), number(3), span=ANY),
        Parameter("c", None, number(2), span=ANY),
    )
    assert function.returns == name("float") and function.body == (Return(name("a"), span=ANY),)


def test_spans_in_quoted_annotations(define):
    function = parse_function(define('''
        def f(a: "  ptr(größe) @ grid[1]", b: """int @
              grid[1]""", c: "int" " @ grid[1]", d: "ptr('float')", e: "int # why"):
            pass
    ''')["f"])
    a, b, c, d, e = (parameter.annotation for parameter in function.params)
    assert text_of(a.left.args[0].span) == "größe" and text_of(a.right.span) == "grid[1]"
    assert b.op == "@" and (b.left.span.line, b.left.span.end_line) == (1, 2)
    assert text_of(c.left.span) == '"int" " @ grid[1]"'
    assert d.args == (name("float"),)
    assert e == name("int") and text_of(e.span) == "int"


def test_keywords_in_annotations_are_text(define):
    annotation = parse_function(define("def f(a: 'shared(x, layout=\"rows\")'): pass")["f"]).params[0].annotation
    assert annotation.keywords == (("layout", Text("rows", span=ANY)),)


@pytest.mark.parametrize("body", [
    "return " + " + ".join(["a"] * (MAX_DEPTH + 10)),
    "return " + " and ".join(["a"] * (MAX_DEPTH + 10)),
    "return " + " < ".join(["a"] * (MAX_DEPTH + 10)),
    "return " + "-" * 180 + "a",
    "if a: pass\n" + "".join("    elif a: pass\n" for _ in range(MAX_DEPTH + 10)),
])
def test_nested_too_deeply(define, body):
    with pytest.raises(SnapError, match="nested too deeply") as caught:
        parse_function(define(f"def f(a):\n    {body}")["f"])
    assert caught.value.code == "SNAP017" and caught.value.lineno >= 2


@pytest.mark.parametrize("failure", [RecursionError, MemoryError])
def test_nested_too_deeply_for_pythons_parser(define, monkeypatch, failure):
    def parse(*args, **keywords):
        raise failure

    function = define("def f(a):\n    return a")["f"]
    monkeypatch.setattr("ast.parse", parse)
    with pytest.raises(SnapError, match="nested too deeply"):
        parse_function(function)


def test_long_functions_are_fine(define):
    body = "\n".join(f"    x = {i} + x" for i in range(3000))
    assert len(parse_function(define(f"def f(x):\n{body}")["f"]).body) == 3000


def test_a_deep_caller(define):
    function = define("def f(a):\n    return " + "(" * 50 + "a" + " + a)" * 50)["f"]

    def descend(levels: int):
        return parse_function(function) if levels == 0 else descend(levels - 1)

    assert isinstance(descend(0), tree.Function)
    with pytest.raises((SnapError, RecursionError)):
        for levels in range(500, 1000, 20):
            try:
                descend(levels)
            except SnapError as error:
                assert "nested too deeply" in error.message
                raise
