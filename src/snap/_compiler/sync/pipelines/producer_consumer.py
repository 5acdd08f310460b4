"""The operations of channels: who waits for which phase, who arrives, whose bytes are counted.

Input: a kernel's channels, one after the other. Output: in `Additions`, the statements that go before and after those
of each episode; in `Pipelined`, where memory passes from one episode to the next. For fill f of a channel with n
slots, in slot f % n: an episode waits for phase f / n of the episode before it, the first one for phase f / n - 1 of
the last. A load counts its bytes; copies by threads arrive by themselves, one arrival for each thread; others arrive,
one arrival for each warp, or for each warpgroup where only products read. Products may stay in flight for `lag` fills:
their slots are released by the wait that covers them. Invariant: every wait has its arrivals before it in the order
of the text, so nothing hangs.
"""

from __future__ import annotations

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.engines import Engine, Wait
from snap._compiler.ir.hardware import WARP, WARPGROUP
from snap._compiler.ir.synced import PointKind
from snap._compiler.ir.types import BLOCK1, THREAD1, Level, Place, Privilege
from snap._compiler.ir.walk import bodies, statements
from snap._compiler.sync.barriers.terms import as_i32, binary, counted_up, number, read
from snap._compiler.sync.pipelines.channels import LOOPS, Channel, Episode, Filling, Leaf
from snap._compiler.sync.pipelines.counting import bytes_of, groups_of, total
from snap._compiler.sync.pipelines.lowered import Additions, ByteCount, Lagging, Pipelined, release
from snap._compiler.sync.pipelines.uses import Role
from snap.diag.error import Diagnostic, Label, SnapError
from snap.diag.span import Span, lines
from snap.record import replace

# By episode, what says that it has ended; of the last one, None where the next fill need not wait for that.
Ends = list[synced.MBarrier | None]


class ProducerConsumer:
    def __init__(self, function: synced.Function, added: Additions, pipelined: Pipelined):
        self.function, self.added, self.pipelined = function, added, pipelined
        place = function.place
        self.threads = place.known(Level.THREAD)
        self.blocks = 1 if place.held(Level.CLUSTER) is None else place.known(Level.BLOCK)
        self.anew = _declared_anew(function.body)

    def channel(self, channel: Channel) -> None:
        if channel.declared.number in self.anew:
            self._count_on(channel)
        if channel.numbered:
            self._numbered(channel)
            return
        _set_units(channel)
        _set_arrivals(channel)
        episodes = channel.fills[0].episodes
        names = ["full", *(f"handed{k}" for k in range(1, len(episodes) - 1))] if len(episodes) > 2 else ["full"]
        stem = "_".join(o.name for o in channel.objects)
        ends: Ends = [
            self._barrier(f"{stem}_{name}", channel, e, f) for name, e, f in zip(names, episodes, episodes[1:])
        ]
        released = channel.releases_slots and not channel.goes_round
        empty = self._barrier(f"{stem}_empty", channel, episodes[-1], episodes[0]) if released else None
        ends.append(empty)
        lag = _lag(channel) if released else 0
        lagging: Lagging | None = None
        for fill in channel.fills:
            fill_number = self._fill_number(channel, fill)
            if lag and lagging is None and empty is not None:
                lagging = self._lagging(channel, fill, empty, lag)
            for k in range(len(fill.episodes)):
                self._episode(channel, fill, k, ends, fill_number, lagging)
        if lagging is not None:
            self.pipelined.lagging.append(lagging)

    # The barriers of a channel live as long as the kernel: where its memory is declared anew in each iteration of a
    # loop, fills are still counted on.
    def _count_on(self, channel: Channel) -> None:
        objects = {o.uid for o in channel.objects}
        self.pipelined.counted_on |= objects
        everything = list(statements(self.function.body))
        values = {s.var.uid: s.init for s in everything if isinstance(s, ir.Declare)}
        counters = set()
        for s in everything:
            if isinstance(s, ir.Partition) and s.counted and s.handle.obj.uid in objects:
                counter = values.get(s.fill.var.uid) if isinstance(s.fill, ir.Read) else None
                counters |= {counter.var.uid} if isinstance(counter, ir.Read) else set()
        for s in everything:
            if isinstance(s, ir.Declare) and s.var.uid in counters:
                self.added.top.append(s)
                self.added.dropped.add(s.number)

    def _counter(self, channel: Channel, word: str, privilege: Privilege) -> ir.Var:
        """A variable that counts from 0 as long as the channel's barriers do."""
        span = channel.declared.span
        var = self.added.variable(f"{channel.objects[0].name}_{word}", privilege, span)
        declared = ir.Declare(var, number(0, span), span=span)
        if channel.declared.number in self.anew:
            self.added.top.append(declared)
        else:
            self.added.after.setdefault(channel.declared.number, []).append(declared)
        return var

    def _fill_number(self, channel: Channel, fill: Filling) -> ir.Expr:
        """Compute which fill of the channel's lifetime this is; a plain array's are counted here."""
        if fill.scope is not None:
            return as_i32(fill.scope.number_of_fill)
        span = channel.declared.span
        if not channel.repeated:
            return number(0, span)
        p = channel.objects[0].privilege
        fills = self._counter(channel, "fills", p)
        now = self.added.variable(f"{channel.objects[0].name}_fill", p, span)
        first = fill.episodes[0].leaves[0].statement
        top = next(s for s in fill.body if any(inner is first for inner in statements((s,))))
        counting = (ir.Declare(now, read(fills, span), span=span), counted_up(fills, span))
        self.added.before.setdefault(top.number, []).extend(counting)
        return read(now, span)

    def _barrier(self, name: str, channel: Channel, e: Episode, then: Episode) -> synced.MBarrier:
        everywhere = then.loads and channel.copies
        threads = sum(n for _, n in e.roles)
        arrivals = threads // e.unit * e.arrives * (self.blocks if everywhere else 1) + threads * e.copies
        return self.added.barrier(name, channel.depth, 1 if e.loads else arrivals, e.uses.span, everywhere)

    # ---- episodes ---------------------------------------------------------------------------------------------------

    def _numbered(self, channel: Channel) -> None:
        """One stage loads a fill, maybe another one uses it: whoever uses it waits for its phase."""
        every = [e for f in channel.fills for e in f.episodes]
        load = next(e for e in every if e.loads)
        use = next((e for e in every if not e.loads), load)
        full = self._barrier(f"{channel.objects[0].name}_full", channel, load, use)
        self.pipelined.numbered.add(channel.objects[0].uid)
        for fill in channel.fills:
            fill_number = self._fill_number(channel, fill)
            for e in fill.episodes:
                span = e.uses.span
                slot = binary("%", fill_number, channel.depth, span)
                if e.loads:
                    begin, end = self._load(channel, e, full, slot, self._point(channel, e, use, False))
                    begin = self._by_one(e, begin)
                else:
                    phase = binary("/", fill_number, channel.depth, span)
                    point = self._point(channel, load, e, False)
                    begin, end = [synced.MBarrierWait(full, slot, phase, self._place(e), point, span=span)], []
                self._around(channel, e, begin, end, False)

    def _episode(
        self, channel: Channel, fill: Filling, k: int, ends: Ends, fill_number: ir.Expr, lagging: Lagging | None
    ) -> None:
        e, span = fill.episodes[k], fill.episodes[k].uses.span
        slot = binary("%", fill_number, channel.depth, span)
        begin: list[ir.Stmt] = []
        end: list[ir.Stmt] = []
        incoming = None if k == 0 and fill.first else ends[k - 1]
        if incoming is not None:
            phase = binary("/", fill_number, channel.depth, span)
            phase = phase if k else binary("-", phase, 1, span)
            point = self._point(channel, fill.episodes[k - 1], e, False)
            begin.append(synced.MBarrierWait(incoming, slot, phase, self._place(e), point, span=span))
        outgoing = ends[k]
        if outgoing is not None:
            then = fill.episodes[(k + 1) % len(fill.episodes)]
            others = [other for other in fill.episodes if other is not e]  # maybe not next, but in the same memory
            seen = e.uses.writes is not None and any(other.uses.background for other in others)
            overwritten = e.uses.reads is not None and any(other.loads for other in others)
            point = self._point(channel, e, then, seen or overwritten)
            if e.loads:
                ahead, end = self._load(channel, e, outgoing, slot, point)
                begin += ahead
            elif k == len(fill.episodes) - 1 and lagging is not None:
                end = self._release_slots(lagging, fill_number, span)
            else:
                end = [*self._waits(channel, e), *self._arrivals(e, outgoing, slot, point)]
        elif e.loads:
            raise AssertionError("what was loaded is used")
        else:
            end = self._copies_ended(channel, e)
        ordered = incoming is not None and (channel.releases_slots or not channel.repeated)
        self._around(channel, e, self._by_one(e, begin) if e.loads else begin, end, ordered)

    def _arrivals(self, e: Episode, barrier: synced.MBarrier, slot: ir.Expr, point: synced.SyncPoint) -> list[ir.Stmt]:
        """Make the arrivals: of copies, which come later, and of the threads for what they have done."""
        made: list[ir.Stmt] = []
        place, span, by = self._place(e), e.uses.span, Privilege(Level.THREAD, e.unit)
        if e.copies:
            landing = replace(point, arrivals=_copies_of(e))
            made.append(synced.MBarrierArrive(barrier, slot, THREAD1, place, landing, copies=True, span=span))
        if e.arrives:
            besides = "its threads arrive as well, for their own accesses"
            own = replace(point, arrivals=_each_of(e), reason=besides) if e.copies else point
            made.append(synced.MBarrierArrive(barrier, slot, by, place, own, span=span))
        return made

    def _by_one(self, e: Episode, begin: list[ir.Stmt]) -> list[ir.Stmt]:
        """Only who loads waits: others of the role would fall behind, and take one phase for another."""
        return [synced.Elect(self._place(e), tuple(begin), span=e.uses.span)] if begin else []

    def _around(self, channel: Channel, e: Episode, begin: list[ir.Stmt], end: list[ir.Stmt], ordered: bool) -> None:
        """Before the first statement of an episode, and after its last, for its roles."""
        first, last = e.leaves[0], e.leaves[-1]
        made = self.added.numbers.given(self._for_roles(e.roles, begin, first))
        if made:
            self.added.before.setdefault(first.statement.number, []).extend(made)
            objects = {o.uid for o in channel.objects}
            self.pipelined.released |= objects if channel.releases_slots else set()
            if ordered or not e.loads:
                (self.pipelined.passes if ordered else self.pipelined.lands)[made[0].number] = objects
            if not ordered and not e.loads:
                self.pipelined.awaited.update(
                    (s.barrier.uid, objects) for s in begin if isinstance(s, synced.MBarrierWait)
                )
        self.added.after.setdefault(last.statement.number, [])[:0] = self._for_roles(e.roles, end, last)

    def _for_roles(self, roles: frozenset[Role], body: list[ir.Stmt], leaf: Leaf) -> list[ir.Stmt]:
        if not body or leaf.inside is not None or roles == {(0, self.threads)}:
            return body
        outer = leaf.statement.outer if isinstance(leaf.statement, ir.Split) else self._block_place()
        cases = []
        for first, n in sorted(roles):
            place = outer.sharded(Level.THREAD, first, n)
            moved = tuple(_at(s, place) for s in body)
            cases.append(ir.Case(first, n, False, place, moved, span=body[0].span))
        return [ir.Split(Level.THREAD, outer, tuple(cases), span=body[0].span)]

    def _block_place(self) -> Place:
        place = self.function.place
        top = Level.CLUSTER if place.held(Level.CLUSTER) is not None else Level.BLOCK
        return place.grouped(Privilege(top, 1))

    def _place(self, e: Episode) -> Place:
        """Return the place of a role's threads.  All of a block are one too where there are other blocks in the
        cluster, each with its own.
        """
        outer = self._block_place()
        if len(e.roles) == 1 and (next(iter(e.roles)) != (0, self.threads) or outer.top == Level.CLUSTER):
            return outer.sharded(Level.THREAD, *next(iter(e.roles)))
        return outer

    def _point(self, channel: Channel, e: Episode, then: Episode, fence: bool) -> synced.SyncPoint:
        first, second = e.uses.span, then.uses.span
        here = self.function.span.filename
        text = f"{e.uses.word} at {lines(here, first)}, {then.uses.word} at {lines(here, second)} by {_who(then.roles)}"
        if e.loads:
            text += "; an mbarrier: the bytes of the TMA load complete its phase"
        elif e.copies:
            ahead = f", up to {channel.depth} stages in flight" if channel.depth > 1 else ""
            text += f"; an mbarrier: cp.async arrive on it as they complete{ahead}"
        elif e.roles != then.roles:
            ahead = f", so roles run up to {channel.depth} stages ahead" if channel.depth > 1 else ""
            text += f"; an mbarrier: arriving does not block{ahead}"
        threads = max(n for _, n in then.roles)
        participants = BLOCK1 if threads == self.threads else Privilege(Level.THREAD, threads)
        arrivals = "the bytes of the TMA load" if e.loads else _each_of(e)
        if e.copies:
            arrivals = f"{_copies_of(e)}, and {arrivals}" if e.arrives else _copies_of(e)
        if then.loads and channel.copies and not e.loads:
            arrivals += ", of every block of the cluster"
        return synced.SyncPoint(
            self.added.numbers.new(),
            PointKind.MBARRIER,
            participants,
            channel.name,
            text,
            first,
            second,
            fence=fence,
            arrivals=arrivals,
            waiters="the thread that issues the TMA load" if then.loads else _who(then.roles),
            span=second,
        )

    # ---- loads ------------------------------------------------------------------------------------------------------

    # Where it is known before how many bytes come, one arrival announces them ahead of the loads; else each load does
    # so for its own, and the arrival follows.
    def _load(
        self, channel: Channel, e: Episode, barrier: synced.MBarrier, slot: ir.Expr, point: synced.SyncPoint
    ) -> tuple[list[ir.Stmt], list[ir.Stmt]]:
        """Make the statements before the loads, and those after them."""
        objects = {o.uid for o in channel.objects}
        known = total(bytes_of(leaf.statement, objects) for leaf in e.leaves)
        for leaf in e.leaves:
            for s in statements((leaf.statement,)):
                if isinstance(s, ir.BoxCopy) and s.is_load and s.tile.access.view.obj.uid in objects:
                    self._check_whole(s, leaf, next(iter(e.roles)))
                    self.added.loads[s.number] = ByteCount(barrier, slot, known is not None)
        place = self._place(e)
        arrive = synced.MBarrierArrive(barrier, slot, place.privilege, place, point, known or 0, span=e.uses.span)
        return ([], [arrive]) if known is None else ([arrive], [])

    def _check_whole(self, s: ir.BoxCopy, leaf: Leaf, role: Role) -> None:
        held = s.place.privilege
        everyone = role == (0, self.threads) and held.level >= Level.BLOCK
        if held != Privilege(Level.THREAD, role[1]) and not everyone:
            raise SnapError(
                Diagnostic(
                    "SNAP020",
                    f"each group of `{held}` would load `{s.tile.access.handle.name}` on its own, and its users wait"
                    " for one load",
                    s.span,
                    "loaded here",
                    (Label(leaf.statement.span, "in this role"),),
                    help="load it where the code's privilege is the whole role's, outside of the inner group",
                )
            )

    # ---- asynchronous work, before memory is handed on ------------------------------------------------------------

    def _lagging(self, channel: Channel, fill: Filling, empty: synced.MBarrier, lag: int) -> Lagging:
        last = fill.episodes[-1]
        place = self._place(last)
        released, used = (self._counter(channel, word, place.privilege) for word in ("released", "used"))
        point = self._point(channel, last, fill.episodes[0], False)
        return Lagging(channel, next(iter(last.roles)), place, empty, released, used, point, lag)

    def _release_slots(self, lagging: Lagging, fill_number: ir.Expr, span: Span) -> list[ir.Stmt]:
        lag, last = lagging.lag, lagging.channel.fills[0].episodes[-1]
        groups = total(groups_of(leaf.statement) for leaf in last.leaves)
        assert groups is not None  # `_lag` has counted them
        wait = self._products_ended(lagging.channel, last, lag * groups, span)
        lagging.waits.add(wait.point.uid)
        used = ir.Assign(ir.VarTarget(lagging.used, span=span), binary("+", fill_number, 1, span), span=span)
        return [wait, *release(lagging, binary("-", fill_number, lag - 1, span), lag > 1, span), used]

    def _waits(self, channel: Channel, e: Episode) -> list[ir.Stmt]:
        """Wait for what a role began asynchronously, as far as others must know of it, before it says so."""
        made: list[ir.Stmt] = []
        if e.uses.products:
            made.append(self._products_ended(channel, e, 0, e.uses.span))
        made += self._copies_ended(channel, e)
        if (span := e.uses.stores) is not None:
            text, who = f"read (TMA) at line {span.line}, then handed on", ("its TMA stores", "the storing thread")
            made.append(self._wait(channel, e, (Wait.BOXES_READ, 0), text, who, span))
        return made

    def _copies_ended(self, channel: Channel, e: Episode) -> list[ir.Stmt]:
        """Wait for cp.async, unless they arrive by themselves."""
        span = e.uses.copies
        if span is None or e.copies:
            return []
        text, who = f"written (cp.async) at line {span.line}, then handed on", ("its cp.async", "each thread")
        commit = synced.AsyncCommit(Engine.COPIES, self._place(e), span=span)
        return [commit, self._wait(channel, e, (Wait.COPIES, 0), text, who, span)]

    def _products_ended(self, channel: Channel, e: Episode, younger: int, span: Span) -> synced.Sync:
        text = f"the wgmma of line {span.line} has read its operands before the slot is released"
        who = ("its wgmma", f"each {Privilege(Level.THREAD, WARPGROUP)}")
        return self._wait(channel, e, (Wait.PRODUCTS, younger), text, who, span)

    def _wait(
        self, channel: Channel, e: Episode, wait: tuple[Wait, int], text: str, who: tuple[str, str], span: Span
    ) -> synced.Sync:
        """`who`: what is waited for, and who waits."""
        arrivals, waiters = who
        point = synced.SyncPoint(
            self.added.numbers.new(),
            PointKind.THREAD,
            THREAD1,
            channel.name,
            text,
            span,
            span,
            (wait,),
            arrivals=arrivals,
            waiters=waiters,
            span=span,
        )
        return synced.Sync(point, self._place(e), span=span)


# One arrival of a warpgroup stands for all its warps only if they have multiplied together since they waited: in every
# fill, and nothing else.
def _set_units(channel: Channel) -> None:
    """Set how many threads make one arrival, in each episode."""
    for alike in zip(*(f.episodes for f in channel.fills)):
        only_products = all(e.uses.products and not (e.uses.reads or e.uses.writes or e.uses.stores) for e in alike)
        whole = all(n % WARPGROUP == 0 for e in alike for _, n in e.roles)
        certain = only_products and all(any(groups_of(leaf.statement) for leaf in e.leaves) for e in alike)
        for e in alike:
            e.unit = WARPGROUP if certain and whole else WARP


# Whoever copies by cp.async goes on at once, to the next slot: the mbarrier's phase is complete when the copies have
# come.  Where TMA or products use the memory as well, the copying thread waits, fences and arrives as for what it
# writes itself: what cp.async wrote they see only behind a proxy fence that comes after the copy.  So it does where the
# source may be written in this kernel: by then the copy must have read it; and where it is the last to use the slot,
# since nobody waits for the release of a slot's last fill.  An arrival of copies says nothing of what
# else its thread did or knew: where that matters (it did more with the slot, others write there, or the slot's next
# fill rests on it), the threads arrive besides.
def _set_arrivals(channel: Channel) -> None:
    """Set which copies arrive by themselves, and whether their threads do, too."""
    everything = [e for f in channel.fills for e in f.episodes]
    seen_by_units = any(e.uses.background for e in everything) or channel.copies
    for alike in zip(*(f.episodes for f in channel.fills)):
        awaited = not any(e is f.episodes[-1] for e, f in zip(alike, channel.fills))
        copies = any(e.uses.copies for e in alike) and all(_from_const(channel, e) for e in alike)
        copies = copies and awaited and not seen_by_units
        others = [e for e in everything if not any(e is one for one in alike)]
        more = any(e.uses.plain for e in alike) or any(e.uses.writes for e in others) or channel.goes_round
        for e in alike:
            e.copies, e.arrives = copies, not copies or more


def _from_const(channel: Channel, e: Episode) -> bool:
    """Return whether what is copied into the slot comes from memory that nobody writes."""
    objects = {o.uid for o in channel.objects}
    copies = (s for leaf in e.leaves for s in statements((leaf.statement,)) if isinstance(s, ir.AsyncCopy))
    return all(s.source.view.obj.const for s in copies if s.target.view.obj.uid in objects)


def _lag(channel: Channel) -> int:
    """For how many fills products may stay in flight: their groups are counted, so each fill has as many."""
    last = channel.fills[0].episodes[-1]
    counted = all(f.scope is not None and f.scope.counted for f in channel.fills)
    if not last.uses.products or last.unit != WARPGROUP or not counted or len(last.roles) != 1:
        return 0
    if any(leaf.inside is not None for f in channel.fills for leaf in f.episodes[-1].leaves):
        return 0
    each = [[groups_of(leaf.statement) for leaf in f.episodes[-1].leaves] for f in channel.fills]
    if not all(all(groups) for groups in each) or len(set(map(total, each))) != 1:
        return 0
    wanted = 1 if channel.lag is None else channel.lag
    return min(wanted, channel.depth - 1)


def _at(s: ir.Stmt, place: Place) -> ir.Stmt:
    if isinstance(s, synced.Elect):
        return replace(s, place=place, body=tuple(_at(x, place) for x in s.body))
    return replace(s, place=place) if hasattr(s, "place") else s


def _declared_anew(body: ir.Body, looped: bool = False) -> set[int]:
    """Declarations of shared memory in loops."""
    found: set[int] = set()
    for s in body:
        if looped and isinstance(s, ir.DeclareShared):
            found.add(s.number)
        for inner in bodies(s):
            found |= _declared_anew(inner, looped or isinstance(s, LOOPS))
    return found


def _each_of(e: Episode) -> str:
    return f"each {'warpgroup' if e.unit == WARPGROUP else 'warp'} of {_who(e.roles)}"


def _copies_of(e: Episode) -> str:
    return f"the cp.async of {_who(e.roles)}"


def _who(roles: frozenset[Role]) -> str:
    return " and ".join(f"threads {first} to {first + n - 1}" for first, n in sorted(roles))
