"""Boxes between global and shared memory (TMA): `async_copy(dst, src, at=...)`, `async_reduce(dst, src, at=...)`.

Input: the tree of a call.  Output: a `BoxCopy`.  Invariant: the tile is contiguous, begins where the hardware lets a
box begin, and its extents are those a box can have; what is written belongs to the code's privilege; a box that goes
into every block's copy is issued by all blocks alike. Non-goals: when it has arrived (sync/), the array's own alignment
(host/).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from snap._compiler.check.core import convert
from snap._compiler.check.core.annotations import text_option
from snap._compiler.check.core.bindings import Memory
from snap._compiler.check.core.dispatch import calls
from snap._compiler.check.core.explain import declared, read_down
from snap._compiler.check.core.forms import chosen
from snap._compiler.check.core.state import Checker, Construct, ConstructKind, ObjectUse, Want
from snap._compiler.check.memory.accesses import indices, mapped, not_const
from snap._compiler.check.memory.storage import memory_argument
from snap._compiler.check.operations.hints import eviction, prefetch
from snap._compiler.check.operations.multicast import issued_alike
from snap._compiler.check.operations.tiles import aligned, contiguous, core, moved, tile_of
from snap._compiler.frontend import tree
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.hardware import BOX_BYTES, BOX_EXTENT, BOX_RANK, SWIZZLES
from snap._compiler.ir.types import (
    BF16,
    BLOCK1,
    F16,
    F32,
    F64,
    I32,
    I64,
    THREAD1,
    U32,
    U64,
    Level,
    Scalar,
    Space,
    scalar_of,
)
from snap.diag.error import Label
from snap.diag.span import Span
from snap.diag.wording import counted
from snap.record import replace

FORMS = {
    "async_copy": (
        'a load: `async_copy(tile, a, at=(i, j))`, rounded with `type="tf32"`; a store:'
        " `async_copy(a, tile, at=(i, j))`"
    ),
    "intrinsic.prefetch": "`intrinsic.prefetch(tile, a, at=(i, j))`, before `async_copy(tile, a, at=(i, j))`",
    "async_reduce": '`async_reduce(a, tile, at=(i, j), op="add")`',
}
REDUCTIONS = {
    "add": (I32, U32, U64, F16, BF16, F32, F64),
    **{op: (I32, U32, I64, U64, F16, BF16) for op in ("min", "max")},
    **{op: (I32, U32, I64, U64) for op in ("and", "or", "xor")},
}


@dataclass(slots=True, eq=False)
class Side:
    """One of the two places between which a box goes, and where it is written in the text."""

    memory: Memory
    span: Span

    @property
    def name(self) -> str:
        return self.memory.handle.name

    @property
    def space(self) -> Space:
        return self.memory.handle.obj.space


# T-Box-Copy: the side written is at P, the side read at or above P, at : int @ P, P <= block[1]
#     => G |- async_copy(x, y, at) @ P
def box_copy(c: Checker, e: tree.Call) -> None:
    to, source, at, options = _arguments(c, e, "async_copy")
    tf32, l2 = text_option(c, options, "type", ("tf32",), "") == "tf32", eviction(c, options)
    if options:
        zeros = "valid" in options or "elements" in options
        raise c.type_error(
            f"`async_copy` of a TMA box has no option `{next(iter(options))}`",
            e.span,
            note="TMA brings zeros for all that lies outside of the array" if zeros else "",
            help=FORMS["async_copy"],
        )
    spaces = to.space, source.space
    if spaces[0] is spaces[1]:
        raise c.type_error(
            "TMA copies a box between global and shared memory, and both of these are"
            f" {'the same' if Space.GENERIC in spaces else spaces[0].value}",
            e.span,
            help=(
                "say which one is shared: `ptr(shared(bf16), (64, 64))`"
                if Space.GENERIC in spaces
                else FORMS["async_copy"]
            ),
        )
    _written(c, to)
    _readable(c, source)
    loads = spaces[0] is not Space.GLOBAL and spaces[1] is not Space.SHARED
    if tf32 and not loads:
        raise c.type_error(
            "a TMA load rounds to tf32, a TMA store does not",
            e.span,
            help="leave `type=` out: shared memory is stored unchanged",
        )
    if tf32 and source.memory.elem != F32:
        raise c.type_error(
            f"only f32 is rounded to tf32, and `{source.name}` holds `{source.memory.elem}`",
            source.span,
            secondary=declared(source.memory.handle.obj),
            help="leave `type=` out: other elements are loaded unchanged",
        )
    if loads:
        _emit(c, ir.BoxOp.LOAD, to, source, at, e.span, l2, tf32)
    else:
        _emit(c, ir.BoxOp.STORE, source, to, at, e.span, l2)


# Nothing is read or written: the tile says what the box is like, and may belong to anybody.
@calls("intrinsic.prefetch")
def _prefetch(c: Checker, word: str, e: tree.Call, want: Want, used: bool) -> None:
    (_box_prefetch if "at" in dict(e.keywords) else prefetch)(c, e)


def _box_prefetch(c: Checker, e: tree.Call) -> None:
    tile, array, at, options = _arguments(c, e, "intrinsic.prefetch")
    if options or array.space is not Space.GLOBAL or tile.space is Space.GLOBAL:
        raise c.type_error(
            "TMA prefetches a box of global memory, as large as a tile of shared memory",
            e.span,
            help=FORMS["intrinsic.prefetch"],
        )
    _emit(c, None, tile, array, at, e.span, "")


# T-Box-Reduce: x shared at or above P, at : int @ P => G |- async_reduce(y, x, at) @ P
# A reduction is atomic, element by element: the array may be at any privilege.
@calls("async_reduce")
def _box_reduce(c: Checker, word: str, e: tree.Call, want: Want, used: bool) -> None:
    to, source, at, options = _arguments(c, e, "async_reduce")
    op, l2 = text_option(c, options, "op", tuple(REDUCTIONS), "add"), eviction(c, options)
    if options:
        raise c.type_error(f"`async_reduce` has no option `{next(iter(options))}`", e.span, help=FORMS["async_reduce"])
    if to.space is Space.SHARED or source.space is Space.GLOBAL:
        raise c.type_error("`async_reduce` goes from shared to global memory", e.span, help=FORMS["async_reduce"])
    elem = to.memory.elem
    if elem not in REDUCTIONS[op]:
        can = ", ".join(map(str, REDUCTIONS[op]))
        raise c.type_error(f"`async_reduce` cannot `{op}` elements of `{elem}`", e.span, help=f"`{op}` works on {can}")
    not_const(c, to.memory.handle, to.span)
    _readable(c, source)
    c.touches.append(ObjectUse(to.memory.handle.obj, "`async_reduce`", e.span))
    _emit(c, ir.BoxOp(op), source, to, at, e.span, l2)


def _arguments(c: Checker, e: tree.Call, word: str) -> tuple[Side, Side, tuple[ir.Expr, ...], dict[str, tree.Expr]]:
    c.effects_allowed("a copy", e.span)
    options = dict(e.keywords)
    if len(e.args) != 2 or "at" not in options:
        raise c.type_error(
            f"`{word}` takes a destination, a source, and `at=`, the TMA box's coordinates in the array",
            e.span,
            help=FORMS[word],
        )
    if not BLOCK1.at_least(c.privilege):
        raise c.fail(
            "SNAP016",
            f"a TMA copy is issued by a block or by threads of one, and this code runs at `{c.privilege}`",
            e.span,
            "issued here",
            (c.holding,),
            help="claim the memory for a group of threads, or copy in `with each(block):`",
        )
    to, source = (Side(memory_argument(c, a, f"`{word}` of a TMA box", c.privilege), a.span) for a in e.args)
    place = options.pop("at")
    chooses = isinstance(place, tree.Conditional) and isinstance(place.then, tree.Sequence)
    items = place.items if isinstance(place, tree.Sequence) else chosen(c, place) if chooses else (place,)
    at = indices(c, items, Want(c.privilege, f"is a coordinate of the TMA box that `{c.privilege}` copies", agree=True))
    return to, source, at, options


# Read up: what is copied is at or above the code's privilege.
def _readable(c: Checker, side: Side) -> None:
    handle, span = side.memory.handle, side.span
    if not handle.privilege.at_least(c.privilege):
        want = Want(c.privilege, f"is copied once for `{c.privilege}`")
        help = (
            f"copy `{handle.base.name}` itself, outside of the scope of `{handle.name}`: there it is whole"
            if handle.base is not None
            else f"declare it at `{c.privilege}` or above"
        )
        raise read_down(c, f"`{handle.name}`", handle.privilege, handle.span, want, span, help)


# A collective that writes memory needs the memory's privilege to equal the code's.
def _written(c: Checker, side: Side) -> None:
    handle, span = side.memory.handle, side.span
    not_const(c, handle, span)
    if handle.privilege == c.privilege:
        return
    deeper = c.privilege.at_least(handle.privilege)
    construct = c.holder
    if c.privilege == THREAD1 and construct.kind is ConstructKind.GROUP and BLOCK1.at_least(handle.privilege):
        raise _by_single_threads(c, handle, construct, span)
    raise c.fail(
        "SNAP009",
        f"the destination of a TMA copy belongs to the group that issues it: `{handle.name}` is at"
        f" `{handle.privilege}`, and this code at `{c.privilege}`",
        span,
        "written here",
        (Label(handle.span, f"at privilege `{handle.privilege}` here"),),
        note="otherwise every group of it would issue the same copy" if not deeper else "",
        help=f"copy it in `with group({handle.privilege}):`" if deeper else _give(c, handle),
    )


# CUDA's habit: one thread issues.  Here the group that owns the memory does, and the compiler picks the thread.
def _by_single_threads(c: Checker, handle: ir.Handle, construct: Construct, span: Span) -> Exception:
    chosen = any(f.kind is ConstructKind.IF for f in c.constructs[c.constructs.index(construct) :])
    return c.fail(
        "SNAP009",
        f"a TMA copy is issued once, by the group that its destination belongs to: `{handle.name}` is at"
        f" `{handle.privilege}`, and here each thread acts for itself",
        span,
        "written here",
        (
            Label(handle.span, f"at privilege `{handle.privilege}` here"),
            Label(construct.span, "from here each thread acts for itself"),
        ),
        note="the compiler elects the one thread of the group that issues it",
        help=(
            f"take the copy out of `group(thread[1])`{', and of the `if`' if chosen else ''}: `{handle.privilege}` does"
            " it once, as a whole"
        ),
    )


def _give(c: Checker, handle: ir.Handle) -> str:
    """How memory comes to the group of the code."""
    index = "(b, i, j)" if handle.obj.spread is ir.Spread.ACROSS else "(m0 + i, n0 + j)"
    part = f"`with partition({handle.name}, p={c.privilege}, f=lambda i, j: {index}) as mine:`"
    if c.privilege.level is not Level.THREAD or handle.obj.space is Space.GLOBAL:
        return f"hand it out, outside of this group: {part}"
    return f"give it to this group, outside of it: `with claim({handle.name}, p={c.privilege}) as mine:`, or {part}"


# ---- the statement --------------------------------------------------------------------------------------------------


def _emit(
    c: Checker,
    op: ir.BoxOp | None,
    tile_side: Side,
    array_side: Side,
    at: tuple[ir.Expr, ...],
    span: Span,
    l2: str,
    tf32: bool = False,
) -> None:
    what, array = "a TMA copy", array_side.memory
    origin, moves = _origin(c, array_side, at, span)
    tile = tile_of(c, tile_side.memory, what, tile_side.span)
    obj, elem = tile.access.view.obj, tile.access.view.elem
    if elem != array.elem:
        raise c.type_error(
            f"TMA does not convert: `{tile_side.name}` holds `{elem}`, and `{array.handle.name}` `{array.elem}`",
            span,
            secondary=(
                Label(obj.span, f"elements of `{elem}`"),
                Label(array.handle.obj.span, f"elements of `{array.elem}`"),
            ),
            help=(
                f"declare `{obj.name}` with elements of `{array.elem}`, and convert them where they"
                f" are used: `{elem}(...)`"
            ),
        )
    for part, first in _panels(tile, origin, len(moves)):
        box = _extents(c, part, tile_side, array_side, moves)
        contiguous(c, part, tile_side.name, tile_side.span)
        _rows(c, part, box[-1], tile_side.span)
        aligned(c, part, tile_side.memory, what, tile_side.span)
        _begins(c, op, first, array, span)
        if op is None:
            c.out.append(ir.BoxPrefetch(first, box, obj.swizzle, c.place, span=span))
            continue
        if op is ir.BoxOp.LOAD and obj.spread is ir.Spread.COPIES:
            issued_alike(c, part, first, box, span, tile_side.span)
        c.out.append(ir.BoxCopy(op, part, first, box, c.place, tf32=tf32, l2=l2, span=span))


# Panels `[p, rows, w]` stand for one tile `[rows, p * w]`, as in products: each is a box of its own, beside the last.
def _panels(tile: ir.Tile, origin: ir.MemAccess, rank: int) -> Iterator[tuple[ir.Tile, ir.MemAccess]]:
    box = core(tile.shape)
    if rank < 2 or len(box) != rank + 1:
        yield tile, origin
        return
    k, wide, access = len(tile.shape) - len(box), box[-1], tile.access
    for panel in range(box[0]):
        at = (*access.index[:k], _later(access.index[k], panel), *access.index[k + 1 :])
        moved_on = (*origin.index[:-1], _later(origin.index[-1], panel * wide))
        shape = (*tile.shape[:k], 1, *tile.shape[k + 1 :])
        yield ir.Tile(replace(access, index=at), shape), replace(origin, index=moved_on)


def _later(index: ir.Expr, by: int) -> ir.Expr:
    return convert.binary("+", index, ir.Const(by, scalar_of(index.type), span=index.span), index.span) if by else index


# A box has as many dimensions as its array, and is larger than 1 only where the array can be moved along.
def _extents(c: Checker, tile: ir.Tile, tile_side: Side, array_side: Side, moves: list[bool]) -> tuple[int, ...]:
    array, name = array_side.memory, tile_side.name
    rank, box = len(moves), core(tile.shape)
    if len(box) > rank:
        raise c.type_error(
            f"`{name}` is a TMA box of {' x '.join(map(str, box))}, and `{array.handle.name}` has"
            f" {counted(rank, 'dimension')}",
            tile_side.span,
            secondary=declared(array.handle.obj),
            help=f"copy one part at a time: `tile({name}, ...)` with leading dimensions of 1",
        )
    box = (1,) * (rank - len(box)) + box
    for k, (extent, moves_here) in enumerate(zip(box, moves)):
        if extent > BOX_EXTENT:
            raise c.type_error(
                f"an extent of a TMA box is at most {BOX_EXTENT}, and this one is {extent}",
                tile_side.span,
                help=f"copy it as several boxes: `tile({name}, ...)`",
            )
        if extent > 1 and not moves_here:
            raise c.type_error(
                f"`{array.handle.name}` has a fixed index in dimension {k}, where the TMA box extends over {extent}",
                array_side.span,
                secondary=(Label(array.handle.span, "its index function has no index there"),),
                help="let the tile have an extent of 1 there, or hand the array out without fixing that index",
            )
    return box


# A row of a box is a multiple of 16 bytes, and in a swizzled tile as long as the swizzle.
def _rows(c: Checker, tile: ir.Tile, elements: int, span: Span) -> None:
    obj, bytes = tile.access.view.obj, tile.access.view.elem.bytes
    row, swizzle = elements * bytes, obj.swizzle
    if row % BOX_BYTES:
        raise c.type_error(
            f"a row of a TMA box is a multiple of {BOX_BYTES} bytes, and this one has {elements} x {bytes} = {row}",
            span,
            help="widen the tile",
        )
    if swizzle and row != swizzle and obj.uid not in c.unknown_layout:
        raise c.type_error(
            f"a row of a swizzled TMA box is as long as its swizzle: here {swizzle} bytes, and the row has {row}",
            span,
            secondary=(Label(obj.span, f"declared with `swizzle={swizzle}`"),),
            help=(
                f"`swizzle={row}`"
                if row in SWIZZLES
                else f"rows of {swizzle // bytes} elements, and a leading dimension of panels"
            ),
        )


def _origin(c: Checker, side: Side, at: tuple[ir.Expr, ...], whole: Span) -> tuple[ir.MemAccess, list[bool]]:
    """The first element in global memory, and which of its coordinates `at` moves; an index function must only move."""
    array, handle, view = side.memory, side.memory.handle, side.memory.view
    _array_of_boxes(c, array, side.span)
    if len(at) != array.rank:
        raise c.type_error(
            f"`{handle.name}` has {counted(array.rank, 'dimension')}, and `at` {len(at)}",
            whole,
            secondary=(Label(handle.span, counted(array.rank, "dimension")),),
            help="one index for each dimension: "
            + (f"`at=({', '.join('ijklm'[: array.rank])})`" if array.rank > 1 else "`at=i`"),
        )
    moves = [True] * len(view.shape or ())
    if array.map is not None:
        along = list(moved(array.map))
        moves = [param is not None for param, _ in along]
        if any(rest is None for _, rest in along) or sum(moves) < array.rank:
            raise c.type_error(
                f"`{handle.name}` is not a shifted part of its array, so a TMA box cannot address it",
                side.span,
                secondary=(Label(handle.span, "lowered here"),),
                help="use an index function of the form `lambda i, j: (m0 + i, n0 + j)`",
            )
    index = mapped(array, at)
    for i in index:
        if isinstance(i, ir.Const) and not convert.fits(int(i.value), I32):
            raise c.type_error(
                f"a coordinate of a TMA box is an `i32`, which cannot hold {i.value}",
                whole,
                help="pass the part of the array that is meant, or a partition of it that moves there",
            )
    return ir.MemAccess(view, tuple(convert.cast(i, I32) for i in index), handle, span=side.span), moves


# What a tensor map can describe, as far as the text tells: scalars, in a shape that is known, whose rows are aligned.
def _array_of_boxes(c: Checker, array: Memory, span: Span) -> None:
    handle, view = array.handle, array.view
    if view.shape is None or view.elem != handle.obj.elem or not isinstance(view.elem, Scalar):
        element = f"const({handle.obj.elem})" if handle.const else handle.obj.elem
        raise c.type_error(
            (
                f"TMA needs the shape of the array, and `{handle.name}` has none"
                if view.shape is None
                else f"TMA copies the array's own scalar elements, not `{view.elem}`"
            ),
            span,
            secondary=declared(handle.obj),
            help=(
                f"declare it `{handle.obj.name}: ptr({element}, (M, N)) @ grid[1]`"
                if view.shape is None
                else "copy it without `.view`"
            ),
        )
    if len(view.shape) > BOX_RANK:
        raise c.type_error(
            f"a TMA box has at most {BOX_RANK} dimensions, and `{handle.name}` has {len(view.shape)}",
            span,
            help="copy it in parts, or let the pointer have fewer dimensions",
        )
    last = view.shape[-1]
    if isinstance(last, ir.Const) and len(view.shape) > 1 and last.value * view.elem.bytes % BOX_BYTES:
        raise c.type_error(
            f"rows of `{handle.name}` have {last.value} x {view.elem.bytes} bytes; TMA needs a multiple of {BOX_BYTES}",
            span,
            secondary=declared(handle.obj),
            help="pad the rows",
        )


# In its row a box begins at a multiple of 16 bytes; one that is written begins at no negative index.  What only a
# launch tells is up to the machine.
def _begins(c: Checker, op: ir.BoxOp | None, origin: ir.MemAccess, array: Memory, span: Span) -> None:
    name, last = array.handle.name, origin.index[-1]
    if isinstance(last, ir.Const) and last.value * array.elem.bytes % BOX_BYTES:
        step = BOX_BYTES // array.elem.bytes
        raise c.type_error(
            f"a TMA box starts at a multiple of {BOX_BYTES} bytes in its row, and this one of `{name}` at"
            f" {last.value} x {array.elem.bytes}",
            span,
            help=f"copy from index {last.value // step * step} on, a multiple of {step}, and use what you need of it",
        )
    before = [i.value for i in origin.index if isinstance(i, ir.Const) and i.value < 0]
    if before and op is not None and op is not ir.BoxOp.LOAD:
        raise c.type_error(
            f"a TMA store starts inside of its array, and this one of `{name}` at index {before[0]}",
            span,
            note="it may end outside, where nothing is written; a TMA load may start outside as well",
            help="start at index 0 or later, and leave out of the tile what lies before the array",
        )
