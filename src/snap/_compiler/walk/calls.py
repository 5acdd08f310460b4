"""Calls in the walk (evaluate.py): what is bound, what comes back, and what is left in arrays given by reference.

Input: a call, or a `return`, and the state of the walk.  Output: the walk behind it.  Invariant: every thread that
comes out of a call, by whichever `return` or at the end of the body, has the result, and leaves in the arrays that it
was given by reference, what is said; and what is known behind the call is known on all ways out.  Non-goals: what a
function promises (contracts.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from snap._compiler.analysis.exact.conditions import atoms_of, both
from snap._compiler.analysis.exact.logic import FALSE, Cond
from snap._compiler.analysis.exact.terms import Poly
from snap._compiler.ir import nodes as ir
from snap._compiler.walk import arrays, assign, contracts
from snap._compiler.walk.assign import target, unknown
from snap._compiler.walk.sites import NONE, Called
from snap._compiler.walk.state import Activation, Components, Key, Value, WalkState, WayOut
from snap._compiler.walk.ways import around, leaves


def returned(w: WalkState, s: ir.Return) -> None:
    v = None if s.value is None else w.value(s.value)
    if w.called is not None:
        contracts.returned(w, w.called, v, s.span)
    if w.activations:
        _left(w, v)


def _left(w: WalkState, v: Value | None) -> None:
    """Here a thread leaves.  What a walk over a loop only supposes, to learn how variables change, is left out: the
    last walk over that loop comes here as well.
    """
    call = w.activations[-1]
    path = w.path[call.mark :]
    if w.dry == call.dry and FALSE not in path:
        taken = both(*path) if w.depth == call.depth else None
        call.out.append(WayOut(taken, v, dict(w.vars), [c for c in path if c in w.out.defines]))


def called(w: WalkState, s: ir.Call) -> None:
    w.calls += 1
    inner = (*w.frame, w.calls)
    _given(w, s, inner)
    promised = contracts.entered(w, s, inner)
    outer = w.frame, w.at, w.unsure, w.called, w.vouched
    w.frame, w.at, w.called = inner, w.at.called(s), promised
    w.vouched = around(s.span, w.trusted) or w.vouched
    body, mark = s.function.body, len(w.path)
    w.activations.append(Activation(mark, w.depth, w.dry))
    w.inline(body)
    if not leaves(body):
        if promised is not None:
            contracts.returned(w, promised, None, (body[-1] if body else s.function).span)
        if s.function.returns is None:
            _left(w, None)
    out = w.activations.pop().out
    w.path[mark:] = _known(w, out)
    w.vars = _variables(w, inner, out)
    if promised is not None:
        contracts.left(w, promised)
    w.frame, w.at, w.unsure, w.called, w.vouched = outer
    _result(w, s, out, promised)
    if promised is not None:
        contracts.kept(w, s, promised)


def _given(w: WalkState, s: ir.Call, inner: tuple[int, ...]) -> None:
    """The arguments, by the names of the parameters."""
    for p, a, handle in zip(s.function.params, s.args, s.handles):
        match p:
            case ir.ValueParam(var):
                assert not isinstance(a, (ir.ArrayRef, ir.MemView))
                _bound(w, inner, var, w.value(a))
                if isinstance(a, ir.ArrayValue):
                    at = w.registers(a.array, a.array.at, s.span)
                    arrays.copied(w, inner, var, a.array, at)
            case ir.RefParam(var):
                if isinstance(a, ir.ArrayRef):
                    found = arrays.window(w, a, w.registers(a, a.at, s.span))
                    if found is not None:
                        w.refs[inner, var.uid] = found
            case ir.MemParam(own):
                assert isinstance(a, ir.MemView) and handle is not None
                root = w.roots.get((w.frame, a.obj.uid))
                chain = w.chains.get((w.frame, handle.uid))
                if root is not None and chain is not None:
                    w.roots[inner, own.obj.uid] = root
                    w.chains[inner, own.uid] = chain


def _bound(w: WalkState, frame: tuple[int, ...], var: ir.Var, v: Value) -> None:
    here, w.frame = w.frame, frame
    w.assign(var, v)
    w.initial[frame, var.uid] = w.vars[frame, var.uid]
    w.frame = here


# ---- behind the call ------------------------------------------------------------------------------------------------


def _known(w: WalkState, out: list[WayOut]) -> list[Cond]:
    """Return what is known on all ways out, and is not about an iteration of a loop that was left."""
    found = out[0].known if out else []
    for way in out[1:]:
        found = [c for c in found if c in way.known]
    return [c for c in found if not _inside(w, (c,), ())]


def _inside(w: WalkState, conds: Iterable[Cond], ps: Iterable[Poly]) -> bool:
    """Tell whether these are about an iteration of a loop that does not go on here."""
    return any(atom.depth > w.depth for atom in atoms_of(conds, ps))


def _variables(w: WalkState, inner: tuple[int, ...], out: list[WayOut]) -> dict[Key, Value]:
    """The variables of the caller, and of its callers: elements of arrays that references were to may differ."""
    if not out:  # no thread comes back
        return w.vars
    found = dict(out[-1].vars)
    if len(out) > 1 or out[0].taken is None:
        for key in out[-1].vars:
            values = [way.vars.get(key) for way in out]
            if key[0][: len(inner)] == inner or None in values:
                del found[key]  # it has ended, or was not looked at
            else:
                found[key] = _one_of(w, out, [v for v in values if v is not None])
    return found


def _one_of(w: WalkState, out: list[WayOut], values: list[Value]) -> Value:
    """The value on the way out that a thread takes."""
    last = values[-1]
    if all(v == last for v in values) and not _inside(w, *_parts(last)):
        return last
    if any(way.taken is None for way in out):
        return assign.any_of(w, values)
    found = last
    for way, other in zip(reversed(out[:-1]), reversed(values[:-1])):
        assert way.taken is not None
        found = assign.chosen(w, way.taken, other, found)
    return found


def _parts(v: Value) -> tuple[list[Cond], list[Poly]]:
    match v.term:
        case Poly():
            return [], [v.term]
        case Components(terms):
            return [], [*terms]
        case tuple():
            return [v.term], []
    return [], []


def _result(w: WalkState, s: ir.Call, out: list[WayOut], promised: Called | None) -> None:
    """Assign the result.  Where a function promises something, nothing else is known of it."""
    if s.target is None:
        return
    if promised is not None and promised.promises:
        unknown(w, s.target)
        return
    values = [way.given for way in out if way.given is not None]
    rests = NONE.union(*(v.deps for v in values))
    found = _one_of(w, out, values) if values and len(values) == len(out) else Value(None)
    if found.term is None:
        unknown(w, s.target, rests)
    else:
        target(w, s.target, found)
