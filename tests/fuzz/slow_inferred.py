"""What the arguments of a call or a launch tell of constexpr parameters that are left out: types and sizes, read off the annotations of the other parameters.

A parameter tells where its annotation has the name alone: `ptr(const(T), (M, N))`, `ref(T[N])`, `T[N]`, `v: T`.  Arrays decide before values, values before numbers in the text.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fuzz.slow_text import Type, annotation, name_of
from fuzz.slow_values import Unsupported

ARRAY, VALUE, NUMBER = range(3)
DTYPES = {"float": "f", "int": "i", "uint": "u"}


@dataclass(frozen=True)
class Seen:
    """An argument: its element type, its extents (None where one is not a constant, or nothing is known), and how much that decides."""

    element: object
    shape: tuple | None
    rank: int


def constexprs(node: ast.FunctionDef) -> dict[str, bool]:
    """The constexpr parameters, and of each whether it is a type."""
    found = {}
    for a in node.args.args:
        kind, _ = annotation(a.annotation)
        if isinstance(kind, ast.Call) and name_of(kind.func) == "constexpr":
            found[a.arg] = isinstance(kind.args[0], ast.Name) and kind.args[0].id == "type"
    return found


def told(node: ast.FunctionDef, left: set[str], look) -> dict[str, object]:
    """The values of the parameters that are left.  look: the Seen of what is given for a parameter, None where nothing is."""
    found: dict[str, list[tuple[int, object]]] = {}
    for a in node.args.args:
        places = list(_places(annotation(a.annotation)[0], left))
        seen = look(a.arg) if places else None
        for name, axis, of in places if seen is not None else ():
            if axis is None:
                found.setdefault(name, []).append((seen.rank, Type(seen.element)))
            elif seen.shape is not None and len(seen.shape) == of and seen.shape[axis] is not None:
                found.setdefault(name, []).append((seen.rank, seen.shape[axis]))
    return {name: _decided(name, values) for name, values in found.items()}


def _decided(name: str, values: list[tuple[int, object]]) -> object:
    rank = min(rank for rank, _ in values)
    best = [value for r, value in values if r == rank]
    if rank == NUMBER:  # one with a point decides
        return next((value for value in best if value in (Type("f32"), Type("f64"))), best[0])
    if any(value != best[0] for value in best):
        raise Unsupported(f"arguments that tell `{name}` in two ways")
    return best[0]


def _places(node: ast.expr, left: set[str]) -> Iterator[tuple[str, int | None, int]]:
    """Where one of these names stands alone: as the type (no axis), or as a dimension of so many."""
    match node:
        case ast.Name(id=name) if name in left:
            yield name, None, 0
        case ast.Subscript(value=element, slice=dims):
            yield from _places(element, left)
            yield from _extents(dims, left)
        case ast.Call(args=[inner, *shape]) if name_of(node.func) in ("ptr", "ref", "const", "shared"):
            yield from _places(inner, left)
            for dims in shape:
                yield from _extents(dims, left)


def _extents(dims: ast.expr, left: set[str]) -> Iterator[tuple[str, int, int]]:
    items = dims.elts if isinstance(dims, ast.Tuple) else [dims]
    for axis, one in enumerate(items):
        if isinstance(one, ast.Name) and one.id in left:
            yield one.id, axis, len(items)


def launched(v: object) -> Seen:
    """An argument of a launch."""
    if isinstance(v, np.ndarray):
        kind = v.dtype.name.rstrip("0123456789")
        return Seen("bool" if kind == "bool" else DTYPES[kind] + v.dtype.name[len(kind):], v.shape, ARRAY)
    v = v.item() if isinstance(v, np.generic) else v
    return Seen("bool" if isinstance(v, bool) else "i32" if isinstance(v, int) else "f32", (), VALUE)
