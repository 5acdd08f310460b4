"""Find the local arrays that wgmma in flight may read or write, where others are about to be named.

Input:      a synchronized function
Output:     by statement, the arrays that a fence may name (`fences`), whether a wgmma starts anew (`fresh`), and for a
            wait those that it settles and those that it leaves in flight (`waits`); the accumulators whose values go
            from one wgmma into another (`carried`), and the arrays that some fence must not name (`unnamed`)
Invariant:  what is named is in flight on no path: a wait that leaves groups in flight names none of their registers, so
            that the compiler below has no reason to touch them there
Non-goals:  whether the waits are enough (`snap._compiler.sync` saw to it); functions that are called, since those with wgmma are
            inlined before
"""

from __future__ import annotations

from dataclasses import dataclass, field

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.dataflow import Forward
from snap._compiler.ir.effects import begins, effects
from snap._compiler.ir.engines import Engine, Wait
from snap._compiler.ir.synced import SyncHalf
from snap._compiler.ir.walk import bodies, statements

OPEN = -1  # of a wgmma that no group holds yet; else how many groups are younger than its own
GroupsBehind = dict[ir.Var, int]  # of the arrays in flight, the least on any path


@dataclass(slots=True)
class RegistersInFlight:
    """fences: the arrays of a group of wgmma that are not in flight before it, by its first statement.  fresh: wgmma
    from zero into accumulators that are not in flight: what these held is needed by nobody.  carried: accumulators
    into which there is another one.  unnamed: arrays that are in flight on some way to a fence before a wgmma of them, so
    that what threads write on another way is to be named where it is written.  waits: by statement, (what is in flight before and not after, what is after).
    """

    fences: dict[int, tuple[ir.Var, ...]] = field(default_factory=dict)
    waits: dict[int, tuple[frozenset[ir.Var], frozenset[ir.Var]]] = field(default_factory=dict)
    fresh: set[int] = field(default_factory=set)
    carried: set[int] = field(default_factory=set)
    unnamed: set[ir.Var] = field(default_factory=set)

    @staticmethod
    def of(function: synced.Function) -> RegistersInFlight:
        walk = _FlightOfArrays(_groups(function.body, {}))
        walk.body(function.body, {})
        found = walk.flying
        products = [s for s in statements(function.body) if isinstance(s, ir.Wgmma)]
        found.carried = {s.acc.var.uid for s in products if s.number not in found.fresh}
        return found


def arrays(s: ir.Stmt) -> list[ir.Var]:
    """The local arrays that a wgmma reads or writes: its accumulators and, where A is in registers, its fragments."""
    return [e.var for e in effects(s) if e.engine is Engine.PRODUCTS and e.var is not None]


def _groups(body: ir.Body, found: dict[int, list[ir.Var]]) -> dict[int, list[ir.Var]]:
    """The arrays of the wgmma behind one fence, up to the next one, by the statement that has the fence."""
    group: list[ir.Var] | None = None
    for s in body:
        if begins(s) is not Engine.PRODUCTS:
            group = None
        elif isinstance(s, synced.FencedWgmma):
            group = found[s.number] = []
        if group is not None:
            group += [var for var in arrays(s) if var not in group]
        for inner in bodies(s):
            _groups(inner, found)
    return found


def _from_zero(s: ir.Wgmma) -> bool:
    return isinstance(s.zero, ir.Const) and bool(s.zero.value)


class _FlightOfArrays(Forward[GroupsBehind]):
    def __init__(self, groups: dict[int, list[ir.Var]]):
        super().__init__()
        self.groups, self.flying = groups, RegistersInFlight()

    def join(self, a: GroupsBehind, b: GroupsBehind, s: ir.Stmt) -> GroupsBehind:
        return a if a == b else {var: min(of[var] for of in (a, b) if var in of) for var in {**a, **b}}

    def transfer(self, s: ir.Stmt, ages: GroupsBehind) -> GroupsBehind:
        if begins(s) is Engine.PRODUCTS:
            if s.number in self.groups:
                self.flying.fences[s.number] = tuple(var for var in self.groups[s.number] if var not in ages)
                self.flying.unnamed.update(ages.keys() & self.groups[s.number])
            self.flying.fresh.discard(s.number)
            if isinstance(s, ir.Wgmma) and _from_zero(s) and s.acc.var not in ages:
                self.flying.fresh.add(s.number)
            return {**ages, **dict.fromkeys(arrays(s), OPEN)}
        match s:
            case synced.AsyncCommit(Engine.PRODUCTS):
                return {var: age + 1 for var, age in ages.items()}
            case synced.Sync(point) if s.part is not SyncHalf.WAIT:
                left = point.younger(Wait.PRODUCTS)
                if left is None:
                    return ages
                after = {var: age for var, age in ages.items() if age < left}
                self.flying.waits[s.number] = frozenset(ages).difference(after), frozenset(after)
                return after
            case _:
                return ages


__all__ = ["RegistersInFlight", "arrays"]
