"""Where in a function the walk is, as values that are passed and kept, never changed.

`Where` follows from the text, and from the way through calls and loops that are written out; what has happened on the
paths there is `Paths`.  A `Moment` is both, at one statement.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from snap.analysis import linear
from snap.analysis.linear import Form
from snap.analysis.values import Frame, Position
from snap.ir import nodes as ir
from snap.ir.types import Level, Place
from snap.sync.paths import Paths
from snap.sync.tokens import Here, Role


@dataclass(frozen=True, slots=True)
class Where:
    """frame     the calls we are in
    at        who is here: the index of the current units at each level, and the place
    facts     what is known of unknowns here: forms that are not negative
    loops     the loops we are in, by number
    once      how many of them have one iteration: they are none, when it comes to what is done how often
    unrolled  of the loops we are in whose iterations are walked one by one, which ones
    scopes    the lowering scopes we are in, each with its calls
    role      the case of the outermost split of the block's threads
    splits    how many splits of threads: only some of a block's threads are here
    """

    frame: Frame
    at: Position
    facts: tuple[Form, ...] = ()
    loops: tuple[int, ...] = ()
    once: int = 0
    unrolled: tuple[int, ...] = ()
    scopes: tuple[tuple[Frame, ir.Partition | ir.Claim], ...] = ()
    role: Role | None = None
    splits: int = 0

    def here(self, s: ir.Stmt) -> tuple[Here, tuple[int, ...]]:
        """A statement, each time it is written out."""
        return (self.frame, s.number), self.unrolled

    def knowing(self, facts: list[Form]) -> Where:
        return replace(self, facts=(*self.facts, *facts)) if facts else self

    def index(self, level: Level) -> Form:
        return self.at.index[level] if level is not Level.GRID else linear.ZERO

    def entered(self, level: Level, index: Form, place: Place) -> Where:
        return replace(self, at=self.at.entered(level, index, place))

    def grouped(self, s: ir.Group) -> Where:
        level, n = s.privilege.level, s.privilege.n
        held, index = s.outer.held(level), self.index(level)
        if held.open or held.count != n:
            index = linear.remainder(index, n)
        return self.entered(level, index, s.place)

    def case(self, s: ir.Split, case: ir.Case) -> Where:
        index = linear.subtract(self.at.index[s.level], linear.number(case.offset))
        learned = [index]
        if case.rest:
            index = linear.remainder(index, case.size)
        else:
            learned.append(linear.subtract(linear.number(case.size - 1), index))
        role = (case.offset, case.size) if into_roles(s) and not case.rest else self.role
        inside = replace(self.entered(s.level, index, case.place), role=role, splits=self.splits + 1)
        return inside.knowing(learned)

    def called(self, s: ir.Call, frame: Frame) -> Where:
        top = s.function.place.top
        index = self.index(top)
        held, required = s.place.held(top), s.function.place.held(top)
        if top is not Level.GRID and (held is None or held.open or held.count != required.count):
            index = linear.remainder(index, required.count)
        return replace(self.entered(top, index, s.function.place), frame=frame)


def into_roles(s: ir.Split) -> bool:
    """Whether it splits the threads of a block, rather than of a part of it."""
    return s.level is Level.THREAD and s.outer.top > Level.THREAD


@dataclass(frozen=True, slots=True)
class Moment:
    """A statement as the walk comes to it.

    around  whether a loop around it is walked again, with what came around and nothing else: its accesses have been
            made before
    """

    s: ir.Stmt
    where: Where
    paths: Paths
    around: bool
