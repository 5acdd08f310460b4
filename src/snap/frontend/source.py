"""From a Python function object to its text and its `ast` node.

Input: a function made by `def` or `lambda`, from a file, a notebook cell, the REPL, or `exec`'d text whose source is registered.  Output: the node
and a `Locator` that turns node positions into spans of the real file.  Invariant: the node is the one the function's code was compiled from, as far
as that can be told; else SNAP017 with the place the code object names.  Non-goals: judging what the node contains.
"""

from __future__ import annotations
import __future__ as future

import ast
import inspect
import linecache
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, reduce
from types import CodeType, FunctionType

from snap.diag.error import Diagnostic, SnapError
from snap.diag.source import register_source, registered_lines, source_lines, split_lines
from snap.diag.span import Span
from snap.frontend.refuse import CODE

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
Node = FunctionNode | ast.Lambda

TOO_DEEP = (RecursionError, MemoryError)  # CPython's parser reports too much nesting as either
_FUTURE_FLAGS = reduce(int.__or__, (getattr(future, name).compiler_flag for name in future.all_feature_names))
_loaded_at = time.time()


class Locator:
    """Positions of `ast` nodes (lines from `line_offset`, columns in bytes) as spans of the file (columns in characters)."""

    def __init__(self, filename: str, lines: tuple[str, ...], line_offset: int = 0):
        self.filename = filename
        self.lines = lines
        self.line_offset = line_offset

    def line(self, number: int) -> str:
        return self.lines[number - 1] if 1 <= number <= len(self.lines) else ""

    def point(self, ast_line: int, byte_column: int) -> tuple[int, int]:
        line = ast_line + self.line_offset
        text = self.line(line)
        if text.isascii():
            return line, byte_column
        return line, len(text.encode("utf-8", "surrogatepass")[:byte_column].decode("utf-8", "ignore"))

    def span(self, node: ast.AST) -> Span:
        line, column = self.point(node.lineno, node.col_offset)
        end_line, end_column = self.point(node.end_lineno, node.end_col_offset)
        return Span(self.filename, line, column, end_line, end_column)

    def through_colon(self, start: ast.AST, last: ast.AST) -> Span:
        """The head of a compound statement: from `start`'s beginning through the colon that follows `last`'s end.

        Between the two stand only closing brackets, blanks and comments.
        """
        head = self.span(start)
        line, column = self.point(last.end_lineno, last.end_col_offset)
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


@dataclass(frozen=True, slots=True)
class Located:
    node: Node
    locator: Locator


def failure(span: Span, message: str, label: str = "", note: str = "", help: str = "") -> SnapError:
    return SnapError(Diagnostic(CODE, message, span, label=label, note=note, help=help))


def too_deep(span: Span) -> SnapError:
    return failure(span, "this is nested too deeply", help="name parts of it: assign them to variables, or move them into a `@device` function")


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


# ---- finding the function -----------------------------------------------------------------------------------------------------------------


def locate(pyfunc: FunctionType) -> Located:
    """The `def` of a function."""
    code = pyfunc.__code__
    return _locate(pyfunc, lambda parsed: parsed.functions.get((code.co_name, code.co_firstlineno), ()))[0]


def locate_lambdas(pyfunc: FunctionType) -> list[Located]:
    """All lambdas that may be this one: same first line, same parameters."""
    line = pyfunc.__code__.co_firstlineno

    def on_its_line(parsed: _Parsed) -> list[Node]:
        return [node for node in ast.walk(parsed.tree) if isinstance(node, ast.Lambda) and node.lineno + parsed.locator.line_offset == line]

    return _locate(pyfunc, on_its_line)


def _locate(pyfunc: FunctionType, nodes_in: Callable[[_Parsed], Iterable[Node]]) -> list[Located]:
    code = pyfunc.__code__
    name = "this lambda" if code.co_name == "<lambda>" else f"`{code.co_name}`"
    found_text = deep = False
    for lines in _texts(pyfunc):
        found_text = True
        for whole in (True, False):
            try:
                parsed = _parse_file(code.co_filename, lines) if whole else _parse_block(code.co_filename, lines, code.co_firstlineno)
            except TOO_DEEP:
                deep = True
                continue
            nodes = [node for node in nodes_in(parsed) if _belongs(node, code, parsed, lines)] if parsed else []
            if nodes:
                if source_lines(code.co_filename) != lines:
                    register_source(code.co_filename, "\n".join(lines))
                return [Located(node, parsed.locator) for node in nodes]
    if deep:
        raise too_deep(code_span(code))
    if found_text:
        raise failure(code_span(code), f"the source of {name} is not what was loaded", label=f"{name} should begin here",
                        help="the file has changed since Python read it: import it again, or restart")
    raise failure(code_span(code), f"the source of {name} is not known", note="Snap reads a function's source text, and there is none for this code",
                    help="define it in a file or a notebook, or call `snap.register_source(filename, text)` with the text and the file name "
                         "given to `compile` before you `exec` it")


@dataclass(frozen=True, slots=True)
class _Parsed:
    """functions: by name and the line their code begins on, that of the first decorator."""

    tree: ast.Module
    locator: Locator
    functions: dict[tuple[str, int], list[FunctionNode]]


@lru_cache(maxsize=32)
def _parse_file(filename: str, lines: tuple[str, ...]) -> _Parsed | None:
    return _parsed("\n".join(lines), Locator(filename, lines))


def _parse_block(filename: str, lines: tuple[str, ...], first_line: int) -> _Parsed | None:
    """Only the block that begins on `first_line`, for a file that does not parse as a whole.

    An indented block is put under `if 1:`, which keeps its columns as they are.
    """
    try:
        block = "".join(inspect.getblock([line + "\n" for line in lines[first_line - 1:]]))
    except (SyntaxError, ValueError):  # the tokenizer's errors are SyntaxErrors
        return None
    if not block[:1].isspace():
        return _parsed(block, Locator(filename, lines, first_line - 1))
    return _parsed("if 1:\n" + block, Locator(filename, lines, first_line - 2))


def _parsed(text: str, locator: Locator) -> _Parsed | None:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):  # ValueError: null bytes
        return None
    functions: dict[tuple[str, int], list[FunctionNode]] = {}
    for node in _statements(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = (node.decorator_list[0] if node.decorator_list else node).lineno + locator.line_offset
            functions.setdefault((node.name, first), []).append(node)
    return _Parsed(tree, locator, functions)


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


# ---- texts a function may come from ---------------------------------------------------------------------------------------------------------


def _texts(pyfunc: FunctionType) -> Iterator[tuple[str, ...]]:
    filename = pyfunc.__code__.co_filename
    registered = registered_lines(filename)
    if registered is not None:
        yield registered
    earlier = linecache.cache.get(filename)
    try:
        linecache.checkcache(filename)
        current = linecache.getlines(filename, pyfunc.__globals__)
    except Exception:  # whatever an import hook's loader or a patched linecache may raise
        current = []
    if current:
        yield split_lines("".join(current))
    if earlier is not None and len(earlier) == 4 and earlier[2] != current:
        yield split_lines("".join(earlier[2]))  # the file has changed on disk; this may be what was loaded
    if not current:
        try:
            interactive, _ = inspect.findsource(pyfunc)  # the 3.13 REPL keeps its inputs where only inspect looks
        except (OSError, TypeError, IndexError, SyntaxError):
            return
        yield split_lines("".join(interactive))


def _belongs(node: Node, code: CodeType, parsed: _Parsed, lines: tuple[str, ...]) -> bool:
    """Whether `code` can have been compiled from `node`."""
    arguments = node.args
    written = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg) if a is not None]
    extra = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    compiled = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount + extra]
    # Names that begin with two underscores are mangled in classes.
    if len(written) != len(compiled) or any(own != theirs for own, theirs in zip(written, compiled) if not own.startswith("__")):
        return False
    span = parsed.locator.span(node)
    words = set(re.findall(r"\w+", "\n".join(lines[span.line - 1:span.end_line])))
    # Names that tools or the compiler put in, mangle or normalise tell nothing.
    if any(name[0].isalpha() and name.isascii() and name.isidentifier() and name not in words for name in code.co_varnames):
        return False
    return not _modified_since_load(code.co_filename) or _compiles_to(lines, code)


def _modified_since_load(filename: str) -> bool:
    try:
        return os.stat(filename).st_mtime > _loaded_at
    except (OSError, ValueError):
        return False


def _compiles_to(lines: tuple[str, ...], code: CodeType) -> bool:
    """Whether compiling this text gives `code`.

    Asked only of files that changed while we ran: elsewhere a difference means that a test or type-checking tool rewrote the code on import.
    """
    try:
        pending = [compile("\n".join(lines), code.co_filename, "exec", flags=code.co_flags & _FUTURE_FLAGS, dont_inherit=True)]
    except (SyntaxError, ValueError, *TOO_DEEP):
        return False
    while pending:
        other = pending.pop()
        if (other.co_name, other.co_firstlineno) == (code.co_name, code.co_firstlineno) and _signature(other) == _signature(code):
            return True
        pending += [const for const in other.co_consts if isinstance(const, CodeType)]
    return False


def _signature(code: CodeType) -> tuple:
    consts = [_signature(const) if isinstance(const, CodeType) else repr(const) for const in code.co_consts]
    return code.co_code, code.co_names, code.co_varnames, consts
