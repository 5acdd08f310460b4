"""What a help line offers as code, put into the program that was refused.

Input: a program of tests/bad and one of its errors.  Output: the programs that someone makes of it who pastes a piece of code of the help: in place of
what is marked, of its line, of what a second mark points to, of that line, or as a line around the marked one.  Non-goals: help that says what to do in
words, or leaves something open (`...`).
"""

from __future__ import annotations

import keyword
import re
from collections import Counter
from collections.abc import Iterator

from corpus import Program

from snap.diag.error import SnapError
from snap.diag.span import Span
from snap.surface import WITHOUT_IMPORT

_PIECE = re.compile(r"(without |or )?`([^`]+)`")


def offered(error: SnapError) -> list[str]:
    """The pieces of code in the help that leave nothing open, and that are more than a word of the language."""
    pieces = ((before, code.strip()) for before, code in _PIECE.findall(error.diagnostic.help))
    return [code for before, code in pieces if before != "without " and "..." not in code and code not in keyword.kwlist and code not in WITHOUT_IMPORT]


def refusals(program: Program, text: str) -> Counter | None:
    """What is said of a program; None where Python itself does not run it."""
    try:
        program.execute(text)
    except SnapError as error:
        return Counter((one.code, one.message) for one in error.all)
    except Exception:
        return None
    return Counter()


def pasted(text: str, error: SnapError) -> Iterator[tuple[str, str, str]]:
    """(way, code, program)."""
    labels = [error.diagnostic.span, *(label.span for label in error.diagnostic.secondary)]
    for code in offered(error):
        if code.endswith(":"):
            yield "around the line", code, _around(text, labels[0], code)
        for k, span in enumerate(labels):
            mark = f" at mark {k}" if k else ""
            yield f"in place{mark}", code, _in_place(text, span, code)
            yield f"for its like{mark}", code, _for_its_like(text, span, code)
            if _is_statement(code, text.split("\n")[span.line - 1]):
                yield f"as the line{mark}", code, _line(text, span, code)


def _is_statement(code: str, line: str) -> bool:
    """Not just any expression, which would only take the line away."""
    declares = re.match(r"@|[\w.]+(: .*| = .*)$", code) is not None
    heads = code.endswith(":") and line.strip().startswith(code.split("(")[0].split(" ")[0])
    return declares or heads or "(" in code and line.strip().startswith(code.split("(")[0] + "(")


def works(program: Program, error: SnapError, before: Counter, changed: str) -> bool:
    """Whether the error is gone, and nothing new is said."""
    if not changed or changed == program.text:
        return False
    after = refusals(program, changed)
    return after is not None and not after - (before - Counter([(error.code, error.message)]))


def _in_place(text: str, span: Span, code: str) -> str:
    lines = text.split("\n")
    first, last = lines[span.line - 1], lines[span.end_line - 1]
    lines[span.line - 1 : span.end_line] = [first[: span.column] + code + last[span.end_column :]]
    return "\n".join(lines)


def _for_its_like(text: str, span: Span, code: str) -> str:
    """In place of what begins in the same way, in the marked line: `thread[32]` for `thread[64]`, `l2="..."` for another one."""
    begins = re.match(r"[\w.]+ ?[\[(=]|\w+: ", code)
    lines = text.split("\n")
    line = lines[span.line - 1]
    if begins is None or (found := re.search(rf"(?<![\w.]){re.escape(begins[0])}", line)) is None:
        return ""
    depth, at = 0, found.start()
    while at < len(line) and not (depth == 0 and at > found.end() and line[at] in ",)]:"):
        depth += (line[at] in "([") - (line[at] in ")]")
        at += 1
        if depth == 0 and line[at - 1] in ")]" and not begins[0].endswith(("=", ": ")):
            break
    lines[span.line - 1] = line[: found.start()] + code + line[at:]
    return "\n".join(lines)


def _line(text: str, span: Span, code: str) -> str:
    lines = text.split("\n")
    old = lines[span.line - 1]
    lines[span.line - 1 : span.end_line] = [old[: len(old) - len(old.lstrip())] + code]
    return "\n".join(lines)


def _around(text: str, span: Span, code: str) -> str:
    lines = text.split("\n")
    old = lines[span.line - 1]
    indent = len(old) - len(old.lstrip())
    end = span.line
    while end < len(lines) and lines[end].strip() and len(lines[end]) - len(lines[end].lstrip()) > indent:
        end += 1
    lines[span.line - 1 : end] = [" " * indent + code, *("    " + line for line in lines[span.line - 1 : end])]
    return "\n".join(lines)
