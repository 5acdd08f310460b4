"""The words of a PTX text.

Input: text.  Output: tokens with their places.  A name has no dots here: `ld.global.f32` is the name `ld` and the
dotted words `.global` and `.f32`, which are said to touch what stands before them, as in `%tid.x`; a directive, `.reg`,
does not.  Comments are gone.  PTX001 for what is no token.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Iterator

from snap._compiler.ir.word import Word
from snap.diag.span import Span
from snap.ptx.errors import PtxError
from snap.record import record

_TOKEN = re.compile(
    r"""
      (?P<blank>  [ \t\r\f\v\n]+ | //[^\n]* | /\*.*?\*/ )
    | (?P<text>   "(?:[^"\\\n]|\\.)*" )
    | (?P<float>  0[fF][0-9a-fA-F]{8}\b | 0[dD][0-9a-fA-F]{16}\b | \d+\.\d*(?:[eE][+-]?\d+)? | \d+[eE][+-]?\d+ )
    | (?P<int>    0[xX][0-9a-fA-F]+U? | 0[bB][01]+U? | \d+U? )
    | (?P<dotted> \.[0-9A-Za-z_][\w$]*(?:::[\w$]+)* )
    | (?P<name>   [A-Za-z_$%][\w$]* )
    | (?P<mark>   [][{}(),;:@!|+\-=<>] )
    """,
    re.VERBOSE | re.DOTALL,
)


class TokenKind(Word):
    """Name the kind of a piece of the text: each but the last is a group of `_TOKEN`."""

    TEXT = "text"
    FLOAT = "float"
    INT = "int"
    DOTTED = "dotted"
    NAME = "name"
    MARK = "mark"
    END = "end"


_KINDS = {str(kind): kind for kind in TokenKind}


@record
class TextToken:
    """touches: nothing stands before it."""

    kind: TokenKind
    text: str
    touches: bool
    span: Span


class Lines:
    """Find where in a text an offset is."""

    def __init__(self, text: str, filename: str):
        self.filename = filename
        self.starts = [0, *(m.end() for m in re.finditer("\n", text))]

    def span(self, start: int, end: int) -> Span:
        a, b = bisect_right(self.starts, start) - 1, bisect_right(self.starts, end) - 1
        return Span(self.filename, a + 1, start - self.starts[a], b + 1, end - self.starts[b])


def tokens(text: str, filename: str) -> Iterator[TextToken]:
    lines, at, touches = Lines(text, filename), 0, False
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise PtxError("PTX001", f"PTX has no `{text[at]}`", lines.span(at, at + 1), _unended(text, at))
        if found.lastgroup == "blank":
            touches = False
        else:
            yield TextToken(_KINDS[str(found.lastgroup)], found[0], touches, lines.span(at, found.end()))
            touches = True
        at = found.end()
    yield TextToken(TokenKind.END, "", False, lines.span(len(text), len(text)))


def _unended(text: str, at: int) -> str:
    if text[at] == '"':
        return "this text has no end on its line"
    return "this comment has no end" if text.startswith("/*", at) else "here"


def integer(text: str) -> int:
    """`0x1F`, `0b11`, `017`, `12U`."""
    digits = text.rstrip("U")
    if digits[:2] in ("0x", "0X"):
        return int(digits, 16)
    if digits[:2] in ("0b", "0B"):
        return int(digits, 2)
    return int(digits, 8) if len(digits) > 1 and digits[0] == "0" and set(digits) <= set("01234567") else int(digits)


def floating(text: str) -> tuple[int, str]:
    """The bits, and of which type: decimal ones are of 64 bits."""
    if text[:2] in ("0f", "0F"):
        return int(text[2:], 16), "f32"
    if text[:2] in ("0d", "0D"):
        return int(text[2:], 16), "f64"
    return struct.unpack("<Q", struct.pack("<d", float(text)))[0], "f64"
