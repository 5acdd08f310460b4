"""A `System` as a question to our own solver, to isl and to z3.

Input: a system, and how far a solver may go.  Output: NO, numbers that satisfy it, or UNKNOWN.  Invariant: NO only
where the solver says so within its number of steps; what isl and z3 find has been evaluated.  To our own solver and to
isl each product is an unknown of its own, and so it is to z3 if it is asked for linear arithmetic, then with lemmas.
Non-goals: hard questions to our own solver: after `MOST_CASES` systems it says UNKNOWN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from snap._compiler.analysis.exact import logic
from snap._compiler.analysis.exact.logic import TRUE, Cond, holds_for
from snap._compiler.analysis.exact.system import System, TermModel
from snap._compiler.analysis.exact.terms import Mono, Poly
from snap._compiler.analysis.linear.forms import Form
from snap._compiler.analysis.solvers.oracles import ask_isl, ask_z3, integer
from snap._compiler.analysis.solvers.solve import NO, UNKNOWN, NoModel, solve

MOST_CASES = 24
MOST_ROWS = 400
Coefficients = dict[Mono, int]


# ---- our own --------------------------------------------------------------------------------------------------------


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
    for one in logic.each((c,)):
        match one:
            case (logic.GE, p):
                positive.append(_form(p))
            case (logic.EQ, p):
                zero.append(_form(p))
            case (logic.AND, *_):
                _sort(one, zero, positive, choices)
            case _ if one != TRUE:
                choices.append(one)


class Cases:
    """Solve what has no alternatives first.  Where the numbers that come out break a condition with alternatives,
    that one is gone through, case by case.
    """

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


# ---- isl ------------------------------------------------------------------------------------------------------------


def isl_ask(system: System, steps: int) -> TermModel | NoModel:
    names: dict[Mono, str] = {}
    rows = []
    for mono, low, high in system.ends(system.said):
        names[mono] = name = f"x{len(names)}"
        rows.append(f"{low} <= {name} <= {high}")
    rows += [isl_text(c, names.__getitem__) for c in system.said]
    values = ask_isl([*names.values()], rows, steps)
    return values if isinstance(values, NoModel) else system.model(dict(zip(names, values)))


def isl_text(c: Cond, name: Callable[[Mono], str]) -> str:
    """Write a condition for isl; name: what it calls a product."""
    match c:
        case ((logic.AND | logic.OR) as word, *inner):
            return f"({f' {word} '.join(isl_text(one, name) for one in inner)})"
        case (kind, p):
            return f"{isl_sum(p, name)} {_COMPARED[kind]} 0"
        case _:
            return "0 = 0" if c == TRUE else "0 = 1"


_COMPARED = {logic.GE: ">=", logic.EQ: "=", logic.NE: "!="}


def isl_sum(p: Poly, name: Callable[[Mono], str]) -> str:
    return " + ".join([str(p.constant), *(f"{k} * {name(mono)}" for mono, k in p.terms.items() if mono)])


# ---- z3 -------------------------------------------------------------------------------------------------------------


class Z3:
    """Texts are kept: the facts of a kernel are in all of its questions.  took: the steps of the last question."""

    def __init__(self) -> None:
        self.took = 0
        self._texts: tuple[dict[Cond, str], dict[Cond, str]] = ({}, {})

    def ask(self, system: System, linear: bool, steps: int, more: Iterable[Cond] = ()) -> TermModel | NoModel:
        """more: further lemmas about products."""
        said = system.said + ([*system.lemmas.sure, *system.lemmas.cases, *more] if linear else [])
        lines = []
        for mono, low, high in system.ends(said if linear else ()):
            name = _mono(mono)
            ends = f"(and (<= {integer(low)} {name}) (<= {name} {integer(high)}))"
            lines.append(f"(declare-const {name} Int)(assert {ends})")
        lines += [f"(assert {self._text(c, linear)})" for c in said]
        values, self.took = ask_z3(lines, steps)
        if isinstance(values, NoModel):
            return values
        return system.model({(atom,): values[_mono((atom,))] for atom in system.atoms if _mono((atom,)) in values})

    def _text(self, c: Cond, linear: bool) -> str:
        found = self._texts[linear].get(c)
        if found is None:
            found = self._texts[linear][c] = self._printed(c, linear)
        return found

    def _printed(self, c: Cond, linear: bool) -> str:
        match c:
            case ((logic.AND | logic.OR) as word, *inner):
                return f"({word} {' '.join(self._text(one, linear) for one in inner)})"
            case (logic.NE, p):
                return f"(not (= {_poly(p, linear)} 0))"
            case (kind, p):
                return f"({_COMPARED[kind]} {_poly(p, linear)} 0)"
            case _:
                return str(c[0])


def _mono(mono: Mono) -> str:
    return "m" + "_".join(str(atom.number) for atom in mono)


def _poly(p: Poly, linear: bool) -> str:
    parts = [integer(p.constant)]
    for mono, k in p.terms.items():
        if mono:
            name = _mono(mono) if linear else " ".join(_mono((atom,)) for atom in mono)
            parts.append(name if k == 1 and (linear or len(mono) == 1) else f"(* {integer(k)} {name})")
    return parts[0] if len(parts) == 1 else f"(+ {' '.join(parts)})"
