"""Assignments of the walk: to variables, elements of local arrays, memory, and components of vectors.

Input: a target, and the value that it gets.  Output: what is known of the variables from here on, and the access, if
it is one.  Invariant: what a target may change is known as what it gets, or as any value.  Non-goals: the value.
"""

from __future__ import annotations

from snap._compiler.analysis.exact.terms import Poly
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.effects import Effect, Kind
from snap._compiler.walk import arrays, cells
from snap._compiler.walk.sites import NONE, Deps
from snap._compiler.walk.state import OPAQUE, Components, Value, WalkState


def target(w: WalkState, t: ir.Target | None, v: Value) -> None:
    match t:
        case ir.VarTarget(var):
            w.touch(var, True, t.span)
            w.assign(var, v)
            arrays.forget(w, var, v.deps)
        case ir.ElemTarget(array, index):
            arrays.write(w, array, w.registers(array, index, t.span), v)
        case ir.MemTarget(access):
            cells.written(w, w.access(Effect(Kind.WRITE, access), t.span), v)
        case ir.ComponentTarget(ir.VarTarget(var), lane):
            w.touch(var, True, t.span, lane)
            w.assign(var, _with_lane(w.read(var), lane, v))
        case ir.ComponentTarget(ir.MemTarget(access), lane):
            w.access(Effect(Kind.WRITE, access), t.span, part=lane)
        case ir.ComponentTarget(inner):
            target(w, inner, OPAQUE)


def unknown(w: WalkState, t: ir.Target | None, deps: Deps = NONE) -> None:
    """A target that gets a value of which nothing is known, but the arithmetic that it comes from."""
    match t:
        case ir.VarTarget(var):
            w.touch(var, True, t.span)
            v = w.anything(var.type, var.privilege, var.name)
            w.vars[w.frame, var.uid] = Value(v.term, v.deps | deps)
        case _:
            target(w, t, OPAQUE)


def _with_lane(v: Value, lane: int, part: Value) -> Value:
    """A vector, with another component."""
    deps = v.deps | part.deps
    if not isinstance(v.term, Components) or not isinstance(part.term, Poly):
        return Value(None, deps)
    return Value(Components((*v.term.terms[:lane], part.term, *v.term.terms[lane + 1 :])), deps)
