"""Waits for products that find nothing to wait for.

Input: a synchronized kernel, each role a program of its own.  Output: the same without the waits for products that, on
every path, others have done the work of: no more groups are in flight than the wait would leave.  Such waits come about
where registers are used again and a slot is given back behind the same products (slots.py).  Invariant: whatever had
come to its end at a statement still has.  Non-goals: waits for anything else.
"""

from __future__ import annotations

from dataclasses import replace

from snap.ir import nodes as ir
from snap.ir import synced
from snap.ir.walk import bodies, statements, with_bodies

MOST = 64  # groups that are told apart: beyond, any number may be in flight


def without_idle_waits(function: synced.Function) -> synced.Function:
    if not any(_waits(s) for s in statements(function.body)):
        return function
    flight = _Flight()
    flight.body(function.body, 0)
    idle = {key for key, most in flight.found.items() if most <= flight.leaves[key]}
    return replace(function, body=_without(function.body, idle)) if idle else function


def _waits(s: ir.Stmt) -> bool:
    """Whether it waits for products and does nothing else."""
    return (
        isinstance(s, synced.Sync)
        and s.point.kind == "thread"
        and not s.point.fence
        and [engine for engine, _ in s.point.waits] == ["wgmma"]
    )


def _most(states: list[int | None]) -> int | None:
    """None: not reachable."""
    return max((n for n in states if n is not None), default=None)


class _Flight:
    """How many groups a thread may have in flight.  found: by wait, the most it finds; leaves: what it leaves."""

    def __init__(self) -> None:
        self.found: dict[int, int] = {}
        self.leaves: dict[int, int] = {}
        self.loops: list[tuple[list[int], list[int]]] = []

    def body(self, body: ir.Body, most: int | None) -> int | None:
        for s in body:
            if most is None:
                return None
            most = self._statement(s, most)
        return most

    def _statement(self, s: ir.Stmt, most: int) -> int | None:
        match s:
            case ir.Break() | ir.Continue():
                self.loops[-1][isinstance(s, ir.Continue)].append(most)
                return None
            case ir.Return():
                return None
            case synced.AsyncCommit("wgmma"):
                return min(most + 1, MOST)
            case synced.Sync(point, part="both") if (younger := point.younger("wgmma")) is not None:
                if _waits(s):
                    self.found[s.number] = max(most, self.found.get(s.number, 0))
                    self.leaves[s.number] = younger
                return min(most, younger)
            case ir.If():
                return _most([self.body(s.then, most), self.body(s.other, most)])
            case ir.Split(cases=cases):
                return _most([most, *(self.body(case.body, most) for case in cases)])
            case ir.For() | ir.While():
                return self._loop(s, most)
            case ir.Call(function):
                commits = any(
                    isinstance(x, synced.AsyncCommit) and x.engine == "wgmma" for x in statements(function.body)
                )
                return MOST if commits else most
            case _:
                for inner in bodies(s):
                    most = self.body(inner, most)
                    if most is None:
                        return None
                return most

    def _loop(self, s: ir.For | ir.While, head: int) -> int | None:
        while True:
            breaks: list[int] = []
            continues: list[int] = []
            self.loops.append((breaks, continues))
            test = self.body(s.pre, head) if isinstance(s, ir.While) else head
            end = self.body(s.body, test)
            self.loops.pop()
            grown = _most([head, end, *continues])
            if grown == head:
                return _most([test, *breaks])
            head = grown


def _without(body: ir.Body, idle: set[int]) -> ir.Body:
    return tuple(with_bodies(s, lambda inner: _without(inner, idle)) for s in body if s.number not in idle)


__all__ = ["without_idle_waits"]
