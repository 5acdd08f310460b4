"""Refuse signatures that Python evaluates before the function is there.

Input: the frame in which a decorator is called.  Output: SNAP017 where the annotations of the function below it would
stop Python with a NameError (a shape names a parameter) or a TypeError (`float[4]`).  Invariant: only what would stop
Python is refused: files that begin with `from __future__ import annotations`, and Python from 3.14 on, evaluate no
annotation.  Non-goals: what annotations mean; sources that cannot be found.
"""

from __future__ import annotations
import __future__ as future

import ast
import builtins
import sys
from collections.abc import Iterator
from types import FrameType

from snap._compiler.frontend.source import FunctionNode, Locator, failure, parsed_file
from snap.diag.source import source_lines

LAZY = sys.version_info >= (3, 14)


def check_signature(frame: FrameType) -> None:
    if LAZY or frame.f_code.co_flags & future.annotations.compiler_flag:
        return
    lines = source_lines(frame.f_code.co_filename)
    parsed = parsed_file(frame.f_code.co_filename, tuple(lines)) if lines else None
    if parsed is None:
        return
    for several in parsed.functions.values():
        for node in several:
            if any(e.lineno <= frame.f_lineno <= (e.end_lineno or e.lineno) for e in node.decorator_list):
                _check(node, parsed.locator, frame)


def _check(node: FunctionNode, locator: Locator, frame: FrameType) -> None:
    for annotation in _annotations(node):
        for e in _evaluated(annotation):
            match e:
                case ast.Subscript(value=ast.Name(id=name)) if isinstance(_bound(name, frame), type):
                    what = f"`{ast.unparse(e)}` means nothing to Python"
                case ast.Name(id=name) if _bound(name, frame) is _MISSING:
                    what = f"`{name}` is not bound yet"
                case _:
                    continue
            raise failure(
                locator.span(e),
                f"Python evaluates this signature before Snap sees the function, and {what}",
                help=(
                    "begin the file with `from __future__ import annotations`, or quote the annotation:"
                    f' `"{ast.unparse(annotation)}"`'
                ),
            )


def _annotations(node: FunctionNode) -> Iterator[ast.expr]:
    args = node.args
    for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs):
        if arg.annotation is not None:
            yield arg.annotation
    if node.returns is not None:
        yield node.returns


def _evaluated(e: ast.expr) -> Iterator[ast.expr]:
    """The parts of an annotation that Python evaluates, in its order as far as it matters: outer ones first."""
    if isinstance(e, ast.Lambda):
        return
    yield e
    for child in ast.iter_child_nodes(e):
        if isinstance(child, ast.expr):
            yield from _evaluated(child)
        elif isinstance(child, ast.keyword):
            yield from _evaluated(child.value)


_MISSING = object()


def _bound(name: str, frame: FrameType) -> object:
    for names in (frame.f_locals, frame.f_globals):
        if name in names:
            return names[name]
    return getattr(builtins, name, _MISSING)
