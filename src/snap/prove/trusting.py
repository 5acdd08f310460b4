"""`with trust("why"):` in a kernel: what is not shown inside is taken for granted, and listed.

Input: a kernel, and what the properties found.  Output: the same, with what the user vouches for.  Invariant: only what
is *unknown*, at a place inside of such a scope, or in a function that is called there, for that call, is taken for
granted; what a launch has refuted stays so, unless what is in memory decides about it, which the launch has made up:
then the user's word is about something else.
"""

from __future__ import annotations

from dataclasses import replace

from snap.diag.span import Span
from snap.ir import nodes as ir
from snap.ir.walk import callees
from snap.prove.verdict import Findings, Verdict

Scopes = list[tuple[Span, str]]


def scopes(kernel: ir.Function) -> Scopes:
    """Of a kernel and all that it calls, each with its reason."""
    return [scope for function in callees(kernel) for scope in function.trusted]


def trusted(kernel: ir.Function, found: Findings) -> Findings:
    known = scopes(kernel)
    obligations, assumed = [], list(found.assumed)
    for o in found.obligations:
        vouched = o.verdict is Verdict.UNKNOWN or o.verdict is Verdict.REFUTED and o.data
        why = (around(o.span, known) or o.vouched) if vouched else ""
        if why:
            what = o.what if o.verdict is Verdict.UNKNOWN else f"it does not happen that {o.what}"
            assumed.append(f"{what}, line {o.span.line} (trusted: {why})")
            o = replace(o, what=what, verdict=Verdict.PROVED, reason=f"trusted: {why}", needs=(), launch=None)
        obligations.append(o)
    return replace(found, obligations=tuple(obligations), assumed=tuple(assumed))


def around(place: Span, known: Scopes) -> str:
    """The reason of the innermost scope around it; '' where there is none."""
    found = [(span, why) for span, why in known if inside(place, span)]
    return max(found, key=lambda scope: (scope[0].line, scope[0].column))[1] if found else ""


def inside(place: Span, scope: Span) -> bool:
    start, end = (scope.line, scope.column), (scope.end_line, scope.end_column)
    return place.filename == scope.filename and start <= (place.line, place.column) < end
