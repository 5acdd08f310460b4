"""A `System` without products as a question to isl: linear arithmetic, exactly.

Input: a system.  Output: NO, a model, or UNKNOWN.  Invariant: NO only where isl says so within its number of steps; a
model has been evaluated.  Non-goals: products: to isl, each is an unknown of its own, so that what it finds need not be
a model where there are some.
"""

from __future__ import annotations

from snap.prove.system import NO, UNKNOWN, Answer, Model, System
from snap.prove.terms import Cond, Mono, Poly


def isl_ask(system: System, steps: int) -> Model | Answer:
    import islpy as isl

    said = system.said
    names: dict[Mono, str] = {}
    rows = []
    for mono, low, high in system.ends(said):
        names[mono] = name = f"x{len(names)}"
        rows.append(f"{low} <= {name} <= {high}")
    rows += [_cond(c, names) for c in said]
    context = isl.Context()
    context.set_max_operations(steps)
    try:
        found = isl.Set(f"{{ [{', '.join(names.values())}] : {' and '.join(rows)} }}", context)
        if found.is_empty():
            return NO
        point = found.sample_point()
        values = [point.get_coordinate_val(isl.dim_type.set, k).to_python() for k in range(len(names))]
    except isl.Error:
        return UNKNOWN
    return system.model(dict(zip(names, values)))


def _cond(c: Cond, names: dict[Mono, str]) -> str:
    match c:
        case ("ge", p):
            return f"{_poly(p, names)} >= 0"
        case ("eq", p):
            return f"{_poly(p, names)} = 0"
        case ("ne", p):
            return f"({_poly(p, names)} >= 1 or {_poly(p, names)} <= -1)"
        case (("and" | "or") as word, *inner):
            return f"({f' {word} '.join(_cond(one, names) for one in inner)})"
        case _:
            return "true" if c[0] == "true" else "false"


def _poly(p: Poly, names: dict[Mono, str]) -> str:
    return " + ".join([str(p.constant), *(f"{k} * {names[mono]}" for mono, k in p.terms.items() if mono)])
