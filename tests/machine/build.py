"""A small builder of IR by hand, for what no source text would give, and for operations one at a time."""

from __future__ import annotations

import itertools

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.engines import Wait
from snap._compiler.ir.types import BOOL, GRID1, I32, THREAD1, Array, Held, Level, Place, Privilege, Space
from snap.diag.span import Span

_uid = itertools.count(1)


def at(line: int = 1) -> Span:
    return Span("kernel.py", line, 0, line, 4)


SPAN = at()


def place(threads: int = 32) -> Place:
    return Place(((Level.GRID, Held(1)), (Level.BLOCK, Held(1, open=True)), (Level.THREAD, Held(threads))))


def block_place(threads: int = 32) -> Place:
    return place(threads).grouped(Privilege(Level.BLOCK, 1))


def var(name, type=I32, privilege=THREAD1, temp=False):
    return ir.Var(next(_uid), name, type, privilege, temp, span=SPAN)


def array(name, elem, const=False):
    obj = ir.MemObject(next(_uid), name, elem, None, const, Space.GLOBAL, GRID1, span=SPAN)
    return ir.Handle(next(_uid), name, obj, GRID1, const, ir.Origin.PARAM, span=SPAN)


def shared(name, elem, *shape, offset=0):
    obj = ir.MemObject(next(_uid), name, elem, tuple(const(n) for n in shape), False, Space.SHARED, Privilege(Level.BLOCK, 1), offset, span=SPAN)
    return ir.Handle(next(_uid), name, obj, Privilege(Level.BLOCK, 1), False, ir.Origin.SHARED, span=SPAN)


def declare_shared(handle):
    return ir.DeclareShared(handle.obj, handle, span=SPAN)


def const(value, type=I32):
    return ir.Const(value, type, span=SPAN)


def read(v):
    return ir.Read(v, v.type, span=SPAN)


def access(handle, *index, elem=None, line=1):
    view = ir.MemView(handle.obj, elem or handle.obj.elem, handle.obj.shape if elem is None else None)
    return ir.MemAccess(view, index, handle, span=at(line))


def load(handle, *index, elem=None, line=1):
    return ir.Load(access(handle, *index, elem=elem, line=line), elem or handle.obj.elem, span=at(line))


def store(handle, index, value, line=1, elem=None):
    index = index if isinstance(index, tuple) else (index,)
    return ir.Assign(ir.MemTarget(access(handle, *index, elem=elem, line=line), span=at(line)), value, span=at(line))


def thread_id(threads=32, target=THREAD1, within=None):
    return ir.UnitId(target, within or place(threads), I32, span=SPAN)


def binary(op, a, b, type=None):
    return ir.Binary(op, a, b, type or a.type, span=SPAN)


def compare(op, a, b):
    return ir.Compare(op, a, b, BOOL, span=SPAN)


def declare(v, init=None, zero=False):
    return ir.Declare(v, init, zero, span=SPAN)


def assign(v, value):
    return ir.Assign(ir.VarTarget(v, span=SPAN), value, span=SPAN)


def if_(cond, then, other=(), line=1):
    return ir.If(cond, tuple(then), tuple(other), span=at(line))


def for_(v, stop, body, start=0):
    return ir.For(v, const(start), stop if not isinstance(stop, int) else const(stop), const(1), tuple(body), span=SPAN)


def sync(kind="block", participants=Privilege(Level.BLOCK, 1), line=1, within=None):
    point = synced.SyncPoint(next(_uid), synced.PointKind(kind), participants, "x", "for the test", at(line), at(line), span=at(line))
    return synced.Sync(point, within or block_place(), span=at(line))


def collective(op, requires, targets, args, line=1, within=None, **attrs):
    return ir.Collective(op, requires, within or block_place(), tuple(ir.VarTarget(v, span=SPAN) for v in targets), tuple(args),
                         attrs=tuple(attrs.items()), span=at(line))


def kernel(params, body, threads=32, smem=0, cooperative=False, name="kernel", within=None):
    made = tuple(ir.MemParam(p) if isinstance(p, ir.Handle) else ir.ValueParam(p) for p in params)
    return ir.Function(next(_uid), name, True, made, None, within or place(threads), tuple(body), smem, cooperative, span=SPAN)


# ---- what happens in the background ----


def array_of(name, elem, *shape, read_only=False):
    """A kernel's array with a shape."""
    obj = ir.MemObject(next(_uid), name, elem, tuple(const(n) for n in shape), read_only, Space.GLOBAL, GRID1, span=SPAN)
    return ir.Handle(next(_uid), name, obj, GRID1, read_only, ir.Origin.PARAM, span=SPAN)


def cluster_shared(name, elem, *shape, spread="across", offset=0):
    privilege = Privilege(Level.CLUSTER, 1)
    obj = ir.MemObject(next(_uid), name, elem, tuple(const(n) for n in shape), False, Space.SHARED, privilege, offset, spread=ir.Spread(spread), span=SPAN)
    return ir.Handle(next(_uid), name, obj, privilege, False, ir.Origin.SHARED, span=SPAN)


def tile(handle, index, shape, line=1):
    return ir.Tile(access(handle, *index, line=line), shape)


def point(kind="thread", participants=THREAD1, what="x", line=1, waits=(), **more):
    waits = tuple((Wait(word), n) for word, n in waits)
    return synced.SyncPoint(next(_uid), synced.PointKind(kind), participants, what, "for the test", at(line), at(line), waits, span=at(line), **more)


def local(name, elem, size):
    v = var(name, Array(elem, (size,)))
    return v, ir.ArrayRef(v, elem, (size,))


def barrier(name, slots, count, everywhere=False):
    return synced.MBarrier(next(_uid), name, slots, count, everywhere, span=SPAN)


def wait(b, slot, phase, within, line=1):
    return synced.MBarrierWait(b, slot, phase, within, point("mbarrier", within.privilege, b.name, line), span=at(line))


def arrive(b, slot, by, within, line=1, bytes=0, fence=False, waits=()):
    return synced.MBarrierArrive(b, slot, by, within, point("mbarrier", by, b.name, line, fence=fence, waits=waits), bytes, span=at(line))


def split(within, *cases):
    """Each case: its number of threads, and a function from its place to its body."""
    offset, made = 0, []
    for size, body in cases:
        place = within.sharded(Level.THREAD, offset, size)
        made.append(ir.Case(offset, size, False, place, tuple(body(place)), span=SPAN))
        offset += size
    return ir.Split(Level.THREAD, within, tuple(made), span=SPAN)


def group(p, within, body):
    inside = within.grouped(p)
    return ir.Group(p, within, inside, tuple(body(inside)), span=SPAN)


def box(op, inner, origin, shape, within, line=1, barrier=None, slot=None):
    if barrier is None:
        return ir.BoxCopy(ir.BoxOp(op), inner, origin, shape, within, span=at(line))
    return synced.CountedLoad(ir.BoxOp(op), inner, origin, shape, within, barrier=barrier, slot=slot, span=at(line))
