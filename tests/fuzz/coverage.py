"""What has been generated: kinds of IR nodes, operations, types, short declarations, and kinds of synchronization that the compiler put in."""

from __future__ import annotations

from collections import Counter
from typing import get_args

from fuzz.declared import FORMS
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.engines import Engine, Wait
from snap._compiler.ir.operations import ATOMICS, COLLECTIVES, MATH, ORDERS, SCOPES
from snap._compiler.ir.points import points
from snap._compiler.ir.walk import expressions, statements

SYNC_KINDS = ("thread", "warp", "block", "named", "cluster", "grid", "mbarrier")


def cover(compiled, seen: Counter) -> None:
    """Count what one kernel holds."""
    for function in functions(compiled.typed):
        _body(function.body, seen)
        seen["function" if not function.kernel else "kernel"] += 1
        for param in function.params:
            seen[type(param).__name__] += 1
    for function in functions(compiled.synced):
        for s in statements(function.body):
            match s:
                case synced.Sync(point, part=part):
                    seen[f"part {part}"] += 1
                case synced.MBarrierWait() | synced.MBarrierArrive() | synced.MBarrierExpect() | synced.Elect() | synced.CountedLoad() | synced.FencedWgmma():
                    seen[type(s).__name__] += 1
                    if isinstance(s, synced.MBarrierArrive) and s.copies:
                        seen["copies arrive"] += 1
                case synced.AsyncCommit(engine):
                    seen[f"commit {engine.value}"] += 1
        for barrier in function.mbarriers:
            seen["barrier everywhere" if barrier.everywhere else "barrier"] += 1
    for point in points(compiled.synced):
        seen[f"sync {point.kind}"] += 1
        for wait, younger in point.waits:
            seen[f"wait {wait.value}{'' if younger == 0 else ', some stay in flight'}"] += 1
        if point.fence:
            seen["proxy fence"] += 1
        if point.threads:
            seen["some only arrive"] += 1


def functions(top: ir.Function) -> list[ir.Function]:
    """A kernel, and all it calls."""
    found, rest = {top.uid: top}, [top]
    while rest:
        for s in statements(rest.pop().body):
            if isinstance(s, ir.Call) and s.function.uid not in found:
                found[s.function.uid] = s.function
                rest.append(s.function)
    return list(found.values())


def _body(body: ir.Body, seen: Counter) -> None:
    for s in statements(body):
        seen[type(s).__name__] += 1
        match s:
            case ir.Collective():
                seen[f"collective {s.op}"] += 1
            case ir.Atomic():
                seen[f"atomic {s.op}"] += 1
                seen[f"order {s.order}"] += 1
                seen[f"scope {s.scope}"] += 1
            case ir.AsyncCopy(valid=valid) if valid is not None:
                seen["zero fill"] += 1
            case ir.AsyncCopy(elements=elements) if elements is not None:
                seen["partial fill"] += 1
            case ir.BoxCopy():
                seen[f"box {s.op}"] += 1
            case ir.Wgmma():
                seen[f"wgmma {s.type}"] += 1
            case ir.Assign(target):
                seen[type(target).__name__] += 1
                if isinstance(target, ir.ComponentTarget):
                    seen[f"ComponentTarget of {type(target.of).__name__}"] += 1
            case ir.For(unroll=unroll) if unroll:
                seen["unrolled"] += 1
            case ir.Case(rest=True):
                seen["case _"] += 1
            case ir.DeclareShared(obj):
                for what in ("spread", "swizzle", "depth", "lag"):
                    if getattr(obj, what):
                        seen[f"memory: {what}"] += 1
        for e in expressions(s):
            seen[type(e).__name__] += 1
            match e:
                case ir.Binary(op) | ir.Unary(op) | ir.Compare(op) | ir.Logical(op):
                    seen[f"{type(e).__name__} {op}"] += 1
                case ir.Math(op):
                    seen[f"math {op}"] += 1
                case ir.Cast(type=type_):
                    seen[f"to {type_}"] += 1


def kinds() -> list[str]:
    """All there is to reach: every node of the typed IR and of the synchronized one, every operation, every kind of point."""
    added = [c.__name__ for c in get_args(synced.OnlySynced) if c not in (synced.Sync, synced.AsyncCommit)]
    return [*(c.__name__ for c in get_args(ir.Typed)), *added, *(c.__name__ for c in (*get_args(ir.Expr), *get_args(ir.Target), *get_args(ir.Param))), "function", "kernel", "unrolled",
            *(f"collective {name}" for name in COLLECTIVES), *(f"atomic {name}" for name in ATOMICS), *(f"order {o}" for o in ORDERS), *(f"scope {s}" for s in SCOPES),
            *(f"math {name}" for name in MATH), *(f"Binary {op}" for op in "+ - * / % << >> & | ^".split()), *(f"Compare {op}" for op in "< <= > >= == !=".split()),
            *(f"Unary {op}" for op in ("-", "~", "not")), "Logical and", "Logical or", "zero fill", "partial fill", *(f"box {op}" for op in "load store add min max and or xor".split()),
            *(f"wgmma {t}" for t in "bf16 f16 tf32 e4m3 e5m2 e4m3.e5m2 e5m2.e4m3".split()), *(f"sync {kind}" for kind in SYNC_KINDS),
            *(f"wait {wait.value}{some}" for wait in Wait for some in ("", ", some stay in flight")), *(f"commit {engine.value}" for engine in Engine if engine is not Engine.THREADS),
            "part both", "part arrive", "part wait", "barrier", "barrier everywhere", "copies arrive", "proxy fence", "some only arrive",
            "memory: spread", "memory: swizzle", "memory: depth", "memory: lag", *(f"form: {form}" for form in FORMS)]
