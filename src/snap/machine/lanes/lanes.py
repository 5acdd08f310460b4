"""The threads that a piece of generated code runs at once, and what they share.

Lanes form a (blocks, threads) array: many whole blocks in reference mode, one warp in adversarial mode.  A value has
shape (blocks, threads), or 1 along an axis where it does not vary, or is a NumPy scalar.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from snap._compiler.ir.operations import MemoryScope
from snap._compiler.ir.printed import UNNAMED
from snap._compiler.ir.strides import NUMBERS
from snap._compiler.ir.types import Level, Privilege
from snap.diag.span import Span
from snap.machine import watching
from snap.machine.errors import FaultKind, MachineError
from snap.machine.lanes.masks import narrow
from snap.machine.lanes.printing import Say, say

WAITING_HELP = (
    "a thread can wait for threads of its block and of earlier blocks; for later blocks in a kernel with"
    " `cooperative=True`"
)
_SCOPES = 16  # of disjoint partitions that are remembered


class LogKind(IntEnum):
    """Name what an access does to memory. ATOMIC_READ: `atomic.load`, which writes nothing."""

    READ = 0
    WRITE = 1
    ATOMIC = 2
    ATOMIC_READ = 3


@dataclass(frozen=True, slots=True)
class Ordering:
    """Say what an access orders: whether it acquires what was released there, whether it releases, and among which
    threads.  stores: it is an atomic that reads nothing.
    """

    acquires: bool = False
    releases: bool = False
    scope: MemoryScope = MemoryScope.GPU
    stores: bool = False


RELAXED = Ordering()


@dataclass(frozen=True, slots=True)
class FaultSite:
    """A place in the source that may fault; `name` is what the user calls the memory or variable."""

    span: Span
    name: str


@dataclass(frozen=True, slots=True)
class Watched:
    """A partition whose units were not promised to be apart, but must be, each time that it is entered."""

    handle: int


class Contact(IntEnum):
    """Name how a unit touches an element. The first two rows of `Owners` for each: the first and the last lane."""

    WRITE, READ, UPDATE, LOOK = range(4)  # plainly, and by atomics

    @property
    def others(self) -> tuple[Contact, ...]:
        """List what no other unit may do to the element: of two accesses, one writes, and they are not both atomic."""
        return {
            Contact.WRITE: tuple(Contact),
            Contact.READ: (Contact.WRITE, Contact.UPDATE),
            Contact.UPDATE: (Contact.WRITE, Contact.READ),
            Contact.LOOK: (Contact.WRITE,),
        }[self]


class Owners:
    """For each `grain` bytes of an object the first and the last lane that touched them in each way, and where they
    did; both counted from one, zero for nobody, so that of a large object only what is touched takes memory.  Units are
    neighboring lanes: if all lanes that read an element are of one unit, the first and the last are.  An object is seen
    as elements of several sizes: the grain is the smallest one so far.
    """

    def __init__(self, count: int, grain: int, dtype: type):
        self.count, self.grain, self.dtype = count, grain, dtype
        self.tables: dict[Contact, np.ndarray] = {}

    def reach(self, count: int, each: int) -> None:
        """Have room for `count` elements of `each` bytes, and a grain that divides them."""
        if each < self.grain:
            apart = self.grain // each
            self.tables = {how: np.repeat(table, apart, axis=1) for how, table in self.tables.items()}
            self.count, self.grain = self.count * apart, each
        more = count * (each // self.grain) - self.count
        if more > 0:
            pad = ((0, 0), (0, more))
            self.tables = {how: np.pad(t, pad) for how, t in self.tables.items()}
            self.count += more

    def note(self, how: Contact, cells, lane, number: int) -> None:
        """Lanes touch elements, a site's number each.  Of several that write one, the last stays."""
        if how not in self.tables:
            self.tables[how] = np.zeros((2 if how is Contact.WRITE else 4, self.count), self.dtype)
        table, lane, number = self.tables[how], lane + 1, number + 1
        if how is Contact.WRITE:
            table[0][cells], table[1][cells] = lane, number
            return
        for k, order in ((0, slice(None, None, -1)), (2, slice(None))):  # the last assignment stays
            at = table[k][cells], table[k + 1][cells]
            table[k][cells[order]], table[k + 1][cells[order]] = lane[order], number
            before = (at[0] > 0) & (at[0] < table[k][cells] if k == 0 else at[0] > table[k][cells])
            table[k][cells[before]], table[k + 1][cells[before]] = at[0][before], at[1][before]


class MachineLaunch:
    """Hold what all lanes of one launch share."""

    def __init__(self, blocks: int, threads: int, blocks_per_cluster: int | None):
        """None: there are no clusters, which is not the same as clusters of one block."""
        self.blocks, self.threads, self.blocks_per_cluster = blocks, threads, blocks_per_cluster or 1
        self.clustered = blocks_per_cluster is not None
        self.waited = 0  # iterations of loops that wait for others
        self.changes = 0  # grows with every change of memory by an atomic, and with every store
        self.say: Say = say  # what is done with lines that the kernel prints
        self._owners: dict[tuple, Owners] = {}
        self._sites: list[FaultSite] = []

    def site_number(self, site: FaultSite) -> int:
        if site not in self._sites:
            self._sites.append(site)
        return self._sites.index(site)

    def site(self, number: int) -> FaultSite:
        return self._sites[number]

    def renew(self, part: Watched) -> None:
        """A scope is entered (again): what was touched in it before is over."""
        for key in [key for key in self._owners if key[0] == part]:
            del self._owners[key]

    def owners_of(self, key: tuple, count: int, each: int) -> Owners:
        """Return who touched which of `count` elements of `each` bytes within a scope; few scopes are remembered."""
        owners = self._owners.get(key)
        if owners is None:
            if len(self._owners) >= _SCOPES:
                del self._owners[next(iter(self._owners))]
            small = self.blocks * self.threads < 1 << 31
            owners = self._owners[key] = Owners(count, each, np.int32 if small else np.int64)
        owners.reach(count, each)
        return owners


class Lanes:
    """`block` is (B, 1), `thread` is (1, T): absolute indices."""

    patience = 4096  # iterations of one `while` after which its progress is watched
    alertness = 64  # the same of one that waits for others
    endurance = 4_000_000  # iterations of one `while` that are certainly too many
    hope = 1000  # iterations of one that waits for others, and in which no memory changes, that are certainly too many
    rounds = 400_000  # iterations of all that wait for others, together, that are certainly too many

    def __init__(self, launch: MachineLaunch, block: np.ndarray, thread: np.ndarray):
        self.launch = launch
        self.block, self.thread = block, thread
        self.shape = (block.shape[0], thread.shape[1])
        self.row = np.arange(self.shape[0], dtype=np.intp).reshape(-1, 1)
        self.memo: dict[object, object] = {}

    @property
    def blocks(self) -> int:
        return self.launch.blocks

    @property
    def threads(self) -> int:
        return self.launch.threads

    def full(self, x) -> np.ndarray:
        return x if type(x) is np.ndarray and x.shape == self.shape else np.broadcast_to(x, self.shape)

    def active(self, m) -> np.ndarray:
        return np.ones(self.shape, np.bool_) if m is None else np.broadcast_to(m, self.shape)

    def units(self, unit, m) -> Iterator[tuple[int, object]]:
        """Unit after unit of those that take part, with its lanes."""
        unit = self.full(unit)
        for u in np.unique(unit[self.active(m)]).tolist():
            yield u, narrow(m, unit == u)

    def locate(self, bad) -> tuple[int, int, int]:
        """Position among the lanes, block and thread of the first lane where `bad` holds."""
        at = int(self.full(bad).argmax())
        b, t = divmod(at, self.shape[1])
        return at, int(self.block[b, 0]), int(self.thread[0, t])

    def moved(self, made, which: slice, cells: np.ndarray, inside: np.ndarray | None) -> None:
        """Take note of boxes that TMA moves; lanes that count do (counting.py)."""

    # ---- faults that generated code asks for ----

    def check_assert(self, cond, m, site: FaultSite, message: str) -> None:
        bad = self.active(m) & ~self.full(cond)
        if bad.any():
            _, block, thread = self.locate(bad)
            raise MachineError(FaultKind.ASSERT, message or UNNAMED, site.span, block, thread)

    def check_defined(self, defined, m, site: FaultSite) -> None:
        """A variable is read: every active lane has assigned it."""
        if defined is None:
            return
        bad = self.active(m) if defined is False else self.active(m) & ~self.full(defined)
        if bad.any():
            _, block, thread = self.locate(bad)
            raise MachineError(
                FaultKind.UNINITIALISED, f"`{site.name}` is read before it has a value", site.span, block, thread
            )

    def check_whole(self, start, by: int, m, site: FaultSite) -> None:
        """A part is viewed as elements `by` times as wide: it begins at a multiple of them."""
        bad = self.active(m) & (self.full(start) % by != 0)
        if bad.any():
            _, block, thread = self.locate(bad)
            text = (
                f"the part begins at element {int(self.full(start)[bad].flat[0])}, and is accessed {by} elements at a"
                " time"
            )
            raise MachineError(
                FaultKind.MISALIGNED,
                text,
                site.span,
                block,
                thread,
                help=f"let such parts begin at a multiple of {by} elements",
            )

    def watch(self, count: int, waits: bool, site: FaultSite, state: tuple, seen: tuple | None) -> tuple:
        """Called late in a long loop: if neither variables nor memory changed since `seen`, they never will.  Returns
        what to call it with next: the changes of memory, the variables, and how often the loop had run when memory last
        changed.
        """
        watch = watching.current()
        if watch is not None:
            watch.tick()
        if self.unchanged(state, seen):
            self.give_up("nothing it tests can change any more", site)
        seen = self.endure(count, waits, site, state, seen)
        if waits and count - seen[2] > self.hope:
            self.give_up(f"it has run {self.hope} times, and no memory has changed meanwhile", site)
        return seen

    def endure(self, count: int, waits: bool, site: FaultSite, state: tuple, seen: tuple | None) -> tuple:
        self.launch.waited += waits
        if count > self.endurance or self.launch.waited > self.rounds:
            self.give_up(f"it has run {count} times", site)
        return self.launch.changes, state, seen[2] if seen is not None and seen[0] == self.launch.changes else count

    def give_up(self, why: str, site: FaultSite) -> None:
        raise MachineError(
            FaultKind.NO_PROGRESS,
            "this loop does not end",
            site.span,
            int(self.block[0, 0]),
            None,
            note=why,
            help=WAITING_HELP,
        )

    def unchanged(self, state: tuple, seen: tuple | None) -> bool:
        return seen is not None and seen[0] == self.launch.changes and _same(seen[1], state)

    # ---- disjoint partitions ----

    def claim(
        self,
        handle: int,
        unit: Privilege,
        scope: Privilege,
        view,
        index: tuple,
        dims,
        m,
        write: bool,
        site: FaultSite,
        first: tuple | None = None,
        atomic: bool = False,
    ) -> None:
        """Units of `unit` must not touch what another one in the same unit of `scope` touches, if one of the two
        writes: never in this launch, however often the scope is entered, since no barrier stands between two of its
        rounds.  first: of each element so many are touched, from the first on, seen as another type (type, number).
        Atomics may meet each other in what is only watched.
        """
        active = self.active(m)
        lane = self.full(self.block.astype(np.int64) * self.threads + self.thread)[active]
        if first is not None:
            parts, start = view.first(index, dims, m, *first, site)
            start, count = self.full(start)[active], self.full(first[1])[active]
            for k in range(int(count.max(initial=0))):
                some = count > k
                self.claim_cells(handle, unit, scope, parts, (start + k)[some], lane[some], write, site)
            return
        lin = view.resolve(index, dims, m, site)
        cells = self.full(lin + self.row * view.pitch if view.stride else lin)[active].astype(np.intp)
        self.claim_cells(handle, unit, scope, view, cells, lane, write, site, dims, atomic)

    def claim_cells(
        self,
        handle: int,
        unit: Privilege,
        scope: Privilege,
        view,
        cells,
        lane,
        write: bool,
        site: FaultSite,
        dims=None,
        atomic: bool = False,
    ) -> None:
        """The same for elements (of one block's array after the other's) and lanes side by side."""
        count = view.pitch * self.shape[0] if view.stride else view.size
        owners = self.launch.owners_of((handle, view.storage.identity), count, view.bytes)
        number, several = self.launch.site_number(site), view.bytes // owners.grain
        elements = cells % view.pitch if view.stride else cells
        told = (handle, unit, scope, site, elements, dims)
        if atomic and isinstance(handle, Watched):
            how = Contact.UPDATE if write else Contact.LOOK
        else:
            how = Contact.WRITE if write else Contact.READ
        for grains in (cells * several + k for k in range(several)):
            for table in (owners.tables[other] for other in how.others if other in owners.tables):
                for row in range(0, len(table), 2):
                    self._refuse_others(table[row][grains] - 1, table[row + 1][grains] - 1, lane, *told)
            owners.note(how, grains, lane, number)
            if how is Contact.WRITE:
                table = owners.tables[how]
                self._refuse_others(table[0][grains] - 1, table[1][grains] - 1, lane, *told)

    def _refuse_others(
        self, owner, sites, lane, part, unit: Privilege, scope: Privilege, site: FaultSite, elements, dims
    ) -> None:
        clash = (
            (owner >= 0)
            & (self._unit(owner, unit) != self._unit(lane, unit))
            & (self._unit(owner, scope) == self._unit(lane, scope))
        )
        if not clash.any():
            return
        first = int(clash.argmax())
        block, thread = divmod(int(lane[first]), self.threads)
        other = divmod(int(owner[first]), self.threads)
        who = f"block {other[0]}, thread {other[1]}"
        met = f"`{site.name}[{_element(int(elements[first]), dims)}]`: block {block}, thread {thread}, and {who}"
        if isinstance(part, Watched):
            raise MachineError(
                FaultKind.OVERLAP,
                f"two units of {unit} meet in one element of `{site.name}`, in one scope, and one of them writes it",
                site.span,
                block,
                thread,
                secondary=((self.launch.site(int(sites[first])).span, f"{who}, in the same scope"),),
                note="no barrier stands between the units of one `each`",
                help="end the `each` in between, so that a barrier can stand there; or let them write somewhere else;"
                " or let one release, and the other one acquire, in between (`order=`)",
                met=met,
            )
        raise MachineError(
            FaultKind.OVERLAP,
            f"`{site.name}` is declared disjoint, but two units of {unit} touch one element",
            site.span,
            block,
            thread,
            note=f"the other one is {who}",
            help="leave `disjoint=` out, or mend the index",
            met=met,
        )

    def _unit(self, lane, unit: Privilege):
        """The number of the unit that a lane (block * threads + thread) belongs to."""
        block, thread = np.divmod(lane, self.threads)
        if unit.level is Level.THREAD:
            return block * -(-self.threads // unit.n) + unit.shape.number(thread, NUMBERS)
        if unit.level is Level.BLOCK:
            return unit.shape.number(block, NUMBERS)
        if unit.level is Level.CLUSTER:
            return block // (self.launch.blocks_per_cluster * unit.n)
        return np.zeros_like(block)


def _element(at: int, dims) -> str:
    """Its indices, in an array of these extents."""
    shape = [int(np.max(n)) for n in dims] if dims is not None and len(dims) > 1 else [0]
    if 0 in shape or any(np.min(n) != np.max(n) for n in dims):
        return str(at)
    return ", ".join(str(int(i)) for i in np.unravel_index(at, shape))


def _same(a: tuple, b: tuple) -> bool:
    return all(x is y or _equal(x, y) for x, y in zip(a, b))


def _equal(x, y) -> bool:
    if isinstance(x, (tuple, list)):
        return len(x) == len(y) and _same(tuple(x), tuple(y))
    return np.array_equal(x, y)
