"""Count what a piece of program begins asynchronously: bytes that loads bring, groups of products.

Input: a statement.  Output: a number, or None where it depends on what is known at run time only.  Non-goals: when it
ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.effects import begins
from snap._compiler.ir.engines import Engine
from snap._compiler.ir.walk import bodies, loop_values, statements


def total(counts: Iterable[int | None]) -> int | None:
    """Add counts; None if one of them is not known."""
    found = 0
    for n in counts:
        if n is None:
            return None
        found += n
    return found


def box_bytes(s: ir.BoxCopy) -> int:
    """Count the bytes of a box."""
    return math.prod(s.tile.shape) * s.tile.access.view.elem.bytes


def bytes_of(s: ir.Stmt, objects: set[int]) -> int | None:
    """Count the bytes that the loads in a statement bring; None where it depends."""
    match s:
        case ir.BoxCopy(op=ir.BoxOp.LOAD, tile=tile) if tile.access.view.obj.uid in objects:
            return box_bytes(s)
        case ir.For() if (values := loop_values(s)) is not None:
            inner = _sum(s.body, objects)
            return None if inner is None else inner * len(values)
        case ir.If() | ir.While() | ir.For():
            return None if any(_sum(b, objects) != 0 for b in bodies(s)) else 0
        case _:
            return total(_sum(b, objects) for b in bodies(s))


def _sum(body: ir.Body, objects: set[int]) -> int | None:
    return total(bytes_of(s, objects) for s in body)


def groups_of(s: ir.Stmt) -> int | None:
    """Count the groups of wgmma that a statement begins; None where it depends.  Cases of a split run side by side."""
    if _multiplies(s):
        return 1
    match s:
        case ir.If() | ir.While():
            return 0 if not any(map(_multiplies, statements((s,)))) else None
        case ir.For() if (values := loop_values(s)) is not None:
            inner = _in_body(s.body)
            return None if inner is None else inner * len(values)
        case ir.For():
            return 0 if _in_body(s.body) == 0 else None
        case ir.Split(cases=cases):
            counts = {_in_body(case.body) for case in cases} - {0}
            return 0 if not counts else next(iter(counts)) if len(counts) == 1 else None
        case _:
            return total(map(_in_body, bodies(s)))


def _in_body(body: ir.Body) -> int | None:
    begun = (s for k, s in enumerate(body) if not (k and _multiplies(s) and _multiplies(body[k - 1])))
    return total(map(groups_of, begun))


def _multiplies(s: ir.Stmt) -> bool:
    return begins(s) is Engine.PRODUCTS
