"""Where something stands in a user's source."""

from __future__ import annotations

from snap.ir.record import record


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
