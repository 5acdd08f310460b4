"""What integers are where the walk stands.

Input and output: as of `analysis/linear/values.py`, whose forms these are.  Invariant: whether something is negative is
isl's answer, not that of the compiler's own solver.  Non-goals: walking.
"""

from __future__ import annotations

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.forms import Form, LinearAtom
from snap._compiler.analysis.linear.values import Frame, Position, Values, form
from snap._compiler.ir import nodes as ir
from snap.diag.span import Span
from snap.prove.order.sites import Solvers


class TooMuch(Exception):
    """The kernel cannot be followed: why."""

    def __init__(self, why: str, span: Span | None = None):
        super().__init__(why)
        self.why, self.span = why, span


class Known(Values):
    """What integers are.  `context`: which iterations of the loops that are run out we are in.  `implied`: by unknown,
    what is not negative because of what it is.
    """

    context: tuple = ()

    def __init__(self) -> None:
        super().__init__(systems=Solvers())
        self.implied: dict[LinearAtom, tuple[Form, ...]] = {}

    def beyond(self, e: ir.Expr, frame: Frame, at: Position | None, parts: tuple[Form, ...] = ()) -> Form:
        match e:
            case ir.Lane(among) if at is not None:
                return forms.remainder(forms.unknown((forms.THREAD,)), among)
            case ir.Math("min", (x, y)):
                a, b = form(x, self, frame, at), form(y, self, frame, at)
                found = self.anything((frame, self.number(e), self.context), e.type)
                self.implied[found[1][0][0]] = (forms.subtract(a, found), forms.subtract(b, found))
                return found
        return self.anything((frame, self.number(e), self.context), e.type)
