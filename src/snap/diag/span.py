"""Define places in a user's source."""

from __future__ import annotations

from snap.record import record


@record
class Span:
    """Lines count from 1, columns (in characters) from 0; the end is exclusive."""

    filename: str
    line: int
    column: int
    end_line: int
    end_column: int

    def to(self, other: Span) -> Span:
        return Span(self.filename, self.line, self.column, other.end_line, other.end_column)


def lines(here: str, *spans: Span) -> str:
    """`line 3`, `lines 3, 4`; with the name of their file where that is not `here`."""
    names = {span.filename for span in spans}
    if len(names) > 1:
        return ", ".join(lines(here, span) for span in spans)
    of = "" if names == {here} else f" of {names.pop().replace(chr(92), '/').rsplit('/', 1)[-1]}"
    return f"line{'s' * (len(spans) > 1)} {', '.join(str(span.line) for span in spans)}{of}"
