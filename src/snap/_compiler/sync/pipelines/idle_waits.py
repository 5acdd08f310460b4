"""Waits for products that find nothing to wait for.

Input: a synchronized kernel, each role a program of its own.  Output: the same without the waits for products that, on
every path, others have done the work of: no more groups are in flight than the wait would leave.  Such waits come about
where registers are used again and a slot is released behind the same products (release_slots.py).  Invariant:
whatever had come to its end at a statement still has.  Non-goals: waits for anything else.
"""

from __future__ import annotations

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.dataflow import Forward
from snap._compiler.ir.engines import Engine, Wait
from snap._compiler.ir.rewrite import with_bodies
from snap._compiler.ir.synced import PointKind, SyncHalf
from snap._compiler.ir.walk import statements
from snap.record import replace

MOST_GROUPS = 64  # groups that are told apart: beyond, any number may be in flight


def remove_idle_waits(function: synced.Function) -> synced.Function:
    if not any(_waits(s) for s in statements(function.body)):
        return function
    flight = _Flight()
    flight.body(function.body, 0)
    idle = {key for key, most in flight.finds.items() if most <= flight.leaves[key]}
    return replace(function, body=_without(function.body, idle)) if idle else function


def _waits(s: ir.Stmt) -> bool:
    """Return whether it waits for products and does nothing else."""
    return (
        isinstance(s, synced.Sync)
        and s.point.kind == PointKind.THREAD
        and not s.point.fence
        and [wait for wait, _ in s.point.waits] == [Wait.PRODUCTS]
    )


class _Flight(Forward[int]):
    """Count the groups that a thread may have in flight.  finds: by wait, the most it finds; leaves: what it leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.finds: dict[int, int] = {}
        self.leaves: dict[int, int] = {}

    def join(self, a: int, b: int, s: ir.Stmt) -> int:
        return max(a, b)

    def transfer(self, s: ir.Stmt, most: int) -> int:
        match s:
            case synced.AsyncCommit(Engine.PRODUCTS):
                return min(most + 1, MOST_GROUPS)
            case synced.Sync(point, part=SyncHalf.BOTH) if (younger := point.younger(Wait.PRODUCTS)) is not None:
                if _waits(s):
                    self.finds[s.number], self.leaves[s.number] = most, younger
                return min(most, younger)
            case ir.Call(function):
                commits = any(
                    isinstance(x, synced.AsyncCommit) and x.engine is Engine.PRODUCTS for x in statements(function.body)
                )
                return MOST_GROUPS if commits else most
            case _:
                return most


def _without(body: ir.Body, idle: set[int]) -> ir.Body:
    return tuple(with_bodies(s, lambda inner: _without(inner, idle)) for s in body if s.number not in idle)


__all__ = ["remove_idle_waits"]
