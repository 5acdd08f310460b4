"""A `System` without products as a question to isl: linear arithmetic, exactly.

Input: a system.  Output: NO, a model, or UNKNOWN.  Invariant: NO only where isl says so within its number of steps; a
model has been evaluated.  Non-goals: products: to isl, each is an unknown of its own, so that what it finds need not be
a model where there are some.
"""

from __future__ import annotations

from snap._compiler.analysis.exact import logic
from snap._compiler.analysis.exact.system import System, TermModel
from snap._compiler.analysis.exact.terms import Cond, Mono, Poly
from snap._compiler.analysis.solvers.oracles import ask_isl
from snap._compiler.analysis.solvers.solve import NoModel


def isl_ask(system: System, steps: int) -> TermModel | NoModel:
    said = system.said
    names: dict[Mono, str] = {}
    rows = []
    for mono, low, high in system.ends(said):
        names[mono] = name = f"x{len(names)}"
        rows.append(f"{low} <= {name} <= {high}")
    rows += [_cond(c, names) for c in said]
    values = ask_isl([*names.values()], rows, steps)
    return values if isinstance(values, NoModel) else system.model(dict(zip(names, values)))


def _cond(c: Cond, names: dict[Mono, str]) -> str:
    match c:
        case (logic.GE, p):
            return f"{_poly(p, names)} >= 0"
        case (logic.EQ, p):
            return f"{_poly(p, names)} = 0"
        case (logic.NE, p):
            return f"({_poly(p, names)} >= 1 or {_poly(p, names)} <= -1)"
        case ((logic.AND | logic.OR) as word, *inner):
            return f"({f' {word} '.join(_cond(one, names) for one in inner)})"
        case _:
            return "true" if c[0] == logic.TRUE else "false"


def _poly(p: Poly, names: dict[Mono, str]) -> str:
    return " + ".join([str(p.constant), *(f"{k} * {names[mono]}" for mono, k in p.terms.items() if mono)])
