"""The text of a kernel, calls entered: where each statement stands, which threads run it, and what orders what along
its paths.

Input: a typed function.  Output: its `Outline`.  Invariant: a *spot* is a place between two statements of one body, and
every gap but that of a loop's condition has one.  Which threads run a body is read off groups and split cases alone;
conditions are not looked at, so the answer may be too large.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from snap._compiler.analysis.linear.values import Frame, called
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.dataflow import Forward
from snap._compiler.ir.hardware import WARP
from snap._compiler.ir.operations import COLLECTIVES
from snap._compiler.ir.types import Level
from snap._compiler.ir.walk import bodies
from snap._compiler.sync.conflicts.tokens import AFTER, BEFORE, CONDITION, GapKey, Here

T = TypeVar("T")
BodyKey = tuple[Here | None, int]  # which of the bodies of a statement; a kernel's own stands in none
Runners = tuple[tuple[int, int, int], ...]  # outer ones first: of every so many threads, those from .. to


@dataclass(frozen=True, slots=True)
class Spot:
    """Before statement number `at` of a body."""

    body: BodyKey
    at: int


class Outline:
    def __init__(self, function: synced.Function):
        self.function = function
        held = function.place.held(Level.THREAD)
        self.threads = (held.count or 0) if held is not None and function.kernel else 0  # 0: not known
        self.stands: dict[Here, tuple[BodyKey, int]] = {}
        self.statement: dict[Here, ir.Stmt] = {}
        self.bodies: dict[BodyKey, tuple[Frame, ir.Body]] = {}
        self.runners: dict[BodyKey, Runners] = {}
        self.top: BodyKey = (None, 0)
        self._enter((), function.body, self.top, ((self.threads, 0, self.threads),))

    def _enter(self, frame: Frame, body: ir.Body, key: BodyKey, runners: Runners) -> None:
        self.bodies[key], self.runners[key] = (frame, body), runners
        for at, s in enumerate(body):
            here = (frame, s.number)
            self.stands[here], self.statement[here] = (key, at), s
            for k, inner in enumerate(bodies(s)):
                self._enter(frame, inner, (here, k), _narrowed(runners, s, k))
            if isinstance(s, ir.Call):
                required = s.function.place
                inside = (*runners, _whole(required.privilege.n)) if required.top is Level.THREAD else runners
                self._enter(called(frame, s.number), s.function.body, (here, 0), inside)

    # ---- places -----------------------------------------------------------------------------------------------------

    def spot(self, gap: GapKey) -> Spot | None:
        frame, kind, at = gap
        if kind == CONDITION:
            return None
        body, number = self.stands[(frame, at)]
        return Spot(body, number + (kind == AFTER))

    def gap(self, spot: Spot) -> GapKey:
        frame, body = self.bodies[spot.body]
        if spot.at < len(body):
            return frame, BEFORE, body[spot.at].number
        return frame, AFTER, body[-1].number

    def around(self, here: Here) -> list[Here]:
        """The statement and all it stands in, calls included."""
        found = [here]
        while (outer := self.stands[here][0][0]) is not None:
            found.append(outer)
            here = outer
        return found

    def here(self, body: BodyKey, at: int) -> Here:
        frame, statements = self.bodies[body]
        return frame, statements[at].number

    def warps(self, here: Here, size: int) -> frozenset[int]:
        """Return, of every `size` threads, the warps some thread of which runs the statement."""
        for n, low, high in reversed(self.runners[self.stands[here][0]]):
            if n == size:
                return frozenset(range(low // WARP, -(-high // WARP)))
        return frozenset(range(-(-size // WARP)))

    def groups(self, body: BodyKey, n: int) -> range:
        """Find the groups of n threads of the block that run a body."""
        _, low, high = next((r for r in reversed(self.runners[body]) if r[0] == self.threads), (0, 0, self.threads))
        return range(low // n, -(-high // n))

    # ---- paths ------------------------------------------------------------------------------------------------------

    def follows(self, at: dict[Spot, list[T]], settles: Callable[[T | ir.Collective, T], bool]) -> set[tuple[T, T]]:
        """Pairs (a, b) of which b can come after a with nothing between that settles a.

        `at`: what stands at a spot; `settles(x, a)`: whether a is over where x, or a barrier of the user's, was
        passed."""
        paths = _Paths({self.gap(spot): met for spot, met in at.items()}, settles)
        paths.body(self.function.body, frozenset())
        return paths.pairs


class _Paths(Forward[frozenset[T]]):
    """The state: what has been met, and is not settled yet."""

    def __init__(self, at: dict[GapKey, list[T]], settles: Callable[[T | ir.Collective, T], bool]):
        super().__init__()
        self.at, self.settles = at, settles
        self.pairs: set[tuple[T, T]] = set()
        self.frame: Frame = ()

    def join(self, a: frozenset[T], b: frozenset[T], s: ir.Stmt) -> frozenset[T]:
        return a | b

    def before(self, s: ir.Stmt, open: frozenset[T]) -> frozenset[T]:
        return self._meet((self.frame, BEFORE, s.number), open)

    def after(self, body: ir.Body, open: frozenset[T]) -> frozenset[T]:
        return self._meet((self.frame, AFTER, body[-1].number), open)

    def _meet(self, gap: GapKey, open: frozenset[T]) -> frozenset[T]:
        for what in self.at.get(gap, ()):
            self.pairs |= {(before, what) for before in open}
            open = self._unsettled(what, open) | {what}
        return open

    def _unsettled(self, by: T | ir.Collective, open: frozenset[T]) -> frozenset[T]:
        return frozenset(a for a in open if not self.settles(by, a))

    def transfer(self, s: ir.Stmt, open: frozenset[T]) -> frozenset[T] | None:
        if isinstance(s, ir.Collective) and COLLECTIVES[s.op].barrier:
            return self._unsettled(s, open)
        if isinstance(s, ir.Call):
            outer, self.frame = self.frame, called(self.frame, s.number)
            after = self.called(s, open)
            self.frame = outer
            return after
        return open


NO_INTERVAL = (0, 0, 0)  # of groups at a stride: no numbers of threads from .. to


def _whole(n: int) -> tuple[int, int, int]:
    return n, 0, n


def _narrowed(runners: Runners, s: ir.Stmt, k: int) -> Runners:
    match s:
        case ir.Group(privilege) if privilege.level is Level.THREAD:
            return (*runners, _whole(privilege.n) if privilege.stride is None else NO_INTERVAL)
        case ir.Split(Level.THREAD, _, cases):
            case, (n, low, high) = cases[k], runners[-1]
            if case.rest:
                return (*runners[:-1], (n, low + case.offset, high), _whole(case.size))
            return (*runners[:-1], (n, low + case.offset, low + case.offset + case.size))
        case _:
            return runners
