"""z3 and isl: questions as text, sets of points, and the question of analysis/solvers/solve.py answered by them.

Input and output of `ask_z3` and `ask_isl`: a question in the solver's own text, and the numbers that it finds, NO or
UNKNOWN; of `z3_solve` and `isl_solve`: as of `solve.solve`; `PointSet` is a set that others are taken from
(prove/properties/covered_sets.py).  Invariant: NO only where the solver says so within its number of steps, which no
machine's speed and no earlier question changes; a model has been evaluated.  Non-goals: speed: they are asked beside
our own solver, in tests and in proofs (exact/ask.py asks them about polynomials).  Neither is
needed to use Snap: they are imported when they are asked, here and nowhere else (tests/test_imports.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.forms import Form, LinearAtom
from snap._compiler.analysis.solvers import allowance
from snap._compiler.analysis.solvers.solve import NO, UNKNOWN, Model, NoModel, confirmed

SOLVERS = ("z3", "islpy")  # the packages that have them
Z3_STEPS, ISL_STEPS = 1_500_000, 3_000_000  # for one question of analysis/solvers/solve.py


def ask_z3(lines: Iterable[str], steps: int) -> tuple[dict[str, int] | NoModel, int]:
    """lines: of SMT-LIB, which costs a tenth of building z3's terms one by one.  With the answer come the steps that it
    took.  A question has a context of its own: in one that others have used, z3 goes another way, and takes several
    times as many steps or as few.  And z3's core alone is asked: its strategies by logic (`SolverFor`) end stages
    after so many milliseconds, or where z3 has so many bytes in the process, and go on with others.  On a busy machine
    the same question was answered, or was not.
    """
    import z3

    solver: Any = z3.SimpleSolver(ctx=z3.Context())
    solver.set("rlimit", steps)
    left = allowance.milliseconds()
    if left is not None:
        solver.set("timeout", left)
    solver.set("ctrl_c", False)  # it is heard when the question is answered
    solver.from_string("\n".join(lines))
    before = _steps(solver)
    answer = solver.check()
    if answer != z3.unsat and answer != z3.sat:
        allowance.check()
    took = _steps(solver) - before
    if answer == z3.unsat:
        return NO, took
    if answer != z3.sat:
        return UNKNOWN, took
    model = solver.model()
    values = ((d.name(), model[d]) for d in model.decls())  # of a function that the lines define: a term
    return {name: _number(z3, value) for name, value in values if z3.is_int_value(value) or z3.is_bv_value(value)}, took


def _number(z3: Any, value: Any) -> int:
    return int(value.as_signed_long() if z3.is_bv_value(value) else value.as_long())


def _steps(solver: Any) -> int:
    """All that z3 has taken for this question until now."""
    told = solver.statistics()
    return int(told.get_key_value("rlimit count")) if "rlimit count" in told.keys() else 0


def ask_isl(names: Sequence[str], rows: Iterable[str], steps: int) -> list[int] | NoModel:
    """rows: conditions over the names, all of which hold.  Output: a number for each name."""
    import islpy as isl

    allowance.check()
    context = isl.Context()
    context.set_max_operations(steps)
    try:
        found = isl.Set(f"{{ [{', '.join(names)}] : {' and '.join(rows) or 'true'} }}", context)
        if found.is_empty():
            return NO
        point = found.sample_point()
        return [point.get_coordinate_val(isl.dim_type.set, k).to_python() for k in range(len(names))]
    except isl.Error:
        return UNKNOWN


@contextmanager
def isl_steps(steps: int) -> Iterator[None]:
    """Limit the steps of isl that all work with sets of points may take; it ends there, and nothing is raised."""
    import islpy as isl

    at = isl.DEFAULT_CONTEXT
    at.reset_operations()
    at.set_max_operations(steps)
    try:
        yield
    except isl.Error:
        pass
    finally:
        at.set_max_operations(0)


class PointSet:
    """The points, an integer for each name, for which a condition in isl's text holds: exact, or isl has raised, which
    `isl_steps` catches.
    """

    def __init__(self, names: Sequence[str], text: str):
        import islpy as isl

        allowance.check()
        self.names = names
        self._set: Any = isl.Set(f"{{ [{', '.join(names)}] : {text} }}")

    def _like(self, of: Any) -> PointSet:
        made = PointSet.__new__(PointSet)
        made.names, made._set = self.names, of
        return made

    @property
    def empty(self) -> bool:
        return bool(self._set.is_empty())

    def where(self, text: str) -> PointSet:
        """Keep the points for which this holds, too."""
        return self._like(self._set.intersect(PointSet(self.names, text)._set))

    def without(self, text: str) -> PointSet:
        """Keep the points for which this does not hold."""
        return self._like(self._set.subtract(PointSet(self.names, text)._set).coalesce())

    def most(self, name: str) -> int | None:
        """The largest number that it has in some point; None where there is no largest."""
        end = self._set.dim_max_val(self.names.index(name))
        return end.to_python() if end.is_int() else None

    def point(self) -> dict[str, int]:
        """One of them."""
        import islpy as isl

        found = self._set.sample_point()
        return {name: found.get_coordinate_val(isl.dim_type.set, k).to_python() for k, name in enumerate(self.names)}


def z3_solve(zero: Iterable[Form], positive: Iterable[Form]) -> Model | NoModel:
    zero, positive = [*zero], [*positive]
    names: dict[LinearAtom, str] = {}

    def term(form: Form) -> str:
        return f"(+ {integer(form[0])} 0{''.join(f' (* {integer(k)} {of_atom(atom)})' for atom, k in form[1])})"

    def of_atom(atom: LinearAtom) -> str:
        match atom:
            case (forms.DIV, x, n):
                return f"(div {term(x)} {n})"  # of integers, and rounded down where n > 0
            case (forms.MUL, x, y):
                return f"(* {term(x)} {term(y)})"
            case _:
                return names.setdefault(atom, f"a{len(names)}")

    said = [f"(assert (= {term(f)} 0))" for f in zero]
    said += [f"(assert (>= {term(f)} 0))" for f in [*positive, *_known(zero, positive)]]
    found, _ = ask_z3([*(f"(declare-const {name} Int)" for name in names.values()), *said], Z3_STEPS)
    if isinstance(found, NoModel):
        return found
    unknowns = forms.atoms([*zero, *positive])  # those too that stand in exclusive ors alone
    return confirmed({atom: found.get(names.get(atom, ""), 0) for atom in unknowns}, zero, positive)


def integer(n: int) -> str:
    """As SMT-LIB has it."""
    return str(n) if n >= 0 else f"(- {-n})"


def isl_solve(zero: Iterable[Form], positive: Iterable[Form]) -> Model | NoModel:
    """Products of unknowns are beyond isl: each is an unknown of its own."""
    zero, positive = [*zero], [*positive]
    known = _known(zero, positive)
    kinds = [atom for atom in forms.atoms([*zero, *positive, *known]) if atom[0] != forms.DIV]
    names = {atom: f"a{n}" for n, atom in enumerate(kinds)}

    def term(form: Form) -> str:
        return " + ".join([str(form[0]), *(f"{k} * {of_atom(atom)}" for atom, k in form[1])])

    def of_atom(atom: LinearAtom) -> str:
        return f"floor(({term(atom[1])}) / {atom[2]})" if atom[0] == forms.DIV else names[atom]

    rows = [f"{term(f)} = 0" for f in zero] + [f"{term(f)} >= 0" for f in [*positive, *known]]
    found = ask_isl([*names.values()], rows, ISL_STEPS)
    return found if isinstance(found, NoModel) else confirmed(dict(zip(names, found)), zero, positive)


def _known(zero: list[Form], positive: list[Form]) -> list[Form]:
    """Return what linear arithmetic knows of exclusive ors, which both solvers take for unknowns."""
    return forms.derived(atom for atom in forms.atoms([*zero, *positive]) if atom[0] == forms.XOR)
