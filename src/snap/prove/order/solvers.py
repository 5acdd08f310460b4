"""isl and z3, asked whether integers satisfy what is known.

Input: forms that are zero, and forms that are not negative.  Output: a model, NO or UNKNOWN.  Invariant: NO is the
answer of isl or z3: the compiler's own solver, by which inference decides, is not asked.  Non-goals: what the numbers
mean.
"""

from __future__ import annotations

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.forms import Form, LinearAtom
from snap._compiler.analysis.solvers.oracles import isl_solve, z3_solve
from snap._compiler.analysis.solvers.solve import NO, UNKNOWN


class Solvers:
    """asked: how many questions; answers: by question, whatever its unknowns are called."""

    def __init__(self) -> None:
        self.asked = 0
        self.answers: dict[tuple, object] = {}

    def feasible(self, zero: list[Form], positive: list[Form]) -> bool:
        return self.solved(zero, positive) is not NO

    def solved(self, zero: list[Form], positive: list[Form]) -> object:
        positive = list(dict.fromkeys(f for f in positive if f[1] or f[0] < 0))
        zero = list(dict.fromkeys(f for f in zero if f[1] or f[0]))
        if any(not f[1] and f[0] < 0 for f in positive) or any(not f[1] and f[0] for f in zero):
            return NO
        key = _canonical(zero, positive)
        if key not in self.answers:
            self.asked += 1
            self.answers[key] = _ask(zero, positive)
        return self.answers[key]


def _ask(zero: list[Form], positive: list[Form]) -> object:
    found = isl_solve(zero, positive)
    if found is UNKNOWN and any(a[0] == forms.MUL for a in forms.atoms([*zero, *positive])):
        found = z3_solve(zero, positive)
    return found


def _canonical(zero: list[Form], positive: list[Form]) -> tuple:
    names: dict[LinearAtom, LinearAtom] = {}

    def change(atom: LinearAtom) -> LinearAtom | None:
        return None if atom[0] in forms.COMPOUND else names.setdefault(atom, ("n", len(names)))

    return tuple(forms.rename(f, change) for f in zero), tuple(forms.rename(f, change) for f in positive)
