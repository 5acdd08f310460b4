"""Say what each statement reads and writes: one table, from the class of a statement to its effects.

Input:      a statement, of the typed or of the synchronized IR
Output:     its effects: each a place in memory or a variable, what is done to it, and by whom
Invariant:  every class of statement has a row, and rows know nothing of what a stage makes of them; what collectives
            and atomics do to memory is said by their rows in `operations`
Non-goals:  statements inside of a statement, and what a call's callee does: callers enter them (`walk.statements`,
            `passed`)

Expressions are pure, and read only: what they load is `loads`, not among the effects of the statement they stand in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import Any

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.engines import PRODUCTS, THREADS, Engine
from snap._compiler.ir.operations import ATOMICS, COLLECTIVES, MemoryOrder
from snap._compiler.ir.types import Privilege
from snap._compiler.ir.walk import callees, expressions, statements
from snap.record import kept, record


class Kind(Enum):
    """Name what is done, told by whether it reads and whether it writes.  COMBINE is both: what is there is changed, or
    may be, so that the result depends on it.  Atomics and reductions do it, products, and whoever is given a reference.
    """

    READ = (True, False)
    WRITE = (False, True)
    COMBINE = (True, True)

    def __init__(self, reads: bool, writes: bool):
        self.reads, self.writes = reads, writes

    __hash__ = object.__hash__


READ, WRITE, COMBINE = Kind
_KINDS = {(kind.reads, kind.writes): kind for kind in Kind}


class Extent(Enum):
    """Say how much is meant of the memory that an access names by an index."""

    ELEMENT = auto()
    ROWS = auto()  # 16 bytes from the element on, for every lane of the warp: which lane moves what is the hardware's
    BOX = auto()  # so many elements in each dimension, from the element on
    FRAGMENT = auto()  # of such a box, the part that this thread holds of an accumulator
    ANYWHERE = auto()  # nobody knows where in the array


@record
class Effect:
    """One thing that a statement does to memory (`access`) or to a variable or local array (`var`); the other is None.

    box     the extents of a BOX or FRAGMENT, in the dimensions of the access or of the array
    atomic  the operation that each element is changed by at once, so that no other such one comes between; '' for none
    """

    kind: Kind
    access: ir.MemAccess | None = None
    var: ir.Var | None = None
    engine: Engine = Engine.THREADS
    extent: Extent = Extent.ELEMENT
    box: tuple[int, ...] | None = None
    atomic: str = ""

    @property
    def privilege(self) -> Privilege:
        """That of the name through which the memory is accessed, or of the variable."""
        named = self.var if self.access is None else self.access.handle
        assert named is not None  # one of the two is there
        return named.privilege


def _effects(s: ir.Stmt) -> tuple[Effect, ...]:
    """List what a statement does itself, in this order: what it reads, then what it writes."""
    return _ROWS[type(s)](s)


effects = kept("_effects", _effects)


# ---- the table ------------------------------------------------------------------------------------------------------


def _target(t: ir.Target | None) -> tuple[Effect, ...]:
    if type(t) is ir.ComponentTarget:
        t = t.of
    match t:
        case None:
            return ()
        case ir.VarTarget(var):
            return (Effect(WRITE, var=var),)
        case ir.ElemTarget(array):
            return (Effect(WRITE, var=array.var),)
        case ir.MemTarget(access):
            return (Effect(WRITE, access),)
        case _:
            raise TypeError(type(t).__name__)


def _array(a: ir.ArrayRef, kind: Kind, engine: Engine = Engine.THREADS) -> Effect:
    return Effect(kind, var=a.var, engine=engine, extent=Extent.BOX, box=a.shape)


def _tile(t: ir.Tile, kind: Kind, engine: Engine, extent: Extent = Extent.BOX) -> Effect:
    return Effect(kind, t.access, engine=engine, extent=extent, box=t.shape)


def _collective(s: ir.Collective) -> tuple[Effect, ...]:
    targets = tuple(one for t in s.targets for one in _target(t))
    if not s.accesses:
        return targets
    op = COLLECTIVES[s.op]
    kind = _KINDS[op.reads, op.writes]
    return *(Effect(kind, a, extent=Extent.ROWS) for a in s.accesses), *targets


def _atomic(s: ir.Atomic) -> tuple[Effect, ...]:
    op = ATOMICS[s.op]
    return Effect(_KINDS[op.reads, op.writes], s.access, atomic=s.op), *_target(s.target)


def _box_copy(s: ir.BoxCopy) -> tuple[Effect, ...]:
    kind = READ if s.is_load else COMBINE if s.op.combines else WRITE
    atomic = s.op if s.op.combines else ""
    there = Effect(kind, s.origin, engine=Engine.BOXES, extent=Extent.BOX, box=s.box, atomic=atomic)
    if s.is_load:
        return there, _tile(s.tile, WRITE, Engine.BOXES)
    return _tile(s.tile, READ, Engine.BOXES), there


def _wgmma(s: ir.Wgmma) -> tuple[Effect, ...]:
    read = READ, Engine.PRODUCTS
    a = _array(s.a, *read) if isinstance(s.a, ir.ArrayRef) else _tile(s.a, *read)
    return a, _tile(s.b, READ, Engine.PRODUCTS), _array(s.acc, COMBINE, Engine.PRODUCTS)


def _unsafe(s: ir.Unsafe) -> tuple[Effect, ...]:
    given = (Effect(READ if a.handle.const else COMBINE, a, extent=Extent.ANYWHERE) for _, a in s.memory)
    return *given, *_target(s.target), *(one for _, t in s.results for one in _target(t))


def _call(s: ir.Call) -> tuple[Effect, ...]:
    by_reference = (_array(a, COMBINE) for a in s.args if isinstance(a, ir.ArrayRef))
    return *by_reference, *_target(s.target)


_ROWS: dict[type, Callable[[Any], tuple[Effect, ...]]] = {
    **dict.fromkeys((ir.Declare, ir.For), lambda s: (Effect(WRITE, var=s.var),)),
    ir.Assign: lambda s: _target(s.target),
    ir.Collective: _collective,
    ir.Atomic: _atomic,
    ir.AsyncCopy: lambda s: (
        Effect(READ, s.source, engine=Engine.COPIES),
        Effect(WRITE, s.target, engine=Engine.COPIES),
    ),
    **dict.fromkeys((ir.BoxCopy, synced.CountedLoad), _box_copy),
    **dict.fromkeys((ir.Wgmma, synced.FencedWgmma), _wgmma),
    ir.StoreAcc: lambda s: (
        _array(s.acc, READ),
        _tile(s.tile, WRITE, Engine.THREADS, Extent.FRAGMENT),
    ),
    ir.Unsafe: _unsafe,
    ir.Call: _call,
    **dict.fromkeys(
        (
            *(ir.DeclareShared, ir.If, ir.While, ir.Break, ir.Continue, ir.Return, ir.Assert, ir.Print),
            *(ir.Group, ir.Split, ir.Partition, ir.Claim, ir.Turn, ir.Prefetch, ir.BoxPrefetch, ir.Sleep),
            *(synced.AsyncCommit, synced.Sync, synced.Elect),
            *(synced.MBarrierWait, synced.MBarrierArrive, synced.MBarrierExpect),
        ),
        lambda s: (),
    ),
}


# ---- what is often asked of it --------------------------------------------------------------------------------------


def _loads(s: ir.Stmt) -> tuple[ir.MemAccess, ...]:
    """The elements that a statement's own expressions load."""
    return tuple([e.access for e in expressions(s) if type(e) is ir.Load])


loads = kept("_loads", _loads)


def accesses(s: ir.Stmt) -> list[ir.MemAccess]:
    """All the memory that a statement touches, whoever does it for it: what its expressions load comes first."""
    return [*loads(s), *(e.access for e in effects(s) if e.access is not None)]


def elements(s: ir.Stmt) -> list[ir.MemAccess]:
    """List what a statement itself accesses as elements of the type that it is seen as: neither boxes nor what unsafe
    text does.
    """
    return [e.access for e in effects(s) if e.access is not None and e.extent in _ELEMENTS]


_ELEMENTS = (Extent.ELEMENT, Extent.ROWS)


def written(s: ir.Stmt) -> list[ir.MemAccess]:
    return [e.access for e in effects(s) if e.access is not None and e.kind.writes]


def puts_into(body: ir.Body, handle: ir.Handle) -> bool:
    """Return whether these statements put anything into the memory that the handle names, or hand it to a call that
    may.
    """
    written_to = ([*(a.handle for a in written(s)), *_handed(s, constants=False)] for s in statements(body))
    return any(_part_of(h, handle) for found in written_to for h in found)


def looks_at(body: ir.Body, handle: ir.Handle) -> bool:
    """Return whether these statements read the memory that the handle names, or hand it to a call."""
    read = (e.access for s in statements(body) for e in effects(s) if e.access is not None and e.kind.reads)
    loaded = (a for s in statements(body) for a in loads(s))
    given = (h for s in statements(body) for h in _handed(s, constants=True))
    return any(_part_of(h, handle) for h in (*(a.handle for a in (*loaded, *read)), *given))


def _handed(s: ir.Stmt, constants: bool) -> list[ir.Handle]:
    return [h for p, _, h in passed(s) if constants or not p.handle.const]


def _part_of(h: ir.Handle | None, handle: ir.Handle) -> bool:
    """Return whether it is the handle, or a part of it."""
    while h is not None and h.uid != handle.uid:
        h = h.base
    return h is not None


def _assigned(s: ir.Stmt) -> tuple[ir.Var, ...]:
    """The variables and local arrays that a statement itself gives a value, by reference, too."""
    return tuple([e.var for e in effects(s) if e.var is not None and e.kind.writes])


assigned = kept("_assigned", _assigned)


def begins(s: ir.Stmt) -> Engine:
    """Find the engine that a statement sets to work, to be waited for later; the threads where it begins nothing."""
    for e in effects(s):
        if e.engine is not THREADS:
            return e.engine
    return THREADS


def multiplied_into(s: ir.Stmt) -> list[ir.Var]:
    """The local arrays that asynchronous wgmma add to."""
    return [e.var for e in effects(s) if e.engine is PRODUCTS and e.var is not None and e.kind.writes]


def passed(s: ir.Stmt) -> Iterator[tuple[ir.MemParam, ir.MemView, ir.Handle]]:
    """The memory that a call hands over: the parameter that it becomes, what it is, and by which name.  The callee does
    with it what its own statements say, and writes no const parameter.
    """
    if type(s) is ir.Call:
        for p, a, handle in zip(s.function.params, s.args, s.handles):
            if isinstance(p, ir.MemParam) and isinstance(a, ir.MemView) and handle is not None:
                yield p, a, handle


COMPUTING = (ir.Declare, ir.Assign, ir.If, ir.For, ir.While, ir.Break, ir.Continue, ir.Return, ir.Call)


def computes(function: ir.AnyFunction, *also: type) -> bool:
    """Tell whether a function does nothing but compute: its result depends on its arguments, and on memory that it is
    given, whichever threads call it, and however often.  also: other statements that it may have.
    """
    called = callees(function)
    inside = [s for f in called for s in statements(f.body)]
    return (
        not any(f.text for f in called)
        and not any(isinstance(p, ir.RefParam) for p in function.params)
        and all(isinstance(s, COMPUTING) or isinstance(s, also) for s in inside)
        and not any(isinstance(e, (ir.UnitId, ir.UnitCount, ir.Lane)) for s in inside for e in expressions(s))
    )


def orders(function: ir.AnyFunction) -> bool:
    """Tell whether one of a function's atomics, calls entered, orders other memory."""
    every = (s for f in callees(function) for s in statements(f.body))
    return any(isinstance(s, ir.Atomic) and s.order != MemoryOrder.RELAXED for s in every)
