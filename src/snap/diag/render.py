"""Diagnostics as text for people and as plain data for editors.

Input: a `Diagnostic`.  Output: the form shown in docs/system.md (code, place, source lines with `^^^^` under the cause
and `----` under what it conflicts with, note, help), or a dictionary.  Invariant: carets stand under the characters
they mean, whatever their width, and nothing here raises for want of source.  Non-goals: deciding what to report, and
where to print it.
"""

from __future__ import annotations

import os
import unicodedata
from dataclasses import dataclass
from typing import Any, TextIO

from snap.diag.error import Diagnostic
from snap.diag.source import source_line
from snap.diag.span import Span

TAB = 4
_STYLES = {
    "error": "1;31",
    "warning": "1;33",
    "place": "1;34",
    "primary": "1;31",
    "secondary": "1;34",
    "title": "1",
    "word": "1",
}


def wants_color(stream: TextIO) -> bool:
    """Decide whether to color the output to `stream`: it is a terminal, and NO_COLOR is not set."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    try:
        return stream.isatty()
    except (AttributeError, ValueError):  # not a stream, or a closed one
        return False


def render(diagnostic: Diagnostic, color: bool = False) -> str:
    def style(name: str, text: str) -> str:
        return f"\x1b[{_STYLES[name]}m{text}\x1b[0m" if color and text else text

    marks = [
        _Mark(diagnostic.span, diagnostic.label, True),
        *(_Mark(label.span, label.text, False) for label in diagnostic.secondary),
    ]
    width = len(str(max(mark.span.line for mark in marks)))
    bar = style("place", " " * (width + 1) + "|")
    out = [
        style(diagnostic.severity, f"{diagnostic.severity}[{diagnostic.code}]")
        + style("title", f": {_printable(diagnostic.message)}")
    ]
    for filename in dict.fromkeys(mark.span.filename for mark in marks):
        here = [mark for mark in marks if mark.span.filename == filename]
        arrow = "-->" if here[0].primary else ":::"
        out.append(style("place", " " * width + arrow) + f" {_place(here[0].span)}")
        out.append(bar)
        for line in sorted({mark.span.line for mark in here}):
            code = source_line(filename, line)
            shown = _Shown(code)
            out.append(style("place", f"{line:>{width}} |") + (f" {shown.text}" if shown.text else ""))
            for mark in sorted(
                (mark for mark in here if mark.span.line == line), key=lambda mark: (not mark.primary, mark.span.column)
            ):
                kind = "primary" if mark.primary else "secondary"
                indent, length = shown.extent(mark.span)
                underline = ("^" if mark.primary else "-") * length
                text = f"{underline} {_printable(mark.text)}".rstrip()
                out.append(f"{bar} {' ' * indent}{style(kind, text)}")
    for word, text in (("note", diagnostic.note), ("help", diagnostic.help)):
        if text:
            out.append(style("place", " " * (width + 1) + "=") + f" {style('word', word + ':')} {_printable(text)}")
    return "\n".join(out)


def to_json(diagnostic: Diagnostic) -> dict[str, Any]:
    """Print for editors, shaped like the language server protocol's Diagnostic.  Lines and columns count from 1, as in
    the text; ends are exclusive.
    """
    return {
        "file": diagnostic.span.filename,
        "range": _range(diagnostic.span),
        "code": diagnostic.code,
        "severity": diagnostic.severity,
        "message": diagnostic.message,
        "label": diagnostic.label,
        "related": [
            {"file": label.span.filename, "range": _range(label.span), "message": label.text}
            for label in diagnostic.secondary
        ],
        "note": diagnostic.note,
        "help": diagnostic.help,
    }


def _range(span: Span) -> dict[str, Any]:
    return {
        "start": {"line": span.line, "column": span.column + 1},
        "end": {"line": span.end_line, "column": span.end_column + 1},
    }


@dataclass(frozen=True, slots=True)
class _Mark:
    span: Span
    text: str
    primary: bool


class _Shown:
    """Hold a source line as a terminal shows it: tabs expanded, control characters replaced, and the column where each
    character begins.
    """

    def __init__(self, code: str):
        self.code = code
        self.starts = [0]
        parts = []
        for char in code:
            at = self.starts[-1]
            shown = " " * (TAB - at % TAB) if char == "\t" else _printable(char)
            parts.append(shown)
            self.starts.append(at + sum(map(_cells, shown)))
        self.text = "".join(parts).rstrip()

    def extent(self, span: Span) -> tuple[int, int]:
        """Return the start and the length of the underline of `span`, in terminal columns; a span of several lines is
        underlined on its first.
        """
        end = span.end_column if span.end_line == span.line else _code_end(self.code)
        begin = min(max(span.column, 0), len(self.code))
        start, stop = self.starts[begin], self.starts[min(max(end, begin), len(self.code))]
        return start, max(stop - start, 1)


def _place(span: Span) -> str:
    return f"{_shown_path(span.filename)}:{span.line}:{span.column + 1}"


def _shown_path(filename: str) -> str:
    """Show files below the working directory relative to it."""
    if not os.path.isabs(filename):
        return filename
    try:
        relative = os.path.relpath(filename)
    except (ValueError, OSError):  # another drive, or no working directory
        return filename
    return filename if relative.startswith(os.pardir) else relative.replace(os.sep, "/")


def _printable(text: str) -> str:
    """Replace control characters, which would let a program move the cursor or color the terminal."""
    return "".join(
        "\ufffd" if unicodedata.category(char) in ("Cc", "Cs") or char in "\u2028\u2029" else char for char in text
    )


def _cells(char: str) -> int:
    """Return the number of terminal columns of a character."""
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _code_end(code: str) -> int:
    """Find the end of a line's code, before its comment and trailing blanks."""
    quote = ""
    at = 0
    while at < len(code):
        char = code[at]
        if quote:
            if char == "\\":
                at += 1
            elif char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
        elif char == "#":
            break
        at += 1
    return len(code[:at].rstrip())
