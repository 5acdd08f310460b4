"""Fragments in the slow interpreter: where the elements of A, B and C lie, as PTX's tables say it, and what follows from that.

Nothing here relies on registers being in order: a conversion looks up in the accumulator's matrix what A has at each of its places, and a
whole matrix is moved place by place.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

import numpy as np

from fuzz import slow_values as sv
from fuzz.slow_expressions import E, Expressions, Named, converted, in_units, settled
from fuzz.slow_values import Unsupported


@dataclass(frozen=True)
class Held:
    """What each row of the last dimension of a local array holds."""

    role: str
    element: object
    rows: int
    columns: int

    @property
    def threads(self) -> int:
        return 128 if self.rows == 64 else 32

    @property
    def each(self) -> int:
        return self.rows * self.columns // self.threads

    def place(self, thread: int, e: int) -> tuple[int, int]:
        """Row and column of element e of a thread."""
        warp, g, q = thread % self.threads // 32, thread % 32 // 4, thread % 4
        if self.role == "C":
            return 16 * warp + g + 8 * (e % 4 // 2), 8 * (e // 4) + 2 * q + e % 2
        n = max(1, 4 // sv.size_of(self.element))  # elements of a register
        register, k = divmod(e, n)
        if self.role == "B":
            return 4 * n * register + n * q + k, g
        return 16 * warp + g + (8 if register % 2 else 0), 4 * n * (register // 2) + n * q + k


def held(t) -> Held | None:
    """What an array of the type `slow_text.Registers` holds."""
    return None if t.fragment is None else Held(t.fragment[0], t.element, *t.fragment[1:])


def held_of(c: Expressions, node: ast.expr) -> Held | None:
    while isinstance(node, ast.Subscript):
        node = node.value
    found = c.scope.find(node.id) if isinstance(node, ast.Name) else None
    return found.fragment if isinstance(found, Named) else None


def fragment(c: Expressions, word: str, node: ast.Call) -> E:
    held = held_of(c, node.args[0])
    if word not in ("row", "column") or held is None:
        raise Unsupported(f"fragment.{word}")
    run, which = converted(settled(c.expression(node.args[1])), "i32").run, word == "column"
    return E("i32", lambda G, L: [held.place(lane.thread, j)[which] for lane, j in zip(L, run(G, L))])


def _matrix_places(held: Held, thread: int, shape: tuple):
    """Each index of an array of fragments beside each other, with row and column in all of their matrices."""
    for at in np.ndindex(*shape):
        row, column = held.place(thread, at[-1])
        yield at, (*at[:-2], row, column + (held.columns * at[-2] if len(at) > 1 else 0))


def to_a(c: Expressions, node: ast.Call, target: Held):
    """For each lane, the value of each index of the target's array, whose shape is given."""
    source, held = c.memory(node.args[0]), held_of(c, node.args[0])
    if held is None or target is None:
        raise Unsupported("fragment.to_A of a plain array")

    def values(G, L, shape: tuple) -> list[dict]:
        handles, found = source.run(G, L), [{} for _ in L]
        for unit in in_units(L, held.threads):
            matrix = {}
            for lane, p in enumerate(unit):
                for at, place in _matrix_places(held, lane, handles[p].shape):
                    matrix[place] = handles[p].load(at)
            for lane, p in enumerate(unit):
                for at, place in _matrix_places(target, lane, shape):
                    found[p][at] = sv.convert(matrix[place], held.element, target.element)
        return found
    return values


def is_to_a(node: ast.expr | None) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="fragment"), attr="to_A")):
            return True
    return False


def whole_matrix(c: Expressions, registers: ast.expr, matrix: ast.expr, store: bool) -> E:
    """`ldmatrix` and `stmatrix` of a matrix in shared memory, which may lie transposed."""
    held, transposed = held_of(c, registers), isinstance(matrix, ast.Attribute)
    own, memory = c.memory(registers), c.memory(matrix.value if transposed else matrix)

    def run(G, L):
        moves = []
        for lane, mine, h in zip(L, own.run(G, L), memory.run(G, L)):
            for at, (*_, row, column) in _matrix_places(held, lane.thread, mine.shape):
                zeros = (0,) * (len(h.shape) - 2)
                moves.append((mine, at, h, (*zeros, column, row) if transposed else (*zeros, row, column)))
        for mine, at, h, place in moves:
            if store:
                h.store(place, mine.load(at))
            else:
                mine.store(at, h.load(place))
        return [None] * len(L)
    return E(None, run)
