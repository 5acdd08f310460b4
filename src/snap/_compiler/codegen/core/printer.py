"""CUDA tree -> text.

Input:      a tree of `snap._compiler.codegen.core.tree`
Output:     CUDA C++ text, four spaces an indentation, parentheses only where the tree would otherwise be read
            differently
Invariant:  parsing the text gives the tree back
Non-goals:  deciding anything about the program
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from snap._compiler.codegen.core import tree

POSTFIX, UNARY, TERNARY = 15, 14, 3
LEVELS = ("||", "&&", "|", "^", "&", "== !=", "< <= > >=", "<< >>", "+ -", "* / %")  # weakest first
PRECEDENCE = {op: TERNARY + 1 + level for level, ops in enumerate(LEVELS) for op in ops.split()}
# Mixtures that C++ reads well and people do not: the inner operator is parenthesised all the same.
CONFUSING = {
    ("||", "&&"),
    *((outer, inner) for outer in "& ^ | << >>".split() for inner in "& ^ | << >> + -".split() if outer != inner),
}
INDENT = "    "
WIDTH = 140


def expression(e: tree.Expr, least: int = 0) -> str:
    """The text of e, in parentheses if it binds weaker than `least`."""
    text, level = _TEXTS[type(e)](e)
    return f"({text})" if level < least else text


# ---- by class: the text, and how strongly it binds --------------------------------------------------------------------


def _token(e: tree.Name | tree.Literal) -> tuple[str, int]:
    text = e.text
    return text, UNARY if text[:1] == "-" else POSTFIX + 1


def _deferred(e: tree.Deferred) -> tuple[str, int]:
    known = e.cell.expression(e.signed)
    return _TEXTS[type(known)](known)


def _unary(e: tree.Unary) -> tuple[str, int]:
    inner = expression(e.value, UNARY)
    return (f"{e.op}({inner})" if inner[0] == e.op else f"{e.op}{inner}"), UNARY


def _binary(e: tree.Binary) -> tuple[str, int]:
    op = e.op
    level = PRECEDENCE[op]
    return f"{_operand(op, e.left, level)} {op} {_operand(op, e.right, level + 1)}", level


def _operand(op: str, e: tree.Expr, least: int) -> str:
    if type(e) is tree.Binary and (op, e.op) in CONFUSING:
        least = POSTFIX
    return expression(e, least)


def _ternary(e: tree.Ternary) -> tuple[str, int]:
    cond, then, other = expression(e.cond, TERNARY + 1), expression(e.then, TERNARY), expression(e.other, TERNARY)
    return f"{cond} ? {then} : {other}", TERNARY


def _raw(e: tree.Raw) -> tuple[str, int]:
    return "".join(part if isinstance(part, str) else f"({expression(part)})" for part in e.parts), 0


SMALLEST = {"": -(1 << 31), "ll": -(1 << 63)}


def _integer(e: tree.Integer) -> tuple[str, int]:
    value = e.value
    if value == SMALLEST.get(e.suffix):  # the literal without its sign would not fit the type
        return f"-{-(value + 1)}{e.suffix} - 1", PRECEDENCE["-"]
    return f"{value}{e.suffix}", UNARY if value < 0 else POSTFIX + 1


_TEXTS: dict[type, Callable[[Any], tuple[str, int]]] = {
    tree.Name: _token,
    tree.Literal: _token,
    tree.Integer: _integer,
    tree.Deferred: _deferred,
    tree.Unary: _unary,
    tree.Binary: _binary,
    tree.Ternary: _ternary,
    tree.Call: lambda e: (f"{e.function}({', '.join(map(expression, e.args))})", POSTFIX),
    tree.Index: lambda e: (f"{expression(e.base, POSTFIX)}[{expression(e.index)}]", POSTFIX),
    tree.Member: lambda e: (f"{expression(e.value, POSTFIX)}.{e.name}", POSTFIX),
    tree.Cast: lambda e: (f"({e.type}){expression(e.value, UNARY)}", UNARY),
    tree.Reinterpret: lambda e: (f"reinterpret_cast<{e.type}>({expression(e.value)})", POSTFIX),
    tree.Braces: lambda e: (f"{e.type}{{{', '.join(map(expression, e.items))}}}", POSTFIX),
    tree.Raw: _raw,
}


def _dims(dims: tuple[int, ...]) -> str:
    return "".join(f"[{n}]" for n in dims)


def simple_statement(s: tree.Stmt) -> str:
    """A statement on one line, without its semicolon."""
    return _SIMPLE[type(s)](s)


def _declare(s: tree.Declare) -> str:
    before = (f"alignas({s.align}) " if s.align else "") + (
        "const " if s.const and not s.type.endswith("const") else ""
    )
    value = "" if s.init is None else f" = {expression(s.init)}"
    return f"{before}{s.type} {s.name}{_dims(s.dims)}{value}"


def _shared_buffer(s: tree.SharedBuffer) -> str:
    if s.size is None:
        return f"extern __shared__ __align__({s.align}) unsigned char {s.name}[]"
    return f"__shared__ __align__({s.align}) unsigned char {s.name}[{s.size}]"


ONE = tree.Integer(1)


def _assign(s: tree.Assign) -> str:
    if s.op in ("+=", "-=") and s.value == ONE:
        return f"{s.op[0] * 2}{expression(s.target, UNARY)}"
    return f"{expression(s.target, UNARY)} {s.op} {expression(s.value)}"


_SIMPLE: dict[type, Callable[[Any], str]] = {
    tree.Declare: _declare,
    tree.SharedBuffer: _shared_buffer,
    tree.Assign: _assign,
    tree.Evaluate: lambda s: expression(s.value),
    tree.Break: lambda s: "break",
    tree.Continue: lambda s: "continue",
    tree.Return: lambda s: "return" if s.value is None else f"return {expression(s.value)}",
}


SourceLine = tuple[str, int] | None  # a file, as C quotes it, and a line


class Marks:
    """`#line` directives: where each statement of the text was written.  Without places there are none.

    places: of statements and functions, by identity; what has none stands where what is around it does
    """

    def __init__(self, places: dict[int, tuple[str, int]] | None = None):
        self.places = places

    def inside(self, node: tree.Stmt | tree.Function, around: SourceLine) -> SourceLine:
        return around if self.places is None else self.places.get(id(node), around)

    def before(self, place: SourceLine, ahead: int = 0) -> list[str]:
        """The directive for a line that comes so many lines later."""
        return [] if place is None else [f"#line {max(place[1] - ahead, 1)} {place[0]}"]


UNMARKED = Marks()


def statements(body: tree.Body, depth: int, marks: Marks = UNMARKED, around: SourceLine = None) -> list[str]:
    lines: list[str] = []
    pad = INDENT * depth
    for s in body:
        simple = _SIMPLE.get(type(s))
        if simple is None:
            lines += _statement(s, depth, marks, around)
        else:
            lines += marks.before(marks.inside(s, around))
            lines.append(f"{pad}{simple(s)};")
    return lines


def _statement(s: tree.Stmt, depth: int, marks: Marks, around: SourceLine) -> list[str]:
    """One that is not simple."""
    pad = INDENT * depth
    at = marks.inside(s, around)
    match s:
        case tree.If():
            return _if(s, depth, marks, at)
        case tree.For(type, name, start, cond, step, body, unroll):
            pragma = [] if unroll is None else [f"{pad}#pragma unroll{f' {unroll}' if unroll else ''}"]
            head = f"{pad}for ({type} {name} = {expression(start)}; {expression(cond)}; {simple_statement(step)}) {{"
            pragma = [*marks.before(at, ahead=len(pragma)), *pragma]
            return [*pragma, head, *statements(body, depth + 1, marks, at), f"{pad}}}"]
        case tree.While(cond, body):
            head = f"{pad}while ({expression(cond)}) {{"
            return [*marks.before(at), head, *statements(body, depth + 1, marks, at), f"{pad}}}"]
        case tree.Block(body):
            return [f"{pad}{{", *statements(body, depth + 1, marks, at), f"{pad}}}"]
        case tree.Comment(text):
            return [f"{pad}// {comment_text(text)}"]
        case tree.RawStatement(raw):
            lines = _ended(expression(raw).strip()).split("\n")
            return [*marks.before(at), *(f"{pad}{line}" if line else "" for line in lines)]
        case _:
            raise TypeError(s)


def _ended(text: str) -> str:
    """The user's statement, with a semicolon that a comment at its end does not swallow."""
    if text.endswith((";", "}")):
        return text
    return f"{text}\n;" if "//" in text.rpartition("\n")[2] else f"{text};"


def _if(s: tree.If, depth: int, marks: Marks, at: SourceLine) -> list[str]:
    pad = INDENT * depth
    lines = [*marks.before(at), f"{pad}if ({expression(s.cond)}) {{", *statements(s.then, depth + 1, marks, at)]
    while len(s.other) == 1 and isinstance(s.other[0], tree.If):
        s = s.other[0]
        at = marks.inside(s, at)
        lines += [*marks.before(at), f"{pad}}} else if ({expression(s.cond)}) {{"]
        lines += statements(s.then, depth + 1, marks, at)
    if s.other:
        lines += [f"{pad}}} else {{", *statements(s.other, depth + 1, marks, at)]
    return [*lines, f"{pad}}}"]


def comment_text(text: str) -> str:
    """One line of ASCII that ends neither in a backslash (which would continue the comment) nor in a space."""
    printable = text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)
    return " ".join(printable.split()).encode("ascii", "backslashreplace").decode().rstrip("\\ ")


def function(f: tree.Function, marks: Marks = UNMARKED) -> str:
    params = [f"{p.type} (&{p.name}){_dims(p.dims)}" if p.dims else f"{p.type} {p.name}" for p in f.params]
    head = " ".join(part for part in (f.specifiers, f.returns, f.bounds, f.name) if part)
    line = f"{head}({', '.join(params)}) {{"
    if len(line) > WIDTH:
        line = f"{head}(\n{INDENT * 2}" + f",\n{INDENT * 2}".join(params) + ") {"
    at = marks.inside(f, None)
    return "\n".join([*marks.before(at), line, *statements(f.body, 1, marks, at), *marks.before(at), "}"])


def struct(s: tree.Struct) -> str:
    members = " ".join(f"{type} {name}{_dims(dims)};" for type, name, dims in s.members)
    return f"struct alignas({s.align}) {s.name} {{ {members} }};"


def module(m: tree.Module, marks: Marks = UNMARKED, known: Mapping[str, str] = MappingProxyType({})) -> str:
    """known: by name, the texts of functions that were printed before, without marks."""
    parts = ["\n".join(f"// {comment_text(line)}" for line in m.header)]
    if m.includes:
        parts.append("\n".join(f"#include <{name}>" for name in m.includes))
    if m.structs:
        parts.append("\n".join(map(struct, m.structs)))
    parts += m.helpers
    parts += (known.get(f.name) or function(f, marks) for f in m.functions)
    return "\n\n".join(parts) + "\n"
