"""Put the operations of channels, groups of background work, and turns into the text.

Input: a typed kernel and its channels.  Output: the kernel with mbarriers, their waits and arrivals, commits of
products and stores; and for the graph of accesses, the statements at which a channel's memory passes from one episode
to the next.  For fill f of a channel with n slots, in slot f % n: an episode waits for phase f / n of the episode
before it, the first one for phase f / n - 1 of the last.  A load counts its bytes; others arrive, one arrival for each
warp, or for each warpgroup where only products read.  Products may stay in flight for `lag` fills: their slots are
given back by the wait that covers them.  Invariant: every wait has its arrivals before it in the order of the text, so
nothing hangs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from snap.diag.error import Diagnostic, Label, SnapError
from snap.diag.span import Span, lines
from snap.ir import nodes as ir
from snap.ir import synced
from snap.ir.hardware import WARP, WARPGROUP
from snap.ir.numbering import Numbers
from snap.ir.rewrite import with_bodies
from snap.ir.types import BLOCK1, BOOL, I32, THREAD1, Level, Place, Privilege
from snap.ir.walk import bodies, statements
from snap.sync.channels import Channel, Episode, Fill, Leaf, Role
from snap.sync.counting import bytes_of, groups_of


@dataclass(slots=True)
class Lagging:
    """Slots that products may still read when their stage has ended: those from `released` up to `used` are given back
    later, at the latest by the waits at the end of stages (`waits`: their points), for all but the last `lag` stages.
    """

    channel: Channel
    role: Role
    place: Place
    barrier: synced.Barrier
    released: ir.Var
    used: ir.Var
    point: synced.SyncPoint
    lag: int
    waits: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Woven:
    """passes: by the identity of a statement, the objects whose uses so far are all ordered before what follows; lands:
    those whose loads are.
    """

    function: synced.Function
    passes: dict[int, set[int]] = field(default_factory=dict)
    lands: dict[int, set[int]] = field(default_factory=dict)
    lagging: list[Lagging] = field(default_factory=list)
    numbered: set[int] = field(default_factory=set)  # objects whose fills the program numbers
    awaited: dict[int, set[int]] = field(
        default_factory=dict
    )  # by barrier: the objects whose loads are waited for by those who load them again
    coming_back: set[int] = field(default_factory=set)  # objects whose slots are given back by arrivals
    counted_on: set[int] = field(
        default_factory=set
    )  # objects whose fills are counted on where they are declared again


def weave(function: synced.Function, channels: list[Channel], numbers: Numbers) -> Woven:
    weaver = _Weaver(function, numbers)
    for channel in channels:
        weaver.channel(channel)
    return weaver.result()


# ---- small expressions ----------------------------------------------------------------------------------------------


def number(value: int, span: Span) -> ir.Const:
    return ir.Const(value, I32, span=span)


def read(var: ir.Var, span: Span) -> ir.Read:
    return ir.Read(var, var.type, span=span)


def binary(op: str, left: ir.Expr, right: int | ir.Expr, span: Span) -> ir.Expr:
    right = number(right, span) if isinstance(right, int) else right
    if isinstance(right, ir.Const) and (op in "*/" and right.value == 1 or op in "+-" and right.value == 0):
        return left
    if isinstance(right, ir.Const) and op == "%" and right.value == 1:
        return number(0, span)
    return ir.Binary(op, left, right, I32, span=span)


def _as_i32(e: ir.Expr) -> ir.Expr:
    return e if e.type == I32 else ir.Cast(e, I32, span=e.span)


class _Weaver:
    def __init__(self, function: synced.Function, numbers: Numbers):
        self.function, self.numbers = function, numbers
        self.woven = Woven(function)
        self.barriers: list[synced.Barrier] = []
        self.before: dict[int, list[ir.Stmt]] = {}
        self.after: dict[int, list[ir.Stmt]] = {}
        self.loads: dict[
            int, tuple[synced.Barrier, ir.Expr, bool]
        ] = {}  # by statement: where its bytes are counted, and whether it says so itself
        self.top: list[ir.Stmt] = []  # declarations that outlive everything
        self.threads = (
            function.place.held(Level.THREAD).count if function.place.held(Level.THREAD) is not None else None
        )
        self.blocks = function.place.held(Level.BLOCK).count if function.place.held(Level.CLUSTER) is not None else 1
        self.points = 0
        self.arrive_by: dict[int, int] = {}  # by the identity of an episode, the threads that make one arrival
        self.again = _declared_again(function.body)
        self.dropped: set[int] = set()
        self.units: list[ir.Var] = []  # of the groups around that take turns: which one this is
        self.unit_of: dict[int, ir.Var] = {}

    def result(self) -> Woven:
        body = self._body(self.function.body)
        self.woven.function = (
            replace(self.function, body=(*self.numbers.given(self.top), *body), barriers=tuple(self.barriers))
            if self.changed(body)
            else self.function
        )
        return self.woven

    def changed(self, body: ir.Body) -> bool:
        return bool(self.top or self.barriers) or body is not self.function.body

    # ---- channels ---------------------------------------------------------------------------------------------------

    def channel(self, channel: Channel) -> None:
        if channel.declared.number in self.again:
            self._count_on(channel)
        if channel.numbered:
            self._numbered(channel)
            return
        self._units(channel)
        episodes = channel.fills[0].episodes
        names = ["full", *(f"handed{k}" for k in range(1, len(episodes) - 1))] if len(episodes) > 2 else ["full"]
        stem = "_".join(o.name for o in channel.objects)
        barriers: list[synced.Barrier | None] = [
            self._barrier(f"{stem}_{name}", channel, e, f) for name, e, f in zip(names, episodes, episodes[1:])
        ]
        barriers.append(
            self._barrier(f"{stem}_empty", channel, episodes[-1], episodes[0]) if channel.handed_back else None
        )
        lag = self._lag(channel, barriers[-1])
        lagging: Lagging | None = None
        for fill in channel.fills:
            number_of = self._fill_number(channel, fill)
            if lag and lagging is None:
                lagging = self._lagging(channel, fill, barriers[-1], lag)
            for k, episode in enumerate(fill.episodes):
                self._episode(channel, fill, k, episode, barriers, number_of, lag, lagging)
        if lagging is not None:
            self.woven.lagging.append(lagging)

    # The barriers of a channel live as long as the kernel: where its memory is declared anew in each iteration of a
    # loop, fills are still counted on.
    def _count_on(self, channel: Channel) -> None:
        objects = {o.uid for o in channel.objects}
        self.woven.counted_on |= objects
        everything = list(statements(self.function.body))
        values = {s.var.uid: s.init for s in everything if isinstance(s, ir.Declare)}
        counters = set()
        for s in everything:
            if (
                isinstance(s, ir.Partition)
                and s.counted
                and s.handle.obj.uid in objects
                and isinstance(s.fill, ir.Read)
            ):
                counter = values.get(s.fill.var.uid)
                counters |= {counter.var.uid} if isinstance(counter, ir.Read) else set()
        for s in everything:
            if isinstance(s, ir.Declare) and s.var.uid in counters:
                self.top.append(s)
                self.dropped.add(s.number)

    def _beside(self, channel: Channel, made: list[ir.Declare]) -> None:
        """Variables that live as long as the channel's barriers count."""
        if channel.declared.number in self.again:
            self.top += made
        else:
            self.after.setdefault(channel.declared.number, []).extend(made)

    def _numbered(self, channel: Channel) -> None:
        """One stage loads a fill, maybe another one uses it: whoever uses it waits for its phase."""
        every = [e for f in channel.fills for e in f.episodes]
        load = next(e for e in every if e.loads)
        use = next((e for e in every if not e.loads), load)
        full = self._barrier(f"{channel.objects[0].name}_full", channel, load, use)
        self.woven.numbered.add(channel.objects[0].uid)
        for fill in channel.fills:
            fill_number = self._fill_number(channel, fill)
            for e in fill.episodes:
                span = e.uses.span
                slot, phase = (
                    binary("%", fill_number, channel.depth, span),
                    binary("/", fill_number, channel.depth, span),
                )
                begin: list[ir.Stmt] = []
                end: list[ir.Stmt] = []
                if e.loads:
                    begin += self._load(channel, e, full, slot, self._point(channel, e, use, False), end)
                    begin = [synced.Elect(self._place(e), tuple(begin), span=span)] if begin else []
                else:
                    begin.append(
                        synced.BarrierWait(
                            full, slot, phase, self._place(e), self._point(channel, load, e, False), span=span
                        )
                    )
                self._around(channel, e, begin, end, False)

    def _barrier(self, name: str, channel: Channel, e: Episode, then: Episode) -> synced.Barrier:
        everywhere = then.loads and channel.copies
        arrivals = 1 if e.loads else sum(n // self._unit(e) for _, n in e.roles) * (self.blocks if everywhere else 1)
        barrier = synced.Barrier(self.numbers.new(), name, channel.depth, arrivals, everywhere, span=e.uses.span)
        self.barriers.append(barrier)
        return barrier

    def _unit(self, e: Episode) -> int:
        """How many threads make one arrival."""
        return self.arrive_by.get(id(e), WARP)

    # One arrival of a warpgroup stands for all its warps only if they have multiplied together since they waited: in
    # every fill, and nothing else.
    def _units(self, channel: Channel) -> None:
        for alike in zip(*(f.episodes for f in channel.fills)):
            only_products = all(e.uses.products and not (e.uses.reads or e.uses.writes or e.uses.stores) for e in alike)
            whole = all(n % WARPGROUP == 0 for e in alike for _, n in e.roles)
            certain = only_products and all(any(groups_of(leaf.statement) for leaf in e.leaves) for e in alike)
            for e in alike:
                self.arrive_by[id(e)] = WARPGROUP if certain and whole else WARP

    def _fill_number(self, channel: Channel, fill: Fill) -> ir.Expr:
        """Which fill of the channel's lifetime this is; a plain array's are counted here."""
        if fill.scope is not None:
            return _as_i32(fill.scope.fill)
        span = channel.declared.span
        if not channel.repeated:
            return number(0, span)
        p = channel.objects[0].privilege
        fills = ir.Var(self.numbers.new(), f"{channel.objects[0].name}_fills", I32, p, True, span=span)
        now = ir.Var(self.numbers.new(), f"{channel.objects[0].name}_fill", I32, p, True, span=span)
        self._beside(channel, [ir.Declare(fills, number(0, span), span=span)])
        first = fill.episodes[0].leaves[0].statement
        top = next(s for s in fill.body if any(inner is first for inner in statements((s,))))
        self.before.setdefault(top.number, []).extend(
            (
                ir.Declare(now, read(fills, span), span=span),
                ir.Assign(ir.VarTarget(fills, span=span), binary("+", read(fills, span), 1, span), span=span),
            )
        )
        return read(now, span)

    def _episode(
        self,
        channel: Channel,
        fill: Fill,
        k: int,
        e: Episode,
        barriers: list,
        fill_number: ir.Expr,
        lag: int,
        lagging: Lagging | None,
    ) -> None:
        span = e.uses.span
        slot = binary("%", fill_number, channel.depth, span)
        turn = binary("/", fill_number, channel.depth, span)
        previous = fill.episodes[k - 1]
        begin: list[ir.Stmt] = []
        end: list[ir.Stmt] = []
        incoming = None if k == 0 and fill.first else barriers[k - 1]
        if incoming is not None:
            phase = turn if k else binary("-", turn, 1, span)
            begin.append(
                synced.BarrierWait(
                    incoming, slot, phase, self._place(e), self._point(channel, previous, e, False), span=span
                )
            )
        outgoing = barriers[k]
        if outgoing is not None:
            then = fill.episodes[(k + 1) % len(fill.episodes)]
            others = [
                other for other in fill.episodes if other is not e
            ]  # maybe not the next one, but in the same memory
            seen = e.uses.writes is not None and any(other.uses.background for other in others)
            overwritten = e.uses.reads is not None and any(other.loads for other in others)
            point = self._point(channel, e, then, seen or overwritten)
            if e.loads:
                begin += self._load(channel, e, outgoing, slot, point, end)
            elif k == len(fill.episodes) - 1 and lagging is not None:
                end += self._give_back(lagging, fill_number, lag, span)
            else:
                if e.uses.products:
                    end.append(self._wait_for_products(channel, e, 0, span))
                if e.uses.copies:
                    end += self._wait_for_copies(channel, e)
                if e.uses.stores:
                    end.append(self._wait_for_stores(channel, e))
                by = Privilege(Level.THREAD, self._unit(e))
                end.append(synced.BarrierArrive(outgoing, slot, by, self._place(e), point, span=span))
        elif e.loads:
            raise AssertionError("what was loaded is used")
        if e.loads and begin:  # others of the role would only fall behind, and take one phase for another
            begin = [synced.Elect(self._place(e), tuple(begin), span=span)]
        ordered = incoming is not None and (channel.handed_back or not channel.repeated)
        self._around(channel, e, begin, end, ordered)

    def _around(self, channel: Channel, e: Episode, begin: list[ir.Stmt], end: list[ir.Stmt], ordered: bool) -> None:
        """Before the first statement of an episode, and after its last, for its roles."""
        first, last = e.leaves[0], e.leaves[-1]
        made = self.numbers.given(self._for_roles(e.roles, begin, first))
        if made:
            self.before.setdefault(first.statement.number, []).extend(made)
            objects = {o.uid for o in channel.objects}
            self.woven.coming_back |= objects if channel.handed_back else set()
            if ordered or not e.loads:
                (self.woven.passes if ordered else self.woven.lands)[made[0].number] = objects
            if not ordered and not e.loads:
                self.woven.awaited.update((s.barrier.uid, objects) for s in begin if isinstance(s, synced.BarrierWait))
        self.after.setdefault(last.statement.number, [])[:0] = self._for_roles(e.roles, end, last)

    def _for_roles(self, roles: frozenset[Role], body: list[ir.Stmt], leaf: Leaf) -> list[ir.Stmt]:
        if not body:
            return []
        if leaf.inside is not None or roles == {(0, self.threads)}:
            return body
        outer = self._outer(leaf)
        cases = []
        for first, n in sorted(roles):
            place = outer.sharded(Level.THREAD, first, n)
            moved = tuple(_at(s, place) for s in body)
            cases.append(ir.Case(first, n, False, place, moved, span=body[0].span))
        return [ir.Split(Level.THREAD, outer, tuple(cases), span=body[0].span)]

    def _outer(self, leaf: Leaf) -> Place:
        return leaf.statement.outer if isinstance(leaf.statement, ir.Split) else self._block_place()

    def _block_place(self) -> Place:
        place = self.function.place
        top = Level.CLUSTER if place.held(Level.CLUSTER) is not None else Level.BLOCK
        return place.grouped(Privilege(top, 1))

    def _place(self, e: Episode) -> Place:
        """Of a role's threads.  All of a block are one too where there are other blocks in the cluster, each with its
        own.
        """
        outer = self._block_place()
        if len(e.roles) == 1 and (next(iter(e.roles)) != (0, self.threads) or outer.top == Level.CLUSTER):
            return outer.sharded(Level.THREAD, *next(iter(e.roles)))
        return outer

    def _point(self, channel: Channel, e: Episode, then: Episode, fence: bool) -> synced.SyncPoint:
        self.points += 1
        first, second = e.uses.span, then.uses.span
        here = self.function.span.filename
        text = f"{e.uses.word} at {lines(here, first)}, {then.uses.word} at {lines(here, second)} by {_who(then.roles)}"
        if e.loads:
            text += "; only an mbarrier counts a load's bytes"
        elif e.roles != then.roles:
            text += "; who arrives goes on at once" + (
                f", up to {channel.depth} fills ahead" if channel.depth > 1 else ""
            )
        threads = max(n for _, n in then.roles)
        participants = BLOCK1 if threads == self.threads else Privilege(Level.THREAD, threads)
        arrivals = (
            "the load's bytes"
            if e.loads
            else f"each {'warpgroup' if self._unit(e) == WARPGROUP else 'warp'} of {_who(e.roles)}"
        )
        if then.loads and channel.copies and not e.loads:
            arrivals += ", of every block of the cluster"
        waiters = "the thread that loads" if then.loads else _who(then.roles)
        return synced.SyncPoint(
            -self.points,
            "mbarrier",
            participants,
            channel.name,
            text,
            first,
            second,
            fence=fence,
            arrivals=arrivals,
            waiters=waiters,
            span=second,
        )

    # ---- loads ------------------------------------------------------------------------------------------------------

    def _load(
        self,
        channel: Channel,
        e: Episode,
        barrier: synced.Barrier,
        slot: ir.Expr,
        point: synced.SyncPoint,
        end: list[ir.Stmt],
    ) -> list[ir.Stmt]:
        """Where it is known before how many bytes come, they are announced by one arrival ahead of them; else one by
        one, and the arrival follows.
        """
        role = next(iter(e.roles))
        known = 0
        objects = {o.uid for o in channel.objects}
        for leaf in e.leaves:
            counted = bytes_of(leaf.statement, objects)
            known = None if known is None or counted is None else known + counted
        for leaf in e.leaves:
            for s in statements((leaf.statement,)):
                if isinstance(s, ir.BoxCopy) and s.op == "load" and s.tile.access.view.obj.uid in objects:
                    held = s.place.privilege
                    whole = held == Privilege(Level.THREAD, role[1]) or (
                        role == (0, self.threads) and held.level >= Level.BLOCK
                    )
                    if not whole:
                        raise SnapError(
                            Diagnostic(
                                "SNAP020",
                                f"each group of `{held}` would load `{s.tile.access.handle.name}` on its own, and its"
                                " users wait for one load",
                                s.span,
                                "loaded here",
                                (Label(leaf.statement.span, "in this role"),),
                                help=(
                                    "load it where the code's privilege is the whole role's, outside of the inner group"
                                ),
                            )
                        )
                    self.loads[s.number] = (barrier, slot, known is None)
        arrive = synced.BarrierArrive(
            barrier, slot, self._place(e).privilege, self._place(e), point, known or 0, span=e.uses.span
        )
        if known is None:
            end.append(arrive)
            return []
        return [arrive]

    # ---- products ---------------------------------------------------------------------------------------------------

    def _lag(self, channel: Channel, empty: synced.Barrier | None) -> int:
        last = channel.fills[0].episodes[-1]
        counted = all(f.scope is not None and f.scope.counted for f in channel.fills)
        if (
            empty is None
            or not last.uses.products
            or self._unit(last) != WARPGROUP
            or not counted
            or len(last.roles) != 1
        ):
            return 0
        if any(leaf.inside is not None for f in channel.fills for leaf in f.episodes[-1].leaves):
            return 0
        groups = {sum(groups_of(leaf.statement) or -1000 for leaf in f.episodes[-1].leaves) for f in channel.fills}
        if len(groups) != 1 or min(groups) < 1:
            return 0
        wanted = 1 if channel.lag is None else channel.lag
        return min(wanted, channel.depth - 1)

    def _lagging(self, channel: Channel, fill: Fill, empty: synced.Barrier, lag: int) -> Lagging:
        span = channel.declared.span
        last = fill.episodes[-1]
        role = self._place(last).privilege
        released, used = (
            ir.Var(self.numbers.new(), f"{channel.objects[0].name}_{word}", I32, role, True, span=span)
            for word in ("released", "used")
        )
        self._beside(channel, [ir.Declare(var, number(0, span), span=span) for var in (released, used)])
        point = self._point(channel, last, fill.episodes[0], False)
        return Lagging(channel, next(iter(last.roles)), self._place(last), empty, released, used, point, lag)

    def _give_back(self, lagging: Lagging, fill_number: ir.Expr, lag: int, span: Span) -> list[ir.Stmt]:
        last = lagging.channel.fills[0].episodes[-1]
        groups = sum(groups_of(leaf.statement) for leaf in last.leaves)
        wait = self._wait_for_products(lagging.channel, last, lag * groups, span)
        lagging.waits.add(wait.point.uid)
        used = ir.Assign(ir.VarTarget(lagging.used, span=span), binary("+", fill_number, 1, span), span=span)
        return [wait, *release(lagging, binary("-", fill_number, lag - 1, span), lag > 1, span), used]

    def _wait_for_products(self, channel: Channel, e: Episode, younger: int, span: Span) -> synced.Sync:
        self.points += 1
        text = f"products begun at line {span.line} have read their tiles before the slot is given back"
        group = Privilege(Level.THREAD, WARPGROUP)
        point = synced.SyncPoint(
            -self.points,
            "thread",
            THREAD1,
            channel.name,
            text,
            span,
            span,
            (("wgmma", younger),),
            arrivals="its products",
            waiters=f"each {group}",
            span=span,
        )
        return synced.Sync(point, self._place(e), span=span)

    def _wait_for_copies(self, channel: Channel, e: Episode) -> list[ir.Stmt]:
        """What a role copies element by element has arrived before it says so."""
        self.points += 1
        span = e.uses.copies
        point = synced.SyncPoint(
            -self.points,
            "thread",
            THREAD1,
            channel.name,
            f"copied to at line {span.line}, and then handed on",
            span,
            span,
            (("copy", 0),),
            arrivals="its copies",
            waiters="each thread that copies",
            span=span,
        )
        return [synced.AsyncCommit("copy", self._place(e), span=span), synced.Sync(point, self._place(e), span=span)]

    def _wait_for_stores(self, channel: Channel, e: Episode) -> synced.Sync:
        """What a role stores as boxes has been read before its memory is handed on."""
        self.points += 1
        span = e.uses.stores
        point = synced.SyncPoint(
            -self.points,
            "thread",
            THREAD1,
            channel.name,
            f"stored at line {span.line}, and then handed on",
            span,
            span,
            (("bulk read", 0),),
            arrivals="its boxes",
            waiters="the thread that stores",
            span=span,
        )
        return synced.Sync(point, self._place(e), span=span)

    # ---- turns ------------------------------------------------------------------------------------------------------

    # Unit u's turn number j comes after turn j of unit u-1; that of unit 0 after turn j-1 of the last.
    def _turn(self, s: ir.Turn) -> list[ir.Stmt]:
        p, span = s.place.privilege, s.span
        held = s.outer.held(p.level)
        units = held.count // p.n
        several = (
            s.outer.top is Level.THREAD and held.count < self.threads
        )  # there may be more such groups beside this one
        if several and self.threads % p.n:
            raise SnapError(
                Diagnostic(
                    "SNAP020",
                    f"groups of `{p}` cannot take turns here: they do not divide the block",
                    span,
                    help="choose groups whose size divides the block's",
                )
            )
        slots = self.threads // p.n if several else units
        barrier = synced.Barrier(self.numbers.new(), "turn", slots, p.n // WARP, span=span)
        self.barriers.append(barrier)
        turns = ir.Var(self.numbers.new(), "turns", I32, THREAD1, True, span=span)
        self.top.append(ir.Declare(turns, number(0, span), span=span))
        self.points += 1
        text = f"units of {p} take turns, line {span.line}"
        point = synced.SyncPoint(
            -self.points,
            "mbarrier",
            p,
            "turn",
            text,
            span,
            span,
            arrivals="the unit before",
            waiters="the next unit",
            span=span,
        )
        unit = read(self.units[-1], span)
        first = ir.Cast(ir.Compare("==", unit, number(0, span), BOOL, span=span), I32, span=span)
        following = binary("%", binary("+", unit, 1, span), units, span)
        slot = unit
        if several:
            slot = read(self._place_in_block(p, span), span)
            following = binary("+", binary("-", slot, unit, span), following, span)
        return [
            synced.BarrierWait(barrier, slot, binary("-", read(turns, span), first, span), s.place, point, span=span),
            *self._body(s.body),
            synced.BarrierArrive(barrier, following, Privilege(Level.THREAD, WARP), s.place, point, span=span),
            ir.Assign(ir.VarTarget(turns, span=span), binary("+", read(turns, span), 1, span), span=span),
        ]

    def _place_in_block(self, p: Privilege, span: Span) -> ir.Var:
        """Which group of that size this is in its block, taken where nothing has been grouped yet."""
        var = ir.Var(self.numbers.new(), "unit_of_block", I32, p, True, span=span)
        self.top.append(
            ir.Declare(
                var,
                binary("%", ir.UnitId(p, self.function.place, I32, span=span), self.threads // p.n, span),
                span=span,
            )
        )
        return var

    def _unit_of(self, s: ir.Group) -> ir.Declare:
        var = ir.Var(self.numbers.new(), "unit", I32, s.privilege, True, span=s.span)
        self.unit_of[s.number] = var
        return ir.Declare(var, ir.UnitId(s.privilege, s.outer, I32, span=s.span), span=s.span)

    # ---- the text ---------------------------------------------------------------------------------------------------

    def _body(self, body: ir.Body) -> ir.Body:
        out: list[ir.Stmt] = []
        for k, s in enumerate(body):
            if s.number in self.dropped:
                continue
            out += self.before.get(s.number, ())
            if s.number in self.loads and self.loads[s.number][2]:
                barrier, slot, _ = self.loads[s.number]
                out.append(
                    synced.BarrierExpect(barrier, slot, bytes_of(s, {s.tile.access.view.obj.uid}), s.place, span=s.span)
                )
            if isinstance(s, ir.Group) and any(isinstance(x, ir.Turn) for x in _of_this_group(s.body)):
                out.append(self._unit_of(s))
            if isinstance(s, ir.Turn):
                out += self._turn(s)
                continue
            new = self._statement(s)
            if isinstance(s, ir.Wgmma) and not (k and isinstance(body[k - 1], ir.Wgmma)):
                new = replace(new, first=True)
            out.append(new)
            then = body[k + 1] if k + 1 < len(body) else None
            if isinstance(s, ir.Wgmma) and not isinstance(then, ir.Wgmma):
                out.append(synced.AsyncCommit("wgmma", s.place, span=s.span))
            if _stores(s):  # each a group of its own: the next one may have to wait for it
                out.append(synced.AsyncCommit("bulk", s.place, span=s.span))
            out += self.after.get(s.number, ())
        if len(out) == len(body) and all(a is b for a, b in zip(out, body)):
            return body
        return self.numbers.given(out)

    def _statement(self, s: ir.Stmt) -> ir.Stmt:
        match s:
            case ir.BoxCopy() if s.number in self.loads:
                barrier, slot, _ = self.loads[s.number]
                return replace(s, barrier=barrier, slot=slot)
            case ir.Group() if s.number in self.unit_of:
                self.units.append(self.unit_of[s.number])
                new = with_bodies(s, self._body)
                self.units.pop()
                return new
            case _:
                return with_bodies(s, self._body)


def _at(s: ir.Stmt, place: Place) -> ir.Stmt:
    if isinstance(s, synced.Elect):
        return replace(s, place=place, body=tuple(_at(x, place) for x in s.body))
    return replace(s, place=place) if hasattr(s, "place") else s


def _declared_again(body: ir.Body, looped: bool = False) -> set[int]:
    """Declarations of shared memory in loops."""
    found: set[int] = set()
    for s in body:
        if looped and isinstance(s, ir.DeclareShared):
            found.add(s.number)
        for inner in bodies(s):
            found |= _declared_again(inner, looped or isinstance(s, (ir.For, ir.While)))
    return found


def _of_this_group(body: ir.Body) -> Iterator[ir.Stmt]:
    """Statements that the units of a group run as such: not those of groups and splits inside."""
    for s in body:
        yield s
        if not isinstance(s, (ir.Group, ir.Split)):
            for inner in bodies(s):
                yield from _of_this_group(inner)


def release(lagging: Lagging, until: ir.Expr, several: bool, span: Span) -> list[ir.Stmt]:
    """Give back the slots of all fills before `until` that have not been yet."""
    released = read(lagging.released, span)
    slot = binary("%", released, lagging.channel.depth, span)
    body = (
        synced.BarrierArrive(
            lagging.barrier, slot, Privilege(Level.THREAD, WARPGROUP), lagging.place, lagging.point, span=span
        ),
        ir.Assign(ir.VarTarget(lagging.released, span=span), binary("+", released, 1, span), span=span),
    )
    cond = ir.Compare("<", released, until, BOOL, span=span)
    return [ir.While((), cond, body, span=span) if several else ir.If(cond, body, (), span=span)]


def _stores(s: ir.Stmt | None) -> bool:
    return isinstance(s, ir.BoxCopy) and s.op != "load"


def _who(roles: frozenset[Role]) -> str:
    if len(roles) == 1:
        first, n = next(iter(roles))
        return f"threads {first} to {first + n - 1}"
    return " and ".join(f"threads {first} to {first + n - 1}" for first, n in sorted(roles))


__all__ = ["Lagging", "Woven", "weave"]
