"""Local arrays of integers in the walk: what each element is, where the text says it.

Input: an array, or a window of one, and indices.  Output: values, and what is known after a write.  Invariant: an
element that has a value here has that value in every run; an array that is written at an index that is no number, as
another type, or by what is not followed, may hold anything then.  A parameter that is a reference is the caller's own
array.  Non-goals: arrays of other types, and those of more than MOST elements.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from snap._compiler.analysis.evaluate import computed
from snap._compiler.analysis.exact.logic import FALSE
from snap._compiler.analysis.exact.terms import Poly, number
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import Array
from snap._compiler.walk.sites import NONE, Deps
from snap._compiler.walk.state import Key, Value, WalkState, Window, is_bool
from snap.record import replace

MOST_ELEMENTS = 64


def tracked(var: ir.Var) -> bool:
    t = var.type
    return isinstance(t, Array) and t.size <= MOST_ELEMENTS and (computed(t.elem) or is_bool(t.elem))


def window(w: WalkState, array: ir.ArrayRef, index: Iterable[Poly | None] = ()) -> Window | None:
    """Return where an element, or a window with these leading indices, begins; None if the array is not followed."""
    whole = w.refs.get((w.frame, array.var.uid)) or Window(w.frame, array.var, 0)
    if not tracked(whole.var):
        return None
    own, given = array.var.type, whole.var.type
    assert isinstance(own, Array) and isinstance(given, Array)
    at = [None if p is None else p.value for p in index]
    seen_as_it_is = array.elem == own.elem == given.elem and (*array.around, *array.shape) == own.shape
    if not seen_as_it_is or None in at or whole.start is None:
        return Window(whole.frame, whole.var, None)
    start, shape = whole.start, own.shape
    for k, i in enumerate(at):
        assert i is not None
        if not 0 <= i < shape[k]:
            return Window(whole.frame, whole.var, None)
        start += i * math.prod(shape[k + 1 :])
    return Window(whole.frame, whole.var, start)


def key(found: Window, k: int) -> Key:
    return found.frame, (found.var.uid, k)


def keys(w: WalkState, var: ir.Var) -> Iterator[tuple[Key, ir.Var]]:
    """The elements of an array, or of what a reference is to, that are followed, each as a variable."""
    found = window(w, ir.ArrayRef(var, var.type.elem, var.type.shape)) if isinstance(var.type, Array) else None
    if found is not None:
        of = found.var.type
        assert isinstance(of, Array)
        for k in range(of.size):
            if key(found, k) in w.vars:
                yield key(found, k), replace(found.var, type=of.elem, name=f"{found.var.name}[{k}]")


def declared(w: WalkState, var: ir.Var, zero: bool) -> None:
    """A new one: zeros, or anything."""
    if tracked(var) and isinstance(var.type, Array):
        nothing = Value(number(0)) if computed(var.type.elem) else Value(FALSE)
        for k in range(var.type.size):
            fresh = nothing if zero else w.anything(var.type.elem, var.privilege, f"{var.name}[{k}]")
            w.vars[w.frame, (var.uid, k)] = fresh


def read(w: WalkState, array: ir.ArrayRef, index: Iterable[Poly | None]) -> Value | None:
    found = window(w, array, index)
    return None if found is None or found.start is None else w.vars.get(key(found, found.start))


def write(w: WalkState, array: ir.ArrayRef, index: Iterable[Poly | None], v: Value) -> None:
    found = window(w, array, index)
    if found is None:
        return
    if found.start is None or v.term is None:
        forget(w, array.var, v.deps)
    elif key(found, found.start) in w.vars:
        w.put(key(found, found.start), w.named(v, found.var.privilege, found.var.name))


def forget(w: WalkState, var: ir.Var, deps: Deps = NONE) -> None:
    for one, element in list(keys(w, var)):
        v = w.anything(element.type, element.privilege, element.name)
        w.put(one, Value(v.term, v.deps | deps))


def renewed(w: WalkState, var: ir.Var) -> None:
    """Let what a reference is to hold anything, and nothing else of that array."""
    found = window(w, ir.ArrayRef(var, var.type.elem, var.type.shape)) if isinstance(var.type, Array) else None
    if found is None or found.start is None or not isinstance(var.type, Array):
        forget(w, var)
        return
    for k in range(found.start, found.start + var.type.size):
        w.put(key(found, k), w.anything(var.type.elem, found.var.privilege, f"{found.var.name}[{k}]"))


def copied(w: WalkState, frame: tuple[int, ...], var: ir.Var, source: ir.ArrayRef, at: Iterable[Poly | None]) -> None:
    """`var`, of another frame, begins as a copy."""
    if not tracked(var) or not isinstance(var.type, Array):
        return
    found = window(w, source, at)
    values = []
    for k in range(var.type.size):
        known = None if found is None or found.start is None else w.vars.get(key(found, found.start + k))
        values.append(known or w.anything(var.type.elem, var.privilege, f"{var.name}[{k}]"))
    for k, v in enumerate(values):
        w.vars[frame, (var.uid, k)] = v


def elements(w: WalkState, var: ir.Var) -> list[Value] | None:
    """Return the elements of a parameter as they are now, row by row."""
    if not isinstance(var.type, Array):
        return None
    found = window(w, ir.ArrayRef(var, var.type.elem, var.type.shape))
    if found is None or found.start is None:
        return None
    values = [w.vars.get(key(found, found.start + k)) for k in range(var.type.size)]
    return None if any(v is None for v in values) else [v for v in values if v is not None]
