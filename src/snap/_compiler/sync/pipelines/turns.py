"""Groups that take turns: an mbarrier whose slot u is the turn of unit u.

Input: the `Turn` statements of a kernel, outer ones first.  Output: what stands before the body of each and behind it.
Invariant: unit u's turn number j comes after turn j of unit u-1; that of unit 0 after turn j-1 of the last.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.hardware import WARP
from snap._compiler.ir.synced import PointKind
from snap._compiler.ir.types import BOOL, I32, THREAD1, Level, Privilege
from snap._compiler.ir.walk import bodies
from snap._compiler.sync.barriers.terms import binary, counted_up, number, read
from snap._compiler.sync.pipelines.lowered import Additions
from snap.diag.error import Diagnostic, SnapError
from snap.diag.span import Span


class Turns:
    def __init__(self, function: synced.Function, added: Additions):
        self.function, self.added = function, added
        self.unit_of: dict[int, ir.Var] = {}  # by group: which unit of it this is
        self.units: list[ir.Var] = []  # of the groups around, inner ones last

    def unit(self, s: ir.Group) -> ir.Declare:
        """The unit's number, taken before the group: inside, it would be 0."""
        var = self.unit_of[s.number] = self.added.variable("unit", s.privilege, s.span)
        return ir.Declare(var, ir.UnitId(s.privilege, s.outer, I32, span=s.span), span=s.span)

    def taken(self, s: ir.Turn) -> tuple[list[ir.Stmt], list[ir.Stmt]]:
        p, span = s.place.privilege, s.span
        held, threads = s.outer.known(p.level), self.function.place.known(Level.THREAD)
        units = held // p.n
        several = s.outer.top is Level.THREAD and held < threads  # maybe more such groups beside this one
        if several and threads % p.n:
            raise SnapError(
                Diagnostic(
                    "SNAP020",
                    f"groups of `{p}` cannot take turns here: they do not divide the block",
                    span,
                    help="choose groups whose size divides the block's",
                )
            )
        barrier = self.added.barrier("turn", threads // p.n if several else units, p.n // WARP, span)
        count = self.added.variable("turns", THREAD1, span)
        self.added.top.append(ir.Declare(count, number(0, span), span=span))
        point = self._point(p, span)
        unit = read(self.units[-1], span)
        first = ir.Cast(ir.Compare("==", unit, number(0, span), BOOL, span=span), I32, span=span)
        following = binary("%", binary("+", unit, 1, span), units, span)
        slot = unit
        if several:
            slot = read(self._place_in_block(p, threads // p.n, span), span)
            following = binary("+", binary("-", slot, unit, span), following, span)
        phase = binary("-", read(count, span), first, span)
        by = Privilege(Level.THREAD, WARP)
        return [synced.MBarrierWait(barrier, slot, phase, s.place, point, span=span)], [
            synced.MBarrierArrive(barrier, following, by, s.place, point, span=span),
            counted_up(count, span),
        ]

    def _point(self, p: Privilege, span: Span) -> synced.SyncPoint:
        text = f"units of {p} take turns, line {span.line}"
        number, arrivals, waiters = self.added.numbers.new(), "the unit before", "the next unit"
        return synced.SyncPoint(
            number, PointKind.MBARRIER, p, "turn", text, span, span, arrivals=arrivals, waiters=waiters, span=span
        )

    def _place_in_block(self, p: Privilege, groups: int, span: Span) -> ir.Var:
        """Take which group of that size this is in its block, where nothing has been grouped yet."""
        var = self.added.variable("unit_of_block", p, span)
        place = binary("%", ir.UnitId(p, self.function.place, I32, span=span), groups, span)
        self.added.top.append(ir.Declare(var, place, span=span))
        return var


def takes_turns(s: ir.Stmt) -> TypeGuard[ir.Group]:
    """Return whether it is a group whose units take turns: not those of groups and splits inside."""
    return isinstance(s, ir.Group) and any(isinstance(x, ir.Turn) for x in _of_this_group(s.body))


def _of_this_group(body: ir.Body) -> Iterator[ir.Stmt]:
    for s in body:
        yield s
        if not isinstance(s, (ir.Group, ir.Split)):
            for inner in bodies(s):
                yield from _of_this_group(inner)
