"""The IR's invariants (snap/_compiler/ir/invariants.py): each row can fail, and says where; and docs/system.md shows the table."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from corpus import OK, ROOT, TESTS, Program, kernels_of
from machine import build as b

import snap._compiler.sync
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.invariants import TABLE
from snap._compiler.ir.numbering import Numbers
from snap._compiler.ir.synced import Stage
from snap._compiler.ir.types import BLOCK1, BOOL, F32, GRID1, I32, THREAD1, WARP1, Array, Level, Privilege
from snap._compiler.ir.verify import BrokenIR, Verifier
from snap._compiler.sync import PASSES
from snap._compiler.sync.roles.begin import number_statements

IN_BLOCK = b.block_place(64)
ZERO, ONE, TRUE = b.const(0), b.const(1), b.const(True, BOOL)


def typed(*body, params=(), smem=0, **more):
    """A kernel of 64 threads; the statements stand in a group of the block."""
    grid = b.place(64)
    whole = ir.Group(BLOCK1, grid, grid.grouped(BLOCK1), tuple(body), span=b.SPAN)
    return Stage.TYPED, replace(b.kernel(params, [whole], threads=64, smem=smem), **more)


def pipelined(*body, barriers=(), stage=Stage.PIPELINED, **more):
    _, function = typed(*body, **more)
    return stage, replace(number_statements(function, Numbers()), mbarriers=barriers)


def device(body, returns=I32, params=()):
    return Stage.TYPED, ir.Function(7, "f", False, params, returns, IN_BLOCK, tuple(body), 0, False, span=b.SPAN)


def value(v, e):
    return b.assign(v, e)


X, Y, T = b.var("x"), b.var("y"), b.var("t", privilege=THREAD1)
S, A = b.shared("s", I32, 64), b.array("a", I32)
FULL = b.barrier("full", 2, 1)
ARR = b.var("r", Array(I32, (4,)))
CLAIM = ir.Handle(901, "mine", S.obj, WARP1, False, ir.Origin.CLAIM, S, span=b.SPAN)
MINE = ir.Claim(S, CLAIM, IN_BLOCK, (b.store(CLAIM, ZERO, ONE),), span=b.SPAN)
TILE = b.tile(S, (ZERO,), (64,))
SPLIT = b.split(IN_BLOCK, (32, lambda place: []), (32, lambda place: []))
POINT = b.point("block", BLOCK1)


def sync(point=POINT, place=IN_BLOCK, part="both"):
    return synced.Sync(point, place, synced.SyncHalf(part), span=b.SPAN)


def returning(e):
    return ir.Return(e, span=b.SPAN)


def operation(op, args=(), requires=WARP1, place=IN_BLOCK):
    return ir.Collective(op, requires, place, (), tuple(args), span=b.SPAN)


CALLEE = device((returning(ONE),))[1]

# By row: programs that break it.
BROKEN = {
    "operands": [
        typed(b.declare(X, b.binary("+", ONE, b.const(1.0, F32)))),
        typed(b.declare(X, b.binary("+", ONE, ONE, F32))),
        typed(b.declare(X, b.binary("<<", ONE, b.const(1.0, F32)))),
        typed(b.if_(b.compare("<", ONE, b.const(1.0, F32)), ())),
    ],
    "truth": [
        typed(b.if_(ir.Logical("and", TRUE, ONE, BOOL, span=b.SPAN), ())),
        typed(b.declare(X, ir.Select(ONE, ONE, ONE, I32, span=b.SPAN))),
        typed(b.declare(X, ir.Select(TRUE, ONE, TRUE, I32, span=b.SPAN))),
        typed(b.declare(X, ir.Compare("<", ONE, ONE, I32, span=b.SPAN))),
    ],
    "pure functions": [typed(b.declare(X, ir.Math(op, (ONE,), I32, span=b.SPAN))) for op in ("min", "nonsense")],
    "read types": [typed(b.declare(X, ONE), b.declare(b.var("z", F32), ir.Read(X, F32, span=b.SPAN)))],
    "elements": [
        typed(b.declare(b.var("z", F32), ir.Load(b.access(A, ZERO), F32, span=b.SPAN)), params=(A,)),
        typed(b.declare(ARR, zero=True), b.declare(X, ir.Elem(ir.ArrayRef(ARR, I32, (4,)), (ZERO, ZERO), I32, span=b.SPAN))),
        typed(b.declare(ARR, zero=True), b.declare(X, ir.Elem(ir.ArrayRef(ARR, I32, (4,)), (TRUE,), I32, span=b.SPAN))),
    ],
    "declared": [
        typed(b.declare(X, b.read(Y))),
        typed(value(X, ONE)),
        typed(b.if_(TRUE, (b.declare(X, ONE),)), value(X, ONE)),
        typed(ir.While((), b.compare("<", b.read(X), ONE), (b.declare(X, ONE),), span=b.SPAN)),
        typed(b.for_(T, 4, ()), b.declare(X, b.read(T))),
        typed(b.if_(TRUE, (b.declare(X, ONE),), (value(X, ONE),))),
    ],
    "reachable": [typed(b.store(A, ZERO, ONE)), typed(b.store(S, ZERO, ONE)), typed(MINE)],
    "declared once": [typed(b.declare(X, ONE), b.declare(X, ONE)), typed(b.declare(X, ONE), b.for_(X, 4, ())), typed(b.declare_shared(S), b.declare_shared(S), smem=256)],
    "lowered": [typed(b.declare_shared(S), replace(MINE, handle=replace(CLAIM, base=None)), smem=256)],
    "room": [typed(b.declare_shared(S), smem=255)],
    "stored types": [typed(b.declare(X, b.const(1.0, F32))), typed(b.declare(X, ONE), value(X, TRUE)), typed(b.store(A, ZERO, TRUE), params=(A,))],
    "conditions": [typed(b.if_(ONE, ())), typed(ir.Assert(ONE, "", span=b.SPAN)), typed(ir.While((), ONE, (), span=b.SPAN))],
    "accesses": [
        typed(b.store(A, (ZERO, ZERO), ONE), params=(A,)),
        typed(b.store(A, (TRUE,), ONE), params=(A,)),
        typed(ir.Assign(ir.MemTarget(replace(b.access(S, ZERO), handle=A), span=b.SPAN), ONE, span=b.SPAN), params=(A,)),
    ],
    "operations": [typed(operation("dance")), typed(operation("syncthreads")), typed(ir.Atomic("dance", b.access(A, ZERO), (ONE,), None, "relaxed", "gpu", span=b.SPAN), params=(A,))],
    "functions": [typed(*(ir.Call(replace(CALLEE, name=name), (), (), None, IN_BLOCK, 0, span=b.SPAN) for name in ("one", "other")))],
    "arguments": [
        typed(ir.Call(replace(CALLEE, params=params), args, (None,) * len(args), None, IN_BLOCK, 0, span=b.SPAN))
        for params, args in (((ir.ValueParam(X),), ()), ((ir.ValueParam(X),), (TRUE,)), ((ir.MemParam(A),), (ONE,)), ((ir.RefParam(ARR),), (ONE,)))
    ],
    "results": [
        device((b.declare(X, ONE),)),
        device((b.if_(TRUE, (returning(ONE),)),)),
        device((returning(TRUE),)),
        device((returning(ONE),), returns=None),
        typed(returns=I32),
    ],
    "nesting": [
        typed(ir.Group(WARP1, b.place(64), IN_BLOCK.grouped(WARP1), (), span=b.SPAN)),
        typed(ir.Group(WARP1, IN_BLOCK, IN_BLOCK, (), span=b.SPAN)),
        typed(replace(SPLIT, cases=SPLIT.cases[::-1])),
        typed(replace(SPLIT, cases=(replace(SPLIT.cases[0], place=IN_BLOCK),))),
        typed(b.group(Privilege(Level.THREAD, 16), IN_BLOCK, lambda place: [ir.Turn(IN_BLOCK, place, (), span=b.SPAN)])),
    ],
    "loops": [typed(ir.Break(span=b.SPAN)), typed(b.if_(TRUE, (ir.Continue(span=b.SPAN),)))],
    "privileges": [
        typed(b.group(THREAD1, IN_BLOCK, lambda place: [operation("syncwarp", place=place)])),
        typed(b.group(WARP1, IN_BLOCK, lambda place: [operation("syncwarp")])),
        pipelined(b.group(WARP1, IN_BLOCK, lambda place: [sync(place=place)])),
        pipelined(b.group(WARP1, IN_BLOCK, lambda place: [b.wait(FULL, ZERO, ZERO, IN_BLOCK), b.arrive(FULL, ZERO, WARP1, place)]), barriers=(FULL,)),
    ],
    "agreement": [
        typed(b.declare(T, b.thread_id(64, within=IN_BLOCK)), b.if_(b.compare("<", b.read(T), ONE), (operation("syncthreads", requires=BLOCK1),))),
        typed(b.declare(T, b.thread_id(64, within=IN_BLOCK)), b.for_(b.var("k"), b.read(T), ())),
        typed(b.declare(T, b.thread_id(64, within=IN_BLOCK)), b.if_(b.compare("<", b.load(A, b.read(T)), ONE), ()), params=(A,)),
    ],
    "claims": [typed(b.declare_shared(S), MINE, smem=256)],
    "kinds": [
        typed(sync()),
        typed(b.declare_shared(S), b.box("load", TILE, b.access(A, ZERO), (64,), IN_BLOCK, barrier=FULL, slot=ZERO), params=(A,), smem=256),
        typed(ir.Call(number_statements(CALLEE, Numbers()), (), (), None, IN_BLOCK, 0, span=b.SPAN)),
        (Stage.PIPELINED, replace(pipelined()[1], body=(ir.Call(CALLEE, (), (), None, b.place(64), 0, number=9, span=b.SPAN),))),
    ],
    "barriers": [
        pipelined(b.wait(FULL, ZERO, ZERO, IN_BLOCK), b.arrive(FULL, ZERO, WARP1, IN_BLOCK)),
        pipelined(b.wait(FULL, b.const(2), ZERO, IN_BLOCK), b.arrive(FULL, ZERO, WARP1, IN_BLOCK), barriers=(FULL,)),
        pipelined(b.wait(FULL, b.binary("%", ONE, b.const(3)), ZERO, IN_BLOCK), b.arrive(FULL, ZERO, WARP1, IN_BLOCK), barriers=(FULL,)),
    ],
    "boxes": [
        pipelined(b.declare_shared(S), b.box("load", TILE, b.access(A, ZERO), (64,), IN_BLOCK), params=(A,), smem=256),
        pipelined(b.declare_shared(S), b.box("store", TILE, b.access(A, ZERO), (64,), IN_BLOCK, barrier=FULL, slot=ZERO), params=(A,), smem=256, barriers=(FULL,)),
    ],
    "points": [
        pipelined(sync(b.point("warp", BLOCK1))),
        pipelined(b.group(WARP1, IN_BLOCK, lambda place: [sync(b.point("block", WARP1), place=place)])),
        pipelined(sync(b.point("named", WARP1, number=16))),
        (Stage.PIPELINED, replace(pipelined()[1], body=(replace(sync(b.point("grid", GRID1), place=b.place(64)), number=5),))),
        pipelined(sync(b.point("thread", WARP1))),
    ],
    "one thread": [pipelined(synced.Elect(IN_BLOCK, (inner,), span=b.SPAN)) for inner in (operation("syncwarp"), sync(), SPLIT)],
    "numbers": [
        (Stage.NUMBERED, replace(pipelined()[1], body=(replace(b.declare(X, ONE), number=3), replace(b.declare(Y, ONE), number=3)))),
        (Stage.NUMBERED, replace(pipelined()[1], body=(b.declare(X, ONE),))),
    ],
    "work": [pipelined(synced.AsyncCommit(span=b.SPAN)), pipelined(sync(b.point("thread", THREAD1, waits=(("wgmma", 0),))))],
    "partners": [pipelined(b.wait(FULL, ZERO, ZERO, IN_BLOCK), barriers=(FULL,)), pipelined(sync(part="arrive"))],
}
CASES = [(name, k) for name, programs in BROKEN.items() for k in range(len(programs))]


@pytest.mark.parametrize(("name", "k"), CASES, ids=lambda part: str(part))
def test_each_row_can_fail(name, k):
    """A program that breaks the row is told so, with the pass and the place; it is broken by that row before all others."""
    stage, function = BROKEN[name][k]
    with pytest.raises(BrokenIR) as broken:
        Verifier().after("made up", function, stage)
    assert f"after the pass `made up`, the program breaks the invariant `{name}` (" in str(broken.value)
    assert "at kernel.py:1" in str(broken.value)


def test_every_row_is_broken_by_some_program():
    assert {row.name for row in TABLE} == set(BROKEN)


@pytest.mark.parametrize("function", [typed(), pipelined(), device((returning(ONE),)), pipelined(sync()), typed(b.declare_shared(S), smem=256),
                                      pipelined(b.wait(FULL, ONE, ZERO, IN_BLOCK), b.arrive(FULL, ZERO, WARP1, IN_BLOCK), barriers=(FULL,))], ids=range(6))
def test_what_these_are_made_of_is_right(function):
    Verifier().after("made up", function[1], function[0])


def test_the_table_of_the_docs():
    text = (ROOT / "docs" / "system.md").read_text()
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", re.search(r"### What holds between two passes.*?\n\n(\|.*?)\n\n", text, re.DOTALL).group(1), re.MULTILINE)
    assert rows[0] == ("invariant", "what holds") and rows[1:] == [(row.name, row.says) for row in TABLE]


def test_it_looks_after_each_pass(monkeypatch):
    """A pass that breaks the program is named; without SNAP_VERIFY nobody looks."""
    kernel = kernels_of(Program(TESTS / "ok" / "tree_reduce.py").execute())["tree_reduce"]
    function = kernel._the_one({}).typed
    forgets = replace(PASSES[4], run=lambda plan, numbers: replace(plan.pipelined, function=replace(plan.function, smem=0)))
    monkeypatch.setattr(snap._compiler.sync, "PASSES", (*PASSES[:4], forgets, *PASSES[5:]))
    monkeypatch.setenv("SNAP_VERIFY", "1")
    with pytest.raises(BrokenIR, match=r"after the pass `insert barriers`, the program breaks the invariant `room` .* at tests/ok/tree_reduce.py:\d+: `s: i32\[256\]"):
        snap._compiler.sync.synchronize(function)
    monkeypatch.setenv("SNAP_VERIFY", "0")
    snap._compiler.sync.synchronize(function)


@pytest.mark.parametrize("program", OK[1::3], ids=lambda program: program.path.stem)
def test_the_corpus_holds_what_the_table_says(program, monkeypatch):
    monkeypatch.setenv("SNAP_VERIFY", "1")
    assert kernels_of(program.execute())
