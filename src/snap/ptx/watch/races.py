"""Data races in a run of PTX.

Input: what threads execute and touch.  Output: a `PtxFault` for each pair of instructions that race, with both lines
and threads.  Two accesses of different threads to one byte race if one of them writes, they are not both strong (an
atomic, or `.relaxed`, `.acquire`, `.release`, `.volatile`), and nothing orders them (order.py).  What TMA and wgmma
touch must also have been fenced for them (`fence.proxy.async`) by the thread that touched it before.  The log, and what
is a race in it, are the CPU machine's (machine/schedule/races.py).  Local memory and parameters are nobody else's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from snap.diag.error import Label
from snap.diag.span import Span
from snap.machine.errors import RaceAccess, SideKind
from snap.machine.flight.flights import stretches
from snap.machine.lanes.lanes import FaultSite
from snap.machine.schedule.endings import Endings, LateUse
from snap.machine.schedule.races import ATOMIC, ATOMIC_READ, READ, WRITE, LoggedAccess, RaceLog
from snap.ptx.errors import PtxFault, PtxFaultKind, from_line
from snap.ptx.instructions.mbarriers import place
from snap.ptx.machine.lanes import AT_BARRIER, Lanes
from snap.ptx.program.names import Names
from snap.ptx.program.resolve import Constant
from snap.ptx.watch.observer import Touch, Watch, joined
from snap.ptx.watch.order import Order, fence_of, scope_of

if TYPE_CHECKING:
    from snap.machine.errors import Race
    from snap.machine.schedule.clocks import Segment
    from snap.ptx.instructions.mbarriers import Mbarrier
    from snap.ptx.machine.threads import Machine
    from snap.ptx.program.resolve import Instruction
    from snap.ptx.watch.observer import BarrierKey

WARP = 32
STRONG = frozenset(("volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"))
_LANDS = ("cp", "async", "mbarrier")  # a thread's copies arrive
EVERYTHING = -1  # of groups: all of them, and what belongs to none yet


@dataclass(slots=True, eq=False)
class Copy:
    """One `cp.async` of a warp: what it touches, by lane; the lanes of which a wait has covered it.  group: by lane,
    its number, or -1 before the commit.
    """

    touches: list[Touch]
    site: FaultSite
    group: dict[int, int]
    left: set[int]

    @property
    def open(self) -> bool:
        return bool(self.left)


@dataclass(slots=True)
class Groups:
    """Hold what a thread (or a warp) has begun: tokens that belong to no group yet, and those of its groups, oldest
    first. Each is a pair: known when its memory has been read, and when all is done.
    """

    loose: list[tuple[int, int]] = field(default_factory=list)
    groups: list[list[tuple[int, int]]] = field(default_factory=list)

    def commit(self) -> None:
        self.groups.append(self.loose)
        self.loose = []

    def wait(self, younger: int, read_only: bool) -> int:
        covered = max(0, len(self.groups) - younger)
        tokens = 0
        for read, done in (pair for group in self.groups[:covered] for pair in group):
            tokens |= read if read_only else read | done
        if not read_only:
            del self.groups[:covered]
        return tokens


class Races(Watch):
    def __init__(self, machine: Machine):
        super().__init__(machine)
        self.order = Order(machine)
        self.log = RaceLog(forgets=machine.shape.cluster == 1, observes=True)
        self.names = Names(machine)
        self.at: dict[Span, Instruction] = {}
        self.calls: dict[tuple[Span, int, int], Instruction] = {}  # by block and thread: with the line of its call
        self.copies: dict[int, list[Copy]] = {}  # by warp
        self.committed: dict[int, int] = {}  # groups of cp.async, by thread
        self.copies_arrive = any(one.parts[:3] == _LANDS for one in machine.program.instructions)
        self.covered: dict[int, int] = {}  # tokens of copies that a thread has waited for: later arrivals tell them
        self.stores: dict[int, Groups] = {}  # TMA's, by thread
        self.products: dict[int, Groups] = {}  # by warp
        self.waited: set[tuple[BarrierKey, int]] = set()  # who has looked at which mbarrier
        self.units: dict[tuple[int, int], int] = {}  # tokens of this instruction's boxes, by thread and block
        self.uses: list[LateUse] = []  # of shared memory, by TMA, wgmma and copies that arrive at mbarriers

    # ---- what is told -----------------------------------------------------------------------------------------------

    def arrived(self, lanes: Lanes, number: np.ndarray) -> None:
        self.order.arrived(lanes, number)

    def let_go(self, lanes: Lanes, full: np.ndarray) -> None:
        self.order.let_go(lanes, full)

    def arrived_at_cluster(self, lanes: Lanes) -> None:
        self.order.arrived_at_cluster(lanes, "relaxed" not in self.machine.at.parts)

    def let_go_of_cluster(self, lanes: Lanes) -> None:
        self.order.cluster_passed(lanes)

    def counted(self, key: BarrierKey, barrier: Mbarrier, lane: int | None) -> None:
        words = self.machine.at.parts
        if lane is None:
            self.order.copied(key, barrier, self._unit(getattr(self.machine.memory, "unit", None), key[0]))
        elif words[0] == "cp":
            self.order.copied(key, barrier, self._land(lane))
        elif words[1] in ("arrive", "arrive_drop"):
            self.order.counted(key, barrier, lane, "relaxed" not in words, scope_of(words))

    def passed(self, key: BarrierKey, barrier: Mbarrier, lane: int) -> None:
        words = self.machine.at.parts
        self.order.passed(key, barrier, lane, "relaxed" not in words, scope_of(words))

    def executed(self, one: Instruction, lanes: Lanes, pc: int, touches: list[Touch]) -> None:
        self.at[one.span] = one
        if one.line is None and touches and self.machine.depth[lanes].any():
            for lane in lanes.tolist():
                self.calls[(one.span, *self.machine.where(lane))] = self.machine.called(one, lane)
        handle = _HANDLERS.get(one.parts[0])
        if handle is not None:
            handle(self, one, lanes, [t for t in touches if t.space in ("global", "shared") and len(t.at)])
        if self.log.full:
            self.log.look(self.order.phases())
        self.units.clear()

    def ended(self) -> None:
        self._endings()
        found = self.found()
        if found:
            found[0].also = found[1:]
            raise found[0]

    def found(self) -> list[PtxFault]:
        self.log.look()
        return [self._fault(race) for race in self.log.races.values()]

    def _endings(self) -> None:
        """Look at the end of the blocks; a block's last words are those of the segments that its warps are in."""
        machine, order = self.machine, self.order
        end = machine.program.instructions[machine.entry.end - 1]
        self.at[end.span] = end
        last: dict[int, list[Segment]] = {}
        for segment in order.segments:
            last.setdefault(segment.block, []).append(segment)
        endings = Endings(self.log, last, lambda block: RaceAccess(SideKind.EXIT, end.span, block, 0))
        endings.in_flight(self.uses)
        endings.in_flight(self._use(0, t, copy.site, lane) for copy, t, lane in self._open_copies())
        endings.by_others(machine.shape.cluster)
        endings.tell()

    def _open_copies(self) -> Iterator[tuple[Copy, Touch, int]]:
        """Copies of elements that nobody has waited for, each with one of its threads."""
        for copies in self.copies.values():
            for copy in copies:
                for t in copy.touches:
                    lanes = [lane for lane in t.lanes.tolist() if lane in copy.left]
                    if t.write and lanes:
                        yield copy, _some(t, t.lanes == lanes[0]), lanes[0]

    def _use(self, token: int, t: Touch, site: FaultSite, lane: int, verb: SideKind = SideKind.COPY_TO) -> LateUse:
        """Record what uses the shared memory of one block for a thread."""
        name, size = self.names.piece("shared", int(t.at[0]))[1], self.order.size
        block = int(t.at[0]) // self.machine.memory.shared.stride
        return LateUse(token, name, RaceAccess(verb, site.span, lane // size, lane % size), block)

    # ---- accesses ---------------------------------------------------------------------------------------------------

    def _plain(self, one: Instruction, lanes: Lanes, touches: list[Touch]) -> None:
        """ld, st, ldmatrix, stmatrix."""
        words = one.parts
        strong = bool(STRONG & set(words))
        site = FaultSite(one.span, "")
        for t in joined(touches) if not strong else touches:
            write = t.write
            if strong and not write:
                self._strong(t, one, reads=True, writes=False)
            kind = (ATOMIC if write else ATOMIC_READ) if strong else (WRITE if write else READ)
            self._log(t, kind, site)
            if strong and write:
                self._strong(t, one, reads=False, writes=True)

    def _atomic(self, one: Instruction, lanes: Lanes, touches: list[Touch]) -> None:
        """Each lane reads what was released there, and releases, one after the other as they met."""
        site = FaultSite(one.span, "")
        for t in touches:
            if not t.write:
                self._strong(t, one, reads=True, writes=True)
                self._log(t, ATOMIC, site)

    def _strong(self, t: Touch, one: Instruction, reads: bool, writes: bool) -> None:
        words, order = one.parts, self.order
        silent = not order.released and not order.fenced and not order.made_fenced
        if silent and not {"release", "acq_rel"} & set(words):
            return  # nothing was released yet, and this releases nothing
        scope, atomic = scope_of(words), one.parts[0] in ("atom", "red")
        acquires, releases = bool({"acquire", "acq_rel"} & set(words)), bool({"release", "acq_rel"} & set(words))
        for at, lane in zip(t.at.tolist(), t.lanes.tolist()):
            if reads:
                order.read_strong(lane, (t.space, at), acquires, scope)
            if writes:
                order.write_strong(lane, (t.space, at), releases, scope, atomic)

    def _log(self, t: Touch, kind: int, site: FaultSite, copy: Copy | None = None, lands: bool = False, token: int = 0):
        """Every warp's part is an entry of its own."""
        widths = [t.width] if t.width & (t.width - 1) == 0 else [t.width & -t.width] * (t.width // (t.width & -t.width))
        offset = 0
        for width in widths:
            self._log_part(t.space, t.at + offset, t.lanes, width, kind, site, copy, lands, token)
            offset += width

    def _log_part(self, space, at, lanes, width, kind, site, copy, lands, token) -> None:
        order = np.argsort(lanes // WARP, kind="stable") if np.any(np.diff(lanes) < 0) else None
        if order is not None:
            at, lanes = at[order], lanes[order]
        piece = self.names.pieces(space, at)
        cuts = np.flatnonzero((np.diff(lanes // WARP) != 0) | (np.diff(piece) != 0)) + 1
        for first, last in zip([0, *cuts.tolist()], [*cuts.tolist(), len(at)]):
            segment = self.order.of(int(lanes[first]))
            self._add(
                space, at[first:last], lanes[first:last] % WARP, width, kind, segment, site, copy, lands, token, ""
            )

    def _add(self, space, at, local, width, kind, segment, site, copy, lands, token, verb, own_token=0) -> None:
        """Shared memory is looked at by cluster."""
        shape, stride = self.machine.shape, self.machine.memory.shared.stride
        where: object = space
        pitch = 0
        base, name = self.names.piece(space, int(at[0]))
        if space == "shared":
            cluster = int(at[0]) // stride // shape.cluster
            where, at, pitch = ("shared", cluster), at - cluster * shape.cluster * stride, stride
        entry = LoggedAccess(
            at, local, width, kind, segment, site, name, base, width, copy, lands, token, verb, pitch, own_token
        )
        self.log.add(where, entry)

    # ---- cp.async ---------------------------------------------------------------------------------------------------

    def _copying(self, one: Instruction, lanes: Lanes, touches: list[Touch]) -> None:
        words = one.parts
        if "bulk" in words or words[1] == "reduce":
            self._boxes(one, lanes, touches)
        elif words[2] == "commit_group":
            for lane in lanes.tolist():
                number = self.committed[lane] = self.committed.get(lane, 0) + 1
                for copy in self.copies.get(lane // WARP, ()):
                    if copy.group.get(lane) == -1:
                        copy.group[lane] = number
        elif words[2] in ("wait_group", "wait_all"):
            for w, local in self.order.by_warp(lanes):
                self._wait(w, local + w * WARP, EVERYTHING if words[2] == "wait_all" else _number(one))
        elif touches:
            self._copy(one, touches)

    def _copy(self, one: Instruction, touches: list[Touch]) -> None:
        site = FaultSite(one.span, "")
        parts = joined(sorted(touches, key=lambda t: t.write))
        for w in np.unique(np.concatenate([t.lanes for t in parts]) // WARP).tolist():
            mine = [_some(t, t.lanes // WARP == w) for t in parts]
            mine = [t for t in mine if len(t.at)]
            lanes = {lane for t in mine for lane in t.lanes.tolist()}
            copy = Copy(mine, site, dict.fromkeys(lanes, -1), lanes)
            self.copies.setdefault(w, []).append(copy)
            for t in mine:
                self._log(t, WRITE if t.write else READ, site, copy)

    def _wait(self, warp: int, lanes: np.ndarray, younger: int) -> None:
        for copy in list(self.copies.get(warp, ())):
            over = [
                lane
                for lane in lanes.tolist()
                if lane in copy.left
                and (younger == EVERYTHING or 0 < copy.group[lane] <= self.committed.get(lane, 0) - younger)
            ]
            token = self.order.token() if over and self.copies_arrive else 0
            self._cover(copy, over, token)
            for lane in over if token else ():
                self.order.tell(lane, token)
                self.covered[lane] = self.covered.get(lane, 0) | token
        self.copies[warp] = [copy for copy in self.copies.get(warp, ()) if copy.open]

    def _land(self, lane: int) -> int:
        """A thread's copies arrive at an mbarrier when they are over: a token that says so."""
        token = self.order.token()
        for copy in self.copies.get(lane // WARP, ()):
            if lane in copy.left:
                self._cover(copy, [lane], token)
        return token | self.covered.get(lane, 0)

    def _cover(self, copy: Copy, lanes: list[int], token: int) -> None:
        if not lanes:
            return
        copy.left.difference_update(lanes)
        for t in copy.touches:
            mine = _some(t, np.isin(t.lanes, lanes))
            if len(mine.at):
                if token and t.write:
                    self.uses.append(self._use(token, mine, copy.site, lanes[0]))
                self._log(mine, WRITE if t.write else READ, copy.site, copy, True, token)

    # ---- TMA and wgmma ----------------------------------------------------------------------------------------------

    def _unit(self, lane: int | None, block: int) -> int:
        """The token of a box that this thread issues into that block's memory."""
        key = (-1 if lane is None else lane, block)
        if key not in self.units:
            self.units[key] = self.order.token()
        return self.units[key]

    def _boxes(self, one: Instruction, lanes: Lanes, touches: list[Touch]) -> None:
        words = one.parts
        if "commit_group" in words or "wait_group" in words:
            for lane in lanes.tolist():
                mine = self.stores.setdefault(lane, Groups())
                if "commit_group" in words:
                    mine.commit()
                else:
                    self.order.tell(lane, mine.wait(_number(one), "read" in words))
            return
        loads = "mbarrier::complete_tx::bytes" in words
        size = self.machine.memory.shared.stride
        for lane in lanes.tolist():
            mine_of = [t for t in touches if t.unit == lane]
            read, done = (0, 0) if loads else (self.order.token(), self.order.token())
            for t in mine_of:
                if not loads:
                    if t.space == "global" and not t.write and words[1] == "reduce":
                        continue  # it reads and writes at once
                    token = done if t.write else read
                elif t.space == "shared":
                    token = self._unit(lane, int(t.at[0]) // size)
                else:
                    token = self._unit(lane, next((b for k, b in self.units if k == lane), lane // self.order.size))
                kind = READ if not t.write else ATOMIC if words[1] == "reduce" else WRITE
                self._log_unit(t, lane, kind, one, token, SideKind.COPY_TO if t.write else SideKind.COPY_FROM)
            if not loads:
                self.stores.setdefault(lane, Groups()).loose.append((read, done))

    def _log_unit(self, t: Touch, lane: int, kind: int, one: Instruction, token: int, verb: SideKind) -> None:
        """Log what TMA or a tensor core touches on behalf of a thread."""
        site, segment = FaultSite(one.span, ""), self.order.of(lane)
        cells = np.unique(t.at // t.width)
        piece = self.names.pieces(t.space, cells * t.width)
        if t.space == "shared":
            piece = cells * t.width // self.machine.memory.shared.stride
        for p in np.unique(piece):
            if t.space == "shared":
                part = Touch(t.space, cells[piece == p][:1] * t.width, t.lanes[:0], t.width, t.write)
                self.uses.append(self._use(token, part, site, lane, verb))
            address, size = stretches(cells[piece == p], t.width, 0)
            local = np.full(len(address), lane % WARP)
            self._add(t.space, address, local, size, kind, segment, site, None, False, token, verb)

    def _product(self, one: Instruction, lanes: Lanes, touches: list[Touch]) -> None:
        words = one.parts
        if words[1] == "fence":
            return
        warps = np.unique(lanes // WARP).tolist()
        if words[1] in ("commit_group", "wait_group"):
            for w in warps:
                mine = self.products.setdefault(w, Groups())
                if words[1] == "commit_group":
                    mine.commit()
                else:
                    tokens = mine.wait(_number(one), False)
                    if tokens:
                        self.order.segments[w] = self.order.segments[w].told(np.arange(WARP), tokens)
            return
        by_group = {group: self.order.token() for group in np.unique(lanes // 128).tolist()}
        for w in warps:
            self.products.setdefault(w, Groups()).loose.append((by_group[w // 4], 0))
        for k, t in enumerate(touches):
            rows = 64 if k == 0 and len(touches) > 1 else 0  # of A, each warp reads its own
            groups = np.unique(t.lanes // 128)
            at = t.at.reshape(len(groups), -1)
            for g, group in enumerate(groups.tolist()):
                for w in range(4):
                    mine = at[g].reshape(rows, -1)[16 * w : 16 * w + 16].reshape(-1) if rows else at[g]
                    lane = group * 128 + w * WARP
                    part = Touch(t.space, mine, t.lanes[:0], t.width, False)
                    self._log_unit(part, lane, READ, one, by_group[group], SideKind.MULTIPLY)

    def _mbarrier(self, one: Instruction, lanes: Lanes, touches: list[Touch]) -> None:
        """An mbarrier is written when it is made, and used atomically: each thread's first use, and every arrival."""
        action = one.parts[1]
        where = place(self.machine, one, lanes)
        if action in ("init", "inval"):
            self.waited = {(key, lane) for key, lane in self.waited if key not in where}
            kind = WRITE
            if action == "init":
                for (block, byte), lane in zip(where, lanes.tolist()):
                    self._init(one, block * self.machine.memory.shared.stride + byte, lane)
                return
        elif action in ("try_wait", "test_wait"):
            fresh = [k for k, pair in enumerate(zip(where, lanes.tolist())) if pair not in self.waited]
            self.waited.update(zip(where, lanes.tolist()))
            where, lanes, kind = [where[k] for k in fresh], lanes[fresh], ATOMIC_READ
        else:
            kind = ATOMIC
        if where:
            at = np.array([block * self.machine.memory.shared.stride + byte for block, byte in where])
            self._log(Touch("shared", at, lanes, 8, kind != ATOMIC_READ), kind, FaultSite(one.span, ""))

    def _init(self, one: Instruction, at: int, lane: int) -> None:
        """Give what a thread's `mbarrier.init` writes a token, since a fence may release this alone."""
        made, site = self.order.init(lane), FaultSite(one.span, "")
        local = np.array([lane % WARP])
        self._add("shared", np.array([at]), local, 8, WRITE, self.order.of(lane), site, None, False, 0, None, made)

    # ---- what orders ------------------------------------------------------------------------------------------------

    def _barrier(self, one: Instruction, lanes: Lanes, touches: list[Touch]) -> None:

        words = one.parts
        if "warp" in words:
            read = self.machine.reader(one.operands[0], "b32", one.function)
            self.order.warp_sync(lanes, read(lanes))
        elif "cluster" in words and "wait" in words:
            self.order.cluster_passed(lanes[self.machine.state[lanes] != AT_BARRIER])

    def _fence(self, one: Instruction, lanes: Lanes, touches: list[Touch]) -> None:
        fence = fence_of(one)
        if fence is not None:
            self.order.fence(lanes, *fence)
        elif "mbarrier_init" in one.parts:
            self.order.fence_init(lanes)
        elif "proxy" in one.parts and "async" in one.parts:
            self.order.fence_proxy(lanes)

    # ---- the report -------------------------------------------------------------------------------------------------

    def _fault(self, race: Race) -> PtxFault:
        d = race._diagnostic()
        first, second = (
            self.calls.get((side.span, side.block, side.thread), self.at[side.span])
            for side in (race.first, race.second)
        )
        files = self.machine.program.files
        sides = (("the first is", from_line(first, files)), ("the second", from_line(second, files)))
        note = "; ".join([d.note, ", ".join(f"{who} {line}" for who, line in sides if line)]).rstrip("; ")
        return PtxFault(
            PtxFaultKind.RACE,
            d.message,
            second,
            files,
            race.second.block,
            race.second.thread,
            label=d.label,
            secondary=tuple(Label(label.span, label.text) for label in d.secondary),
            note=note,
            help=d.help,
        )


def _some(t: Touch, chosen: np.ndarray) -> Touch:
    return Touch(t.space, t.at[chosen], t.lanes[chosen], t.width, t.write, None, t.unit)


def _number(one: Instruction) -> int:
    found = one.operands[0] if one.operands else None
    return found.value if isinstance(found, Constant) else 0


_HANDLERS = {
    "ld": Races._plain,
    "ldu": Races._plain,
    "st": Races._plain,
    "ldmatrix": Races._plain,
    "stmatrix": Races._plain,
    "atom": Races._atomic,
    "red": Races._atomic,
    "cp": Races._copying,
    "wgmma": Races._product,
    "mbarrier": Races._mbarrier,
    "bar": Races._barrier,
    "barrier": Races._barrier,
    "fence": Races._fence,
    "membar": Races._fence,
}
