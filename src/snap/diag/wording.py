"""Word the phrases that messages share: numbers of things, and code that the user can paste.

Input: numbers, words and spans.  Output: text.  Non-goals: the contents of messages.
"""

from __future__ import annotations

from snap.diag.source import written
from snap.diag.span import Span

_SEVERAL = {"index": "indices"}
_LONGEST = 60
_MOST_DIGITS = 80  # of an integer that is shown: Python itself refuses to write one of more than 4,300


def counted(n: int, what: str) -> str:
    """Write `1 index`, `2 indices`."""
    return f"{n} {what if n == 1 else _SEVERAL.get(what, what + 's')}"


def shown(value: object) -> str:
    """Write a value as Python does; an integer that is far too long, by its size."""
    if type(value) is int and abs(value) >= 10**_MOST_DIGITS:
        return f"{'-' if value < 0 else ''}(2^{value.bit_length() - 1} or more)"
    return repr(value)


def called(word: str, *spans: Span) -> str:
    """Write a call of `word` with the source text of these places; `...` for a text that is long or not in one
    line.
    """
    texts = [written(span).strip() for span in spans]
    return f"{word}({', '.join(text if 0 < len(text) <= _LONGEST else '...' for text in texts)})"
