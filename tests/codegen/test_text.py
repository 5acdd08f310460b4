"""The printer, literals, names and the folding of integers."""

from __future__ import annotations

import math
import re
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snap._compiler.codegen.core import printer, spelling, tree
from snap._compiler.codegen.core.module import Module
from snap._compiler.codegen.core.names import Namer, at_file_scope, identifier
from snap._compiler.codegen.values import fold
from snap._compiler.ir.types import BF16, F16, F32, F64, I8, I32, I64, U8, U32
from snap.host.compile.nvrtc import include_dirs

# ---- printer -------------------------------------------------------------------------------------------------------------------------------


class Symbol:
    """Evaluating printed text over symbols gives its structure back; Python's precedence of these operators is C's."""

    def __init__(self, shape):
        self.shape = shape


for _op, _method in {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "truediv",
    "%": "mod",
    "<<": "lshift",
    ">>": "rshift",
    "&": "and",
    "|": "or",
    "^": "xor",
}.items():
    setattr(Symbol, f"__{_method}__", lambda a, b, op=_op: Symbol((op, a.shape, b.shape)))
for _op, _method in {"-": "neg", "~": "invert"}.items():
    setattr(Symbol, f"__{_method}__", lambda a, op=_op: Symbol((op, a.shape)))

names = st.sampled_from("abc").map(tree.Name)
trees = st.recursive(
    names,
    lambda inner: st.one_of(
        st.builds(tree.Binary, st.sampled_from("+ - * / % << >> & | ^".split()), inner, inner), st.builds(tree.Unary, st.sampled_from("-~"), inner)
    ),
    max_leaves=12,
)


def shape(e):
    match e:
        case tree.Name(text):
            return text
        case tree.Unary(op, value):
            return (op, shape(value))
        case tree.Binary(op, left, right):
            return (op, shape(left), shape(right))


@given(trees)
def test_text_means_the_tree(e):
    text = printer.expression(e)
    assert "--" not in text
    assert eval(text, {name: Symbol(name) for name in "abc"}).shape == shape(e)


@pytest.mark.parametrize(
    "e, text",
    [
        (tree.Binary("-", tree.Name("a"), tree.Binary("-", tree.Name("b"), tree.Name("c"))), "a - (b - c)"),
        (tree.Binary("&&", tree.Binary("||", tree.Name("a"), tree.Name("b")), tree.Binary("<", tree.Name("a"), tree.Name("b"))), "(a || b) && a < b"),
        (tree.Binary("||", tree.Binary("&&", tree.Name("a"), tree.Name("b")), tree.Name("c")), "(a && b) || c"),
        (tree.Index(tree.Unary("*", tree.Name("p")), tree.Integer(1)), "(*p)[1]"),
        (tree.Member(tree.Cast("float4", tree.Name("v")), "x"), "((float4)v).x"),
        (tree.Cast("int", tree.Binary("+", tree.Name("a"), tree.Name("b"))), "(int)(a + b)"),
        (
            tree.Ternary(
                tree.Ternary(tree.Name("a"), tree.Name("b"), tree.Name("c")),
                tree.Name("a"),
                tree.Ternary(tree.Name("a"), tree.Name("b"), tree.Name("c")),
            ),
            "(a ? b : c) ? a : a ? b : c",
        ),
        (tree.Binary("*", tree.Name("a"), tree.Integer(-(1 << 31))), "a * (-2147483647 - 1)"),
        (tree.Binary("<<", tree.Binary("+", tree.Name("a"), tree.Name("b")), tree.Name("c")), "(a + b) << c"),
    ],
)
def test_parentheses(e, text):
    assert printer.expression(e) == text


def test_comments_are_one_line_of_ascii():
    assert printer.comment_text("α\n  b \\\n") == "\\u03b1 b"


# ---- literals ------------------------------------------------------------------------------------------------------------------------------


def spelled(value, t):
    return printer.expression(spelling.literal(Module(32, 0), value, t))


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_f32_literals_round_trip(value):
    text = spelled(value, F32)
    assert text.endswith("f") and struct.pack("<f", float(text[:-1])) == struct.pack("<f", value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_f64_literals_round_trip(value):
    assert struct.pack("<d", float(spelled(value, F64))) == struct.pack("<d", value)


@given(st.floats(min_value=-(2.0**126), max_value=2.0**126))
def test_bf16_literals_are_rounded_once(value):
    text = spelled(value, BF16).removeprefix("__float2bfloat16(").removesuffix("f)")
    got = struct.unpack("<f", struct.pack("<f", float(text)))[0]
    scale = math.ldexp(1.0, max(math.frexp(value)[1], -125) - 8)
    assert got / scale == round(value / scale)
    assert math.copysign(1.0, got) == math.copysign(1.0, value)


@pytest.mark.parametrize(
    "value, t, text",
    [
        (1, I32, "1"),
        (1, U32, "1u"),
        (-1, I64, "-1ll"),
        (255, U8, "255"),
        (-128, I8, "-128"),
        (-(1 << 31), I32, "-2147483647 - 1"),
        (1.0, F32, "1.0f"),
        (0.1, F64, "0.1"),
        (math.inf, F32, "__uint_as_float(0x7f800000u)"),
        (-math.inf, F64, "__longlong_as_double(0xfff0000000000000ll)"),
        (1e6, F16, "__float2half(__uint_as_float(0x7f800000u))"),
        (1.5, F16, "__float2half(1.5f)"),
        (3.4028234663852886e38, F32, "3.4028235e+38f"),
    ],
)
def test_literals(value, t, text):
    assert spelled(value, t) == text


# ---- folding -------------------------------------------------------------------------------------------------------------------------------

constants = st.integers(-(1 << 31), (1 << 31) - 1)
A = tree.Name("a")


@given(st.sampled_from("+ - * / % & | ^".split()), constants, constants)
def test_constants_fold_as_the_type_wraps(op, a, b):
    folded = fold.binary(op, tree.Integer(a), tree.Integer(b), I32)
    if op in "/%" and b == 0:
        assert isinstance(folded, tree.Binary)
        return
    exact = {"+": a + b, "-": a - b, "*": a * b, "&": a & b, "|": a | b, "^": a ^ b}.get(op)
    if exact is None:
        quotient = int(math.copysign(abs(a) // abs(b), a * b)) if a else 0
        exact = quotient if op == "/" else a - quotient * b
    assert folded.value == (exact + (1 << 31)) % (1 << 32) - (1 << 31)


@given(constants, constants, st.sampled_from("+-"), st.sampled_from("+-"), constants)
def test_chains_of_additions_keep_their_value(x, c, first, second, d):
    folded = fold.binary(second, fold.binary(first, A, tree.Integer(c), I32), tree.Integer(d), I32)
    value = eval(printer.expression(folded), {"a": x})
    exact = x + c if first == "+" else x - c
    exact = exact + d if second == "+" else exact - d
    assert (value - exact) % (1 << 32) == 0


@pytest.mark.parametrize(
    "op, left, right, text",
    [
        ("+", A, tree.Integer(0), "a"),
        ("+", tree.Integer(0), A, "a"),
        ("-", A, tree.Integer(0), "a"),
        ("*", A, tree.Integer(1), "a"),
        ("*", tree.Integer(0), A, "0"),
        ("/", A, tree.Integer(1), "a"),
        ("%", A, tree.Integer(1), "0"),
        ("+", A, tree.Integer(-3), "a - 3"),
        ("-", A, tree.Integer(-3), "a + 3"),
        ("-", tree.Integer(0), A, "0 - a"),
    ],
)
def test_identities(op, left, right, text):
    assert printer.expression(fold.binary(op, left, right, I32)) == text


# ---- names ---------------------------------------------------------------------------------------------------------------------------------


@given(st.text(min_size=1, max_size=8))
def test_names_are_identifiers_and_unique(text):
    namer = Namer()
    first, second = namer.user(text), namer.user(text)
    assert first != second
    assert first.isascii() and first.isidentifier() and identifier(first) == first


def test_own_names_give_way_to_the_users():
    namer = Namer(avoid=frozenset({"lane"}))
    assert namer.own("lane") == "lane_1" and namer.user("lane") == "lane"
    namer.open()
    assert namer.user("i") == "i" and namer.user("lane") == "lane_2"
    namer.close()
    assert namer.user("i") == "i"


def test_what_cudas_headers_declare_is_no_name_of_a_function():
    """The headers of 16-bit floats declare types, functions and macros at file scope."""
    folders = include_dirs()
    if not folders:
        pytest.skip("CUDA's headers are not installed")
    for header in ("cuda_fp16.h", "cuda_bf16.h"):
        text = re.sub(r"/\*.*?\*/|//[^\n]*|#\s*(el)?if[^\n]*", "", (Path(folders[0]) / header).read_text(errors="ignore"), flags=re.DOTALL)
        declared = {*re.findall(r"(?:DECL__|__device__)[^;{=()]*?\b([A-Za-z]\w*)\s*\(", text), *re.findall(r"typedef[^;{]*\b([A-Za-z]\w*)\s*;", text),
                    *re.findall(r"#\s*define\s+([A-Za-z]\w*)", text), *re.findall(r"\bstruct\s+([A-Za-z]\w*)", text)}
        assert declared
        assert sorted(name for name in declared if not at_file_scope(name)) == []
