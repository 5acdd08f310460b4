"""Say what variables become: by assignments, to them, elements of local arrays, memory and components of vectors; and
where ways meet: behind an `if`, a `split`, a call with several ways out.

Input: a target, and the value that it gets; or what a variable is on each way.  Output: what is known of the variables
from here on, and the access, if it is one.  Invariant: what a target may change is known as what it gets, or as any
value; a value where ways meet is that of the way that a thread took, and rests on the arithmetic of all of them.
Non-goals: the values that are assigned, and which ways there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from snap._compiler.analysis.exact import kinds
from snap._compiler.analysis.exact.conditions import both, either, equal, negated
from snap._compiler.analysis.exact.logic import Cond
from snap._compiler.analysis.exact.terms import Poly
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.effects import Effect, Kind
from snap._compiler.ir.types import THREAD1
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
            cells.written(w, w.access(Effect(Kind.WRITE, access)), v)
        case ir.ComponentTarget(ir.VarTarget(var), lane):
            w.touch(var, True, t.span, lane)
            w.assign(var, _with_lane(w.read(var), lane, v))
        case ir.ComponentTarget(ir.MemTarget(access), lane):
            w.access(Effect(Kind.WRITE, access), part=lane)
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


# ---- where ways meet ------------------------------------------------------------------------------------------------


def chosen(w: WalkState, cond: Cond, a: Value, b: Value) -> Value:
    """Return the first where the condition holds, and the second elsewhere; without a term where one has none."""
    match a.term, b.term:
        case Poly() as x, Poly() as y:
            return Value(w.terms.choose(cond, x, y), a.deps | b.deps)
        case Components(xs), Components(ys) if len(xs) == len(ys):
            return Value(Components(tuple(w.terms.choose(cond, x, y) for x, y in zip(xs, ys))), a.deps | b.deps)
        case tuple() as x, tuple() as y:
            return Value(x if x == y else either(both(cond, x), both(negated(cond), y)), a.deps | b.deps)
    return Value(None, a.deps | b.deps)


def any_of(w: WalkState, values: Sequence[Value]) -> Value:
    """Return a number between the least and the most that one of these can be."""
    deps = NONE.union(*(v.deps for v in values))
    polys = [v.term for v in values if isinstance(v.term, Poly)]
    vectors = [v.term.terms for v in values if isinstance(v.term, Components)]
    if len(polys) == len(values):
        return Value(_between(w, polys), deps)
    if len(vectors) == len(values) and len({*map(len, vectors)}) == 1:
        return Value(Components(tuple(_between(w, ps) for ps in zip(*vectors))), deps)
    if all(isinstance(v.term, tuple) for v in values):
        return Value(equal(w.terms.base(kinds.ANY, 0, 1, THREAD1, w.depth), 1), deps)
    return Value(None, deps)


def _between(w: WalkState, ps: Iterable[Poly]) -> Poly:
    lows, highs = zip(*map(w.terms.span, ps))
    return w.terms.base(kinds.ANY, min(lows), max(highs), THREAD1, w.depth)
