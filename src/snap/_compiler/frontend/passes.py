"""The passes of the front end: from a Python function to the tree of a Snap function.

Input:      a Python function
Output:     its tree, in which no call of an inlined function is left, and the outside names that it uses
Invariant:  only `SnapError` is raised (parse.py, `guarded`)
Non-goals:  short forms, which the checker expands where it comes to them; `where=` and its like (conditions.py)
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

from snap._compiler.frontend import tree
from snap._compiler.frontend.inlined import WrittenCall, written_out
from snap._compiler.frontend.names import captured_names
from snap._compiler.frontend.parse import decorators_of, guarded, parsed
from snap._compiler.frontend.source import Located, locate
from snap._compiler.ir.numbering import Numbers
from snap._compiler.ir.passes import Pass
from snap.diag.span import Span
from snap.record import record


@record
class FoundSource:
    """A Python function, and where its text is."""

    function: Any  # a `FunctionType`, which a type checker would take for a method here
    located: Located


@record
class ParsedFunction:
    """decorators: the spans of the function's decorators, by the last part of the name of what is called."""

    function: Any
    tree: tree.Function
    decorators: dict[str, Span]


@record
class WrittenOut:
    """names: the outside names that the tree uses now.  written: the calls that were written out."""

    tree: tree.Function
    names: dict[str, object]
    written: tuple[WrittenCall, ...]


def _find_source(function: FunctionType, numbers: Numbers) -> FoundSource:
    return guarded(function, lambda: FoundSource(function, locate(function)))


def _parse(found: FoundSource, numbers: Numbers) -> ParsedFunction:
    f, located = found.function, found.located
    return guarded(f, lambda: ParsedFunction(f, parsed(f, located), decorators_of(located)))


def _write_out(one: ParsedFunction, numbers: Numbers) -> WrittenOut:
    names = captured_names(one.tree, one.function)
    return guarded(one.function, lambda: WrittenOut(*written_out(one.tree, names)))


READ = (
    Pass(
        "find source",
        "find the function's text, and the node of Python's syntax tree that it was compiled from",
        FunctionType,
        FoundSource,
        None,
        _find_source,
        ("SNAP017",),
    ),
    Pass(
        "parse",
        "make the untyped tree, each node with its place in the source; refuse Python that is not Snap",
        FoundSource,
        ParsedFunction,
        None,
        _parse,
        ("SNAP017",),
    ),
)
WRITE_OUT = Pass(
    "expand inlined functions",
    "write inlined functions out where they are called, and name the fields of outside objects",
    ParsedFunction,
    WrittenOut,
    None,
    _write_out,
    ("SNAP007", "SNAP017", "SNAP018", "SNAP019"),
)
PASSES = (*READ, WRITE_OUT)
