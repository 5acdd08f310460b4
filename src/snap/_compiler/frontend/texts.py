"""Collect the texts a Python function may have been compiled from.

Input: a function object.  Output: candidates, best first: what was registered for its file name, the file (or notebook
cell, or doctest) as it is and as it was, the input of an interactive session.  Invariant: a text that may not be the
function's is marked as not trusted, and counts only if compiling it gives the function's code.  Non-goals: finding the
function in the text.
"""

from __future__ import annotations
import __future__ as future

import inspect
import linecache
import os
import sys
import time
import unicodedata
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache, reduce
from types import CodeType, FunctionType

from snap.diag.source import joined_lines, registered_lines, split_lines
from snap.record import record

TOO_DEEP = (RecursionError, MemoryError)  # CPython's parser reports too much nesting as either
TYPED = "<stdin>"
_FUTURE_FLAGS = reduce(int.__or__, (getattr(future, name).compiler_flag for name in future.all_feature_names))
_loaded_at = time.time()


@contextmanager
def quietly() -> Iterator[None]:
    """Python has warned about the text when it compiled it; when warnings are errors it would now refuse it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@record
class SourceText:
    """trusted: nothing hints that the code is not this text's.  (Test and type-checking tools rewrite code on import:
    that it differs is no hint.)
    """

    lines: tuple[str, ...]
    trusted: bool


def texts(pyfunc: FunctionType) -> Iterator[SourceText]:
    filename = pyfunc.__code__.co_filename
    registered = registered_lines(filename)
    if registered is not None:
        yield SourceText(registered, trusted=False)  # the name may since have been given to another text
    trusted = not _modified_since_load(filename)
    earlier = linecache.cache.get(filename)
    try:
        linecache.checkcache(filename)
        current = linecache.getlines(filename, pyfunc.__globals__)
    except Exception:  # whatever an import hook's loader or a patched linecache may raise
        current = []
    seen = {registered}
    # A file that has changed on disk may be known as it was.
    for lines in (current, earlier[2] if earlier is not None and len(earlier) == 4 else []):
        text = joined_lines(lines)
        if lines and text not in seen:
            seen.add(text)
            yield SourceText(text, trusted)
    if not current or filename == TYPED:
        yield from _interactive(pyfunc)


def _interactive(pyfunc: FunctionType) -> Iterator[SourceText]:
    """From 3.13 on the REPL keeps its inputs where `inspect` finds them; before, readline's history ends with the input
    that is being run.
    """
    try:
        lines, _ = inspect.findsource(pyfunc)
    except (OSError, TypeError, IndexError, SyntaxError):
        lines = []
    if lines:
        yield SourceText(split_lines("".join(lines)), trusted=True)
    readline = sys.modules.get("readline")
    if pyfunc.__code__.co_filename != TYPED or readline is None:
        return
    last = readline.get_current_history_length()
    recent = [readline.get_history_item(number) or "" for number in range(max(last - 500, 1), last + 1)]
    read = [unicodedata.normalize("NFKC", line) for line in recent]  # as Python reads names
    heads = [number for number, line in enumerate(read) if f"def {pyfunc.__code__.co_name}" in line or "lambda" in line]
    for start in range(heads[-1], max(heads[-1] - 200, -1), -1) if heads else ():
        yield SourceText(tuple(recent[start:]), trusted=False)


def _modified_since_load(filename: str) -> bool:
    try:
        return os.stat(filename).st_mtime > _loaded_at
    except (OSError, ValueError):
        return False


def compiles_to(lines: tuple[str, ...], code: CodeType) -> bool:
    """Decide whether compiling this text gives `code`."""
    known = _signatures(code.co_filename, lines, code.co_flags & _FUTURE_FLAGS)
    return _signature(code) in known.get((code.co_name, code.co_firstlineno), ())


@lru_cache(maxsize=32)
def _signatures(filename: str, lines: tuple[str, ...], flags: int) -> dict[tuple[str, int], list[tuple]]:
    """List every function and lambda in the text, by name and first line."""
    try:
        with quietly():
            pending = [compile("\n".join(lines), filename, "exec", flags=flags, dont_inherit=True)]
    except (SyntaxError, ValueError, *TOO_DEEP):
        return {}
    found: dict[tuple[str, int], list[tuple]] = {}
    while pending:
        code = pending.pop()
        found.setdefault((code.co_name, code.co_firstlineno), []).append(_signature(code))
        pending += [const for const in code.co_consts if isinstance(const, CodeType)]
    return found


def _signature(code: CodeType) -> tuple:
    consts = tuple(_signature(const) if isinstance(const, CodeType) else repr(const) for const in code.co_consts)
    return code.co_code, code.co_names, code.co_varnames, consts
