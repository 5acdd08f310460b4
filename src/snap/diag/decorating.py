"""Find the Python code that calls into Snap while a file runs, and refuse what it says there.

Input: the stack of Python, and what decorators and annotations are given.  Output: places, and SnapErrors, raised or
collected.  Non-goals: the source text of Snap functions (frontend/).
"""

from __future__ import annotations

import math
import sys
from contextvars import ContextVar
from types import FrameType
from typing import TypeVar

from snap.diag.error import Diagnostic, SnapError
from snap.diag.span import Span

Made = TypeVar("Made")

OWN = ("snap.surface", "snap.decorators", "snap._compiler.ir.types", __name__)


def caller() -> FrameType:
    """Find the frame of the Python code that called into this module, the words or the decorators."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__") in OWN:
        frame = frame.f_back
    return frame


def caller_span() -> Span:
    """Give the line of Python code that called into us, the best place there is for what a decorator says."""
    frame = caller()
    line = frame.f_lineno
    return Span(frame.f_code.co_filename, line, 0, line, 0)


# Where the errors of a file are collected instead of raised (`snap check`), the list of them.
collected: ContextVar[list[SnapError] | None] = ContextVar("snap_collected", default=None)


class Wrong:
    """Replace a privilege that was refused, if errors are collected: a function that names it is refused."""

    def __rmatmul__(self, annotated: object) -> object:
        return annotated

    def __getitem__(self, n: object) -> Wrong:
        return self

    def every(self, s: object) -> Wrong:
        return self


def whole_help(n: object) -> str:
    """Help with a quotient written as in Snap, in Python code: in decorators `/` is Python's."""
    return "decorators are Python, where `/` makes a float: write `//`" if isinstance(n, float) and n == n // 1 else ""


def one_dimension(word: str, counts: tuple[object, ...]) -> str:
    """Say what to write instead of `word[8, 8]`."""
    numbers = [n for n in counts if type(n) is int and n > 0]
    known = len(numbers) == len(counts) > 1
    total, shape = (math.prod(numbers), ", ".join(map(str, numbers))) if known else ("m * n", "m, n")
    names = ", ".join("ijkl"[: max(len(counts), 2)])
    return (
        f"a privilege is a number of units: `{word}[{total}]`, and `with each({word}, shape=({shape})) as ({names}):`"
        " has their rows and columns"
    )


def is_count(n: object) -> bool:
    return isinstance(n, int) and not isinstance(n, bool) and n >= 1


def wrong_count(word: str, n: object) -> Wrong:
    """Refuse `word[n]`, whose n is not a positive integer."""
    shown = ", ".join(map(str, n)) if isinstance(n, tuple) else repr(n)
    return refused(
        Diagnostic(
            "SNAP018",
            f"`{word}[{shown}]` is not a privilege: the count must be a positive integer",
            caller_span(),
            help=(
                one_dimension(word, n)
                if isinstance(n, tuple)
                else whole_help(n) or f"write `{word}[1]`, or another positive constant"
            ),
        )
    )


def wrong_stride(word: str, s: object, again: bool) -> Wrong:
    """Refuse `word.every(s)`, whose s is not a positive integer, or which has a stride `again`."""
    message, help = stride_refused(word, repr(s), again)
    return refused(Diagnostic("SNAP018", message, caller_span(), help=whole_help(s) or help))


def stride_refused(word: str, s: str, again: bool) -> tuple[str, str]:
    """Say why `word.every(s)` is no level, and what to write instead."""
    if again:
        return f"`{word}` has a stride already", "a group has one stride: open `with group(...)` in a group"
    return (
        f"`{word}.every({s})` is not a level: the stride must be a positive integer",
        f"write `{word}.every(2)`, or another positive constant",
    )


def refused(diagnostic: Diagnostic) -> Wrong:
    """Raise the error; if errors are collected, keep it."""
    error = SnapError(diagnostic)
    errors = collected.get()
    if errors is None:
        raise error
    errors.append(error)
    return Wrong()
