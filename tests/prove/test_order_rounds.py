"""Arrivals that are too early: whatever the CPU machine finds wrong is not shown to be ordered, of barriers in two parts and of mbarriers, inside and outside of loops.

A role that arrives and goes on may be iterations ahead, and what it has in flight is not over when it arrives."""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace
from pathlib import Path

import mutations
import numpy as np
import pytest

from prove.test_order_paces import goes_wrong
from snap import *
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.engines import Engine, Wait
from snap._compiler.ir.synced import PointKind, SyncHalf
from snap._compiler.ir.walk import statements
from snap.prove.order.goal import order

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "sync"))
from sync.hopper_programs import PROGRAMS  # noqa: E402

X = np.arange(256, dtype=np.uint32)


@kernel(threads=96)
def ring(x: ptr(const(u32)), y: ptr(u32), n: int):
    with each(block, y):
        write, read = roles(64, 32)
        p: shared(u32[96])
        v: u32 @ thread[1] = 0
        for i in range(n):
            with write(p), each(thread, p) as t:
                p[t] = x[t + i]
            with read(p), each(thread) as t:
                v = v * 3 + p[t * 2 + 1]
        with each(thread, y) as t:
            y[t] = v


@kernel(threads=96)
def by_turns(x: ptr(const(u32)), y: ptr(u32), n: int):
    with each(block, y):
        write, read = roles(64, 32)
        p: shared(u32[96])
        v: u32 @ thread[1] = 0
        with write(p), each(thread, p) as t:
            p[t] = x[t]
        with read(p), each(thread) as t:
            v = p[t * 2 + 1]
        with write(p), each(thread, p) as t:
            p[t] = x[t + 1]
        with read(p), each(thread) as t:
            v = v + p[t * 2 + 1]
        with each(thread, y) as t:
            y[t] = v


OWN = {kernel.__name__: (kernel, (X, np.zeros(96, np.uint32), 3), 1) for kernel in (ring, by_turns)}
HOPPER = {name: (made[0], made[1], made[3]) for name, make in PROGRAMS.items() if (made := make())}


def synchronized(made) -> synced.Function:
    return made[0]._the_one({}).synced


@pytest.mark.parametrize("name", ("ring", "by_turns"))
def test_what_is_handed_round_is_ordered_and_nothing_less_is(name):
    function = synchronized(OWN[name])
    assert order(function).verdict == "ordered"
    for text, mutant in (*mutations.early_arrivals(function), *mutations.mutants(function)):
        assert goes_wrong(mutant, *OWN[name][1:]), text
        assert order(mutant).verdict != "ordered", text


def copied(*steps: str) -> synced.Function:
    """`ring`, where who reads copies into the array, too; steps: what its iteration does, the copy and the parts of its barriers."""
    function = synchronized(OWN["ring"])
    read = next(s for s in statements(function.body) if isinstance(s, ir.Assign) and isinstance(s.value, ir.Binary) and isinstance(s.value.right, ir.Load))
    write = next(s for s in statements(function.body) if isinstance(s, ir.Assign) and isinstance(s.target, ir.MemTarget))
    into, numbers = read.value.right.access, itertools.count(100_000)
    copy = ir.AsyncCopy(into, replace(write.value.access, index=into.index), span=read.span, number=next(numbers))
    parts = {}
    for claim in (s for s in statements(function.body) if isinstance(s, ir.Claim)):
        for s in claim.body:
            if isinstance(s, synced.Sync) and any(x is read for x in statements(claim.body)):
                parts["filled" if s.part is SyncHalf.WAIT else "free"] = s
    point = replace(parts["free"].point, kind=PointKind.THREAD, number=0, threads=0, waits=((Wait.COPIES, 0),))
    wait = lambda: synced.Sync(point, parts["free"].place, span=read.span, number=next(numbers))  # noqa: E731
    does = {**parts, "copied": wait(), "copy": None}

    def edit(s):
        if isinstance(s, ir.Claim) and any(x is read for x in statements(s.body)):
            copies = [x for x in s.body if x not in parts.values()]
            yield "copies", (replace(s, body=tuple(x for step in steps for x in (copies if step == "copy" else [does[step]]))),)

    def instead(s):
        if s is read:
            yield "a copy", (copy, synced.AsyncCommit(Engine.COPIES, span=read.span, number=next(numbers)))

    for one in (edit, instead):
        ((_, function),) = mutations.edited(function, one)
    return replace(function, body=(*function.body, wait()))


@pytest.mark.parametrize(("steps", "right"), (
    (("filled", "copy", "copied", "free"), True),
    (("filled", "copy", "free", "copied"), False),
    (("copied", "filled", "copy", "free"), False),
    (("filled", "copied", "copy", "free"), False),
    (("filled", "free", "copy", "copied"), False),
))  # fmt: skip
def test_a_copy_in_flight_is_not_over_for_who_arrives(steps, right):
    """Also where it is waited for in the next iteration."""
    function = copied(*steps)
    assert goes_wrong(function, *OWN["ring"][1:]) is not right
    found = order(function)
    assert (found.verdict == "ordered") is right, found
    assert right or found.open and not found.stuck
