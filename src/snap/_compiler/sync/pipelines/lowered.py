"""Hold what lowering pipelines collects, and what it leaves for the passes after it.

`Pipelined` goes on to the graph of accesses and to `release_slots.py`; `Additions` is what is to be put into the text,
found by the numbers of the statements that are there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.hardware import WARPGROUP
from snap._compiler.ir.numbering import Numbers
from snap._compiler.ir.types import BOOL, I32, Level, Place, Privilege
from snap._compiler.sync.barriers.terms import binary, counted_up, read
from snap._compiler.sync.pipelines.channels import Channel
from snap._compiler.sync.pipelines.uses import Role
from snap.diag.span import Span


@dataclass(slots=True)
class Lagging:
    """Slots that products may still read when their stage has ended: those from `released` up to `used` are released
    later, at the latest by the waits at the end of stages (`waits`: their points), for all but the last `lag` stages.
    """

    channel: Channel
    role: Role
    place: Place
    barrier: synced.MBarrier
    released: ir.Var
    used: ir.Var
    point: synced.SyncPoint
    lag: int
    waits: set[int] = field(default_factory=set)


def release(lagging: Lagging, until: ir.Expr, several: bool, span: Span) -> list[ir.Stmt]:
    """Release the slots of all fills before `until` that have not been released yet."""
    released = read(lagging.released, span)
    slot = binary("%", released, lagging.channel.depth, span)
    by = Privilege(Level.THREAD, WARPGROUP)
    arrive = synced.MBarrierArrive(lagging.barrier, slot, by, lagging.place, lagging.point, span=span)
    body = (arrive, counted_up(lagging.released, span))
    cond = ir.Compare("<", released, until, BOOL, span=span)
    return [ir.While((), cond, body, span=span) if several else ir.If(cond, body, (), span=span)]


@dataclass(slots=True)
class Pipelined:
    """The kernel with its channels, and what the graph of accesses must know of them.

    passes       by statement: the objects whose uses so far are all ordered before what follows
    lands        by statement: those whose loads are
    numbered     objects whose fills the program numbers
    awaited      by barrier: the objects whose loads are waited for by those who load them again
    released  objects whose slots arrivals release
    counted_on   objects whose fills are counted on where they are declared again
    """

    function: synced.Function
    passes: dict[int, set[int]] = field(default_factory=dict)
    lands: dict[int, set[int]] = field(default_factory=dict)
    lagging: list[Lagging] = field(default_factory=list)
    numbered: set[int] = field(default_factory=set)
    awaited: dict[int, set[int]] = field(default_factory=dict)
    released: set[int] = field(default_factory=set)
    counted_on: set[int] = field(default_factory=set)


@dataclass(slots=True)
class ByteCount:
    """Say where the bytes of a load are counted.  announced: an arrival ahead of it says how many come; else
    it does.
    """

    barrier: synced.MBarrier
    slot: ir.Expr
    announced: bool


@dataclass(slots=True)
class Additions:
    """Collect what is put into the text: before and after statements, at the kernel's top, where it outlives
    everything, and into loads; and what is taken out.
    """

    numbers: Numbers
    before: dict[int, list[ir.Stmt]] = field(default_factory=dict)
    after: dict[int, list[ir.Stmt]] = field(default_factory=dict)
    top: list[ir.Stmt] = field(default_factory=list)
    loads: dict[int, ByteCount] = field(default_factory=dict)
    dropped: set[int] = field(default_factory=set)
    mbarriers: list[synced.MBarrier] = field(default_factory=list)

    def variable(self, name: str, privilege: Privilege, span: Span) -> ir.Var:
        return ir.Var(self.numbers.new(), name, I32, privilege, True, span=span)

    def barrier(self, name: str, slots: int, count: int, span: Span, everywhere: bool = False) -> synced.MBarrier:
        made = synced.MBarrier(self.numbers.new(), name, slots, count, everywhere, span=span)
        self.mbarriers.append(made)
        return made
