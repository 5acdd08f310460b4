"""Find the shared memory that threads hand to threads, and in which order.

Input: a typed kernel, calls with asynchronous work inlined.  Output: channels.  A *role* is a case of a split of a
block's threads; a *fill* is one execution of a stage of a pipeline, or of the body in which a plain array is loaded and
used; its *episodes* are what one set of roles does with the memory, in the order of the text: first load, then use.
Memory into which boxes are loaded is always a channel, since only an mbarrier can say that they have arrived; a
pipeline that different roles use is one too.  Invariant: in every fill all episodes happen, in this order, so that the
arrivals of each are followed by the waits of the next and nothing can hang.  What has no such order is refused where
boxes are loaded (SNAP020, or SNAP021 where it is about fills); other memory is then left to ordinary barriers.
Non-goals: where the operations stand (lower.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.hardware import WARP
from snap._compiler.ir.types import Level, Place
from snap._compiler.ir.walk import bodies, lifetimes, statements, ways_out
from snap._compiler.sync.pipelines import numbered
from snap._compiler.sync.pipelines.uses import ByRole, Role, Uses, UsesByRole, merge
from snap.diag.error import Diagnostic, Label, SnapError
from snap.diag.span import Span

LOOPS = (ir.For, ir.While)


@dataclass(slots=True)
class Leaf:
    """A statement that belongs to one episode.  inside: the place of the role's code where the statement already stands
    in it.
    """

    statement: ir.Stmt
    roles: frozenset[Role]
    uses: Uses
    inside: Place | None = None


@dataclass(slots=True)
class Episode:
    """Collect what one set of roles does with the memory, from one hand-over to the next.  unit: of those who say that
    it has ended, how many threads make one arrival.  copies: their copies (cp.async) arrive by themselves, one arrival
    for each thread; arrives: the threads arrive, for what they did themselves.
    """

    leaves: list[Leaf]
    roles: frozenset[Role]
    uses: Uses
    unit: int = WARP
    copies: bool = False
    arrives: bool = True

    @property
    def loads(self) -> bool:
        return self.uses.loads is not None

    @property
    def shape(self) -> tuple:
        return self.roles, self.loads


@dataclass(slots=True)
class Filling:
    """One place of the text where the object is filled and used: a stage, or (plain memory) a body."""

    scope: ir.Partition | None
    body: ir.Body
    episodes: list[Episode]
    repeated: bool  # whether it can happen more than once
    first: bool = False  # whether its slot has certainly not been filled before

    @property
    def span(self) -> Span:
        return self.episodes[0].uses.span if self.episodes else (self.scope or self.body[0]).span


@dataclass(slots=True)
class Channel:
    objects: list[ir.MemObject]
    fills: list[Filling]
    declared: ir.DeclareShared
    depth: int
    lag: int | None = None
    numbered: bool = False  # the program numbers its fills, and may load one and use another
    home: tuple[int, int] = (0, 0)  # the body it is declared in: the statement it belongs to, and which of its bodies

    @property
    def name(self) -> str:
        return ", ".join(o.name for o in self.objects)

    @property
    def copies(self) -> bool:
        return any(o.spread is ir.Spread.COPIES for o in self.objects)

    @property
    def releases_slots(self) -> bool:
        """Return whether mbarriers order all of it, the next fill of a slot behind the last episode of the one before,
        too; else one set of threads does it all, and a barrier of theirs will do.
        """
        several = len({e.roles for e in self.fills[0].episodes}) > 1
        return not self.numbered and self.repeated and (several or self.copies)

    # A slot that comes back to the threads that filled it, by way of others (A to B to C to A), has been used when they
    # fill it again: all of them have arrived for the fill in between since, and who writes now has waited for that.
    # With one slot there is no such fill; a thread that loads waits for no one; and what goes on behind a thread's back
    # is not over when the thread arrives.
    @property
    def goes_round(self) -> bool:
        """Tell whether the slot's next fill is ordered behind its last episode by the barriers between the episodes."""
        ends = [(f.episodes[0], f.episodes[-1]) for f in self.fills]
        plain = not any(first.loads or last.uses.background or last.uses.copies for first, last in ends)
        return plain and self.depth > 1 and not self.copies and all(first.roles == last.roles for first, last in ends)

    @property
    def repeated(self) -> bool:
        return (len(self.fills) > 1 or any(f.repeated for f in self.fills)) and not all(f.first for f in self.fills)

    @property
    def structure(self) -> tuple:
        return tuple(
            tuple((tuple(leaf.statement.number for leaf in e.leaves), *e.shape) for e in f.episodes) for f in self.fills
        )


def find(function: synced.Function) -> list[Channel]:
    threads = function.place.held(Level.THREAD)
    if not function.kernel or threads is None or threads.count is None:
        return []
    if not any(
        isinstance(s, ir.BoxCopy) or isinstance(s, ir.DeclareShared) and s.obj.depth for s in statements(function.body)
    ):
        return []
    search = _Search(function, (0, threads.count))
    return search.run()


class _Irregular(Exception):
    """No order of episodes: why, and where."""

    def __init__(self, why: str, span: Span, help: str = ""):
        self.why, self.span, self.help = why, span, help


class _Search:
    def __init__(self, function: synced.Function, everyone: Role):
        self.function, self.everyone = function, everyone
        self.uses = UsesByRole(everyone).of

    def run(self) -> list[Channel]:
        found: list[Channel] = []
        for declare, body, home in lifetimes(self.function.body):
            channel = self._channel(declare, body)
            if channel is not None:
                channel.home = home
                found.append(channel)
        return _merged(found)

    def _channel(self, declare: ir.DeclareShared, body: ir.Body) -> Channel | None:
        obj = declare.obj
        total: ByRole = {}
        for s in body:
            merge(total, self.uses(s).get(obj.uid, {}))
        loads = next((u.loads for u in total.values() if u.loads), None)
        whole_warps = all(first % WARP == 0 and n % WARP == 0 for first, n in total)
        if loads is None and (
            obj.depth == 0 or len(total) < 2 or self.everyone in total or not whole_warps or obj.spread
        ):
            return None
        try:
            fills = self._stages(obj, body) if obj.depth else self._plain(obj, body)
            channel = Channel(
                [obj],
                fills,
                declare,
                obj.depth or 1,
                obj.lag,
                any(f.scope is not None and not f.scope.counted for f in fills),
            )
            if channel.numbered:
                self._check_numbers(channel, body)
            else:
                self._check(channel)
            self._check_users(total)
            return channel
        except _Irregular as irregular:
            if loads is None:
                return None
            raise SnapError(
                Diagnostic(
                    "SNAP021" if obj.depth else "SNAP020",
                    f"`{obj.name}` is loaded here, and when it may be used is not clear: {irregular.why}",
                    loads,
                    "loaded here",
                    (Label(irregular.span, "this is in the way"),) if irregular.span != loads else (),
                    note=(
                        "every fill is loaded once, then used, in program order by all of its threads; else"
                        " some would wait forever"
                    ),
                    help=irregular.help
                    or "load it and use it in one `with stage(...)`, one after the other, and let nothing leave it in"
                    " between",
                )
            ) from None

    # A channel's fills all have the same episodes: load (or write) first, then uses; boxes are loaded by whole roles.
    def _check(self, channel: Channel) -> None:
        shapes = {tuple(e.shape for e in f.episodes): f for f in channel.fills}
        if len(shapes) > 1:
            other = list(shapes.values())[1]
            raise _Irregular("its stages are used in different ways", other.span)
        if not shapes or len(next(iter(shapes))) < 2:
            first = channel.fills[0].episodes[0] if channel.fills and channel.fills[0].episodes else None
            staged = channel.declared.obj.depth > 0
            why = "nothing uses it in the same stage" if staged else "nothing uses it"
            way = "" if staged else "use what is loaded, or leave the load out"
            raise _Irregular(why, first.uses.span if first else channel.declared.span, way)
        episodes = channel.fills[0].episodes
        if any(e.loads for e in episodes[1:]):
            raise _Irregular(
                "it is loaded again before all have used it", next(e for e in episodes[1:] if e.loads).uses.span
            )
        if len({e.shape for e in episodes}) < 2:
            raise _Irregular("the same threads write and read it", episodes[0].uses.span)

    def _check_users(self, total: ByRole) -> None:
        for first, n in total:
            if first % WARP or n % WARP:
                raise _Irregular("a part of a warp uses it on its own", total[first, n].span)
        remote = next((u.remote for u in total.values() if u.remote), None)
        if remote is not None:
            raise _Irregular("another block of the cluster uses it", remote)

    # Numbered fills: the same threads load and use them, each fill in order (numbered.py).
    def _check_numbers(self, channel: Channel, body: ir.Body) -> None:
        episodes = [e for f in channel.fills for e in f.episodes]
        if len({e.roles for e in episodes}) > 1 or channel.copies:
            raise _Irregular(
                "its stages are numbered, and different threads load and use them: let them be counted, `stage(x)`",
                next(e for e in episodes if e.roles != episodes[0].roles).uses.span,
            )
        if self._in_loop(channel.objects[0]):
            raise _Irregular(
                "it is declared in a loop, and its numbers begin again: declare it before, or let stages be counted,"
                " `stage(x)`",
                channel.declared.span,
            )
        loads = [f.scope for f in channel.fills if f.scope is not None and any(e.loads for e in f.episodes)]
        uses = [f.scope for f in channel.fills if f.scope is not None and not all(e.loads for e in f.episodes)]
        if any(e.loads for f in channel.fills for e in f.episodes[1:]):
            raise _Irregular("it is loaded again in a stage in which it is used", loads[0].span)
        try:
            numbered.check(body, loads, uses, channel.depth)
        except numbered.Unordered as unordered:
            raise _Irregular(unordered.why, unordered.span, unordered.help) from None

    # ---- structure --------------------------------------------------------------------------------------------------

    def _stages(self, obj: ir.MemObject, body: ir.Body) -> list[Filling]:
        found: list[Filling] = []
        in_loops = {x.number for s in statements(body) if isinstance(s, LOOPS) for x in statements((s,))}
        looped = self._in_loop(obj)
        for stage in numbered.stages_of(obj, body):
            repeated = looped or stage.number in in_loops
            self._undisturbed(obj, stage)
            first = not repeated and not any(f.repeated for f in found) and len(found) < obj.depth
            found.append(Filling(stage, stage.body, self._episodes(obj.uid, stage.body), repeated, first))
        return found

    def _undisturbed(self, obj: ir.MemObject, stage: ir.Partition) -> None:
        """A fill is counted when its stage is taken: nothing leaves it, and no other fill begins in it."""
        for inner in numbered.stages_of(obj, stage.body):
            raise _Irregular("a stage of it is taken inside of another", inner.span)
        for way_out in ways_out(stage.body):
            raise _Irregular("some iterations leave it early", way_out.span)

    def _in_loop(self, obj: ir.MemObject) -> bool:
        """Return whether it is declared again and again: its barriers are always the same."""
        return any(
            isinstance(x, ir.DeclareShared) and x.obj.uid == obj.uid
            for s in statements(self.function.body)
            if isinstance(s, LOOPS)
            for x in statements((s,))
        )

    def _plain(self, obj: ir.MemObject, body: ir.Body) -> list[Filling]:
        """The innermost body that holds everything done to the array."""
        repeated = self._in_loop(obj)
        role: tuple[Role, Place] | None = None
        while True:
            leaves = self._leaves(obj.uid, body, role)
            if (
                len(leaves) == 1
                and isinstance(leaves[0].statement, (*LOOPS, ir.If))
                and (leaves[0].uses.mixed or len(leaves[0].roles) > 1)
            ):
                s = leaves[0].statement
                inner = [b for b in bodies(s) if any(obj.uid in self.uses(x) for x in b)]
                if len(inner) != 1:
                    raise _Irregular("it is used in both branches", s.span)
                repeated |= isinstance(s, LOOPS)
                body = inner[0]
                if leaves[0].inside is not None:
                    role = (next(iter(leaves[0].roles)), leaves[0].inside)
                continue
            return [Filling(None, body, self._episodes(obj.uid, body, role), repeated)]

    def _episodes(self, uid: int, body: ir.Body, role: tuple[Role, Place] | None = None) -> list[Episode]:
        leaves = self._leaves(uid, body, role)
        episodes: list[Episode] = []
        for leaf in leaves:
            ordered = sorted(leaf.roles)
            if any(first + n > after for (first, n), (after, _) in zip(ordered, ordered[1:])):
                raise _Irregular("groups of threads that overlap use it in one loop or branch", leaf.statement.span)
            if leaf.uses.mixed:
                raise _Irregular("it is loaded and used in one loop or branch inside of the fill", leaf.statement.span)
            last = episodes[-1] if episodes else None
            if last is not None and last.shape == (leaf.roles, leaf.uses.loads is not None):
                last.leaves.append(leaf)
                last.uses.add(leaf.uses)
            else:
                uses = Uses()
                uses.add(leaf.uses)
                episodes.append(Episode([leaf], leaf.roles, uses))
        if leaves:
            self._no_way_out(body, {leaf.statement.number for leaf in leaves})
        return episodes

    def _no_way_out(self, body: ir.Body, leaves: set[int]) -> None:
        """Nothing leaves the fill once it has begun: at its end, every role counts it and gives its slot back."""
        begun = False
        for s in body:
            inside = {x.number for x in statements((s,))} & leaves
            for way_out in ways_out((s,)):
                if begun or inside:
                    raise _Irregular("some iterations leave it early", way_out.span)
            begun |= bool(inside)

    def _leaves(self, uid: int, body: ir.Body, role: tuple[Role, Place] | None) -> list[Leaf]:
        found: list[Leaf] = []
        for s in body:
            by_role = self.uses(s).get(uid)
            if by_role is None:
                continue
            total = Uses()
            for u in by_role.values():
                total.add(u)
            match s:
                case ir.Partition() | ir.Claim():
                    found += self._leaves(uid, s.body, role)
                case ir.Group() if s.privilege.level >= Level.BLOCK:
                    found += self._leaves(uid, s.body, role)
                case ir.Split() if role is None and total.mixed and len(by_role) == 1:
                    case = next(c for c in s.cases if any(uid in self.uses(x) for x in c.body))
                    found += self._leaves(uid, case.body, (next(iter(by_role)), case.place))
                case _:
                    roles = frozenset(by_role) if role is None else frozenset((role[0],))
                    found.append(Leaf(s, roles, total, None if role is None else role[1]))
        return found


def _merged(channels: list[Channel]) -> list[Channel]:
    """Objects that live as long and are filled and used by the very same statements share their barriers; where the
    compiler counts the fills, their numbers are the same.
    """
    found: dict[tuple, Channel] = {}
    for c in channels:
        key = (c.structure, c.depth, c.home, c.declared.obj.uid if c.numbered else 0)
        have = found.get(key)
        if have is None:
            found[key] = c
        else:
            have.objects += c.objects
            if c.lag is not None:
                have.lag = c.lag if have.lag is None else min(have.lag, c.lag)
            for mine, other in zip(have.fills, c.fills):
                for e, more in zip(mine.episodes, other.episodes):
                    e.uses.add(more.uses)
    return list(found.values())
