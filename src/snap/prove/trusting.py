"""`with trust("why"):` in a kernel: what is not shown inside is taken for granted, and listed.

Input: a kernel, and what the properties found.  Output: the same, with what the user vouches for.  Invariant: only what
is *unknown*, at a place inside of such a scope, is taken for granted; what a launch has refuted stays so, unless what
is in memory decides about it, which in that launch is zeros: then the user's word is about something else.
"""

from __future__ import annotations

from dataclasses import replace

from snap.diag.span import Span
from snap.ir import nodes as ir
from snap.ir.walk import callees
from snap.prove.verdict import Findings, Obligation, Verdict


def trusted(kernel: ir.Function, found: Findings) -> Findings:
    scopes = [scope for function in callees(kernel) for scope in function.trusted]
    obligations, assumed = [], list(found.assumed)
    for o in found.obligations:
        vouched = o.verdict is Verdict.UNKNOWN or o.verdict is Verdict.REFUTED and o.data
        why = _why(o, scopes) if vouched else None
        if why is not None:
            what = o.what if o.verdict is Verdict.UNKNOWN else f"it does not happen that {o.what}"
            assumed.append(f"{what}, line {o.span.line} (trusted: {why})")
            o = replace(o, what=what, verdict=Verdict.PROVED, reason=f"trusted: {why}", needs=(), launch=None)
        obligations.append(o)
    return Findings(tuple(obligations), tuple(assumed))


def _why(o: Obligation, scopes: list[tuple[Span, str]]) -> str | None:
    """The reason of the innermost scope around it."""
    around = [(span, why) for span, why in scopes if inside(o.span, span)]
    return max(around, key=lambda scope: (scope[0].line, scope[0].column))[1] if around else None


def inside(place: Span, scope: Span) -> bool:
    start, end = (scope.line, scope.column), (scope.end_line, scope.end_column)
    return place.filename == scope.filename and start <= (place.line, place.column) < end
