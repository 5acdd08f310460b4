"""Capture the outside names a function uses, and what they were bound to when it was defined.

Input: a tree and the Python function it came from.  Output: name -> value.  Invariant: a name the function itself
assigns is its own, as in Python, so that a use outside that name's scope is an error and never silently an outside
constant; annotations are read where the function stands, so they may name what is outside even then (`block: int @
block[1]`).  Non-goals: builtins (the checker knows those it accepts).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from itertools import repeat
from operator import is_
from types import CodeType, FrameType, FunctionType, MappingProxyType
from typing import Any

from snap._compiler.frontend import tree

_MISSING = object()
LARGEST = 1 << 20  # bytes of an array that is copied; what is larger is no table


def is_array(found: object) -> bool:
    """Decide whether an outside name is a NumPy array, of at least one dimension: a table of constants."""
    kind = type(found)
    return kind.__module__ == "numpy" and kind.__name__ == "ndarray" and getattr(found, "shape", ()) != ()


def as_it_is(found: Any) -> object:
    """Keep an outside value as it was when the function was defined: a table is copied."""
    return found.copy() if is_array(found) and found.nbytes <= LARGEST else found


def captured_names(function: tree.Function, pyfunc: FunctionType) -> dict[str, object]:
    own = assigned_names(function)
    annotations = used_names(*_annotations(function))
    uses = used_names(function) - own
    around = _defining_locals(pyfunc.__code__) if annotations else {}
    found = {
        name: _bound_value(name, pyfunc, around if name in annotations else {}) for name in sorted(uses | annotations)
    }
    return {name: as_it_is(value) for name, value in found.items() if value is not _MISSING}


def captured_by_lambda(function: tree.Lambda, pyfunc: FunctionType) -> dict[str, object]:
    found = {name: _bound_value(name, pyfunc) for name in sorted(used_names(function))}
    return {name: value for name, value in found.items() if value is not _MISSING}


def bound_value(name: str, pyfunc: FunctionType) -> object:
    """Look up what an outside name, or a dotted one of a module, stands for now; None where it is not bound."""
    name, _, inside = name.partition(".")
    found = _bound_value(name, pyfunc)
    return getattr(found, inside, None) if inside else found


def is_bound(name: str, pyfunc: FunctionType) -> bool:
    return _bound_value(name, pyfunc) is not _MISSING


def assigned_names(function: tree.Function) -> set[str]:
    names = {parameter.name for parameter in function.params}
    for node in _statements(function):
        match node:
            case tree.With(names=several) | tree.For(names=several) if several:
                names.update(name for name, _ in several)
            case (
                tree.Declare(name=name)
                | tree.For(name=name)
                | tree.Assign(target=tree.Name(id=name))
                | tree.Augment(target=tree.Name(id=name))
            ):
                names.add(name)
            case tree.With(name=str() as name):
                names.add(name)
            case tree.Assign(target=tree.Sequence(items=items)):
                names.update(item.id for item in items if isinstance(item, tree.Name))
            case _:
                pass
    return names


def _statements(function: tree.Function) -> Iterator[tree.Stmt]:
    """All of them, without recursion, and without a look at their expressions."""
    pending: list[Any] = list(function.body)
    while pending:
        node = pending.pop()
        yield node
        match node:
            case tree.If(_, then, other):
                pending += then
                pending += other
            case tree.Match(_, cases):
                for case in cases:
                    pending += case.body
            case tree.With() | tree.For() | tree.While() | tree.Block():
                pending += node.body
            case _:
                pass


def used_names(*roots: object) -> set[str]:
    """Names used, without those that are parameters of a lambda around the use."""
    pending: list[Any] = list(roots)
    hidden: list[tuple[object, frozenset[str]]] = []  # bodies of lambdas, with the names that are theirs
    found: set[str] = set()
    children = tree.children
    params: frozenset[str] = frozenset()
    while True:
        while pending:
            node = pending.pop()
            kind = type(node)
            if kind is tree.Name:
                if node.id not in params:
                    found.add(node.id)
            elif kind is tree.Lambda:
                hidden.append((node.body, params.union(node.params)))
            elif kind is tree.Each:
                names, iterables = zip(*node.clauses)
                hidden.append((node.value, params.union(names)))
                hidden.append((tree.Sequence(iterables, span=node.span), params.union(names[:-1])))
            else:
                pending += children(node)
        if not hidden:
            return found
        body, params = hidden.pop()
        pending = [body]


def _annotations(function: tree.Function) -> Iterator[tree.Expr]:
    if function.returns is not None:
        yield function.returns
    for parameter in function.params:
        if parameter.annotation is not None:
            yield parameter.annotation
    for node in _statements(function):
        if isinstance(node, tree.Declare):
            yield node.annotation


def _bound_value(name: str, pyfunc: FunctionType, around: Mapping[str, object] = MappingProxyType({})) -> object:
    """In the closure, then `around`, then the globals."""
    code = pyfunc.__code__
    if name in code.co_freevars:
        try:
            return (pyfunc.__closure__ or ())[code.co_freevars.index(name)].cell_contents
        except ValueError:  # an empty cell: assigned later, or never
            return _MISSING
    return around[name] if name in around else pyfunc.__globals__.get(name, _MISSING)


def _defining_locals(code: CodeType) -> Mapping[str, object]:
    """Variables of the function in which this one is being defined.

    Python does not put a name into the closure that only a quoted (or postponed) annotation uses, so we look where the
    definition is running.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if any(map(is_, frame.f_code.co_consts, repeat(code))):
            return frame.f_locals if frame.f_locals is not frame.f_globals else {}
        frame = frame.f_back
    return {}
