"""The solver of analysis/, asked about conditions with alternatives.

Input: a `System`, and lemmas.  Output: NO, numbers for its atoms and products, or UNKNOWN.  Invariant: NO only where
every alternative has none (analysis/solvers/solve.py: NO is a proof); each product is an unknown of its own.
Non-goals: hard questions: after `MOST_CASES` systems it says UNKNOWN.

What has no alternatives is solved first.  Where the numbers that come out break a condition with alternatives, that one
is gone through, case by case.
"""

from __future__ import annotations

from collections.abc import Iterable

from snap._compiler.analysis.exact import logic
from snap._compiler.analysis.exact.models import holds_for
from snap._compiler.analysis.exact.system import System
from snap._compiler.analysis.exact.terms import Cond, Mono, Poly
from snap._compiler.analysis.linear.forms import Form
from snap._compiler.analysis.solvers.solve import NO, UNKNOWN, NoModel, solve

MOST_CASES = 24
MOST_ROWS = 400
Coefficients = dict[Mono, int]


def decided(system: System, lemmas: Iterable[Cond]) -> Coefficients | NoModel:
    said = [*system.said, *lemmas]
    zero: list[Form] = []
    positive: list[Form] = []
    choices: list[Cond] = []
    for c in said:
        _sort(c, zero, positive, choices)
    for mono, low, high in system.ends(said):
        positive += [(-low, ((mono, 1),)), (high, ((mono, -1),))]
    if len(zero) + len(positive) > MOST_ROWS:
        return UNKNOWN
    return Cases().search(zero, positive, choices)


def _form(p: Poly) -> Form:
    return p.constant, tuple((mono, k) for mono, k in p.terms.items() if mono)


def _sort(c: Cond, zero: list[Form], positive: list[Form], choices: list[Cond]) -> None:
    match c:
        case (logic.GE, p):
            positive.append(_form(p))
        case (logic.EQ, p):
            zero.append(_form(p))
        case (logic.AND, *inner):
            for one in inner:
                _sort(one, zero, positive, choices)
        case (logic.TRUE,):
            pass
        case _:
            choices.append(c)


class Cases:
    def __init__(self) -> None:
        self.left = MOST_CASES

    def search(self, zero: list[Form], positive: list[Form], choices: list[Cond]) -> Coefficients | NoModel:
        if self.left == 0:
            return UNKNOWN
        self.left -= 1
        found = solve(zero, positive)
        if isinstance(found, NoModel):
            return found
        broken = [c for c in choices if not _holds(c, found)]
        if not broken:
            return found
        chosen = min(broken, key=lambda c: len(_alternatives(c)))
        rest = [c for c in choices if c is not chosen]
        for one in _alternatives(chosen):
            more, further, open_ = list(zero), list(positive), list(rest)
            _sort(one, more, further, open_)
            answer = self.search(more, further, open_)
            if answer is not NO:
                return answer
        return NO


def _alternatives(c: Cond) -> tuple[Cond, ...]:
    match c:
        case (logic.OR, *inner):
            return tuple(inner)
        case (logic.NE, p):
            return (logic.GE, p - 1), (logic.GE, -p - 1)
        case _:
            return ()  # false


def _holds(c: Cond, at: Coefficients) -> bool:
    """Tell whether the conditions hold where each product is the number that it is here."""
    return holds_for(c, lambda p: p.constant + sum(k * at.get(mono, 0) for mono, k in p.terms.items() if mono))
