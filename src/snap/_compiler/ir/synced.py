"""The synchronized IR: the typed IR with what only synchronization puts in.

Barriers and waits (`Sync`), barriers of shared memory with slots and phases (`MBarrier` and the statements that name
one), groups of asynchronous work (`AsyncCommit`) and code of one thread (`Elect`) stand among the statements of
`nodes.py`.  Of two of those there are forms that only synchronization makes, with what it decided: a TMA load whose
bytes an mbarrier counts (`CountedLoad`), and a wgmma with a fence before it (`FencedWgmma`).  A `Function` of this
module is a synchronized one, and all it calls are.

Every node is immutable and has a span; spans do not count in comparisons.
"""

from __future__ import annotations

from dataclasses import field
from enum import IntEnum
from typing import get_args

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.engines import Engine, Wait
from snap._compiler.ir.hardware import WARP
from snap._compiler.ir.nodes import AnyFunction  # noqa: F401  (found here, too)
from snap._compiler.ir.operations import SyncHalf
from snap._compiler.ir.types import BLOCK1, CLUSTER1, GRID1, Level, Place, Privilege
from snap._compiler.ir.word import Word
from snap.diag.span import Span
from snap.record import record as node


@node
class AsyncCommit(ir.Inserted):
    """Make a group of what this thread (of boxes, the thread that issues for its group) began since the last one: a
    group, which a wait can name.  Boxes are those that leave shared memory.
    """

    engine: Engine = Engine.COPIES
    place: Place | None = None


class PointKind(Word):
    """Name what makes threads wait at a point.  To users it is the word: `point.kind == "block"`."""

    THREAD = "thread"  # no barrier: for what the thread itself has in flight
    WARP = "warp"
    BLOCK = "block"
    NAMED = "named"  # whole warps of a block
    CLUSTER = "cluster"
    GRID = "grid"
    MBARRIER = "mbarrier"


# Barriers for which all of a group wait, with the group.
WHOLE = {PointKind.BLOCK: BLOCK1, PointKind.CLUSTER: CLUSTER1, PointKind.GRID: GRID1}
_OF_LEVEL = {Level.BLOCK: PointKind.BLOCK, Level.CLUSTER: PointKind.CLUSTER, Level.GRID: PointKind.GRID}


def meets(group: Privilege) -> PointKind:
    """Return which barrier a collective of a group is."""
    return _OF_LEVEL.get(group.level, PointKind.WARP if group.shape.span <= WARP else PointKind.NAMED)


MAYBE = "maybe "  # in the reason of a point: nobody knows whether two threads meet there


@node
class SyncPoint:
    """One point of synchronization that the compiler put in.

    participants  the group that waits for each other; `object` and `reason` say why; `arrivals` and `waiters` say who,
                  in words
    waits         before the barrier, each thread waits until at most so many of the youngest groups are in flight:
                  (what it waits for, number); of boxes these are what the thread issued for its group, and with
                  (BOXES_READ, n) it waits until their memory has been read
    fence         before the barrier (or arrival), what threads did is put before what the units that copy boxes and
                  multiply tiles do
    number        of a named barrier: that of the first group; the groups of one size in a block have consecutive ones
    threads       of a named barrier at which some only arrive: how many take part, 0 for all of the group
    """

    uid: int
    kind: PointKind
    participants: Privilege
    object: str
    reason: str
    first: Span = field(compare=False)
    second: Span = field(compare=False)
    waits: tuple[tuple[Wait, int], ...] = ()
    fence: bool = False
    number: int = 0
    threads: int = 0
    arrivals: str = ""
    waiters: str = ""
    span: Span = field(compare=False, kw_only=True)

    def __repr__(self) -> str:
        """A line for people: `k.syncs()` is looked at more often than it is computed with."""
        return f"<{self.kind} at line {self.span.line}, {self.participants}, for `{self.object}`: {self.reason}>"

    def younger(self, wait: Wait | str) -> int | None:
        """Count the groups that this point leaves in flight; None where it does not wait for them.  A user says the
        word, `point.younger("copy")`.
        """
        return dict(self.waits).get(Wait(wait))


@node
class Sync(ir.Inserted):
    """`place` is the class of the code it stands in."""

    point: SyncPoint
    place: Place
    part: SyncHalf = SyncHalf.BOTH


@node
class MBarrier:
    """Shared memory that counts (mbarrier), one for each slot.  A phase of a slot is complete when `count` arrivals
    have come and all bytes expected.

    everywhere: arrivals come from every block of the cluster, and each block has its own.
    """

    uid: int
    name: str
    slots: int
    count: int
    everywhere: bool = False
    span: Span = field(compare=False, kw_only=True)


@node
class MBarrierWait(ir.Inserted):
    """Every thread that runs this waits until phase `phase` of the slot is complete; phase -1 was complete from the
    start.
    """

    barrier: MBarrier
    slot: ir.Expr
    phase: ir.Expr
    place: Place
    point: SyncPoint


@node
class MBarrierArrive(ir.Inserted):
    """One arrival for each unit of `by` in the current group (after what all its threads did), in this block or
    `everywhere`.

    `bytes` more are expected in this phase.  point.fence as in `Sync`.  copies: the arrival (of each thread: `by` is
    one) is made when all that the thread has copied so far has come, and the thread goes on; of what else the thread
    did it says nothing.
    """

    barrier: MBarrier
    slot: ir.Expr
    by: Privilege
    place: Place
    point: SyncPoint
    bytes: int = 0
    copies: bool = False


@node
class MBarrierExpect(ir.Inserted):
    """`bytes` more are expected in the slot's phase; by the thread that issues for its group."""

    barrier: MBarrier
    slot: ir.Expr
    bytes: int
    place: Place


@node
class Elect(ir.Inserted):
    """The first thread of the group runs the body, alone: what it holds is issued once."""

    place: Place
    body: ir.Body


@node
class CountedLoad(ir.BoxCopy):
    """A TMA load, and where its bytes are counted: in this slot of an mbarrier, whose phase ends when all have come."""

    barrier: MBarrier = field(kw_only=True)
    slot: ir.Expr = field(kw_only=True)

    def line(self, p: ir.Printing) -> str:
        return f"{ir.BoxCopy.line(self, p)}, counted by {p.slot(self.barrier, self.slot)}"


@node
class FencedWgmma(ir.Wgmma):
    """A wgmma that may use registers which threads have touched since the last one: wgmma.fence comes before it."""

    def line(self, p: ir.Printing) -> str:
        return f"{ir.Wgmma.line(self, p)}, registers fenced"


OnlySynced = Sync | AsyncCommit | MBarrierWait | MBarrierArrive | MBarrierExpect | Elect | CountedLoad | FencedWgmma

OnMBarrier = CountedLoad | MBarrierWait | MBarrierArrive | MBarrierExpect

# What a group does as one, by all of its threads or by one for all: it stands where the group is held.
AS_ONE = (
    *(c for c in (*get_args(ir.Instructed), FencedWgmma) if c.EXECUTED is not ir.Executed.EACH),
    *(Sync, Elect, *get_args(OnMBarrier)),
)


def counted(s: ir.BoxCopy, barrier: MBarrier, slot: ir.Expr) -> CountedLoad:
    return CountedLoad(**{name: getattr(s, name) for name in ir.BoxCopy._declared}, barrier=barrier, slot=slot)  # type: ignore[attr-defined]


def fenced(s: ir.Wgmma) -> FencedWgmma:
    return FencedWgmma(**{name: getattr(s, name) for name in ir.Wgmma._declared})  # type: ignore[attr-defined]


@node
class Function(ir.AnyFunction):
    """A synchronized function.  mbarriers: all that a kernel declares; a device function's are its kernel's."""

    mbarriers: tuple[MBarrier, ...] = field(default=(), kw_only=True)


def callee(s: ir.Call) -> Function:
    """Give the function that a call of the synchronized IR calls."""
    assert isinstance(s.function, Function)
    return s.function


class Stage(IntEnum):
    """Tell how far a program has come."""

    TYPED = 0  # nothing but `nodes`
    NUMBERED = 1  # a `Function` of this module: statements have numbers
    PIPELINED = 2  # mbarriers are there, and whatever else synchronization puts in
    SPECIALIZED = 3  # each role is a program of its own: code of the block stands in the cases of a split
