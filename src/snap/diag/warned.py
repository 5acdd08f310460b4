"""Warnings: diagnostics that refuse nothing.

Input: diagnostics with a code of `WARNINGS`.  Output: those that the source does not allow, told by Python's own
`warnings`, or handed on.  A line allows one by the comment `# snap: ok SNAP030`, with as many codes as it likes.
Non-goals: finding them.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable

from snap.diag.error import Diagnostic, SnapWarning
from snap.diag.source import source_line

_ALLOWED = re.compile(r"#\s*snap:\s*ok((?:[\s,]+SNAP\d{3})+)")
# Python's registry of what was told: once for each place, unless its filters say more.
_told: dict[str | tuple[str, type[Warning], int], int] = {}


def not_allowed(found: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Return the warnings that no comment allows, each once, in the order of the text."""
    distinct = {(one.code, one.span): one for one in found if one.code not in _allowed(one)}
    return tuple(
        sorted(distinct.values(), key=lambda one: (one.span.filename, one.span.line, one.span.column, one.code))
    )


def _allowed(one: Diagnostic) -> set[str]:
    """The codes that comments on its lines allow."""
    texts = (source_line(one.span.filename, line) for line in range(one.span.line, one.span.end_line + 1))
    return {code for text in texts for said in _ALLOWED.findall(text) for code in re.findall(r"SNAP\d{3}", said)}


def tell(found: Iterable[Diagnostic]) -> None:
    """Report by Python's `warnings`, at the place in the source."""
    for one in not_allowed(found):
        warnings.warn_explicit(SnapWarning(one), SnapWarning, one.span.filename, one.span.line, registry=_told)
