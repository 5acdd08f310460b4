"""Check accesses of memory: what may be read, what may be written, and how a use becomes an access of the object.

Input: a `Memory` and the trees of its indices.  Output: `MemAccess` nodes that address the object.  Invariant: an
access carries the handle, and so the privilege, it was made through.  Non-goals: what a name denotes
(check/memory/storage.py), the order of accesses (sync/).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from snap._compiler.check.core import convert, rewrite
from snap._compiler.check.core.bindings import Memory
from snap._compiler.check.core.constants import constant_int
from snap._compiler.check.core.explain import const_label, declared, read_by_one_help, read_down
from snap._compiler.check.core.operands import in_order, may_change, never_written
from snap._compiler.check.core.scalars import scalar
from snap._compiler.check.core.state import Abort, Checker, StableRead, Want
from snap._compiler.frontend import tree
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import BLOCK1, I32, THREAD1, Level, Space
from snap._compiler.ir.walk import statements, walk
from snap.diag.error import Label
from snap.diag.source import written
from snap.diag.span import Span
from snap.diag.wording import called, counted

_EACH = re.compile(r"each\(\s*\w+(\[[^\]]*\])?")  # with its level


def indices(c: Checker, items: tuple[tree.Expr, ...], want: Want) -> tuple[ir.Expr, ...]:
    def index(item: tree.Expr) -> ir.Expr:
        value = scalar(c, item, want)
        if not convert.is_integer(value):
            raise c.type_error(
                f"an index is an integer, not `{value.type}`", item.span, help=f"cast it: `{called('int', item.span)}`"
            )
        return convert.settled(value)

    return tuple(in_order(c, want.privilege, index, items))


def mapped(memory: Memory, index: tuple[ir.Expr, ...]) -> tuple[ir.Expr, ...]:
    """Indices of the view for the indices a user wrote."""
    if memory.map is None:
        return index
    given = {p.uid: i for p, i in zip(memory.map.params, index)}
    return tuple(rewrite.substitute(r, lambda v: given.get(v.uid)) for r in memory.map.results)


def mapped_block(memory: Memory, index: tuple[ir.Expr, ...]) -> ir.Expr | None:
    """The rank of the block whose part is meant, for the indices a user wrote; None for the own one."""
    if memory.map is None or memory.map.block is None:
        return None
    given = {p.uid: i for p, i in zip(memory.map.params, index)}
    return rewrite.substitute(memory.map.block, lambda v: given.get(v.uid))


def foreign(c: Checker, block: ir.Expr | None) -> ir.Expr | None:
    """The rank, unless it is provably that of the thread's own block."""
    return None if isinstance(block, ir.Read) and block.var.uid in c.own_ranks else block


# T-Field-Index: x : ptr(R), R.f : t[n], k is a constant, 0 <= k < n => G |- x[i].f[k] : t @ p
# The fields of a record follow one another in memory; machines and proofs see the bounds of the whole array alone.
def _inside_of_its_field(c: Checker, memory: Memory, items: tuple[tree.Expr, ...]) -> None:
    """Ask that the indices of a field that is an array are constants inside of it."""
    for item, n in zip(items[len(items) - len(memory.inner) :], memory.inner):
        what = f"the index of an array in a record in memory, `{memory.handle.name}`,"
        way = "; or loop with `unroll(range(...))`, or copy the record first: `r = x[i]`, then `r.v[j]`"
        k = constant_int(c, item, what, way)
        if not 0 <= k < n:
            raise c.type_error(
                f"index {k} is outside of this array of `{memory.handle.name}`, which has {n}",
                item.span,
                help=f"it counts from 0 to {n - 1}",
            )


def access(c: Checker, memory: Memory, items: tuple[tree.Expr, ...], want: Want, span: Span) -> ir.MemAccess:
    if len(items) != memory.rank:
        raise c.type_error(
            f"`{memory.handle.name}` takes {counted(memory.rank, 'index')}, not {len(items)}",
            span,
            secondary=declared(memory.handle),
            help="give one index for each dimension; all of them in one pair of brackets: `x[i, j]`",
        )
    _inside_of_its_field(c, memory, items)
    mark = len(c.out)
    index = indices(c, items, want)
    _placed_before(c, memory, c.out[mark:], span)
    if memory.shape is not None:
        for i, n, item in zip(index, memory.shape, items):
            if isinstance(i, ir.Const) and isinstance(n, ir.Const) and not 0 <= i.value < n.value:
                raise c.type_error(
                    f"index {i.value} is outside of `{memory.handle.name}`, whose dimension here is {n.value}",
                    item.span,
                    help="indices count from 0",
                )
    return ir.MemAccess(
        memory.view, mapped(memory, index), memory.handle, foreign(c, mapped_block(memory, index)), span=span
    )


def _placed_before(c: Checker, memory: Memory, effects: list[ir.Stmt], span: Span) -> None:
    """Refuse a call in an index that may change where the tile lies, which is evaluated before the indices into it."""
    parts = [part for r in (memory.map.results if memory.map is not None and effects else ()) for part in walk(r)]
    if any(may_change(c, s, part) for s in statements(tuple(effects)) for part in parts):
        raise c.type_error(
            f"a call in this index may change what says where the tile of `{memory.handle.name}` lies",
            span,
            help="read the tile's position, or call the function, into a variable first",
        )


# T-Arr-Access, T-Arr-Access-Shared: x : t[] @ q in G, p <= q, G |- i : int @ p, x is stable for p
#     => G |- x[i] : t @ p
# What is read is at the target's privilege or above. Above thread[1] the memory must also be stable, so that all
# threads of the unit see one value.
def load(c: Checker, memory: Memory, items: tuple[tree.Expr, ...], want: Want, span: Span) -> ir.Load:
    handle = memory.handle
    if c.no_calls:
        raise c.type_error(f"{c.no_calls} cannot read memory", span, help="read it into a variable first")
    if not handle.privilege.at_least(want.privilege):
        raise read_down(c, f"`{handle.name}`", handle.privilege, handle.span, want, span)
    made = access(c, memory, items, want, span)
    agreed(c, handle, made, want, span)
    return ir.Load(made, memory.elem, span=span)


# T-Stable: p = thread[1], or x is const, shared or a part => x is stable for p
def agreed(c: Checker, handle: ir.Handle, read: ir.MemAccess, want: Want, span: Span) -> None:
    """All threads for whom this memory is read see one value.  What parts other units have, is looked at when the whole
    function is known.
    """
    if handle.obj.part is not None and not BLOCK1.at_least(want.privilege):
        raise _of_some_blocks(c, handle, want, span)
    if want.privilege == THREAD1 or never_written(c, handle):
        return
    if not stable(handle):
        raise unstable(c, handle, want, span)
    c.stable_reads.append(StableRead(handle, read, span, want))


# Copies that only some blocks of a cluster share are one value for each of them, and none for all.
def _of_some_blocks(c: Checker, handle: ir.Handle, want: Want, span: Span) -> Abort:
    blocks = handle.obj.part[0] if handle.obj.part is not None else 1
    return c.fail(
        "SNAP006",
        f"{blocks} blocks at a time hold one value of `{handle.obj.name}`, and {want.privilege} reads it as one",
        span,
        want.why,
        (Label(handle.obj.span, "declared for a part of the cluster"),),
        note="blocks that hold other copies would read another value and diverge",
        help="read it for a block or less, `v: int @ block[1] = ...`; or declare it `copies=block`, one value for all",
    )


def agreed_in(c: Checker, exprs: Iterable[ir.Expr], want: Want) -> None:
    """The same for all memory that these expressions read, where they were evaluated for less than what they decide."""
    for part in (part for e in exprs for part in walk(e)):
        if isinstance(part, ir.Load):
            agreed(c, part.access.handle, part.access, want, part.span)


def unstable(c: Checker, handle: ir.Handle, want: Want, span: Span) -> Abort:
    return c.fail(
        "SNAP006",
        f"`{handle.name}` may change while {want.privilege} reads it",
        span,
        want.why,
        (Label(handle.span, "neither const, nor shared, nor a part"),),
        note="threads of one group could read different values and diverge",
        help=f"declare it `ptr(const(...))`, or {read_by_one_help(want.privilege)}{_each_its_own(c, want)}",
    )


def _each_its_own(c: Checker, want: Want) -> str:
    """Suggest that each thread has a variable of its own, where what is read goes into a variable."""
    name = "" if want.control or want.head is None else written(want.head)
    return f"; or let each thread read it for itself: declare `{name}` at `thread[1]`" if name.isidentifier() else ""


def stable(handle: ir.Handle) -> bool:
    """Decide whether an owner can keep others from changing memory: const memory, shared memory, and parts have one."""
    while handle.base is not None and handle.origin is not ir.Origin.PARTITION and not handle.disjoint:
        handle = handle.base
    return handle.const or handle.obj.space is Space.SHARED or handle.origin is ir.Origin.PARTITION or handle.disjoint


def not_const(c: Checker, handle: ir.Handle, span: Span, help: str = "") -> None:
    if handle.const:
        message = f"`{handle.name}` is const and cannot be written"
        raise c.fail("SNAP009", message, span, secondary=(const_label(handle),), help=help)


# T-Arr-Assn, T-Arr-Assn-Shared: x : t[] @ thread[1] in G, x is not const => G |- x[i] may be assigned
# An element is written at exactly thread[1], and not through const.
def writable(c: Checker, memory: Memory, span: Span) -> None:
    handle = memory.handle
    not_const(c, handle, span, "declare it without `const`")
    one_value(c, handle, span)
    if handle.privilege != THREAD1:
        raise c.fail(
            "SNAP009",
            f"`{handle.name}` belongs to `{handle.privilege}`, and memory is written at `thread[1]`",
            span,
            "written here",
            (Label(handle.span, f"at privilege `{handle.privilege}` here"),),
            note="a partition, or `each`, says which thread owns which element",
            help=_hand_out(c, memory),
        )


def _hand_out(c: Checker, memory: Memory) -> str:
    """Say how the threads get to write it, in the words of the form that is written there."""
    name, around, p = memory.handle.name, c.holder, c.privilege
    each, named = around is not None and around.text.startswith("`each("), ""
    if each:
        head = written(around.span).removesuffix(":").removeprefix("with ")
        form, found = _EACH.subn(rf"\g<0>, {name}", head, count=1)
        named = form if found else ""
    if p == THREAD1 and each:
        return f"name it where the threads are told apart: `with {named or f'each(thread, {name}) as i'}:`"
    if p == THREAD1:
        return f"open this code with `with each(thread, {name}) as i:`, or hand `{name}` out with `partition`"
    if not p.at_least(memory.handle.privilege):
        own = named or f"each({p.level.word if p.n == 1 else p}, {name})"
        return f"open this code with `with {own}:`, and write in `with each(thread, {name}) as i:`"
    alone = written_by_one(name, c.privilege.level is Level.GRID)
    return f"`with each(thread, {name}) as i:` for every thread, `with {alone}:` for the first alone"


def written_by_one(name: str, of_grid: bool) -> str:
    """The forms after `with` by which one thread alone gets memory of the grid, or of a block."""
    return f"one(block, {name}), one(thread, {name})" if of_grid else f"one(thread, {name})"


# T-Copies: x has a copy in every block => no block writes x alone
# Memory of which every block holds a copy stays one value: only a multicast load writes it, which writes all copies
# alike.
def one_value(c: Checker, handle: ir.Handle, span: Span) -> None:
    part = handle.obj.part
    if handle.obj.spread is ir.Spread.COPIES:
        raise c.fail(
            "SNAP009",
            f"{'every block' if part is None else f'each of {part[0]} blocks'} of the cluster holds a copy of"
            f" `{handle.obj.name}`, and this writes only one of them",
            span,
            "written here",
            (Label(handle.obj.span, f"declared with `copies={'block' if part is None else ''}`"),),
            note="the copies would no longer be the same",
            help=(
                "fill it with a multicast TMA load, `async_copy(x, a, at=(i, j))`, which writes them all; or declare it"
                " `across=block`, a part for each block"
            ),
        )


def own_memory(c: Checker, made: ir.MemAccess, what: str) -> None:
    if made.block is not None:
        raise c.type_error(
            f"{what} works on the block's own part of `{made.handle.name}`, and this may be another one's",
            made.span,
            secondary=(Label(made.handle.obj.span, "across the blocks of the cluster"),),
            help=(
                "name the part by the block's own rank, `b: int @ block[1] = id()` in `group(cluster[1])`; other"
                " parts are read"
                " element by element"
            ),
        )


def scalar_shape(shape: tuple[int, ...], span: Span) -> tuple[ir.Expr, ...]:
    return tuple(ir.Const(n, I32, span=span) for n in shape)
