"""Hand-built kernels in synchronized IR: the code generator is tested apart from the checker, also on what the checker cannot write yet."""

from __future__ import annotations

from itertools import count

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.engines import Wait
from snap._compiler.ir.types import BLOCK1, BOOL, GRID1, I32, THREAD1, Held, Level, Place, Privilege, Space
from snap.diag.span import Span

SPAN = Span("/somewhere/else/kernel.py", 7, 0, 7, 1)
_uids = count(1)


def place(threads: int = 128, cluster: int = 0) -> Place:
    if cluster:
        return Place(((Level.GRID, Held(1)), (Level.CLUSTER, Held(1, open=True)), (Level.BLOCK, Held(cluster)), (Level.THREAD, Held(threads))))
    return Place(((Level.GRID, Held(1)), (Level.BLOCK, Held(1, open=True)), (Level.THREAD, Held(threads))))


def var(name, type, privilege=THREAD1, temp=False):
    return ir.Var(next(_uids), name, type, privilege, temp, span=SPAN)


def memory(name, elem, shape=None, const=False, space=Space.GLOBAL, offset=0, swizzle=0, spread=""):
    dims = None if shape is None else tuple(const_(n, I32) if isinstance(n, int) else n for n in shape)
    obj = ir.MemObject(next(_uids), name, elem, dims, const, space, GRID1 if space is Space.GLOBAL else BLOCK1, offset, swizzle, ir.Spread(spread), span=SPAN)
    return ir.Handle(next(_uids), name, obj, obj.privilege, const, ir.Origin.PARAM, span=SPAN)


def const_(value, type=I32):
    return ir.Const(value, type, span=SPAN)


def read(v):
    return ir.Read(v, v.type, span=SPAN)


def binary(op, left, right):
    return ir.Binary(op, left, right, left.type, span=SPAN)


def compare(op, left, right):
    return ir.Compare(op, left, right, BOOL, span=SPAN)


def cast(value, type):
    return ir.Cast(value, type, span=SPAN)


def access(handle, *index, elem=None, shape=None, block=None):
    obj = handle.obj
    view = ir.MemView(obj, elem or obj.elem, obj.shape if elem is None and shape is None else shape)
    return ir.MemAccess(view, tuple(const_(i) if isinstance(i, int) else i for i in index), handle, block, span=SPAN)


def tile(handle, *index, shape):
    """`shape` is that of the last dimensions, the others have extent 1."""
    at = access(handle, *index)
    return ir.Tile(at, (1,) * (len(at.view.shape) - len(shape)) + tuple(shape))


def load(handle, *index, **options):
    at = access(handle, *index, **options)
    return ir.Load(at, at.view.elem, span=SPAN)


def store(handle, index, value, **options):
    return ir.Assign(ir.MemTarget(access(handle, *(index if isinstance(index, tuple) else (index,)), **options), span=SPAN), value, span=SPAN)


def declare(v, init=None, zero=False):
    return ir.Declare(v, init, zero, span=SPAN)


def assign(v, value):
    return ir.Assign(ir.VarTarget(v, span=SPAN), value, span=SPAN)


def array(v):
    return ir.ArrayRef(v, v.type.elem, v.type.shape)


def elem(v, *index):
    return ir.Elem(array(v), tuple(const_(i) if isinstance(i, int) else i for i in index), v.type.elem, span=SPAN)


def elem_target(v, *index):
    return ir.ElemTarget(array(v), tuple(const_(i) if isinstance(i, int) else i for i in index), span=SPAN)


def if_(cond, then, other=()):
    return ir.If(cond, tuple(then), tuple(other), span=SPAN)


def for_(v, start, stop, step, body, unroll=0):
    return ir.For(v, start, stop, step, tuple(body), unroll, span=SPAN)


def unit_id(target, where):
    return ir.UnitId(target, where, I32, span=SPAN)


def unit_count(target, where):
    return ir.UnitCount(target, where, I32, span=SPAN)


def math(op, *args, type=None, fast=False):
    return ir.Math(op, args, type or args[0].type, fast, span=SPAN)


def group(privilege, outer, body):
    """`body` is a function from the place inside to statements."""
    inside = outer.grouped(privilege)
    return ir.Group(privilege, outer, inside, tuple(body(inside)), span=SPAN)


def split(level, outer, *cases):
    """Each case is (size, body); size None is what is left, with its group size: (None, size, body)."""
    made, offset = [], 0
    for case in cases:
        rest = case[0] is None
        size, body = case[1:] if rest else case
        inside = outer.sharded(level, offset, size)
        made.append(ir.Case(offset, size, rest, inside, tuple(body(inside)), span=SPAN))
        offset += 0 if rest else size
    return ir.Split(level, outer, tuple(made), span=SPAN)


def collective(op, requires, where, targets=(), args=(), accesses=(), **attrs):
    return ir.Collective(op, requires, where, tuple(targets), tuple(args), tuple(accesses), tuple(attrs.items()), span=SPAN)


def point(kind, participants, reason="written, then read", object="tile", waits=(), **options):
    line = Span(SPAN.filename, 9, 0, 9, 1)
    return synced.SyncPoint(next(_uids), synced.PointKind(kind), participants, object, reason, SPAN, line, tuple((Wait(word), n) for word, n in waits), span=SPAN, **options)


def sync(kind, participants, where, reason="written, then read", object="tile", part="both", **options):
    return synced.Sync(point(kind, participants, reason, object, **options), where, synced.SyncHalf(part), span=SPAN)


def barrier(name, slots=1, count=1, everywhere=False):
    return synced.MBarrier(next(_uids), name, slots, count, everywhere, span=SPAN)


def wait(b, slot, phase, where, reason="filled, then read"):
    return synced.MBarrierWait(b, slot, phase, where, point("mbarrier", THREAD1, reason), span=SPAN)


def arrive(b, slot, by, where, bytes=0, reason="read, then filled again", fence=False):
    return synced.MBarrierArrive(b, slot, by, where, point("mbarrier", by, reason, fence=fence), bytes, span=SPAN)


def expect(b, slot, bytes, where):
    return synced.MBarrierExpect(b, slot, bytes, where, span=SPAN)


def box(op, tile, origin, extents, where, b=None, slot=None):
    if b is None:
        return ir.BoxCopy(ir.BoxOp(op), tile, origin, tuple(extents), where, span=SPAN)
    slot = const_(slot) if isinstance(slot, int) else slot
    return synced.CountedLoad(ir.BoxOp(op), tile, origin, tuple(extents), where, barrier=b, slot=slot, span=SPAN)


def commit(engine, where=None):
    return synced.AsyncCommit(Wait(engine).engine, where, span=SPAN)


def elect(where, *body):
    return synced.Elect(where, tuple(body), span=SPAN)


def wgmma(type, acc, a, b, n, k, where, a_transposed=False, b_transposed=False, zero=None, first=True):
    return (synced.FencedWgmma if first else ir.Wgmma)(type, acc, a, b, n, k, a_transposed, b_transposed, zero, where, span=SPAN)


def store_acc(tile, acc, first, where):
    return ir.StoreAcc(tile, acc, const_(first) if isinstance(first, int) else first, where, span=SPAN)


def call(function, *args, target=None, where=None, smem_offset=0):
    return ir.Call(function, args, tuple(None for _ in args), target, where or place(), smem_offset, span=SPAN)


def whole(handle):
    return ir.MemView(handle.obj, handle.obj.elem, handle.obj.shape)


def device(name, params, body, where, returns=None, smem=0):
    return synced.Function(next(_uids), name, False, tuple(map(_param, params)), returns, where, tuple(body), smem, False, span=SPAN)


def kernel(params, body, where=None, name="kernel", smem=0, cooperative=False, barriers=()):
    where = where or place()
    return synced.Function(next(_uids), name, True, tuple(map(_param, params)), None, where, tuple(body), smem, cooperative, mbarriers=tuple(barriers), span=SPAN)


def by_ref(v):
    return ir.RefParam(v)


def _param(given):
    match given:
        case ir.Handle():
            return ir.MemParam(given)
        case ir.Var():
            return ir.ValueParam(given)
        case _:
            return given


def device_place(privilege: Privilege, threads: int = 128) -> Place:
    if privilege.level is Level.THREAD:
        return Place(((Level.THREAD, Held(privilege.n, privilege.n)),))
    return Place(((privilege.level, Held(privilege.n, privilege.n)), (Level.THREAD, Held(threads))))
