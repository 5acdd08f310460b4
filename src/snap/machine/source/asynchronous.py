"""Statements about asynchronous work, as Python source: TMA copies, wgmma, commits and waits, barriers that
count, turns, elections.

Input: typed IR, where all of it happens at once, or synchronized IR where `stepwise`.  Output: calls of boxes.py and
tensor.py, or of what a warp has in flight.  Non-goals: what happens when (flights.py, mbarriers.py).
"""

from __future__ import annotations

from contextlib import contextmanager

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.engines import Engine, Wait
from snap._compiler.ir.synced import PointKind
from snap._compiler.ir.types import BLOCK1, Level
from snap.machine.lanes.boxes import BoxSpec
from snap.machine.lanes.locals import Layout
from snap.machine.lanes.tensor import TileSpec, WgmmaSpec
from snap.machine.source.actions import entering, group_of
from snap.machine.source.bodies import arm, pause, sequence
from snap.machine.source.expressions import dims, expr, masked, promises, registers, touched, tupled, view_of
from snap.machine.source.writing import Writing


def memory(w: Writing, a: ir.MemAccess) -> str:
    """View, index and dimensions."""
    return f"({view_of(w, a)}, {tupled(w, a.index)}, {dims(w, a.view)})"


# ---- boxes ----------------------------------------------------------------------------------------------------------


def box_copy(w: Writing, s: ir.BoxCopy) -> None:
    tile, origin = s.tile.access, s.origin
    sites = [w.fault_site(a.span, a.handle.name) for a in (tile, origin)]
    spec = w.intern(BoxSpec.of(s, *sites), ("box", s.number), "B")
    chosen = w.issuer(s.place, every_block=s.shared_out)
    with reducing(w, s), w.indented(f"if {chosen} is not False:"), masked(w, chosen):
        ends = f"{spec}, {memory(w, tile)}, {memory(w, origin)}, {chosen}, {promised(w, origin)}"
        if w.stepwise:
            slot = "None, None"
            if isinstance(s, synced.CountedLoad):
                slot = f"{barrier(w, s.barrier)}, {expr(w, s.slot)}"
            w.emit(f"issue_box(C, {ends}, {slot})")
        else:
            w.emit(f"box_copy(C, {ends})")
    pause(w)


@contextmanager
def reducing(w: Writing, s: ir.BoxCopy):
    """A reduction is an atomic to those who release and acquire (spoken.py)."""
    if s.is_load or not s.op.combines:
        yield
        return
    with entering(w, s.number, BLOCK1):
        if w.stepwise and w.speaks:
            w.emit(f"C.does = {str(s.op)!r}, False")
        yield


def promised(w: Writing, a: ir.MemAccess) -> str:
    """Write what disjoint partitions around the global side promise."""
    claims, borrowed = promises(w, a.handle)
    made = w.intern(tuple(claims), ("claims", tuple(claims)), "Q") if claims else "()"
    return made if borrowed is None else f"{made} + {borrowed}"


# ---- products -------------------------------------------------------------------------------------------------------


def wgmma(w: Writing, s: ir.Wgmma) -> None:
    tiles = [t.access for t in (s.a, s.b) if isinstance(t, ir.Tile)]
    first, last = (w.fault_site(t.span, t.handle.name) for t in (tiles[0], tiles[-1]))
    own = w.fault_site(s.span, s.acc.var.name)
    spec = w.intern(WgmmaSpec.of(s, (first, last, own)), ("wgmma", s.number), "W")
    a = memory(w, s.a.access) if isinstance(s.a, ir.Tile) else registers(w, s.a, s.span)
    zero = "None" if s.zero is None else expr(w, s.zero)
    helper = "multiply" if w.stepwise else "wgmma"
    w.emit(f"{helper}(C, {spec}, {registers(w, s.acc, s.span)}, {a}, {memory(w, s.b.access)}, {zero}, {w.mask})")
    pause(w)


def store_acc(w: Writing, s: ir.StoreAcc) -> None:
    a = s.tile.access
    spec = w.intern(TileSpec(s.tile.shape, w.fault_site(a.span, a.handle.name)), ("tile", s.number), "T")
    layout = w.intern(Layout.of(s.acc), ("layout", s.acc.var.uid, s.acc.elem, s.acc.shape), "L")
    touched(w, s.acc.var, False, s.span)
    where = f"{view_of(w, a)}, {tupled(w, a.index)}, {dims(w, a.view)}"
    acc = registers(w, s.acc, s.span)
    w.emit(f"store_acc(C, {spec}, {layout}, {acc}, {where}, {expr(w, s.first)}, {w.mask})")
    pause(w)


# ---- commits, waits, fences -----------------------------------------------------------------------------------------


def async_commit(w: Writing, s: synced.AsyncCommit) -> None:
    if not w.stepwise:
        return
    match s.engine:
        case Engine.COPIES:
            w.emit(f"C.copies.commit({w.mask})")
        case Engine.BOXES:
            chosen = w.issuer(s.place) if s.place is not None else w.mask
            with w.indented(f"if {chosen} is not False:"):
                w.emit(f"commit_bulk(C, {chosen})")
        case Engine.PRODUCTS:
            w.emit("C.products.commit(C)")
        case _:
            raise ValueError(f"unknown engine {s.engine}")
    pause(w)


def sync(w: Writing, s: synced.Sync) -> None:
    if not w.stepwise:
        return
    p = s.point
    site = w.site(s.span, p.object)
    if s.part is not synced.SyncHalf.WAIT:
        for wait, younger in p.waits:
            wait_for(w, wait, younger, site)
        if p.fence:
            w.emit(f"C.fence({w.mask})")
    if p.kind == PointKind.THREAD:
        return
    if s.part is synced.SyncHalf.BOTH:
        w.emit(
            f"yield from C.meet(PointKind.{p.kind.name}, {group_of(w, p.participants, s.place)}, {w.mask}, {site}, '',"
            f" None, {p.number})"
        )
    else:
        n = p.participants.n if p.participants.level is Level.THREAD else 0
        w.emit(
            f"yield from meet_apart(C, PointKind.{p.kind.name}, SyncHalf.{s.part.name}, {p.number}, {n},"
            f" {p.threads}, {w.mask}, {site})"
        )
    pause(w)


def wait_for(w: Writing, wait: Wait, younger: int, site: str) -> None:
    match wait:
        case Wait.COPIES:
            w.emit(f"C.copies.wait({younger}, {w.mask})")
        case Wait.BOXES | Wait.BOXES_READ:
            # Threads that issued none pass.
            w.emit(f"wait_bulk(C, {younger}, {w.mask}, {wait is Wait.BOXES_READ})")
        case Wait.PRODUCTS:
            w.emit(f"yield from C.products.wait(C, {younger}, {site})")


# ---- barriers that count --------------------------------------------------------------------------------------------


def barrier(w: Writing, b: synced.MBarrier) -> str:
    return w.intern(b, ("barrier", b), "M")


def barrier_wait(w: Writing, s: synced.MBarrierWait) -> None:
    if not w.stepwise:
        return
    where = f"{barrier(w, s.barrier)}, {expr(w, s.slot)}, {expr(w, s.phase)}"
    w.emit(f"yield from wait_barrier(C, {where}, {w.mask}, {w.site(s.span, s.point.object)})")
    pause(w)


def barrier_arrive(w: Writing, s: synced.MBarrierArrive) -> None:
    if not w.stepwise:
        return
    for wait, younger in s.point.waits:
        wait_for(w, wait, younger, w.site(s.span, s.point.object))
    where = f"{barrier(w, s.barrier)}, {expr(w, s.slot)}"
    if s.copies:
        w.emit(f"C.copies.arrive({where}, {w.mask}, {w.site(s.span, s.point.object)})")
        return pause(w)
    where += f", {group_of(w, s.by, s.place)}"
    w.emit(f"arrive_barrier(C, {where}, {w.mask}, {s.bytes}, {s.point.fence}, {w.site(s.span, s.point.object)})")
    pause(w)


def barrier_expect(w: Writing, s: synced.MBarrierExpect) -> None:
    if not w.stepwise:
        return
    chosen = w.issuer(s.place)
    with w.indented(f"if {chosen} is not False:"):
        w.emit(
            f"expect_bytes(C, {barrier(w, s.barrier)}, {expr(w, s.slot)}, {s.bytes}, {chosen},"
            f" {w.site(s.span, s.barrier.name)})"
        )
    pause(w)


# ---- one after the other, one alone ---------------------------------------------------------------------------------


def elect(w: Writing, s: synced.Elect) -> None:
    chosen = w.issuer(s.place)
    with w.indented(f"if {chosen} is not False:"):
        arm(w, s.body, chosen)


def turn(w: Writing, s: ir.Turn) -> None:
    """Unit after unit; a group of all units is one that has its turn alone."""
    privilege = s.place.privilege
    level, n = privilege.level, privilege.n
    chain = w.relative[level]
    if not chain or chain[-1] != ("group", n):
        w.mask = sequence(w, s.body)
        return
    parent = w.position(level, chain[:-1])
    unit = w.once(f"{parent} // np.int32({n})", "r")
    held = s.outer.held(level)
    units = held.count // n if held is not None and held.count is not None and not held.open else None
    name, mask = w.fresh("n"), w.fresh("m")
    with w.indented(f"for {name}, {mask} in C.units({unit}, {w.mask}):"):
        if w.stepwise and level is Level.THREAD:
            key = f"{s.span.line, s.span.column, chain[:-1]}"
            first = f"int(C.thread[0, 0]) - int(C.full({parent})[0, 0])"
            site = w.site(s.span, "turn")
            turns = w.bind(f"(yield from take_turn(C, {key}, {first}, {name}, {units}, {n}, {site}))")
            arm(w, s.body, mask)
            w.emit(f"{turns}.leave(int(C.active({mask}).sum()))")
        else:
            arm(w, s.body, mask)
    pause(w)
