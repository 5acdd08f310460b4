"""Join values where ways meet: behind an `if`, a `split`, a call with several ways out.

Input: what a variable is on each way.  Output: one value, which is that of the way that a thread took.  Invariant: it
rests on the arithmetic of all of them.  Non-goals: which ways there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from snap._compiler.analysis.exact import kinds
from snap._compiler.analysis.exact.conditions import both, either, equal, negated
from snap._compiler.analysis.exact.logic import Cond
from snap._compiler.analysis.exact.terms import Poly
from snap._compiler.ir.types import THREAD1
from snap._compiler.walk.sites import NONE
from snap._compiler.walk.state import Components, Value, WalkState


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
