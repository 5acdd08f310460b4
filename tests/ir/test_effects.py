"""The table of effects: what each statement does, told in a line each; no class of statement is without a row."""

from __future__ import annotations

import typing

import pytest

from snap._compiler.ir import effects as table
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.effects import Effect, Extent, Kind, effects
from snap._compiler.ir.engines import Engine
from snap._compiler.ir.operations import ATOMICS, COLLECTIVES
from snap._compiler.ir.types import BLOCK1, F32, I32, THREAD1, WARP1, Array, Held, Level, Place, Privilege, Space
from snap._compiler.ir.walk import own_expressions
from snap.diag.span import Span

AT = Span("effects.py", 1, 0, 1, 1)
PLACE = Place(((Level.BLOCK, Held(1)), (Level.THREAD, Held(128))))
BEGIN = ir.Const(0, I32, span=AT)


def memory(name: str, space: Space, privilege: Privilege, const: bool = False, elem=F32) -> ir.MemAccess:
    obj = ir.MemObject(1, name, elem, None, const, space, privilege, span=AT)
    handle = ir.Handle(2, name, obj, privilege, const, ir.Origin.PARAM, span=AT)
    return ir.MemAccess(ir.MemView(obj, elem, None), (BEGIN,), handle, span=AT)


def array(name: str, n: int, elem=F32) -> ir.ArrayRef:
    return ir.ArrayRef(ir.Var(3, name, Array(elem, (n,)), THREAD1, span=AT), elem, (n,))


G, S, C = memory("g", Space.GLOBAL, BLOCK1), memory("s", Space.SHARED, WARP1), memory("c", Space.GLOBAL, BLOCK1, True)
ACC, REGS, X = array("acc", 32), array("regs", 8), ir.Var(4, "x", I32, WARP1, span=AT)
TILE, OTHER = ir.Tile(S, (64, 16)), ir.Tile(memory("t", Space.SHARED, BLOCK1), (8, 16))
TO_X, TO_REGS, TO_G = ir.VarTarget(X, span=AT), ir.ElemTarget(REGS, (BEGIN,), span=AT), ir.MemTarget(G, span=AT)
LOADED = ir.Load(C, F32, span=AT)
POINT = synced.SyncPoint(1, synced.PointKind.BLOCK, BLOCK1, "s", "why", AT, AT, span=AT)
BARRIER = synced.MBarrier(1, "full", 2, 1, span=AT)
TAKES = ir.Function(1, "f", False, (ir.RefParam(REGS.var), ir.MemParam(G.handle)), None, PLACE, (), 0, False, span=AT)


def product(a: ir.Tile | ir.ArrayRef) -> ir.Wgmma:
    return ir.Wgmma("f16", ACC, a, OTHER, 8, 16, False, False, None, PLACE, span=AT)


def collective(op: str, *targets: ir.Target, accesses: tuple = ()) -> ir.Collective:
    return ir.Collective(op, COLLECTIVES[op].requires, PLACE, targets, (), accesses, span=AT)


def atomic(op: str) -> ir.Atomic:
    return ir.Atomic(op, G, (BEGIN,) * ATOMICS[op].values, TO_X if op != "store" else None, "relaxed", "gpu", span=AT)


def told(e: Effect) -> str:
    name = e.var.name if e.access is None else e.access.handle.name
    extent = "" if e.extent is Extent.ELEMENT else f" {e.extent.name.lower()}"
    box = "" if e.box is None else f" {'x'.join(map(str, e.box))}"
    atomic = f" by {e.atomic}" if e.atomic else ""
    return f"{e.engine.name.lower()} {e.kind.name.lower()} {name}{extent}{box}{atomic} @ {e.privilege}"


NOTHING: tuple[str, ...] = ()
TABLE: list[tuple[ir.Stmt, tuple[str, ...]]] = [
    (ir.Declare(X, None, span=AT), ("threads write x @ thread[32]",)),
    (ir.DeclareShared(S.view.obj, S.handle, span=AT), NOTHING),
    (ir.Assign(TO_X, LOADED, span=AT), ("threads write x @ thread[32]",)),
    (ir.Assign(TO_REGS, BEGIN, span=AT), ("threads write regs @ thread[1]",)),
    (ir.Assign(TO_G, BEGIN, span=AT), ("threads write g @ block[1]",)),
    (ir.Assign(ir.ComponentTarget(TO_G, 1, span=AT), BEGIN, span=AT), ("threads write g @ block[1]",)),
    (ir.If(BEGIN, (), (), span=AT), NOTHING),
    (ir.While((), BEGIN, (), span=AT), NOTHING),
    (ir.For(X, BEGIN, BEGIN, BEGIN, (), span=AT), ("threads write x @ thread[32]",)),
    (ir.Break(span=AT), NOTHING),
    (ir.Continue(span=AT), NOTHING),
    (ir.Return(LOADED, span=AT), NOTHING),
    (ir.Assert(LOADED, "", span=AT), NOTHING),
    (ir.Print(("x = ", ""), (LOADED,), None, WARP1, span=AT), NOTHING),
    (ir.Group(WARP1, PLACE, PLACE, (), span=AT), NOTHING),
    (ir.Split(Level.THREAD, PLACE, (), span=AT), NOTHING),
    (ir.Partition(S.handle, S.handle, PLACE, (), span=AT), NOTHING),
    (ir.Claim(S.handle, S.handle, PLACE, (), span=AT), NOTHING),
    (ir.Turn(PLACE, PLACE, (), span=AT), NOTHING),
    (collective("shfl", TO_X), ("threads write x @ thread[32]",)),
    (
        collective("ldmatrix", TO_REGS, accesses=(S,)),
        ("threads read s rows @ thread[32]", "threads write regs @ thread[1]"),
    ),
    (collective("stmatrix", accesses=(S,)), ("threads write s rows @ thread[32]",)),
    (collective("syncthreads"), NOTHING),
    (atomic("load"), ("threads read g by load @ block[1]", "threads write x @ thread[32]")),
    (atomic("store"), ("threads write g by store @ block[1]",)),
    (atomic("cas"), ("threads combine g by cas @ block[1]", "threads write x @ thread[32]")),
    (ir.AsyncCopy(S, G, span=AT), ("copies read g @ block[1]", "copies write s @ thread[32]")),
    (ir.Sleep(BEGIN, span=AT), NOTHING),
    (ir.Prefetch(G, "L2", span=AT), NOTHING),
    (ir.BoxPrefetch(G, (64, 16), 0, PLACE, span=AT), NOTHING),
    (
        ir.BoxCopy(ir.BoxOp.LOAD, TILE, G, (64, 16), PLACE, span=AT),
        ("boxes read g box 64x16 @ block[1]", "boxes write s box 64x16 @ thread[32]"),
    ),
    (
        ir.BoxCopy(ir.BoxOp.STORE, TILE, G, (64, 16), PLACE, span=AT),
        ("boxes read s box 64x16 @ thread[32]", "boxes write g box 64x16 @ block[1]"),
    ),
    (
        ir.BoxCopy(ir.BoxOp.MAX, TILE, G, (64, 16), PLACE, span=AT),
        ("boxes read s box 64x16 @ thread[32]", "boxes combine g box 64x16 by max @ block[1]"),
    ),
    (
        product(TILE),
        (
            "products read s box 64x16 @ thread[32]",
            "products read t box 8x16 @ block[1]",
            "products combine acc box 32 @ thread[1]",
        ),
    ),
    (
        product(REGS),
        (
            "products read regs box 8 @ thread[1]",
            "products read t box 8x16 @ block[1]",
            "products combine acc box 32 @ thread[1]",
        ),
    ),
    (
        ir.StoreAcc(TILE, ACC, BEGIN, PLACE, span=AT),
        ("threads read acc box 32 @ thread[1]", "threads write s fragment 64x16 @ thread[32]"),
    ),
    (
        ir.Unsafe("", (), (("g", G), ("c", C)), TO_X, I32, span=AT),
        (
            "threads combine g anywhere @ block[1]",
            "threads read c anywhere @ block[1]",
            "threads write x @ thread[32]",
        ),
    ),
    (
        ir.Call(TAKES, (REGS, G.view), (None, G.handle), TO_X, PLACE, 0, span=AT),
        ("threads combine regs box 8 @ thread[1]", "threads write x @ thread[32]"),
    ),
    (synced.AsyncCommit(span=AT), NOTHING),
    (synced.Sync(POINT, PLACE, span=AT), NOTHING),
    (synced.MBarrierWait(BARRIER, BEGIN, BEGIN, PLACE, POINT, span=AT), NOTHING),
    (synced.MBarrierArrive(BARRIER, BEGIN, BLOCK1, PLACE, POINT, span=AT), NOTHING),
    (synced.MBarrierExpect(BARRIER, BEGIN, 16, PLACE, span=AT), NOTHING),
    (synced.Elect(PLACE, (), span=AT), NOTHING),
]
# Two statements have a form of their own in the synchronized IR, which does what the other one does.
FORMS = {synced.CountedLoad: lambda s: synced.counted(s, BARRIER, BEGIN), synced.FencedWgmma: synced.fenced}
TABLE += [(form(s), does) for cls, form in FORMS.items() for s, does in TABLE if type(s) is cls.__base__]


@pytest.mark.parametrize("s, expected", TABLE, ids=lambda part: type(part).__name__)
def test_effects(s: ir.Stmt, expected: tuple[str, ...]):
    assert tuple(map(told, effects(s))) == expected


def test_every_class_of_statement_has_a_row():
    classes = {*typing.get_args(ir.Typed), *typing.get_args(synced.OnlySynced)}
    assert classes == {type(s) for s, _ in TABLE}
    assert classes == set(table._ROWS)


@pytest.mark.parametrize("op", ATOMICS)
def test_every_atomic_reads_or_writes(op: str):
    first = effects(atomic(op))[0]
    assert first.atomic == op and first.kind is {"load": Kind.READ, "store": Kind.WRITE}.get(op, Kind.COMBINE)


@pytest.mark.parametrize("op", COLLECTIVES)
def test_collectives_that_take_memory_say_what_they_do(op: str):
    row = COLLECTIVES[op]
    if op in ("ldmatrix", "stmatrix"):
        assert row.reads != row.writes
    else:
        assert not row.reads and not row.writes and not effects(collective(op))


def test_what_expressions_load_is_no_effect():
    s = ir.Assign(TO_G, LOADED, span=AT)
    assert table.loads(s) == (C,) and table.accesses(s) == [C, G] and table.written(s) == [G]


def test_what_is_asked_of_the_table():
    copy = ir.BoxCopy(ir.BoxOp.LOAD, TILE, G, (64, 16), PLACE, span=AT)
    assert table.elements(copy) == [] and table.accesses(copy) == [G, S] and table.written(copy) == [S]
    assert table.elements(ir.AsyncCopy(S, G, span=AT)) == [G, S]
    assert table.elements(ir.Unsafe("", (), (("g", G),), None, None, span=AT)) == []
    assert [*table.assigned(product(REGS))] == table.multiplied_into(product(REGS)) == [ACC.var]
    call = ir.Call(TAKES, (REGS, G.view), (None, G.handle), None, PLACE, 0, span=AT)
    assert table.multiplied_into(call) == [] and table.assigned(call) == (REGS.var,)
    assert list(table.passed(call)) == [(TAKES.params[1], G.view, G.handle)]
    assert list(table.passed(copy)) == []


def test_only_threads_do_it_at_once():
    background = {e.engine for s, _ in TABLE for e in effects(s)} - {Engine.THREADS}
    assert background == {Engine.COPIES, Engine.BOXES, Engine.PRODUCTS}


NAMES = (
    ir.Var,
    ir.MemObject,
    ir.Handle,
    ir.MemView,
    ir.ArrayRef,
    ir.Function,
    ir.Case,
    synced.MBarrier,
    synced.SyncPoint,
)


def evaluated(part: object) -> list[ir.Expr]:
    """The expressions in a value of a statement's field: by looking at everything, but for names and bodies."""
    if isinstance(part, ir.Expr):
        return [part]
    if isinstance(part, tuple):
        return [e for item in part for e in evaluated(item)]
    if isinstance(part, NAMES) or not hasattr(part, "_declared"):
        return []
    return [e for name in part._declared for e in evaluated(getattr(part, name))]


@pytest.mark.parametrize("s", [s for s, _ in TABLE], ids=lambda s: type(s).__name__)
def test_what_a_statement_evaluates(s: ir.Stmt):
    assert list(own_expressions(s)) == [e for name in s._declared for e in evaluated(getattr(s, name))]
