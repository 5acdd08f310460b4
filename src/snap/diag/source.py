"""Find the text of a user's source by file name: text that was registered here, otherwise `linecache`'s (files,
notebook cells, doctests).

Nothing here raises: a diagnostic without its source line is still worth showing.
"""

from __future__ import annotations

import linecache
import os
import re

from snap.diag.span import Span

_NEWLINE = re.compile(r"\r\n|\r|\n")
_registered: dict[str, tuple[str, ...]] = {}
_joined: dict[int, tuple[list[str], tuple[str, ...]]] = {}


def split_lines(text: str) -> tuple[str, ...]:
    """Split into lines as Python's parser does (`str.splitlines` also breaks at form feeds and Unicode separators)."""
    lines = _NEWLINE.split(text)
    return tuple(lines[:-1] if lines[-1] == "" else lines)


def joined_lines(lines: list[str]) -> tuple[str, ...]:
    """Join lines as `linecache` keeps them, with their ends: it has one list per file, which is split once."""
    known = _joined.get(id(lines))
    if known is None or known[0] is not lines:
        if len(_joined) >= 32:
            _joined.clear()
        known = _joined[id(lines)] = lines, split_lines("".join(lines))
    return known[1]


def register_source(filename: str, text: str) -> None:
    """Make `text` the source of functions whose code says `filename`: for text given to `exec`.

    If there is no such file, the text goes into `linecache` as well, so that Python's own tracebacks show its lines.
    """
    if not isinstance(filename, str) or not isinstance(text, str):
        raise TypeError(
            "snap.register_source takes the file name that was given to `compile`, and the text, both as str"
        )
    lines = split_lines(text)
    _registered[filename] = lines
    if not _is_file(filename):
        linecache.cache[filename] = (len(text), None, [line + "\n" for line in lines], filename)


def _is_file(filename: str) -> bool:
    try:
        return os.path.isfile(filename)
    except ValueError:  # null bytes
        return False


def registered_lines(filename: str) -> tuple[str, ...] | None:
    return _registered.get(filename)


def source_lines(filename: str) -> tuple[str, ...]:
    """Return all lines of the source without their ends; none if there is no source."""
    registered = _registered.get(filename)
    if registered is not None:
        return registered
    try:
        return joined_lines(linecache.getlines(filename))
    except Exception:  # whatever an import hook's loader or a patched linecache may raise
        return ()


def source_line(filename: str, line: int) -> str:
    """Return one line, counted from 1; empty if there is none."""
    lines = source_lines(filename)
    return lines[line - 1] if 1 <= line <= len(lines) else ""


def written(span: Span) -> str:
    """Return the text of a span on one line; otherwise an empty text."""
    return source_line(span.filename, span.line)[span.column : span.end_column] if span.line == span.end_line else ""
