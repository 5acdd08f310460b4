"""Hold where in a function the walk is, as values that are passed and kept, never changed.

`Where` follows from the text, and from the way through calls and loops that are written out; what has happened on the
paths there is `Paths`.  A `Moment` is both, at one statement.
"""

from __future__ import annotations

from snap._compiler.analysis.linear.forms import Form
from snap._compiler.analysis.linear.values import Frame, Position
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import Level, Place
from snap._compiler.sync.conflicts.paths import Paths
from snap._compiler.sync.conflicts.tokens import Here, Role
from snap.record import record, replace


@record
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

    def grouped(self, s: ir.Group) -> Where:
        return replace(self, at=self.at.grouped(s))

    def case(self, s: ir.Split, case: ir.Case) -> Where:
        at, learned = self.at.case(s, case)
        role = (case.offset, case.size) if into_roles(s) and not case.rest else self.role
        return replace(self, at=at, role=role, splits=self.splits + 1).knowing(learned)

    def called(self, s: ir.Call, frame: Frame) -> Where:
        return replace(self, at=self.at.called(s), frame=frame)


def into_roles(s: ir.Split) -> bool:
    """Return whether it splits the threads of a block, rather than of a part of it."""
    return s.level is Level.THREAD and s.outer.top > Level.THREAD


REGIONS = (ir.Group, ir.Call, ir.Split)  # others of the units around run beside what is in there


def region(s: ir.Group | ir.Call | ir.Split, k: int) -> Place:
    """Return the place of the k-th body."""
    if isinstance(s, ir.Split):
        return s.cases[k].place
    return s.place if isinstance(s, ir.Group) else s.function.place


@record
class Moment:
    """A statement as the walk comes to it.

    around  whether a loop around it is walked again, with what came around and nothing else: its accesses have been
            made before
    """

    s: ir.Stmt
    where: Where
    paths: Paths
    around: bool

    @property
    def atomic(self) -> ir.Atomic:
        """The statement, where the walk has come to an atomic."""
        assert isinstance(self.s, ir.Atomic)
        return self.s
