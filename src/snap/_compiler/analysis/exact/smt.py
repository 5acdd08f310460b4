"""A `System` as a question to z3, in SMT-LIB.

Input: a system, and whether products are unknowns of their own (then with lemmas).  Output: NO, a model, or UNKNOWN.
Invariant: NO only where z3 says so within its number of steps; a model has been evaluated.  Non-goals: anything else.
"""

from __future__ import annotations

from collections.abc import Iterable

from snap._compiler.analysis.exact import logic
from snap._compiler.analysis.exact.system import System, TermModel
from snap._compiler.analysis.exact.terms import Cond, Mono, Poly
from snap._compiler.analysis.solvers.oracles import ask_z3, integer
from snap._compiler.analysis.solvers.solve import NoModel


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
            lines.append(
                f"(declare-const {name} Int)(assert (and (<= {integer(low)} {name}) (<= {name} {integer(high)})))"
            )
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
            case (logic.GE, p):
                return f"(>= {_poly(p, linear)} 0)"
            case (logic.EQ, p):
                return f"(= {_poly(p, linear)} 0)"
            case (logic.NE, p):
                return f"(not (= {_poly(p, linear)} 0))"
            case ((logic.AND | logic.OR) as word, *inner):
                return f"({word} {' '.join(self._text(one, linear) for one in inner)})"
            case _:
                return "true" if c[0] == logic.TRUE else "false"


def _mono(mono: Mono) -> str:
    return "m" + "_".join(str(atom.number) for atom in mono)


def _poly(p: Poly, linear: bool) -> str:
    parts = [integer(p.constant)]
    for mono, k in p.terms.items():
        if mono:
            name = _mono(mono) if linear else " ".join(_mono((atom,)) for atom in mono)
            parts.append(name if k == 1 and (linear or len(mono) == 1) else f"(* {integer(k)} {name})")
    return parts[0] if len(parts) == 1 else f"(+ {' '.join(parts)})"
