"""Statements that do something: collectives, atomics, copies, products (evaluate.py walks all others).

Input: a statement, typed or synchronized, and the state of the walk.  Output: its accesses are recorded, and what it
assigns is any value; of a vote it is known what it says of this thread.  Invariant: everything that it touches is among
the recorded accesses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from snap._compiler.analysis.exact.conditions import at_least, atoms_of, either, equal, negated
from snap._compiler.analysis.exact.logic import each
from snap._compiler.analysis.exact.terms import Poly
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.effects import assigned, effects
from snap._compiler.ir.fields import EVALUATED, holding
from snap._compiler.ir.hardware import WARP
from snap._compiler.ir.operations import COLLECTIVES, SyncHalf
from snap._compiler.ir.synced import meets
from snap._compiler.ir.types import THREAD1
from snap._compiler.walk import arrays
from snap._compiler.walk.assign import unknown
from snap._compiler.walk.sites import NONE, Draw
from snap._compiler.walk.state import Value, WalkState


def _atomic(w: WalkState, s: ir.Atomic) -> None:
    args = [w.value(arg).term for arg in s.args]
    site = w.access(effects(s)[0])
    if s.target is not None:
        unknown(w, s.target)
    if s.op == "add" and site is not None and not w.dry and isinstance(args[0], Poly):
        drawn = w.read(s.target.var).term if isinstance(s.target, ir.VarTarget) else None
        w.out.draws.append(Draw(site, args[0], drawn if isinstance(drawn, Poly) else None))


SOME = ("any", "syncthreads_or", "any_cluster", "any_grid")
EVERY = ("all", "syncthreads_and", "all_cluster", "all_grid")


def _voted(w: WalkState, s: ir.Collective, said: object, found: object) -> None:
    """Define what a vote says of this thread: where all say yes, it does; where none does, it does not; where some do,
    what the units that vote agree on holds for all of them.
    """
    if not isinstance(said, tuple) or not isinstance(found, tuple):
        return
    if s.op in EVERY:
        w.define(either(negated(found), said))
        return
    w.define(either(found, negated(said)))
    for one in each((said,)):
        if all(atom.per.at_least(s.requires) for atom in atoms_of([one]) if not atom.defined):
            w.define(either(negated(found), one))


def _collective(w: WalkState, s: ir.Collective) -> None:
    args = [w.value(arg) for arg in s.args]
    for e in effects(s):
        if e.access is not None:
            w.access(e, lanes=8 * s.attr("count", WARP // 8))
    if COLLECTIVES[s.op].barrier and COLLECTIVES[s.op].half is not SyncHalf.ARRIVE:
        w.meet(meets(s.requires), s.requires, s.span)
    for t in s.targets:
        unknown(w, t, args[0].deps if s.op in (*SOME, *EVERY) else NONE)
        if s.op in (*SOME, *EVERY) and isinstance(t, ir.VarTarget):
            _voted(w, s, args[0].term, w.read(t.var).term)


def _copied(w: WalkState, s: ir.AsyncCopy) -> None:
    valid = () if s.valid is None else (w.value(s.valid),)
    first = None
    if s.elements is not None:  # where any of its elements are read, those
        many = w.value(s.elements)
        w.use(many)
        if isinstance(many.term, Poly):
            valid = (Value(at_least(many.term, 1), many.deps),)
            first = many.term * s.source.view.obj.elem.bytes
    source, target = effects(s)
    w.access(source, valid, first=first)
    w.access(target)


def _box_copied(w: WalkState, s: ir.BoxCopy) -> None:
    for e in effects(s):
        out = e.access is s.origin
        w.access(e, free=out, starts=out and not s.is_load)


def _unsafe(w: WalkState, s: ir.Unsafe) -> None:
    for _, arg in s.values:
        w.value(arg)
    for e in effects(s):
        if e.access is not None:
            w.access(e)
    for target in (s.target, *(t for _, t in s.results)):
        if target is not None:
            unknown(w, target)
    if not w.dry:
        w.out.unsafe.append(s.span)


def _by_its_row(w: WalkState, s: ir.Stmt) -> None:
    """An instruction of which nothing more is to be said than its class and its row in the table of effects do: it
    evaluates its operands, takes local arrays as a whole, and does to memory what the row says.
    """
    done = [e for e in effects(s) if e.access is not None]
    for name, _ in holding(s, EVALUATED):
        part = getattr(s, name)
        for one in part if isinstance(part, tuple) else (part,):
            match one:
                case ir.ArrayRef():
                    w.registers(one, one.at, s.span)
                case ir.MemAccess(index=index) if not any(e.access is one for e in done):
                    for i in index:  # it is named, and not touched: prefetched
                        w.value(i)
                case ir.VarTarget() | ir.ElemTarget() | ir.MemTarget() | ir.ComponentTarget():
                    unknown(w, one)
                case ir.Tile() | ir.MemAccess() | None:
                    pass
                case _:
                    w.value(one)
    for e in done:
        w.access(e)


# ---- of synchronized programs ---------------------------------------------------------------------------------------


def _met(w: WalkState, s: synced.Sync | synced.MBarrierWait) -> None:
    w.meet(s.point.kind, s.point.participants, s.span)


def _waited(w: WalkState, s: synced.MBarrierWait) -> None:
    w.value(s.slot)
    w.value(s.phase)
    _met(w, s)


def _counted_load(w: WalkState, s: synced.CountedLoad) -> None:
    w.value(s.slot)
    _box_copied(w, s)


def _elected(w: WalkState, s: synced.Elect) -> None:
    """The first thread of the group runs the body."""
    index = w.at.unit(THREAD1, s.place)
    with w.given(*(() if index is None else (Value(equal(index, 0)),))):
        w.body(s.body)


SYNCHRONIZED: dict[type, Callable[[WalkState, Any], object]] = {
    synced.AsyncCommit: lambda w, s: None,  # it names what was begun, and touches nothing
    synced.Elect: _elected,
    synced.MBarrierArrive: lambda w, s: w.value(s.slot),
    synced.MBarrierExpect: lambda w, s: w.value(s.slot),
    synced.MBarrierWait: _waited,
    synced.Sync: _met,
}
ACTS: dict[type, Callable[[WalkState, Any], object]] = {
    ir.Act: _by_its_row,
    ir.Atomic: _atomic,
    ir.AsyncCopy: _copied,
    ir.BoxCopy: _box_copied,
    ir.Collective: _collective,
    synced.CountedLoad: _counted_load,
    ir.Unsafe: _unsafe,
}


def act(w: WalkState, s: ir.Stmt) -> None:
    """Walk an instruction.  Local arrays that it assigns may hold anything then."""
    ACTS.get(type(s), _by_its_row)(w, s)
    for var in assigned(s):
        arrays.forget(w, var)
