"""Track, for each level, through which groups and split cases code was entered.

`UnitId` means a position relative to the group it stands in; written down here, it can be computed anywhere in the
function.
"""

from __future__ import annotations

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.types import Held, Level, Place, Privilege
from snap._compiler.ir.walk import bodies, expressions

# ('group', n): index modulo n; ('case', offset): index minus offset; ('stride', n, run, step): which member
Chain = tuple[tuple, ...]
Relative = dict[Level, Chain]


def entered(relative: Relative, outer: Place, p: Privilege) -> Relative:
    """Inside a group; one of all units changes nothing."""
    shape = outer.inner(p)
    if shape is None:
        return relative
    stride = shape.stride
    step = ("group", shape.n) if stride is None else ("stride", shape.n, stride.run, stride.step)
    return {**relative, p.level: (*relative[p.level], step)}


def sharded(relative: Relative, level: Level, case: ir.Case) -> Relative:
    chain = relative[level] if case.offset == 0 else (*relative[level], ("case", case.offset))
    return {**relative, level: (*chain, ("group", case.size)) if case.rest else chain}


def at_start(f: synced.AnyFunction) -> Relative:
    """A function starts as if in a group of what it requires at its highest level."""
    relative: Relative = {Level.CLUSTER: (), Level.BLOCK: (), Level.THREAD: ()}
    top = f.place.top
    count = f.place[top].count
    if top is Level.GRID or count is None:
        return relative
    whole = Place(((top, Held(None)),))
    return entered(relative, whole, Privilege(top, count))


class Positions:
    def __init__(self, f: synced.AnyFunction):
        self.start = at_start(f)
        self._of: dict[int, Relative | None] = {}
        self._body(f.body, self.start)

    def of(self, e: ir.UnitId) -> Relative | None:
        """None where one node stands in several positions."""
        return self._of.get(id(e))

    def _body(self, body: ir.Body, relative: Relative) -> None:
        for s in body:
            for part in expressions(s):
                if isinstance(part, ir.UnitId):
                    self._of[id(part)] = relative if self._of.get(id(part), relative) == relative else None
            match s:
                case ir.Group():
                    self._body(s.body, entered(relative, s.outer, s.privilege))
                case ir.Split():
                    for case in s.cases:
                        self._body(case.body, sharded(relative, s.level, case))
                case _:
                    for inner in bodies(s):
                        self._body(inner, relative)
