"""Define the diagnostic and the error class.

A stage reports a `Diagnostic`; a user catches a `SnapError`.  Rendering lives in `diag/render.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from snap.diag.codes import WARNINGS
from snap.diag.source import source_line
from snap.diag.span import Span
from snap.record import record


@record
class Label:
    span: Span
    text: str


@record
class Diagnostic:
    """code `SNAPnnn`; message: lower case, no full stop, code in backticks; `label` says what is wrong right under the
    caret.
    """

    code: str
    message: str
    span: Span
    label: str = ""
    secondary: tuple[Label, ...] = field(default=())
    note: str = ""
    help: str = ""

    @property
    def severity(self) -> str:
        """Return the editors' word for the severity."""
        return "warning" if self.code in WARNINGS else "error"


class SnapWarning(UserWarning):
    """Carry a diagnostic that rejects nothing; or, without one, a tool's text."""

    __module__ = "snap"

    def __init__(self, said: Diagnostic | str):
        diagnostic = said if isinstance(said, Diagnostic) else None
        super().__init__(said if diagnostic is None else f"{diagnostic.code}: {_in_a_line(diagnostic)}")
        self.diagnostic = diagnostic
        self.code = "" if diagnostic is None else diagnostic.code

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.diagnostic or str(self),)

    def render(self, color: bool = False) -> str:
        from snap.diag.render import render

        return str(self) if self.diagnostic is None else render(self.diagnostic, color=color)


def _in_a_line(diagnostic: Diagnostic) -> str:
    return f"{diagnostic.message}; {diagnostic.help}" if diagnostic.help else diagnostic.message


class SnapError(SyntaxError):
    """Report a rejected program.  `.all` holds every error of the function, this one first."""

    __module__ = "snap"  # what tracebacks call it, and where users find it

    def __init__(self, diagnostic: Diagnostic, others: Sequence[Diagnostic] = ()):
        span = diagnostic.span
        text = source_line(span.filename, span.line)
        # Python draws the caret line from these alone and does not expect the end to be on another line.
        end_column = span.end_column if span.end_line == span.line else len(text)
        super().__init__(
            f"{diagnostic.code}: {diagnostic.message}",
            (span.filename, span.line, span.column + 1, text, span.line, end_column + 1),
        )
        self.diagnostic = diagnostic
        self.code = diagnostic.code
        self.message = diagnostic.message
        self.notes = [text for text in (diagnostic.note, diagnostic.help) if text]
        self.all: list[SnapError] = [self, *(SnapError(other) for other in others)]
        self.__notes__ = _traceback_notes(diagnostic, len(others))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.diagnostic, tuple(error.diagnostic for error in self.all[1:]))

    def without_frames(self) -> SnapError:
        """Drop the frames that the error was raised through: the compiler's own mean nothing to a user."""
        self.__traceback__ = self.__context__ = self.__cause__ = None
        return self

    def render(self, color: bool = False) -> str:
        from snap.diag.render import render

        return render(self.diagnostic, color=color)


def _traceback_notes(diagnostic: Diagnostic, others: int) -> list[str]:
    """Return the text that Python prints below an uncaught error (from 3.11 on)."""
    notes = [diagnostic.label] if diagnostic.label else []
    notes += [f"line {label.span.line}: {label.text}" for label in diagnostic.secondary if label.text]
    notes += [f"{word}: {text}" for word, text in (("note", diagnostic.note), ("help", diagnostic.help)) if text]
    if others:
        notes.append(f"and {others} more error{'s' if others > 1 else ''} in this function")
    return notes


class UseOfRefused(Exception):
    """Stop a file that uses a rejected function.  The rejection is the error, and is reported."""
