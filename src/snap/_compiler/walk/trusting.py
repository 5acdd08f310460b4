"""Find the scopes of `with trust("why"):`, and which one a place lies in.

Input: a kernel, a place.  Output: its scopes, the reason of the innermost one.  Non-goals: what trust does to a verdict
(prove/__init__.py).
"""

from __future__ import annotations

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.synced import AnyFunction
from snap._compiler.ir.walk import callees
from snap.diag.span import Span

Scopes = list[tuple[Span, str]]


def scopes(kernel: AnyFunction) -> Scopes:
    """Return those of a kernel and all that it calls, each with its reason.  A synchronized program has none."""
    typed = (function for function in callees(kernel) if isinstance(function, ir.Function))
    return [scope for function in typed for scope in function.trusted]


def around(place: Span, known: Scopes) -> str:
    """The reason of the innermost scope around it; '' where there is none."""
    found = [(span, why) for span, why in known if inside(place, span)]
    return max(found, key=lambda scope: (scope[0].line, scope[0].column))[1] if found else ""


def inside(place: Span, scope: Span) -> bool:
    start, end = (scope.line, scope.column), (scope.end_line, scope.end_column)
    return place.filename == scope.filename and start <= (place.line, place.column) < end
