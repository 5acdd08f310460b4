"""A synchronized function with one of its points taken out."""

from __future__ import annotations

from dataclasses import replace

from snap.ir import nodes as ir
from snap.ir.walk import statements


def points_of(function: ir.Function) -> list[ir.SyncPoint]:
    from snap.sync import points

    return points(function)


def without(function: ir.Function, point: ir.SyncPoint) -> ir.Function:
    def body(b: ir.Body) -> ir.Body:
        return tuple(statement(s) for s in b if not (isinstance(s, ir.Sync) and s.point is point))

    def statement(s: ir.Stmt) -> ir.Stmt:
        match s:
            case ir.If():
                return replace(s, then=body(s.then), other=body(s.other))
            case ir.While():
                return replace(s, pre=body(s.pre), body=body(s.body))
            case ir.For() | ir.Group() | ir.Partition() | ir.Claim():
                return replace(s, body=body(s.body))
            case ir.Split():
                return replace(s, cases=tuple(replace(case, body=body(case.body)) for case in s.cases))
            case ir.Call():
                return replace(s, function=without(s.function, point))
            case _:
                return s

    holds = any(isinstance(s, ir.Call) or isinstance(s, ir.Sync) and s.point is point for s in statements(function.body))
    return replace(function, body=body(function.body)) if holds else function
