"""Instructions: statements that do something besides assigning a variable and choosing what is run.

Input:      none; the checker makes them
Output:     a class for each, with its operands, and what every stage asks of it: by which threads it is executed
            (`EXECUTED`), its line in the IR's text (`line`), its words in a listing (`explained`)
Invariant:  what it reads and writes is its row in `effects.py`; walking, rewriting, verifying, printing, proofs and
            synchronization ask these two places, so that a new instruction is a class here, a row there, its check, its
            meaning on the machine and its CUDA
Non-goals:  calls (nodes.py); what only synchronization puts in (synced.py)
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import field
from enum import Enum, auto
from typing import Any, Protocol

from snap._compiler.ir.expressions import ArrayRef, Expr, MemAccess, MemView, Spread, Target, Tile
from snap._compiler.ir.hardware import MMA_FRAGMENTS, MMA_PACKED, WARP, WARPGROUP, WGMMA_ROWS
from snap._compiler.ir.operations import MemoryOrder, MemoryScope
from snap._compiler.ir.types import Element, Place, Privilege
from snap._compiler.ir.word import Word
from snap.diag.span import Span
from snap.record import record as node


@node
class Statement:
    """Define what every statement is.

    number  which statement of its program it is (`snap._compiler.ir.numbering`): given once, kept by `replace`, so
            that passes speak of the same statement while parts of it change; 0 for none yet
    """

    KEEPS = ("_effects", "_own_expressions", "_expressions", "_below", "_classes", "_loads", "_assigned")
    number: int = field(default=0, compare=False, repr=False, kw_only=True)
    span: Span = field(compare=False, kw_only=True)


class Executed(Enum):
    """Tell by which threads of the code's group a statement is executed."""

    EACH = auto()  # by each thread on its own
    ISSUED = auto()  # once, by a thread that issues it for its group; the group holds together until then
    TOGETHER = auto()  # by all threads of the group, each of which has its part in it


class Named(Protocol):
    """A function, or a barrier: what the text calls by a name of its own."""

    @property
    def uid(self) -> int: ...
    @property
    def name(self) -> str: ...


class Printing(Protocol):
    """Print the parts of an instruction: what it asks of the printer of the IR (text.py) to write its line."""

    def expr(self, e: Expr) -> str: ...
    def access(self, a: MemAccess) -> str: ...
    def tile(self, t: Tile) -> str: ...
    def array(self, a: ArrayRef) -> str: ...
    def argument(self, a: Expr | ArrayRef | MemView) -> str: ...
    def results(self, *targets: Target | None) -> str: ...
    def callee(self, f: Named) -> str: ...
    def slot(self, barrier: Named, slot: Expr | None) -> str: ...


@node
class Act(Statement):
    """Define what every instruction is."""

    EXECUTED = Executed.EACH

    @property
    def flops(self) -> int:
        """Count the floating point operations of a warp that executes it, beside those of its operands."""
        return 0

    def line(self, p: Printing) -> str:
        """In the text of the IR."""
        raise NotImplementedError

    def explained(self) -> str:
        """Beside the user's line, in `snap explain`."""
        raise NotImplementedError


@node
class Collective(Act):
    """An intrinsic of `snap._compiler.ir.operations.COLLECTIVES`, executed once per group of `requires`."""

    EXECUTED = Executed.TOGETHER
    op: str
    requires: Privilege
    place: Place
    targets: tuple[Target, ...]
    args: tuple[Expr, ...]
    accesses: tuple[MemAccess, ...] = ()
    attrs: tuple[tuple[str, object], ...] = ()

    def attr(self, name: str, default: object = None) -> Any:
        return dict(self.attrs).get(name, default)

    @property
    def flops(self) -> int:
        """Count two for each of m n k of an `mma`; its shape is that of its kind where the text says nothing."""
        if self.op != "mma":
            return 0
        kind = self.attr("kind")
        shapes = MMA_FRAGMENTS[MMA_PACKED.get(kind.split(".")[0], kind)]
        return 2 * math.prod(self.attr("shape") or next(iter(shapes)))

    def line(self, p: Printing) -> str:
        given = [*map(p.expr, self.args), *map(p.access, self.accesses), *(f"{n}={v}" for n, v in self.attrs)]
        return f"{p.results(*self.targets)}{self.op}({', '.join(given)}) by {self.requires} at {self.place}"

    def explained(self) -> str:
        return f"{self.op}: {self.requires} acts together"


_ACQUIRING = frozenset((MemoryOrder.ACQUIRE, MemoryOrder.ACQ_REL, MemoryOrder.SEQ_CST))
_RELEASING = frozenset((MemoryOrder.RELEASE, MemoryOrder.ACQ_REL, MemoryOrder.SEQ_CST))


@node
class Atomic(Act):
    """op: load store add min max and or xor exch inc dec cas; once per thread; `target` receives the old value (load:
    the value).  Of a vector, `add` is one operation for each component.
    """

    op: str
    access: MemAccess
    args: tuple[Expr, ...]
    target: Target | None
    order: MemoryOrder
    scope: MemoryScope

    @property
    def acquires(self) -> bool:
        """Tell whether what was released there comes before what follows: of a store never, which reads nothing."""
        return self.order in _ACQUIRING and self.op != "store"

    @property
    def releases(self) -> bool:
        """Tell whether it hands on what comes before it: of a load never, which writes nothing."""
        return self.order in _RELEASING and self.op != "load"

    def line(self, p: Printing) -> str:
        given = ", ".join((p.access(self.access), *map(p.expr, self.args)))
        return f"{p.results(self.target)}atomic.{self.op}({given}), {self.order}, {self.scope}"

    def explained(self) -> str:
        return f"atomic {self.op}, {self.order}, {self.scope} scope, once per thread"


@node
class Sleep(Act):
    """The thread rests for about `nanoseconds`, a u32 of at most `snap._compiler.ir.hardware.SLEEP`, or less, or twice
    as long: it leaves the issue slots and the memory to others while it polls.  It orders nothing.
    """

    nanoseconds: Expr

    def line(self, p: Printing) -> str:
        return f"sleep {p.expr(self.nanoseconds)} ns"

    def explained(self) -> str:
        return "nanosleep: each thread rests; no memory is ordered"


@node
class AsyncCopy(Act):
    """One element of global memory into shared memory, asynchronously: this thread may use it after a wait, others
    after a barrier behind that.

    valid   where it does not hold, the source is not read, and the element becomes zero; None for everywhere.  The
            indices of the source are evaluated either way
    elements  of the source's own elements, as its array is declared, so many from the first are read, and the rest of
            what is copied becomes zero: an i32 from 0 to all of them; None for all.  Never together with `valid`
    l2      the priority with which the L2 keeps what is read (`snap._compiler.ir.operations.L2_EVICTION`); '' for no
    wish
    """

    target: MemAccess
    source: MemAccess
    valid: Expr | None = None
    l2: str = ""
    elements: Expr | None = None

    def line(self, p: Printing) -> str:
        zeros = "" if self.valid is None else f" where {p.expr(self.valid)}, else zero"
        if self.elements is not None:
            zeros = f", {p.expr(self.elements)} elements of it, else zero"
        return f"copy {p.access(self.target)} from {p.access(self.source)}{zeros}{f', {self.l2}' if self.l2 else ''}"

    def explained(self) -> str:
        return f"cp.async of {self.target.view.elem.bytes} bytes per thread, asynchronous"


@node
class Prefetch(Act):
    """The line of an element of global memory comes into a cache, if the hardware likes; once per thread.  Nothing is
    read: the element may lie outside of its array.  level: one of `snap._compiler.ir.operations.PREFETCHED`.
    """

    access: MemAccess
    level: str

    def line(self, p: Printing) -> str:
        return f"prefetch {p.access(self.access)} to {self.level}"

    def explained(self) -> str:
        return f"prefetch to {self.level}, once per thread"


@node
class BoxPrefetch(Act):
    """A box of global memory comes into the L2 (TMA), if the hardware likes; once per group of the place's privilege.
    Nothing is read or written.  box, swizzle: as of the `BoxCopy` that will load it, so that both use one tensor map.
    """

    EXECUTED = Executed.ISSUED
    origin: MemAccess
    box: tuple[int, ...]
    swizzle: int
    place: Place

    def line(self, p: Printing) -> str:
        return f"box prefetch {p.access(self.origin)} of {list(self.box)} at {self.place}"

    def explained(self) -> str:
        return f"TMA prefetch of a box of {across(self.box)} to the L2, issued by one thread"


class BoxOp(Word):
    """Name what TMA does with a box.  All but LOAD go from shared to global memory, and all but the first two combine
    what comes with what is there.
    """

    LOAD = "load"
    STORE = "store"
    ADD = "add"
    MIN = "min"
    MAX = "max"
    AND = "and"
    OR = "or"
    XOR = "xor"

    @property
    def combines(self) -> bool:
        return self is not BoxOp.LOAD and self is not BoxOp.STORE


@node
class BoxCopy(Act):
    """A box between shared and global memory, moved asynchronously; once per group of the place's privilege.

    op      a load's elements outside of the array are zero; of the others, elements outside are left out
    tile    the box in shared memory, contiguous
    origin  its first element in global memory; the view is the array's own, with a shape
    box     the tile's shape in the dimensions of the array
    tf32    of a load of f32: whether each element is rounded to tf32 on its way
    l2      the priority with which the L2 keeps what is moved (`snap._compiler.ir.operations.L2_EVICTION`); '' for no
    wish

    For a tile of memory that is spread as copies, every block of the cluster issues it for its share of the rows, for
    all blocks.
    """

    EXECUTED = Executed.ISSUED
    op: BoxOp
    tile: Tile
    origin: MemAccess
    box: tuple[int, ...]
    place: Place
    tf32: bool = False
    l2: str = ""

    @property
    def is_load(self) -> bool:
        return self.op is BoxOp.LOAD

    @property
    def shared_out(self) -> bool:
        """Return whether each block of the cluster loads its share for all."""
        return self.op is BoxOp.LOAD and self.tile.access.view.obj.spread is Spread.COPIES

    def line(self, p: Printing) -> str:
        way = "from" if self.is_load else "to"
        wishes = (", rounded to tf32" if self.tf32 else "") + (f", {self.l2}" if self.l2 else "")
        ends = f"{p.tile(self.tile)} {way} {p.access(self.origin)}"
        return f"TMA {self.op} {ends} of {list(self.box)} at {self.place}{wishes}"

    def explained(self) -> str:
        return f"{'multicast ' * self.shared_out}{self.told()}, issued by one thread"

    def told(self) -> str:
        """In the words of the field, for listings and for comments in the CUDA."""
        what = f"reduction ({self.op})" if self.op.combines else self.op
        part = self.tile.access.view.obj.part if self.is_load else None
        to = "" if part is None else f" to {part[0]} of the cluster's blocks"
        elem, rounded = self.tile.access.view.elem, ", rounded to tf32" * self.tf32
        return f"TMA {what} of a {across(self.box)} {elem} box{to}{rounded}, asynchronous"


@node
class Wgmma(Act):
    """acc = a @ b.T + (0 where `zero`, else acc), asynchronously, by a warpgroup: 64 rows, n columns.

    type    'bf16', 'f16', 'tf32', 'e4m3', 'e5m2': of a and b; 'e4m3.e5m2' where they differ
    acc     n/2 values of f32 (or f16) a thread, as PTX lays fragments out: all of an array, or the first of it
    a       a tile [64, k] of shared memory (`a_transposed`: [k, 64]), or registers, k/2 values a thread
    b       a tile [n, k] (`b_transposed`: [k, n])
            A tile may have a leading dimension more, of panels: [p, rows, w] is p tiles [rows, w] side by side.
    """

    EXECUTED = Executed.TOGETHER
    type: str
    acc: ArrayRef
    a: Tile | ArrayRef
    b: Tile
    n: int
    k: int
    a_transposed: bool
    b_transposed: bool
    zero: Expr | None
    place: Place

    @property
    def types(self) -> tuple[str, str]:
        """Return the element types of a and of b."""
        a, _, b = self.type.partition(".")
        return a, b or a

    @property
    def flops(self) -> int:
        """Count two for each of 64 n k, of which each of four warps has its part."""
        return 2 * WGMMA_ROWS * self.n * self.k // (WARPGROUP // WARP)

    def line(self, p: Printing) -> str:
        left, right = (p.tile(t) if isinstance(t, Tile) else p.array(t) for t in (self.a, self.b))
        left, right = left + ".T" * self.a_transposed, right + ".T" * (not self.b_transposed)
        start = "" if self.zero is None else f", from zero where {p.expr(self.zero)}"
        shape = f"({self.type}, n {self.n}, k {self.k})"
        return f"{p.array(self.acc)} += {left} @ {right} {shape} at {self.place}{start}"

    def explained(self) -> str:
        return f"tensor cores: {self.told()}"

    def told(self) -> str:
        """In the words of the field, for listings and for comments in the CUDA."""
        return f"wgmma {WGMMA_ROWS} x {self.n} x {self.k}, {self.type}, asynchronous"


@node
class StoreAcc(Act):
    """Columns `first` to `first` + w of a warpgroup's accumulator (see `Wgmma`) into a tile [64, w] of shared memory,
    converted to its elements.
    """

    EXECUTED = Executed.TOGETHER
    tile: Tile
    acc: ArrayRef
    first: Expr
    place: Place

    def line(self, p: Printing) -> str:
        return f"{p.tile(self.tile)} = columns from {p.expr(self.first)} of {p.array(self.acc)} at {self.place}"

    def explained(self) -> str:
        return "store_acc: the warpgroup acts together"


@node
class Unsafe(Act):
    """CUDA text with {name} holes, bound to values, memory, and registers that it writes.

    values   what the text reads; the element k of an array is `name[k]`
    results  where it leaves what it computes.  What it reads and writes is among the values, too, by the same name
    target   where the value of the text goes, if it is an expression, of the type `type`
    cpu      a Python callable that stands for it on the CPU machine, or None
    lanes    of an instruction: how many threads execute it together, and `cpu` gets in one row; 0 where it gets blocks
    """

    text: str
    values: tuple[tuple[str, Expr], ...]
    memory: tuple[tuple[str, MemAccess], ...]
    target: Target | None
    type: Element | None
    cpu: object = field(default=None, compare=False)
    results: tuple[tuple[str, Target], ...] = ()
    lanes: int = 0

    def line(self, p: Printing) -> str:
        holes = [*((n, p.expr(e)) for n, e in self.values), *((n, p.access(a)) for n, a in self.memory)]
        named = ", ".join(f"{n}={e}" for n, e in holes)
        return f"{p.results(self.target, *(t for _, t in self.results))}unsafe {self.text!r} {named}".rstrip()

    def explained(self) -> str:
        return "unsafe: the compiler takes the programmer's word"


def across(extents: Iterable[int]) -> str:
    return " x ".join(map(str, extents))
