"""Refuse CUDA C that is outside the subset, with the place and the way out.

Codes:
- CUDAC001  the text does not compile
- CUDAC002  a tool, or a file, is not there
- CUDAC003  a construct is outside the subset
- CUDAC004  a launch is not known: the shape of a block, the values of a template
- CUDAC005  there is no such kernel
- CUDAC006  a launch does not fit the kernel
"""

from __future__ import annotations

from typing import Any

from snap.diag.error import Diagnostic, SnapError
from snap.diag.span import Span

NOWHERE = Span("<cuda>", 1, 0, 1, 0)


def span_of(cursor: Any) -> Span:
    extent = cursor.extent
    start, end = extent.start, extent.end
    name = start.file.name if start.file is not None else NOWHERE.filename
    return Span(name, max(start.line, 1), max(start.column - 1, 0), max(end.line, 1), max(end.column - 1, 0))


def refusal(code: str, message: str, span: Span, help: str = "", label: str = "") -> SnapError:
    return SnapError(Diagnostic(code, message, span, label=label, help=help))


def outside(what: str, cursor: Any, help: str = "") -> SnapError:
    return refusal("CUDAC003", f"{what} is outside the subset", span_of(cursor), help)
