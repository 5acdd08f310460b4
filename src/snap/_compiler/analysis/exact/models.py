"""Evaluate polynomials and conditions where base atoms are given numbers.

Input: a polynomial or condition (terms.py), and numbers.  Output: its value, by plain evaluation.  Invariant: defined
atoms are what their definitions say; a quotient by zero is 0.  Non-goals: finding numbers (ladder.py).
"""

from __future__ import annotations

from collections.abc import Callable

from snap._compiler.analysis.exact import kinds, logic
from snap._compiler.analysis.exact.terms import Atom, Cond, Poly


def evaluated(p: Poly, at: dict[Atom, int]) -> int:
    """Its value where the base atoms are these numbers; a quotient by zero is 0."""
    total = 0
    for mono, k in p.terms.items():
        for atom in mono:
            k *= _value(atom, at)
        total += k
    return total


def _value(atom: Atom, at: dict[Atom, int]) -> int:
    if atom in at:
        return at[atom]
    match atom.kind, atom.parts:
        case kinds.FLOOR, (x, n):
            found = evaluated(x, at) // n
        case kinds.DIV, (x, y):
            a, b = evaluated(x, at), evaluated(y, at)
            found = 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        case kinds.MOD, (x, y):
            found = evaluated(x, at) % evaluated(y, at)
        case kinds.AND, (x, y, _):
            found = evaluated(x, at) & evaluated(y, at)
        case kinds.ITE, (c, x, y):
            found = evaluated(x if holds(c, at) else y, at)
        case ((kinds.MIN | kinds.MAX), (x, y)):
            found = (min if atom.kind is kinds.MIN else max)(evaluated(x, at), evaluated(y, at))
        case _:
            raise KeyError(atom)
    at[atom] = found
    return found


def holds(c: Cond, at: dict[Atom, int]) -> bool:
    return holds_for(c, lambda p: evaluated(p, at))


def holds_for(c: Cond, value_of: Callable[[Poly], int]) -> bool:
    """Tell whether the conditions hold where each polynomial is the number that this says."""
    match c:
        case (logic.TRUE,):
            return True
        case (logic.FALSE,):
            return False
        case (logic.AND, *inner):
            return all(holds_for(one, value_of) for one in inner)
        case (logic.OR, *inner):
            return any(holds_for(one, value_of) for one in inner)
        case (kind, p):
            value = value_of(p)
            return value >= 0 if kind == logic.GE else value == 0 if kind == logic.EQ else value != 0
        case _:
            raise ValueError(c)
