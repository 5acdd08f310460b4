"""Find the text and the `ast` node of a Python function object.

Input: a function made by `def` or `lambda`, from a file, a notebook cell, the REPL, or `exec`'d text whose source is
registered.  Output: the node and a `Locator` that turns node positions into spans of the real file.  Invariant: the
node is the one the function's code was compiled from, as far as that can be told; else SNAP017 with the place the code
object names.  Non-goals: judging what the node contains.
"""

from __future__ import annotations

import ast
import inspect
import re
import unicodedata
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from operator import attrgetter
from types import CodeType, FunctionType

from snap._compiler.frontend.refuse import CODE
from snap._compiler.frontend.texts import TOO_DEEP, compiles_to, quietly, texts
from snap.diag.error import Diagnostic, SnapError
from snap.diag.source import register_source, source_lines
from snap.diag.span import Span
from snap.record import record

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
Node = FunctionNode | ast.Lambda
# Of a node that was read from a text: statements, expressions, arguments and patterns all have a place.
_BEGIN, _END = attrgetter("lineno", "col_offset"), attrgetter("end_lineno", "end_col_offset")


class Locator:
    """Positions of `ast` nodes (lines from `line_offset`, columns in bytes) as spans of the file (columns in
    characters).
    """

    def __init__(self, filename: str, lines: tuple[str, ...], line_offset: int = 0):
        self.filename = filename
        self.lines = lines
        self.line_offset = line_offset
        self.plain = all(map(str.isascii, lines))  # a column in bytes is one in characters

    def line(self, number: int) -> str:
        return self.lines[number - 1] if 1 <= number <= len(self.lines) else ""

    def point(self, ast_line: int, byte_column: int) -> tuple[int, int]:
        line = ast_line + self.line_offset
        text = self.line(line)
        if text.isascii():
            return line, byte_column
        return line, len(text.encode("utf-8", "surrogatepass")[:byte_column].decode("utf-8", "ignore"))

    def span(self, node: ast.AST) -> Span:
        if self.plain:
            line, end_line = node.lineno + self.line_offset, node.end_lineno + self.line_offset  # type: ignore
            return Span(self.filename, line, node.col_offset, end_line, node.end_col_offset)  # type: ignore
        line, column = self.point(*_BEGIN(node))
        end_line, end_column = self.point(*_END(node))
        return Span(self.filename, line, column, end_line, end_column)

    def through_colon(self, start: ast.AST, last: ast.AST) -> Span:
        """The head of a compound statement: from `start`'s beginning through the colon that follows `last`'s end.

        Between the two stand only closing brackets, blanks and comments.
        """
        head = self.span(start)
        line, column = self.point(*_END(last))
        return self._to_colon(head, line, column)

    def head_without_parts(self, start: ast.AST) -> Span:
        """The same for a head that contains no node after `start`'s beginning: `def f():`."""
        head = self.span(start)
        return self._to_colon(head, head.line, head.column)

    def _to_colon(self, head: Span, line: int, column: int) -> Span:
        while line <= len(self.lines):
            code = self.line(line)[column:].partition("#")[0]
            if ":" in code:
                return Span(self.filename, head.line, head.column, line, column + code.index(":") + 1)
            line, column = line + 1, 0
        return head


@record
class Located:
    node: Node
    locator: Locator


def failure(span: Span, message: str, label: str = "", note: str = "", help: str = "") -> SnapError:
    return SnapError(Diagnostic(CODE, message, span, label=label, note=note, help=help))


def too_deep(span: Span) -> SnapError:
    return failure(
        span,
        "this is nested too deeply",
        help="name parts of it: assign them to variables, or move them into a `@device` function",
    )


def code_span(code: CodeType) -> Span:
    """The place a code object names: its first line."""
    line = max(code.co_firstlineno, 1)
    return Span(code.co_filename, line, 0, line, 0)


def as_function(pyfunc: object) -> FunctionType:
    function = getattr(pyfunc, "__func__", pyfunc)
    if isinstance(function, FunctionType):
        return function
    what = f"a `{type(pyfunc).__name__}` object is not a Python function"
    raise failure(Span("<unknown>", 1, 0, 1, 0), what, help="decorate a function written with `def`")


# ---- finding the function -------------------------------------------------------------------------------------------


def locate(pyfunc: FunctionType) -> Located:
    """The `def` of a function."""
    code = pyfunc.__code__
    return _locate(pyfunc, lambda parsed: parsed.functions.get((code.co_name, code.co_firstlineno), ()))[0]


def locate_lambdas(pyfunc: FunctionType) -> list[Located]:
    """All lambdas that may be this one: same first line, same parameters."""
    line = pyfunc.__code__.co_firstlineno

    def on_its_line(parsed: Parsed) -> list[Node]:
        return list(_lambdas_on(parsed.tree, line - parsed.locator.line_offset))

    return _locate(pyfunc, on_its_line)


def _locate(pyfunc: FunctionType, nodes_in: Callable[[Parsed], Iterable[Node]]) -> list[Located]:
    code = pyfunc.__code__
    name = "this lambda" if code.co_name == "<lambda>" else f"`{code.co_name}`"
    found_text = deep = False
    for text in texts(pyfunc):
        found_text = True
        for whole in (True, False):
            try:
                parsed = (
                    parsed_file(code.co_filename, text.lines)
                    if whole
                    else _parse_block(code.co_filename, text.lines, code.co_firstlineno)
                )
            except TOO_DEEP:
                deep = True
                continue
            if parsed is None:
                continue
            nodes = [node for node in nodes_in(parsed) if _belongs(node, code, parsed.locator)]
            if nodes and (text.trusted or compiles_to(text.lines, code)):
                if source_lines(code.co_filename) != text.lines:  # so that diagnostics show it
                    register_source(code.co_filename, "\n".join(text.lines))
                return [Located(node, parsed.locator) for node in nodes]
    if deep:
        raise too_deep(code_span(code))
    if found_text:
        raise failure(
            code_span(code),
            f"the source of {name} is not what was loaded",
            label=f"{name} should begin here",
            help=(
                "what was typed is read from the history, which may leave lines out: define it in a file or a notebook"
                if code.co_filename == "<stdin>"
                else "the file has changed since Python read it: import it again, or restart"
            ),
        )
    raise failure(
        code_span(code),
        f"the source of {name} is not known",
        note="Snap reads a function's source text, and there is none for this code",
        help=(
            "define it in a file or a notebook, or call `snap.register_source(filename, text)` with the text and the"
            " file name given to `compile` before you `exec` it"
        ),
    )


@record
class Parsed:
    """functions: by name and the line their code begins on, that of the first decorator."""

    tree: ast.Module
    locator: Locator
    functions: dict[tuple[str, int], list[FunctionNode]]


@lru_cache(maxsize=32)
def parsed_file(filename: str, lines: tuple[str, ...]) -> Parsed | None:
    return _parsed("\n".join(lines), Locator(filename, lines))


def _parse_block(filename: str, lines: tuple[str, ...], first_line: int) -> Parsed | None:
    """Only the block that begins on `first_line`, for a file that does not parse as a whole.

    An indented block is put under `if 1:`, which keeps its columns as they are.
    """
    try:
        block = "".join(inspect.getblock([line + "\n" for line in lines[first_line - 1 :]]))
    except (SyntaxError, ValueError):  # the tokenizer's errors are SyntaxErrors
        return None
    if not block[:1].isspace():
        return _parsed(block, Locator(filename, lines, first_line - 1))
    return _parsed("if 1:\n" + block, Locator(filename, lines, first_line - 2))


def _parsed(text: str, locator: Locator) -> Parsed | None:
    try:
        with quietly():
            tree = ast.parse(text)
    except (SyntaxError, ValueError):  # ValueError: null bytes
        return None
    functions: dict[tuple[str, int], list[FunctionNode]] = {}
    for node in _statements(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = (node.decorator_list[0] if node.decorator_list else node).lineno + locator.line_offset
            functions.setdefault((node.name, first), []).append(node)
    return Parsed(tree, locator, functions)


def _lambdas_on(tree: ast.Module, line: int) -> Iterator[ast.Lambda]:
    """Find the lambdas that begin on a line, outer ones first: only what covers the line is looked into."""
    pending: deque[ast.AST] = deque([tree])
    while pending:
        node = pending.popleft()
        if isinstance(node, ast.Lambda) and node.lineno == line:
            yield node
        pending.extend(child for child in ast.iter_child_nodes(node) if _covers(child, line))


def _covers(node: ast.AST, line: int) -> bool:
    """Tell whether some of a node may be on the line.  Decorators come before the line of their function."""
    if not isinstance(node, (ast.stmt, ast.expr)):
        return bool(node._fields)  # most others are operators, and hold nothing
    if (node.end_lineno or line) < line:
        return False
    return node.lineno <= line or any(one.lineno <= line for one in getattr(node, "decorator_list", ()))


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """All statements (with the handlers and cases that hold some), but no expressions: most of a tree is those."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, field, None)
            if isinstance(inner, list):
                pending.extend(inner)


def _belongs(node: Node, code: CodeType, locator: Locator) -> bool:
    """Decide whether `code` can have been compiled from `node`."""
    arguments = node.args
    written = [
        a.arg
        for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
        if a is not None
    ]
    extra = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    compiled = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + extra]
    # Names that begin with two underscores are mangled in classes.
    if len(written) != len(compiled) or any(
        own != theirs for own, theirs in zip(written, compiled) if not own.startswith("__")
    ):
        return False
    span = locator.span(node)
    text = "\n".join(locator.lines[span.line - 1 : span.end_line])
    # Normalised, as Python does it with all names that it reads.
    words = set(re.findall(r"\w+", text if text.isascii() else unicodedata.normalize("NFKC", text)))
    # Names that tools or the compiler put in, or mangle, tell nothing.
    return all(
        name in words for name in code.co_varnames if name[0].isalpha() and name.isascii() and name.isidentifier()
    )
