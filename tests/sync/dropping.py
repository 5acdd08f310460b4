"""A synchronized function with one of its points taken out, and whether that shows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from snap import machine
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.synced import Elect, MBarrierWait, Sync, SyncPoint
from snap._compiler.ir.walk import statements
from snap.machine import MachineError


def points_of(function: ir.Function) -> list[SyncPoint]:
    from snap._compiler.ir.points import points

    return points(function)


def without(function: ir.Function, point: SyncPoint) -> ir.Function:
    """All parts of it are gone; arrivals at an mbarrier stay, since it counts them."""

    def is_it(s: ir.Stmt) -> bool:
        return isinstance(s, (Sync, MBarrierWait)) and s.point == point

    def body(b: ir.Body) -> ir.Body:
        return tuple(statement(s) for s in b if not is_it(s))

    def statement(s: ir.Stmt) -> ir.Stmt:
        match s:
            case ir.If():
                return replace(s, then=body(s.then), other=body(s.other))
            case ir.While():
                return replace(s, pre=body(s.pre), body=body(s.body))
            case ir.For() | ir.Group() | ir.Partition() | ir.Claim() | ir.Turn() | Elect():
                return replace(s, body=body(s.body))
            case ir.Split():
                return replace(s, cases=tuple(replace(case, body=body(case.body)) for case in s.cases))
            case ir.Call():
                return replace(s, function=without(s.function, point))
            case _:
                return s

    holds = any(isinstance(s, ir.Call) or is_it(s) for s in statements(function.body))
    return replace(function, body=body(function.body)) if holds else function


def copies(args) -> list:
    return [a.copy() if isinstance(a, np.ndarray) else a for a in args]


def goes_wrong(function: ir.Function, args, blocks: int, seed: int) -> bool:
    """Whether a race, or anything else, is found."""
    races: list = []
    try:
        machine.run_adversarial(function, copies(args), blocks, seed, races)
    except MachineError:
        return True
    return bool(races)


def is_missed(function: ir.Function, point: SyncPoint, launches: list[tuple[list, int]], seeds: int) -> bool:
    """Whether, without the point, some launch goes wrong in some order; small launches first."""
    broken = without(function, point)
    return any(goes_wrong(broken, args, blocks, seed) for seed in range(seeds) for args, blocks in launches)


def all_missed(kernel, args, blocks: int = 2, seeds: int = 10) -> bool:
    synced = kernel._the_one({}).synced
    return all(is_missed(synced, point, [(args, blocks)], seeds) for point in points_of(synced))
