"""Release the slots that wgmma in flight may still read, once these have completed.

Input: a kernel with all its waits, and the channels whose last users multiply.  Output: the same, each slot released
by the first wait that covers its products: one that is there anyway, before their results are used, or the one at the
end of the stage after it, which leaves exactly the younger groups in flight; that one is left out where on every path
others have done its work.  Invariant: a slot is released after its stage has ended and its products have, and before
the stage `lag` further ends, so that whoever fills it never waits forever. Non-goals: where products must be waited
for because of their registers (graph.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.dataflow import Forward
from snap._compiler.ir.effects import begins, effects
from snap._compiler.ir.engines import Engine, Wait
from snap._compiler.ir.numbering import Numbers
from snap._compiler.ir.rewrite import with_bodies
from snap._compiler.ir.synced import PointKind
from snap._compiler.ir.types import I32, WARPGROUP1, Level, Place
from snap._compiler.ir.walk import bodies, loop_values
from snap._compiler.sync.pipelines.lowered import Lagging, release
from snap.record import replace

OVER = 1 << 20  # more than any number of groups in flight: the products have ended, the slot is not given back yet


def release_slots(function: synced.Function, lagging: list[Lagging], numbers: Numbers) -> synced.Function:
    if lagging:
        function = replace(function, body=_waits_first(function.body))
    unsettled = {uid for one in lagging for uid in one.waits}
    for one in lagging:
        flow = _Flow(one, unsettled - one.waits)
        flow.body(function.body, Younger())
        function = replace(function, body=_rewritten(function.body, one, flow, None, numbers))
    return function


@dataclass(frozen=True, slots=True)
class Younger:
    """ended: groups of products younger than those of the last stage that ended, None where its slot was released;
    now: the same for the stage we are in; open: products of this stage are in no group yet.
    """

    ended: int | None = None
    now: int | None = None
    open: bool = False


def _least(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else min(a, b)


class _Flow(Forward[Younger]):
    """Along the role's own paths.  own: by wait at the end of a stage, what it must leave in flight, None where it has
    nothing to do; riding: other waits, and whether a slot is released there.
    """

    def __init__(self, one: Lagging, unsettled: set[int]):
        super().__init__()
        self.one, self.unsettled = one, unsettled  # waits of other channels: they may yet be left out
        self.objects = {o.uid for o in one.channel.objects}
        self.own: dict[int, int | None] = {}
        self.riding: dict[int, bool] = {}
        self.in_role = False

    def join(self, a: Younger, b: Younger, s: ir.Stmt) -> Younger:
        return Younger(_least(a.ended, b.ended), _least(a.now, b.now), a.open or b.open)

    def transfer(self, s: ir.Stmt, state: Younger) -> Younger:
        if begins(s) is Engine.PRODUCTS:
            reads = any(e.access is not None and e.access.view.obj.uid in self.objects for e in effects(s))
            return replace(state, open=True) if reads else state
        match s:
            case synced.AsyncCommit(Engine.PRODUCTS):
                ended = state.ended if state.ended in (None, OVER) else state.ended + 1
                return Younger(ended, 0 if state.open else None if state.now is None else state.now + 1)
            case synced.Sync(point) if (younger := point.younger(Wait.PRODUCTS)) is not None:
                return self._wait(s, younger, state)
            case _:
                return state

    def behind(self, s: ir.Stmt, state: Younger) -> Younger:
        return self._ridden(s, s.outer, state) if isinstance(s, ir.Group) else state

    def after(self, body: ir.Body, state: Younger) -> Younger:
        if any(isinstance(s, ir.Declare) and s.var == self.one.used for s in body):
            return Younger()  # the pipeline is gone: nobody fills its slots again
        return state

    def runs(self, s: ir.For | ir.While) -> bool:
        return bool(loop_values(s))

    def split(self, s: ir.Split, state: Younger) -> Younger | None:
        """Into roles: the role's own case is run, and others that hold threads of it may be."""
        if self.in_role or s.level is not Level.THREAD or s.outer.top <= Level.THREAD:
            return super().split(s, state)
        mine = [c for c in s.cases if _overlaps(c, self.one.role)]
        own = [c for c in mine if (c.offset, c.size) == self.one.role]
        self.in_role = True
        ends = [self.body(c.body, state) for c in own or mine]
        self.in_role = False
        return self.joined(ends if own else [state, *ends], s)

    def _wait(self, s: synced.Sync, younger: int, state: Younger) -> Younger:
        if s.point.uid in self.one.waits:
            self.own[s.number] = state.ended
            return Younger(state.now)
        if s.point.uid in self.unsettled:
            return state
        if state.ended is not None and state.ended >= younger:
            state = replace(state, ended=OVER)
        return self._ridden(s, s.place, state)

    def _ridden(self, s: ir.Stmt, place: Place, state: Younger) -> Younger:
        """After this, if all of a warpgroup are together, the slots of wgmma that were waited for are released."""
        self.riding[s.number] = state.ended == OVER and (place.top > Level.THREAD or place.holds(WARPGROUP1))
        return replace(state, ended=None) if self.riding[s.number] else state


def _overlaps(case: ir.Case, role: tuple[int, int]) -> bool:
    return case.offset < sum(role) and (case.rest or role[0] < case.offset + case.size)


def _waits_first(body: ir.Body) -> ir.Body:
    """A wait for products that a group begins with stands before the group: the larger the group that has waited, the
    sooner it can say so.
    """
    out: list[ir.Stmt] = []
    for s in body:
        s = with_bodies(s, _waits_first)
        if isinstance(s, ir.Group) and s.privilege.level is Level.THREAD:
            at = next((k for k, x in enumerate(s.body) if not isinstance(x, ir.Declare)), len(s.body))
            if at < len(s.body) and _only_waits(wait := s.body[at]):
                out.append(replace(wait, place=s.outer))
                s = replace(s, body=(*s.body[:at], *s.body[at + 1 :]))
        out.append(s)
    return tuple(out)


def _only_waits(s: ir.Stmt) -> TypeGuard[synced.Sync]:
    return (
        isinstance(s, synced.Sync)
        and s.point.kind == PointKind.THREAD
        and all(wait is Wait.PRODUCTS for wait, _ in s.point.waits)
    )


def _rewritten(body: ir.Body, one: Lagging, flow: _Flow, role: tuple[int, int] | None, numbers: Numbers) -> ir.Body:
    out: list[ir.Stmt] = []
    idle = False  # the wait just left out has a release behind it
    for s in body:
        if idle and _releases(s, one):
            idle = False
            continue
        if isinstance(s, synced.Sync) and s.number in flow.own:
            left = flow.own[s.number]
            idle = left is None
            if left is not None:
                exact = left if one.lag == 1 and left < OVER else s.point.younger(Wait.PRODUCTS)
                out.append(replace(s, point=replace(s.point, waits=((Wait.PRODUCTS, exact),))))
            continue
        if isinstance(s, ir.Split) and role is None and s.level is Level.THREAD and s.outer.top > Level.THREAD:
            cases = tuple(replace(c, body=_rewritten(c.body, one, flow, (c.offset, c.size), numbers)) for c in s.cases)
            out.append(replace(s, cases=cases))
            continue
        out.append(with_bodies(s, lambda b: _rewritten(b, one, flow, role, numbers)))
        if isinstance(s, (synced.Sync, ir.Group)) and flow.riding.get(s.number):
            out += numbers.given(_given(s, one, role))
    return tuple(out)


def _releases(s: ir.Stmt, one: Lagging) -> bool:
    return isinstance(s, (ir.If, ir.While)) and any(
        isinstance(x, synced.MBarrierArrive) and x.barrier == one.barrier for b in bodies(s) for x in b
    )


def _given(s: synced.Sync | ir.Group, one: Lagging, role: tuple[int, int] | None) -> list[ir.Stmt]:
    """Every slot whose stage has ended."""
    used = ir.Read(one.used, I32, span=s.span)
    place = s.outer if isinstance(s, ir.Group) else s.place
    made = release(one if role is None else replace(one, place=place), used, one.lag > 1, s.span)
    if role is not None:
        return made
    case = ir.Case(one.role[0], one.role[1], False, one.place, tuple(made), span=s.span)
    return [ir.Split(Level.THREAD, place, (case,), span=s.span)]


__all__ = ["release_slots"]
