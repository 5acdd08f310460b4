"""Calls of functions that have a contract, in the walk (evaluate.py).

Input: a call, and the state of the walk.  Output: what has to be shown (`Promise`, and `Pact`s of two threads, which
pacts.py looks at), and what is known behind the call.  Invariant: `where=` is asked of every call, and known in the
body; what a function promises is asked where it returns.  If all of that is shown, what is known behind the call holds
there.  The body is walked, too: what it touches is asked about as everywhere.  But of what it returns, and leaves in
arrays that it was given by reference, nothing is known but what it promises, if it promises anything.  Non-goals: two
threads (pacts.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from snap._compiler.analysis.exact.logic import FALSE, Cond, polys
from snap._compiler.analysis.exact.terms import Atom, Poly, Terms, number
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.contracts import Condition, Contract
from snap._compiler.ir.types import THREAD1, Array, Level, Privilege
from snap._compiler.walk import arrays
from snap._compiler.walk.sites import NONE, Called, Deps, GivenMemory, Pact, Promise, Root
from snap._compiler.walk.state import Components, Value, WalkState
from snap._compiler.walk.where import Attributes, Elements, Unknown, WhereReader
from snap.diag.span import Span


def meant(terms: Terms, c: Condition, names: dict[str, Any]) -> Cond:
    """Return what a condition says; FALSE where that cannot be said, such as of an element that the array does not
    have.
    """
    asked = {name: names[name] for name in c.params if name in names}
    lengths = {name: p for name, p in names.items() if name.startswith("len(")}
    try:
        return WhereReader(terms, {**dict(c.names), **lengths, **asked}).cond(c.body)
    except Unknown:
        return FALSE


# ---- a call ---------------------------------------------------------------------------------------------------------


def entered(w: WalkState, s: ir.Call, frame: tuple[int, ...]) -> Called | None:
    """The arguments are bound; the body comes next."""
    function = s.function
    contract = function.contract if isinstance(function, ir.Function) else None
    if contract is None or not isinstance(function, ir.Function):
        return None
    top = function.place.top
    n = function.place[top].count or 1
    at = w.at.called(s)
    # The first thread of a unit tells it from others of the block.
    unit = w.thread - at.index[Level.THREAD] if top is Level.THREAD else number(0)
    inner = at.unit(THREAD1, function.place)
    here, w.frame = w.frame, frame
    given, deps = _given(w, function, contract)
    memory = _memory(w, function, contract)
    w.frame = here
    names = {**dict(contract.names), **given}
    called = Called(function, contract, frame, names, deps, memory, Privilege(top, n), unit, inner, w.calls, w.depth)
    for c in contract.where:
        goal = meant(w.terms, c, names)
        what = f"`{c.text}`, which `{function.name}` asks for, holds in this call"
        if not w.dry and not (w.alone and not w.frame):  # a function that is shown alone is called as it asks
            w.out.used |= deps
            w.out.promises.append(Promise(what, goal, tuple(w.path), s.span))
        if goal != FALSE:
            w.define(goal)
    return called


def _memory(w: WalkState, function: ir.Function, contract: Contract) -> GivenMemory:
    """The arrays that it is given, and what their index functions have captured."""
    roots: list[Root] = []
    captured: list[Poly] = []
    for p in function.params:
        if isinstance(p, ir.MemParam):
            root = w.roots.get((w.frame, p.handle.obj.uid))
            roots += [] if root is None else [root]
        elif isinstance(p, ir.ValueParam) and p.var.name not in contract.params:
            v = w.initial.get((w.frame, p.var.uid))
            captured.append(v.term if v is not None and isinstance(v.term, Poly) else w.any_index())
    return GivenMemory(tuple(roots), tuple(captured))


def _given(w: WalkState, function: ir.Function, contract: Contract) -> tuple[dict[str, Any], Deps]:
    names: dict[str, Any] = {}
    deps: Deps = NONE
    for p in function.params:
        match p:
            case ir.MemParam(handle, layout):
                root = w.roots.get((w.frame, handle.obj.uid))
                if root is not None:
                    shape, size = handle.obj.shape, handle.obj.elem.bytes if layout is None else layout.bytes
                    length = w.terms.floor(root.bytes, size) if shape is None else w.shape(shape)[0]
                    names[f"len({handle.name})"] = length
            case ir.ValueParam(var) | ir.RefParam(var) if isinstance(var.type, Array):
                deps |= _elements(w, var, names)
            case ir.ValueParam(var) if var.name in contract.params:
                v = w.initial.get((w.frame, var.uid))
                if v is not None and v.term is not None:
                    names[var.name] = _named(v.term)
                    deps |= v.deps
    return names, deps


def _elements(w: WalkState, var: ir.Var, names: dict[str, Any]) -> Deps:
    """Name what an array holds now; return the arithmetic in it."""
    found = arrays.elements(w, var)
    if found is None or not isinstance(var.type, Array):
        return NONE
    names[var.name] = _rows([v.term for v in found], var.type.shape)
    return NONE.union(*(v.deps for v in found))


def _named(term: Any) -> Any:
    """Return what a condition names; for a vector of integers, its components by their names."""
    return Attributes(zip("xyzw", term.terms)) if isinstance(term, Components) else term


def _rows(values: list[Any], shape: tuple[int, ...]) -> Elements:
    if len(shape) == 1:
        return Elements(values)
    size = len(values) // shape[0]
    return Elements(_rows(values[k * size : (k + 1) * size], shape[1:]) for k in range(shape[0]))


def returned(w: WalkState, called: Called, v: Value | None, span: Span) -> None:
    """A thread returns from it, with this value."""
    if w.dry or not called.promises:
        return
    trusted = called.trusts(span)
    held, deps = _held(w, called)
    names = _after(called, held, None if v is None else v.term)
    if not trusted:
        w.out.used |= deps | called.deps | (NONE if v is None else v.deps)
    for c in called.contract.ensures:
        goal = FALSE if trusted else meant(w.terms, c, names)
        what = f"`{called.function.name}` ensures `{c.text}`"
        w.out.promises.append(Promise(what, goal, tuple(w.path), span, trusted))
    if called.contract.pairs or called.contract.calls:
        w.out.ends.append(_pact(w, called, names, frozenset(), span, trusted))


def _held(w: WalkState, called: Called) -> tuple[dict[str, Any], Deps]:
    """Return what arrays that were given by reference hold now."""
    names: dict[str, Any] = {}
    deps: Deps = NONE
    for p in called.function.params:
        if isinstance(p, ir.RefParam):
            deps |= _elements(w, p.var, names)
    return names, deps


def _after(called: Called, held: dict[str, Any], result: Any) -> dict[str, Any]:
    old = Attributes({name: one for name, one in called.given.items() if isinstance(one, Elements)})
    names: dict[str, Any] = {} if called.id is None else {"id": called.id}
    names |= {**called.given, **held, "old": old}
    for p in called.function.params:  # a reference of which nothing is known
        if isinstance(p, ir.RefParam) and p.var.name not in held:
            names.pop(p.var.name, None)
    return names if result is None else {**names, "result": _named(result)}


def left(w: WalkState, called: Called) -> None:
    """Let references hold what was promised: all have returned.  The walk is still in the function."""
    if called.promises:
        for p in called.function.params:
            if isinstance(p, ir.RefParam):
                arrays.renewed(w, p.var)
    called.now, _ = _held(w, called)


def kept(w: WalkState, s: ir.Call, called: Called) -> None:
    """Behind the call."""
    if not called.promises:
        return
    result = w.read(s.target.var).term if isinstance(s.target, ir.VarTarget) else None
    names = _after(called, called.now, result)
    if not w.dry:
        w.out.used |= called.deps
    for c in called.contract.ensures:
        fact = meant(w.terms, c, names)
        if fact != FALSE:
            w.define(fact)
    if (called.contract.pairs or called.contract.calls) and not w.dry:
        fresh = {atom for p in _polys([*called.now.values(), _named(result)]) for atom in p.atoms if not atom.defined}
        w.out.pacts.append(_pact(w, called, names, frozenset(fresh), s.span, False))


def _pact(
    w: WalkState, called: Called, names: dict[str, Any], fresh: frozenset[Atom], span: Span, trusted: bool
) -> Pact:
    index = tuple(_polys(names.values()))
    return Pact(called, names, index, fresh, tuple(w.path), len(w.terms.atoms), span, trusted)


def _polys(values: Iterable[Any]) -> Iterator[Poly]:
    for one in values:
        if isinstance(one, Poly):
            yield one
        elif isinstance(one, Elements):
            yield from _polys(one)
        elif isinstance(one, Attributes):
            yield from _polys(one.values())
        elif isinstance(one, tuple):
            yield from polys(one)
