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
from snap._compiler.ir.types import BLOCK1, Level, Place
from snap.machine.lanes.boxes import BoxSpec
from snap.machine.lanes.locals import Layout
from snap.machine.lanes.tensor import TileSpec, WgmmaSpec
from snap.machine.source.actions import Actions


class Asynchronous(Actions):
    def issuer(self, place: Place, every_block: bool = False) -> str:
        """The lanes that issue for their group: the first thread of each; or of each block."""
        parts = []
        for level, held in place.levels:
            if level is Level.GRID or (every_block and level is not Level.THREAD):
                continue
            at = self.position(level, self.relative[level])
            within = f" % np.int32({held.count})" if held.count is not None and not held.open else ""
            parts.append(f"({at}{within} == np.int32(0))")
        first = self.once(" & ".join(parts), "k")
        return self.bind(f"narrow({self.mask}, {first})", "m")

    def memory(self, a: ir.MemAccess) -> str:
        """View, index and dimensions."""
        return f"({self.view_of(a)}, {self.tupled(a.index)}, {self.dims(a.view)})"

    # ---- boxes ----

    def box_copy(self, s: ir.BoxCopy) -> None:
        tile, origin = s.tile.access, s.origin
        sites = [self.namespace[self.site(a.span, a.handle.name)] for a in (tile, origin)]
        spec = self.intern(BoxSpec.of(s, *sites), ("box", s.number), "B")
        chosen = self.issuer(s.place, every_block=s.shared_out)
        with self.reducing(s), self.indented(f"if {chosen} is not False:"), self.masked(chosen):
            ends = f"{spec}, {self.memory(tile)}, {self.memory(origin)}, {chosen}, {self.promised(origin)}"
            if self.stepwise:
                slot = "None, None"
                if isinstance(s, synced.CountedLoad):
                    slot = f"{self.barrier(s.barrier)}, {self.expr(s.slot)}"
                self.emit(f"issue_box(C, {ends}, {slot})")
            else:
                self.emit(f"box_copy(C, {ends})")
        self.pause()

    @contextmanager
    def reducing(self, s: ir.BoxCopy):
        """A reduction is an atomic to those who release and acquire (spoken.py)."""
        if s.is_load or not s.op.combines:
            yield
            return
        with self.entering(s.number, BLOCK1):
            if self.stepwise and self.speaks:
                self.emit(f"C.does = {str(s.op)!r}, False")
            yield

    def promised(self, a: ir.MemAccess) -> str:
        """What disjoint partitions around the global side promise."""
        claims, borrowed = self.promises(a.handle)
        made = self.intern(tuple(claims), ("claims", tuple(claims)), "Q") if claims else "()"
        return made if borrowed is None else f"{made} + {borrowed}"

    # ---- products ----

    def wgmma(self, s: ir.Wgmma) -> None:
        tiles = [t.access for t in (s.a, s.b) if isinstance(t, ir.Tile)]
        sites = [self.namespace[self.site(t.span, t.handle.name)] for t in (tiles[0], tiles[-1])]
        own = self.namespace[self.site(s.span, s.acc.var.name)]
        spec = self.intern(WgmmaSpec.of(s, (*sites, own)), ("wgmma", s.number), "W")
        a = self.memory(s.a.access) if isinstance(s.a, ir.Tile) else self.registers(s.a, s.span)
        zero = "None" if s.zero is None else self.expr(s.zero)
        helper = "multiply" if self.stepwise else "wgmma"
        self.emit(
            f"{helper}(C, {spec}, {self.registers(s.acc, s.span)}, {a}, {self.memory(s.b.access)}, {zero}, {self.mask})"
        )
        self.pause()

    def store_acc(self, s: ir.StoreAcc) -> None:
        a = s.tile.access
        site = self.site(a.span, a.handle.name)
        spec = self.intern(TileSpec(s.tile.shape, self.namespace[site]), ("tile", s.number), "T")
        layout = self.intern(Layout.of(s.acc), ("layout", s.acc.var.uid, s.acc.elem, s.acc.shape), "L")
        self.touched(s.acc.var, False, s.span)
        where = f"{self.view_of(a)}, {self.tupled(a.index)}, {self.dims(a.view)}"
        acc = self.registers(s.acc, s.span)
        self.emit(f"store_acc(C, {spec}, {layout}, {acc}, {where}, {self.expr(s.first)}, {self.mask})")
        self.pause()

    # ---- commits, waits, fences ----

    def async_commit(self, s: synced.AsyncCommit) -> None:
        if not self.stepwise:
            return
        match s.engine:
            case Engine.COPIES:
                self.emit(f"C.copies.commit({self.mask})")
            case Engine.BOXES:
                chosen = self.issuer(s.place) if s.place is not None else self.mask
                with self.indented(f"if {chosen} is not False:"):
                    self.emit(f"commit_bulk(C, {chosen})")
            case Engine.PRODUCTS:
                self.emit("C.products.commit(C)")
            case _:
                raise ValueError(f"unknown engine {s.engine}")
        self.pause()

    def sync(self, s: synced.Sync) -> None:
        if not self.stepwise:
            return
        p = s.point
        site = self.site(s.span, p.object)
        if s.part is not synced.SyncHalf.WAIT:
            for wait, younger in p.waits:
                self.wait_for(wait, younger, site)
            if p.fence:
                self.emit(f"C.fence({self.mask})")
        if p.kind == PointKind.THREAD:
            return
        if s.part is synced.SyncHalf.BOTH:
            self.emit(
                f"yield from C.meet(PointKind.{p.kind.name}, {self.group_of(p.participants)}, {self.mask}, {site}, '',"
                f" None, {p.number})"
            )
        else:
            n = p.participants.n if p.participants.level is Level.THREAD else 0
            self.emit(
                f"yield from meet_apart(C, PointKind.{p.kind.name}, SyncHalf.{s.part.name}, {p.number}, {n},"
                f" {p.threads}, {self.mask}, {site})"
            )
        self.pause()

    def wait_for(self, wait: Wait, younger: int, site: str) -> None:
        match wait:
            case Wait.COPIES:
                self.emit(f"C.copies.wait({younger}, {self.mask})")
            case Wait.BOXES | Wait.BOXES_READ:
                # Threads that issued none pass.
                self.emit(f"wait_bulk(C, {younger}, {self.mask}, {wait is Wait.BOXES_READ})")
            case Wait.PRODUCTS:
                self.emit(f"yield from C.products.wait(C, {younger}, {site})")

    # ---- barriers that count ----

    def barrier(self, b: synced.MBarrier) -> str:
        return self.intern(b, ("barrier", b), "M")

    def barrier_wait(self, s: synced.MBarrierWait) -> None:
        if not self.stepwise:
            return
        where = f"{self.barrier(s.barrier)}, {self.expr(s.slot)}, {self.expr(s.phase)}"
        self.emit(f"yield from wait_barrier(C, {where}, {self.mask}, {self.site(s.span, s.point.object)})")
        self.pause()

    def barrier_arrive(self, s: synced.MBarrierArrive) -> None:
        if not self.stepwise:
            return
        for wait, younger in s.point.waits:
            self.wait_for(wait, younger, self.site(s.span, s.point.object))
        where = f"{self.barrier(s.barrier)}, {self.expr(s.slot)}"
        if s.copies:
            self.emit(f"C.copies.arrive({where}, {self.mask}, {self.site(s.span, s.point.object)})")
            return self.pause()
        where += f", {self.group_of(s.by)}"
        self.emit(
            f"arrive_barrier(C, {where}, {self.mask}, {s.bytes}, {s.point.fence}, {self.site(s.span, s.point.object)})"
        )
        self.pause()

    def barrier_expect(self, s: synced.MBarrierExpect) -> None:
        if not self.stepwise:
            return
        chosen = self.issuer(s.place)
        with self.indented(f"if {chosen} is not False:"):
            self.emit(
                f"expect_bytes(C, {self.barrier(s.barrier)}, {self.expr(s.slot)}, {s.bytes}, {chosen},"
                f" {self.site(s.span, s.barrier.name)})"
            )
        self.pause()

    # ---- one after the other, one alone ----

    def elect(self, s: synced.Elect) -> None:
        chosen = self.issuer(s.place)
        with self.indented(f"if {chosen} is not False:"):
            self.arm(s.body, chosen)

    def turn(self, s: ir.Turn) -> None:
        """Unit after unit; a group of all units is one that has its turn alone."""
        privilege = s.place.privilege
        level, n = privilege.level, privilege.n
        chain = self.relative[level]
        if not chain or chain[-1] != ("group", n):
            self.mask = self.body(s.body)
            return
        parent = self.position(level, chain[:-1])
        unit = self.once(f"{parent} // np.int32({n})", "r")
        held = s.outer.held(level)
        units = held.count // n if held is not None and held.count is not None and not held.open else None
        name, mask = self.fresh("n"), self.fresh("m")
        with self.indented(f"for {name}, {mask} in C.units({unit}, {self.mask}):"):
            if self.stepwise and level is Level.THREAD:
                key = f"{s.span.line, s.span.column, chain[:-1]}"
                first = f"int(C.thread[0, 0]) - int(C.full({parent})[0, 0])"
                site = self.site(s.span, "turn")
                turns = self.bind(f"(yield from take_turn(C, {key}, {first}, {name}, {units}, {n}, {site}))")
                self.arm(s.body, mask)
                self.emit(f"{turns}.leave(int(C.active({mask}).sum()))")
            else:
                self.arm(s.body, mask)
        self.pause()
