"""Ways out of a body, and the scopes of `with trust("why"):`, for the walk over a kernel (evaluate.py).

Input: statements of the typed IR; a kernel, a place.  Output: whether a thread leaves in them; the body of a loop
without `continue`; the kernel's scopes, and the reason of the innermost one around the place.  Invariant: where
`leaves` says so, no thread comes out of the end; `straight` means the same as what it was given.  Non-goals: what trust
does to a verdict (prove/__init__.py).
"""

from __future__ import annotations

from dataclasses import replace

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.synced import AnyFunction
from snap._compiler.ir.walk import bodies, callees, ways_out
from snap.diag.span import Span


def leaves(body: ir.Body) -> bool:
    """Tell whether no thread comes out of the end of the body."""
    match body[-1] if body else None:
        case ir.Return() | ir.Break() | ir.Continue():
            return True
        case ir.If(_, then, other):
            return leaves(then) and leaves(other)
        case ir.Group(body=inner) | ir.Partition(body=inner) | ir.Claim(body=inner):
            return leaves(inner)
        case _:
            return False


def escapes(s: ir.Stmt) -> bool:
    """Tell whether a thread may leave in the statement for good, where no condition that stays in the path says which.
    Of an `if`, a side that no thread comes out of has left its condition there.
    """
    inner = bodies(s)
    if isinstance(s, ir.If):
        inner = tuple(body for body in inner if not leaves(body))
        if not inner:
            return True
    found = [way for body in inner for way in ways_out(body)]
    return any(isinstance(way, ir.Return) or not isinstance(s, (ir.For, ir.While)) for way in found)


def straight(body: ir.Body) -> ir.Body:
    """A loop's body in which a side of an `if` that ends with `continue` ends there, and all that comes behind the `if`
    is the end of its other side.  A `continue` elsewhere stays.
    """
    for k, s in enumerate(body):
        rest = body[k + 1 :]
        if isinstance(s, ir.Continue):
            return body[:k]
        if isinstance(s, ir.If) and any(isinstance(way, ir.Continue) for way in ways_out((s,))):
            if leaves(s.then):
                return (*body[:k], replace(s, then=straight(s.then), other=straight((*s.other, *rest))))
            if leaves(s.other):
                return (*body[:k], replace(s, then=straight((*s.then, *rest)), other=straight(s.other)))
    return body


# ---- scopes of trust ------------------------------------------------------------------------------------------------


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
