"""Put the marked barriers into the text.

Input: a typed function and marks.  Output: the function with `Sync` statements, calls bound to synchronized callees.  A `break`, `continue` or `return` that leaves a
scope whose end is marked meets the barrier on its way out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from snap.ir import nodes as ir
from snap.sync.conflicts import Mark, Position


def insert(function: ir.Function, marks: dict[Position, list[Mark]], synchronized: Callable[[ir.Function], ir.Function]) -> ir.Function:
    body = _Inserter(marks, synchronized).body(function.body)
    return function if body is function.body else replace(function, body=body)


class _Inserter:
    def __init__(self, marks: dict[Position, list[Mark]], synchronized: Callable[[ir.Function], ir.Function]):
        self.marks, self.synchronized = marks, synchronized
        self.scopes: list[ir.Stmt] = []
        self.loop_depth = 0
        self.points: dict[tuple[Position, int], ir.Sync] = {}

    def syncs(self, at: Position, s: ir.Stmt) -> list[ir.Sync]:
        made = []
        for k, mark in enumerate(self.marks.get(at, ())):
            key = (at, k)
            if key not in self.points:
                point = ir.SyncPoint(len(self.points), mark.kind, mark.participants, mark.object, mark.reason, mark.first, mark.second, span=s.span)
                self.points[key] = ir.Sync(point, mark.place, span=s.span)
            made.append(self.points[key])
        return made

    def body(self, body: ir.Body) -> ir.Body:
        out: list[ir.Stmt] = []
        for s in body:
            out += self.syncs(("before", id(s)), s)
            match s:
                case ir.Break() | ir.Continue():
                    out += self.leaving(self.scopes[self.loop_depth:])
                case ir.Return():
                    out += self.leaving(self.scopes)
            out.append(self.statement(s))
            out += self.syncs(("after", id(s)), s)
        return body if len(out) == len(body) and all(a is b for a, b in zip(out, body)) else tuple(out)

    def leaving(self, scopes: list[ir.Stmt]) -> list[ir.Sync]:
        return [sync for scope in reversed(scopes) for sync in self.syncs(("after", id(scope)), scope)]

    def statement(self, s: ir.Stmt) -> ir.Stmt:
        match s:
            case ir.If():
                return _changed(s, then=self.body(s.then), other=self.body(s.other))
            case ir.While():
                pre = self.body(s.pre)
                condition = self.syncs(("condition", id(s)), s)
                return _changed(s, pre=(*pre, *condition) if condition else pre, body=self.in_loop(s.body))
            case ir.For():
                return _changed(s, body=self.in_loop(s.body))
            case ir.Group():
                return _changed(s, body=self.body(s.body))
            case ir.Split():
                cases = tuple(_changed(case, body=self.body(case.body)) for case in s.cases)
                return s if all(a is b for a, b in zip(cases, s.cases)) else replace(s, cases=cases)
            case ir.Partition() | ir.Claim():
                self.scopes.append(s)
                body = self.body(s.body)
                self.scopes.pop()
                return _changed(s, body=body)
            case ir.Call():
                return _changed(s, function=self.synchronized(s.function))
            case _:
                return s

    def in_loop(self, body: ir.Body) -> ir.Body:
        outer, self.loop_depth = self.loop_depth, len(self.scopes)
        result = self.body(body)
        self.loop_depth = outer
        return result


def _changed(node, **parts):
    if all(getattr(node, name) is value for name, value in parts.items()):
        return node
    return replace(node, **parts)
