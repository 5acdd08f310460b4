"""`with trust("why"):` in a kernel: take for granted what is not shown inside, and list it.

Input: a kernel, and what the properties found.  Output: the same, with what the user vouches for, and that the texts of
instructions do what their meanings say.  Invariant: only what is *unknown*, at a place inside of such a scope, or in a
function that is called there, for that call, is taken for granted; what a launch has refuted stays so, unless what is
in memory decides about it, which the launch has made up: then the user's word is about something else.
"""

from __future__ import annotations

from dataclasses import replace

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.walk import callees
from snap._compiler.walk.trusting import around, scopes
from snap.prove.verdict import Findings, Verdict


def trusted(kernel: ir.Function, found: Findings) -> Findings:
    known = scopes(kernel)
    obligations, assumed = [], list(found.assumed)
    assumed += [f"the text of `{f.name}` does what its meaning says" for f in callees(kernel) if f.text]
    for o in found.obligations:
        vouched = o.verdict is Verdict.UNKNOWN or o.verdict is Verdict.REFUTED and o.data
        why = (around(o.span, known) or o.vouched) if vouched else ""
        if why:
            what = o.what if o.verdict is Verdict.UNKNOWN else f"it does not happen that {o.what}"
            assumed.append(f"{what}, line {o.span.line} (trusted: {why})")
            o = replace(o, what=what, verdict=Verdict.PROVED, reason=f"trusted: {why}", needs=(), launch=None)
        obligations.append(o)
    return replace(found, obligations=tuple(obligations), assumed=tuple(assumed))
