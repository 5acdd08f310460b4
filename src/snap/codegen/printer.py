"""CUDA tree -> text.

Input:      a tree of `snap.codegen.tree`
Output:     CUDA C++ text, four spaces an indentation, parentheses only where the tree would otherwise be read
            differently
Invariant:  parsing the text gives the tree back
Non-goals:  deciding anything about the program
"""

from __future__ import annotations

from snap.codegen import tree

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
    text, level = _expression(e)
    return f"({text})" if level < least else text


def _expression(e: tree.Expr) -> tuple[str, int]:
    match e:
        case tree.Name(text) | tree.Literal(text):
            return text, POSTFIX + 1 if not text.startswith("-") else UNARY
        case tree.Integer(value, suffix):
            return _integer(value, suffix)
        case tree.Deferred(cell, signed):
            return _expression(cell.expression(signed))
        case tree.Unary(op, value):
            inner = expression(value, UNARY)
            return (f"{op}({inner})" if inner[0] == op else f"{op}{inner}"), UNARY
        case tree.Binary(op, left, right):
            level = PRECEDENCE[op]
            return f"{_operand(op, left, level)} {op} {_operand(op, right, level + 1)}", level
        case tree.Ternary(cond, then, other):
            return (
                f"{expression(cond, TERNARY + 1)} ? {expression(then, TERNARY)} : {expression(other, TERNARY)}",
                TERNARY,
            )
        case tree.Call(function, args):
            return f"{function}({', '.join(map(expression, args))})", POSTFIX
        case tree.Index(base, index):
            return f"{expression(base, POSTFIX)}[{expression(index)}]", POSTFIX
        case tree.Member(value, name):
            return f"{expression(value, POSTFIX)}.{name}", POSTFIX
        case tree.Cast(type, value):
            return f"({type}){expression(value, UNARY)}", UNARY
        case tree.Reinterpret(type, value):
            return f"reinterpret_cast<{type}>({expression(value)})", POSTFIX
        case tree.Braces(type, items):
            return f"{type}{{{', '.join(map(expression, items))}}}", POSTFIX
        case tree.Raw(parts):
            return "".join(part if isinstance(part, str) else f"({expression(part)})" for part in parts), 0
        case _:
            raise TypeError(e)


def _operand(op: str, e: tree.Expr, least: int) -> str:
    if isinstance(e, tree.Binary) and (op, e.op) in CONFUSING:
        least = POSTFIX
    return expression(e, least)


def _integer(value: int, suffix: str) -> tuple[str, int]:
    smallest = {"": -(1 << 31), "ll": -(1 << 63)}.get(suffix)
    if value == smallest:  # the literal without its sign would not fit the type
        return f"-{-(value + 1)}{suffix} - 1", PRECEDENCE["-"]
    return f"{value}{suffix}", UNARY if value < 0 else POSTFIX + 1


def _dims(dims: tuple[int, ...]) -> str:
    return "".join(f"[{n}]" for n in dims)


def simple_statement(s: tree.Stmt) -> str:
    """A statement on one line, without its semicolon."""
    match s:
        case tree.Declare(type, name, init, const, dims, align):
            before = (f"alignas({align}) " if align else "") + (
                "const " if const and not type.endswith("const") else ""
            )
            value = "" if init is None else f" = {expression(init)}"
            return f"{before}{type} {name}{_dims(dims)}{value}"
        case tree.SharedBuffer(name, None, align):
            return f"extern __shared__ __align__({align}) unsigned char {name}[]"
        case tree.SharedBuffer(name, size, align):
            return f"__shared__ __align__({align}) unsigned char {name}[{size}]"
        case tree.Assign(target, op, value):
            if op in ("+=", "-=") and value == tree.Integer(1):
                return f"{op[0] * 2}{expression(target, UNARY)}"
            return f"{expression(target, UNARY)} {op} {expression(value)}"
        case tree.Evaluate(value):
            return expression(value)
        case tree.Break():
            return "break"
        case tree.Continue():
            return "continue"
        case tree.Return(value):
            return "return" if value is None else f"return {expression(value)}"
        case _:
            raise TypeError(s)


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
    for s in body:
        lines += _statement(s, depth, marks, around)
    return lines


def _statement(s: tree.Stmt, depth: int, marks: Marks, around: SourceLine) -> list[str]:
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
            return [*marks.before(at), f"{pad}{simple_statement(s)};"]


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


def module(m: tree.Module, marks: Marks = UNMARKED) -> str:
    parts = ["\n".join(f"// {comment_text(line)}" for line in m.header)]
    if m.includes:
        parts.append("\n".join(f"#include <{name}>" for name in m.includes))
    if m.structs:
        parts.append("\n".join(map(struct, m.structs)))
    parts += m.helpers
    parts += (function(f, marks) for f in m.functions)
    return "\n\n".join(parts) + "\n"
