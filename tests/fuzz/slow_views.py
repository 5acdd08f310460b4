"""Views, for the slow interpreter: an array of the memory's own indices, seen so by NumPy.  Shares nothing with src/snap.

Input: the `ast` of `view=...`, and at run time the shape of the memory and the view's numbers.  Output: for each unit a handle that looks its elements up in a table.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

import numpy as np

from fuzz.slow_memory import Around, Handle
from fuzz.slow_values import Trap, Unsupported


@dataclass(frozen=True)
class Viewed:
    """A view bound to a name outside of kernels."""

    node: ast.expr


def is_view(node: ast.expr) -> bool:
    match node:
        case ast.BinOp(op=ast.RShift()):
            return is_view(node.left)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="views"))):
            return True
        case _:
            return False


def steps(node: ast.expr, static, number) -> list[tuple[str, list]]:
    """Words with what evaluates their numbers; of `mapped`, with the steps of the view inside."""
    match node:
        case ast.BinOp(left=left, op=ast.RShift(), right=right):
            return steps(left, static, number) + steps(right, static, number)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="views"), attr="mapped"), args=[inner]):
            return [("mapped", steps(inner, static, number))]
        case ast.Call(func=ast.Attribute(value=ast.Name(id="views"), attr=word), args=args):
            return [(word, [number(a) for a in args])]
        case ast.Name(id=name):
            found = static(name)
            if isinstance(found, Viewed):
                return steps(found.node, static, number)
    raise Unsupported(f"the view `{ast.unparse(node)}`")


def settled(of: list, evaluate) -> tuple:
    """The steps with numbers."""
    return tuple((word, settled(inside, evaluate) if word == "mapped" else tuple(map(evaluate, inside))) for word, inside in of)


def shown(a: np.ndarray, of: tuple) -> np.ndarray:
    for word, numbers in of:
        a = {"mapped": _mapped, **WORDS}[word](a, *([numbers] if word == "mapped" else numbers))
    return a


def _mapped(a, inside):
    return np.stack([shown(row, inside) for row in a])


def _chunks(a, k):
    return a[: len(a) // k * k].reshape(len(a) // k, k, *a.shape[1:])


def _tiles(a, height, width):
    down, across = a.shape[0] // height, a.shape[1] // width
    return a[: down * height, : across * width].reshape(down, height, across, width, *a.shape[2:]).swapaxes(1, 2)


def _swizzled(a, k):
    rows, columns = np.indices(a.shape[:2])
    return a[rows, columns ^ rows % k]


WORDS = {
    "chunks": _chunks,
    "interleaved": lambda a, k: _chunks(a, k).swapaxes(0, 1),
    "tiles": _tiles,
    "joined": lambda a: a.reshape(-1, *a.shape[2:]),
    "transposed": lambda a: a.swapaxes(0, 1),
    "backwards": lambda a: a[::-1],
    "upto": lambda a, k: a[:k],
    "after": lambda a, k: a[k:],
    "banded": lambda a, g: np.concatenate([a[top : top + g].swapaxes(0, 1).reshape(-1, *a.shape[2:]) for top in range(0, len(a), g)]),
    "swizzled": _swizzled,
    "windows": lambda a, k, step: np.stack([a[first : first + k] for first in range(0, len(a) - k + 1, step)]),
}


class Shown(Around):
    """A unit's part: the flat indices of its elements; None where there is no such part, and an access is a trap."""

    def __init__(self, parent: Handle, table: np.ndarray | None):
        super().__init__(parent, 1 if table is None or table.ndim == 0 else table.ndim)
        self.table = table if table is None or table.ndim else table.reshape(1)

    @property
    def shape(self):
        if self.table is None:
            raise Trap("a part that does not exist")
        return self.table.shape

    def moved(self, index):
        if self.table is None or len(index) != self.table.ndim or not all(0 <= i < extent for i, extent in zip(index, self.table.shape)):
            raise Trap(f"out of bounds: {index} of a part of {None if self.table is None else self.table.shape}")
        return tuple(int(i) for i in np.unravel_index(self.table[index], self.parent.shape))


_tables: dict[tuple, np.ndarray] = {}


def table(shape: tuple, of: tuple) -> np.ndarray:
    key = shape, of
    if key not in _tables:
        if len(_tables) > 500:
            _tables.clear()
        _tables[key] = shown(np.arange(int(np.prod(shape))).reshape(shape), of)
    return _tables[key]


def parts(parent: Handle, of: tuple, unit: int, own: bool, chosen: tuple | None) -> list[Handle]:
    """What a unit gets; two handles where the last step is `split_at`."""
    split = of[-1][1][0] if of[-1][0] == "split_at" else None
    a = table(parent.shape, of if split is None else of[:-1])
    if chosen is None:
        count = 0 if own else max(a.ndim - len(parent.shape), 1)
        inside = unit < int(np.prod(a.shape[:count]))
        chosen = tuple(int(i) for i in np.unravel_index(unit, a.shape[:count])) if count and inside else () if inside else None
    elif not all(0 <= i < extent for i, extent in zip(chosen, a.shape)):
        chosen = None
    part = None if chosen is None else a[chosen]
    if split is None:
        return [Shown(parent, None if part is None else np.asarray(part))]
    return [Shown(parent, None if part is None else part[where]) for where in (slice(split), slice(split, None))]
