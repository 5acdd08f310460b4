"""The question of analysis/solve.py, answered by z3 and by isl.

Input and output: as of `solve.solve`.  Invariant: NO only where the solver says so; a model has been evaluated.
Non-goals: speed: they stand beside our own solver, in tests and in proofs.  Neither is needed to use Snap: they are
imported when they are asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from snap.analysis import linear
from snap.analysis.linear import Atom, Form
from snap.analysis.solve import NO, UNKNOWN, Model, Verdict, confirmed


def z3_solve(zero: Iterable[Form], positive: Iterable[Form]) -> Model | Verdict:
    import z3

    zero, positive = [*zero], [*positive]
    names: dict[Atom, Any] = {}

    def term(form: Form) -> Any:
        return form[0] + sum(k * of_atom(atom) for atom, k in form[1])

    def of_atom(atom: Atom) -> Any:
        match atom:
            case ("div", x, n):
                return term(x) / z3.IntVal(n)  # of integers, and rounded down where n > 0
            case ("mul", x, y):
                return term(x) * term(y)
            case _:
                return names.setdefault(atom, z3.Int(f"a{len(names)}"))

    solver = z3.Solver()
    solver.add(*(term(f) == 0 for f in zero), *(term(f) >= 0 for f in [*positive, *_known(zero, positive)]))
    answer = solver.check()
    if answer == z3.unsat:
        return NO
    if answer != z3.sat:
        return UNKNOWN
    model = solver.model()
    return confirmed({a: model.eval(x, model_completion=True).as_long() for a, x in names.items()}, zero, positive)


def isl_solve(zero: Iterable[Form], positive: Iterable[Form]) -> Model | Verdict:
    """Products of unknowns are beyond isl: each is an unknown of its own."""
    import islpy as isl

    zero, positive = [*zero], [*positive]
    known = _known(zero, positive)
    numbers = {atom: n for n, atom in enumerate(a for a in linear.atoms([*zero, *positive, *known]) if a[0] != "div")}

    def term(form: Form) -> str:
        return " + ".join([str(form[0]), *(f"{k} * {of_atom(atom)}" for atom, k in form[1])])

    def of_atom(atom: Atom) -> str:
        return f"floor(({term(atom[1])}) / {atom[2]})" if atom[0] == "div" else f"a{numbers[atom]}"

    rows = [f"{term(f)} = 0" for f in zero] + [f"{term(f)} >= 0" for f in [*positive, *known]]
    found = isl.Set(f"{{ [{', '.join(f'a{n}' for n in numbers.values())}] : {' and '.join(rows) or 'true'} }}")
    if found.is_empty():
        return NO
    point = found.sample_point()
    at = {a: point.get_coordinate_val(isl.dim_type.set, n).to_python() for a, n in numbers.items()}
    return confirmed(at, zero, positive)


def _known(zero: list[Form], positive: list[Form]) -> list[Form]:
    """What linear arithmetic knows of exclusive ors, which both solvers take for unknowns."""
    return linear.derived(atom for atom in linear.atoms([*zero, *positive]) if atom[0] == "xor")
