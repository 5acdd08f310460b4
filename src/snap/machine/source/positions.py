"""Track, for each level, through which groups and split cases code was entered.

`UnitId` means a position relative to the group it stands in; written down here, it can be computed anywhere in the
function.
"""

from __future__ import annotations

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.types import Held, Level, Place
from snap._compiler.ir.walk import bodies, expressions

Chain = tuple[tuple[str, int], ...]  # ('group', n): index modulo n; ('case', offset): index minus offset
Relative = dict[Level, Chain]


def entered(relative: Relative, outer: Place, level: Level, n: int) -> Relative:
    """Inside a group of n units; a group of all units changes nothing."""
    held = outer.held(level)
    if level is Level.GRID or (held is not None and held.count == n and not held.open):
        return relative
    return {**relative, level: (*relative[level], ("group", n))}


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
    return entered(relative, whole, top, count)


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
                    self._body(s.body, entered(relative, s.outer, s.privilege.level, s.privilege.n))
                case ir.Split():
                    for case in s.cases:
                        self._body(case.body, sharded(relative, s.level, case))
                case _:
                    for inner in bodies(s):
                        self._body(inner, relative)
