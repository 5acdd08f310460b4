"""Count how often a loop's body runs.

Input: a `For`, and what integers are at that place.  Output: the number of iterations as a form.  Non-goals: `while`
loops; the values of its variable, where the bounds are constants (ir/walk.py).
"""

from __future__ import annotations

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.forms import Form
from snap._compiler.analysis.linear.values import Frame, Position, Values, form
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.walk import ways_out
from snap.record import record


@record
class Trips:
    """The body runs `count` times.  Where that is not exact, it runs at most so often, and not at all where `count` is
    negative.
    """

    count: Form
    exact: bool


def trips(s: ir.For, values: Values, frame: Frame, at: Position | None) -> Trips | None:
    """None where the step is no number.  What `values` assumes of the bounds, this does, too."""
    start, stop, step = (form(e, values, frame, at) for e in (s.start, s.stop, s.step))
    if not forms.is_number(step) or not step[0]:
        return None
    way = 1 if step[0] > 0 else -1
    far = forms.times(forms.subtract(stop, start), way)  # what lies between
    count = forms.quotient(forms.add(far, forms.number(abs(step[0]) - 1)), abs(step[0]))
    leaves = any(not isinstance(way_out, ir.Continue) for way_out in ways_out(s.body))
    return Trips(count, values.not_negative(count) and not leaves)
