"""Boxes between global and shared memory (TMA): `async_copy(dst, src, at=...)`, `async_reduce(dst, src, at=...)`.

Input: the tree of a call.  Output: a `BoxCopy`.  Invariant: the tile is contiguous, begins where the hardware lets a
box begin, and its extents are those a box can have; what is written belongs to the code's privilege; a box that goes
into every block's copy is issued by all blocks alike. Non-goals: when it has arrived (sync/), the array's own alignment
(runtime/).
"""

from __future__ import annotations

import math

from snap.check import convert
from snap.check.explain import const_label, declared, read_down
from snap.check.intrinsics import text_option
from snap.check.known import decided_below, differs, divisor
from snap.check.memory import agreed_in, foreign, indices, mapped, memory_argument, unit_stride
from snap.check.rewrite import variables
from snap.check.state import Frame, Memory, State, Touch, Want
from snap.diag.error import Label
from snap.diag.span import Span
from snap.frontend import tree
from snap.ir import nodes as ir
from snap.ir.hardware import BOX_BYTES, BOX_EXTENT, BOX_RANK, SWIZZLES, box_align
from snap.ir.types import BF16, BLOCK1, BOOL, CLUSTER1, F16, F32, F64, I32, I64, THREAD1, U32, U64, Level, Scalar, Space

FORMS = {
    "async_copy": (
        'in: `async_copy(tile, a, at=(i, j))`, rounded with `type="tf32"`; out: `async_copy(a, tile, at=(i, j))`'
    ),
    "async_reduce": '`async_reduce(a, tile, at=(i, j), op="add")`',
}
REDUCTIONS = {
    "add": (I32, U32, U64, F16, BF16, F32, F64),
    **{op: (I32, U32, I64, U64, F16, BF16) for op in ("min", "max")},
    **{op: (I32, U32, I64, U64) for op in ("and", "or", "xor")},
}


def box_copy(c: State, e: tree.Call) -> None:
    to, source, at, options = _arguments(c, e, "async_copy")
    tf32 = text_option(c, options, "type", ("tf32",), "") == "tf32"
    if options:
        raise c.type_error(
            f"`async_copy` of a box has no option `{next(iter(options))}`", e.span, help=FORMS["async_copy"]
        )
    spaces = to.handle.obj.space, source.handle.obj.space
    if spaces[0] is spaces[1]:
        raise c.type_error(
            "a box goes between global and shared memory, and both of these are"
            f" {'the same' if Space.GENERIC in spaces else spaces[0].value}",
            e.span,
            help=(
                "say which one is shared: `ptr(shared(bf16), (64, 64))`"
                if Space.GENERIC in spaces
                else FORMS["async_copy"]
            ),
        )
    if to.handle.obj.space is Space.GLOBAL or source.handle.obj.space is Space.SHARED:
        _written(c, to, e.args[0].span)
        _readable(c, source, e.args[1].span)
        if tf32:
            raise c.type_error(
                "a box is rounded to tf32 when it is loaded, not when it is stored",
                e.span,
                help="leave `type=` out: what is in shared memory is stored as it is",
            )
        _emit(c, "store", source, e.args[1].span, to, e.args[0].span, at, e.span)
    else:
        _written(c, to, e.args[0].span)
        _readable(c, source, e.args[1].span)
        if tf32 and source.elem != F32:
            raise c.type_error(
                f"elements of f32 are rounded to tf32, and `{source.handle.name}` holds `{source.elem}`",
                e.args[1].span,
                secondary=declared(source.handle.obj),
                help="leave `type=` out: other elements are loaded as they are",
            )
        _emit(c, "load", to, e.args[0].span, source, e.args[1].span, at, e.span, tf32)


# A reduction is atomic, element by element: the array may be at any privilege.
def box_reduce(c: State, e: tree.Call) -> None:
    to, source, at, options = _arguments(c, e, "async_reduce")
    op = text_option(c, options, "op", tuple(REDUCTIONS), "add")
    if options:
        raise c.type_error(f"`async_reduce` has no option `{next(iter(options))}`", e.span, help=FORMS["async_reduce"])
    if to.handle.obj.space is Space.SHARED or source.handle.obj.space is Space.GLOBAL:
        raise c.type_error("`async_reduce` goes from shared to global memory", e.span, help=FORMS["async_reduce"])
    if to.elem not in REDUCTIONS[op]:
        can = ", ".join(map(str, REDUCTIONS[op]))
        raise c.type_error(
            f"`async_reduce` cannot `{op}` elements of `{to.elem}`", e.span, help=f"`{op}` works on {can}"
        )
    _not_const(c, to, e.args[0].span)
    _readable(c, source, e.args[1].span)
    c.touches.append(Touch(to.handle.obj, "`async_reduce`", e.span))
    _emit(c, op, source, e.args[1].span, to, e.args[0].span, at, e.span)


def _arguments(c: State, e: tree.Call, word: str) -> tuple[Memory, Memory, tuple[ir.Expr, ...], dict[str, tree.Expr]]:
    c.effects_allowed("a copy", e.span)
    options = dict(e.keywords)
    if len(e.args) != 2 or "at" not in options:
        raise c.type_error(
            f"`{word}` takes where to, where from, and `at=`, where in the array the box is", e.span, help=FORMS[word]
        )
    if not BLOCK1.at_least(c.privilege):
        raise c.fail(
            "SNAP016",
            f"a box is copied by a block, or by threads of one, and this code runs at `{c.privilege}`",
            e.span,
            "issued here",
            (c.holding,),
            help="claim the memory for a group of threads, or open `with group(block[1]):`",
        )
    to, source = (memory_argument(c, a, f"`{word}` of a box", c.privilege) for a in e.args)
    place = options.pop("at")
    items = place.items if isinstance(place, tree.Sequence) else (place,)
    at = indices(c, items, Want(c.privilege, f"places the box that `{c.privilege}` copies", agree=True))
    return to, source, at, options


# Read up: what is copied is at or above the code's privilege.
def _readable(c: State, memory: Memory, span: Span) -> None:
    handle = memory.handle
    if not handle.privilege.at_least(c.privilege):
        want = Want(c.privilege, f"is copied once for `{c.privilege}`")
        help = (
            f"copy `{handle.base.name}` itself, outside of the scope of `{handle.name}`: there it is whole"
            if handle.base is not None
            else f"declare it at `{c.privilege}` or above"
        )
        raise read_down(c, f"`{handle.name}`", handle.privilege, handle.span, want, span, help)


def _not_const(c: State, memory: Memory, span: Span) -> None:
    handle = memory.handle
    if handle.const:
        raise c.fail(
            "SNAP009", f"`{handle.name}` is const and cannot be written", span, secondary=(const_label(handle),)
        )


# A collective that writes memory needs the memory's privilege to equal the code's.
def _written(c: State, memory: Memory, span: Span) -> None:
    handle = memory.handle
    _not_const(c, memory, span)
    if handle.privilege == c.privilege:
        return
    deeper = c.privilege.at_least(handle.privilege)
    frame = c.innermost("group", "split", "function")
    if c.privilege == THREAD1 and frame.kind == "group" and BLOCK1.at_least(handle.privilege):
        raise _by_single_threads(c, handle, frame, span)
    raise c.fail(
        "SNAP009",
        f"a box is written by the group it belongs to: `{handle.name}` is at `{handle.privilege}`, and this code at"
        f" `{c.privilege}`",
        span,
        "written here",
        (Label(handle.span, f"at privilege `{handle.privilege}` here"),),
        note="otherwise every group of it would issue the same copy" if not deeper else "",
        help=f"copy it in `with group({handle.privilege}):`" if deeper else _give(c, handle),
    )


# CUDA's habit: one thread issues.  Here the group that owns the memory does, and the compiler picks the thread.
def _by_single_threads(c: State, handle: ir.Handle, frame: Frame, span: Span) -> Exception:
    chosen = any(f.kind == "if" for f in c.frames[c.frames.index(frame) :])
    return c.fail(
        "SNAP009",
        f"a box is written once, by the group it belongs to: `{handle.name}` is at `{handle.privilege}`, and here each"
        " thread acts for itself",
        span,
        "written here",
        (
            Label(handle.span, f"at privilege `{handle.privilege}` here"),
            Label(frame.span, "from here each thread acts for itself"),
        ),
        note="the compiler lets one thread of the group issue the copy",
        help=(
            f"take the copy out of `group(thread[1])`{', and of the `if`' if chosen else ''}: `{handle.privilege}` does"
            " it once, as a whole"
        ),
    )


def _give(c: State, handle: ir.Handle) -> str:
    """How memory comes to the group of the code."""
    index = "(b, i, j)" if handle.obj.spread == "across" else "(m0 + i, n0 + j)"
    part = f"`with partition({handle.name}, p={c.privilege}, f=lambda i, j: {index}) as mine:`"
    if c.privilege.level is not Level.THREAD or handle.obj.space is Space.GLOBAL:
        return f"hand it out, outside of this group: {part}"
    return f"give it to this group, outside of it: `with claim({handle.name}, p={c.privilege}) as mine:`, or {part}"


# ---- tiles ----------------------------------------------------------------------------------------------------------


def tile_of(c: State, memory: Memory, what: str, span: Span) -> ir.Tile:
    """The box of shared memory that a name shows, in the dimensions of its view."""
    handle, view = memory.handle, memory.view
    if handle.obj.space is Space.GLOBAL:
        raise c.type_error(f"{what} works on shared memory, and `{handle.name}` is global", span)
    if not isinstance(view.elem, Scalar) or view.elem == BOOL:
        raise c.type_error(
            f"{what} works on scalars, and `{handle.name}` holds `{view.elem}`",
            span,
            help="take the tile without `.view`",
        )
    block = None if memory.map is None else memory.map.block
    if foreign(c, block) is not None:
        named = any(p in variables(block) for p in memory.map.params)
        raise c.type_error(
            (
                f"`{handle.name}` shows the parts of all blocks; {what} works on one's own"
                if named
                else f"{what} works on the block's own part of `{handle.name}`"
            ),
            span,
            secondary=(Label(handle.obj.span, "across the blocks of the cluster"),),
            help=(
                "claim it for threads, or partition it with the block's own rank, `b: int @ block[1] = id()`, as first"
                " index"
            ),
        )
    if view.shape is None:
        raise _unknown_size(c, handle, what, span)
    start, shape, params = [], [], list(memory.map.params) if memory.map is not None else []
    for k, n in enumerate(view.shape):
        if memory.map is None:
            first, extent = ir.Const(0, I32, span=span), n
        else:
            first, extent = memory.map.results[k], ir.Const(1, I32, span=span)
            used = [p for p in memory.map.params if p in variables(first)]
            if used:
                rest = unit_stride(first, used[0]) if used == params[:1] else None
                if rest is None:
                    raise c.type_error(
                        f"`{handle.name}` is no box: its elements do not lie side by side, in order",
                        span,
                        secondary=(Label(handle.span, "its index function does more than move it"),),
                        help="use an index function of the form `lambda i, j: (r + i, j)`",
                    )
                params.pop(0)
                at = len(memory.map.params) - len(params) - 1
                extent = (
                    memory.shape[at]
                    if memory.shape is not None
                    else n
                    if isinstance(rest, ir.Const) and rest.value == 0
                    else None
                )
                first = rest
        if not isinstance(extent, ir.Const):
            raise _unknown_size(c, handle, what, span)
        start.append(first)
        shape.append(extent.value)
    if params:
        raise c.type_error(
            f"`{handle.name}` is no box: one of its indices chooses nothing",
            span,
            secondary=(Label(handle.span, "made here"),),
        )
    return ir.Tile(ir.MemAccess(view, tuple(start), handle, span=span), tuple(shape))


def _unknown_size(c: State, handle: ir.Handle, what: str, span: Span) -> Exception:
    return c.type_error(
        f"{what} has to know how large `{handle.name}` is",
        span,
        secondary=(Label(handle.span, "this name does not say it"),),
        help=f"name the box: `tile({handle.name}, (0, 0), (64, 64))`",
    )


def dimensions(tile: ir.Tile) -> list[int | None]:
    """The extents of the array that a tile lies in; None where only a launch tells."""
    return [n.value if isinstance(n, ir.Const) else None for n in tile.access.view.shape]


def core(shape: tuple[int, ...], least: int = 1) -> tuple[int, ...]:
    """The extents without leading ones; at least so many."""
    while len(shape) > least and shape[0] == 1:
        shape = shape[1:]
    return shape


# A box begins at a multiple of 128 bytes; a swizzled one where its pattern begins, every 8 rows.
def aligned(c: State, tile: ir.Tile, memory: Memory, what: str, span: Span) -> None:
    obj = tile.access.view.obj
    if obj.uid in c.unknown_layout:
        return
    need = box_align(obj.swizzle)
    stride = tile.access.view.elem.bytes
    dims = dimensions(tile)
    for k in reversed(range(len(dims))):
        known = divisor(c, tile.access.index[k]) * stride
        if known % need:
            raise _misaligned(c, tile, memory, k, need, stride, what, span)
        stride *= dims[k] or 1


def _misaligned(
    c: State, tile: ir.Tile, memory: Memory, k: int, need: int, stride: int, what: str, span: Span
) -> Exception:
    obj, name = tile.access.view.obj, tile.access.handle.name
    if obj.depth and k == 0:
        return c.type_error(
            f"a slot of `{obj.name}` takes {stride} bytes, so that slots do not begin at multiples of {need}, where"
            f" {what} needs them",
            span,
            secondary=declared(obj),
            help=f"pad the array, so that a slot takes {(stride + need - 1) // need * need} bytes",
        )
    step = need // math.gcd(need, stride)
    at = tile.access.index[k]
    begins = "begins" if isinstance(at, ir.Const) else "may begin"
    return c.type_error(
        f"{what} needs a tile that begins at a multiple of {need} bytes, and this one of `{name}` {begins} elsewhere",
        span,
        f"{_position(memory, k)} must be a multiple of {step}",
        (Label(obj.span, "declared here"),),
        note="the rows of a swizzled tile repeat their pattern every 8 rows" if obj.swizzle else "",
        help=(
            f"begin at {at.value // step * step} or {at.value // step * step + step}, not at {at.value}"
            if isinstance(at, ir.Const)
            else f"show it in the text: `{step} * i`"
        ),
    )


def _position(memory: Memory, k: int) -> str:
    """What decides index k of the object, counted as the user writes: a stage's slot, a part's own index are not in the
    text.
    """
    if memory.map is None:
        return f"index {k} of its position"
    used = [n for n, p in enumerate(memory.map.params) if p in variables(memory.map.results[k])]
    return f"index {used[0]} of its position" if used else f"index {k} that its index function returns"


# ---- the statement --------------------------------------------------------------------------------------------------


def _emit(
    c: State,
    op: str,
    tile_memory: Memory,
    tile_span: Span,
    array: Memory,
    array_span: Span,
    at: tuple[ir.Expr, ...],
    span: Span,
    tf32: bool = False,
) -> None:
    what = "a box copy"
    origin, free = _origin(c, array, array_span, at, span)
    tile = tile_of(c, tile_memory, what, tile_span)
    name, elem = tile_memory.handle.name, tile.access.view.elem
    if elem != array.elem:
        raise c.type_error(
            f"a box is copied as it is: `{name}` holds `{elem}`, and `{array.handle.name}` `{array.elem}`",
            span,
            secondary=(
                Label(tile.access.view.obj.span, f"elements of `{elem}`"),
                Label(array.handle.obj.span, f"elements of `{array.elem}`"),
            ),
            help=(
                f"declare `{tile.access.view.obj.name}` with elements of `{array.elem}`, and convert them where they"
                f" are used: `{elem}(...)`"
            ),
        )
    rank = len(origin.view.shape)
    box = core(tile.shape)
    if len(box) > rank:
        raise c.type_error(
            f"`{name}` is a box of {' x '.join(map(str, box))}, and `{array.handle.name}` has {rank} dimension(s)",
            tile_span,
            secondary=declared(array.handle.obj),
            help=f"copy one part at a time: `tile({name}, ...)` with leading dimensions of 1",
        )
    box = (1,) * (rank - len(box)) + box
    for k, (extent, moves) in enumerate(zip(box, free)):
        if extent > BOX_EXTENT:
            raise c.type_error(
                f"an extent of a box is at most {BOX_EXTENT}, and this is {extent}",
                tile_span,
                help=f"copy it in several boxes: `tile({name}, ...)`",
            )
        if extent > 1 and not moves:
            raise c.type_error(
                f"`{array.handle.name}` stays in one place in dimension {k}, where the box has an extent of {extent}",
                array_span,
                secondary=(Label(array.handle.span, "its index function has no index there"),),
            )
    _contiguous(c, tile, name, tile_span)
    row = box[-1] * elem.bytes
    swizzle = tile.access.view.obj.swizzle
    if row % BOX_BYTES:
        raise c.type_error(
            f"a row of a box is a multiple of 16 bytes, and this has {box[-1]} x {elem.bytes} = {row}",
            tile_span,
            help="widen the tile",
        )
    if swizzle and row != swizzle and tile.access.view.obj.uid not in c.unknown_layout:
        raise c.type_error(
            f"a row of a swizzled box is as long as its swizzle: here {swizzle} bytes, and the row has {row}",
            tile_span,
            secondary=(Label(tile.access.view.obj.span, f"declared with `swizzle={swizzle}`"),),
            help=(
                f"`swizzle={row}`"
                if row in SWIZZLES
                else f"rows of {swizzle // elem.bytes} elements, and a leading dimension of panels"
            ),
        )
    aligned(c, tile, tile_memory, what, tile_span)
    _begins(c, op, origin, array, span)
    if op == "load" and tile.access.view.obj.spread == "copies":
        _alike(c, tile, origin, box, span, tile_span)
    c.out.append(ir.BoxCopy(op, tile, origin, box, c.place, tf32=tf32, span=span))


def _origin(
    c: State, array: Memory, span: Span, at: tuple[ir.Expr, ...], whole: Span
) -> tuple[ir.MemAccess, list[bool]]:
    """The first element in global memory, and which of its coordinates `at` moves; an index function must only move."""
    handle, view = array.handle, array.view
    element = f"const({handle.obj.elem})" if handle.const else handle.obj.elem
    if view.shape is None or view.elem != handle.obj.elem or not isinstance(view.elem, Scalar):
        raise c.type_error(
            (
                f"a box needs the shape of its array, and `{handle.name}` has none"
                if view.shape is None
                else f"a box is copied of the array's own elements, scalars, not of `{view.elem}`"
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
        raise c.type_error(f"a box has at most {BOX_RANK} dimensions, and `{handle.name}` has {len(view.shape)}", span)
    last = view.shape[-1]
    if isinstance(last, ir.Const) and len(view.shape) > 1 and last.value * view.elem.bytes % BOX_BYTES:
        raise c.type_error(
            f"rows of `{handle.name}` have {last.value} x {view.elem.bytes} bytes; for boxes that must be a multiple"
            " of 16",
            span,
            secondary=declared(handle.obj),
            help="pad the rows",
        )
    if len(at) != array.rank:
        raise c.type_error(
            f"`{handle.name}` has {array.rank} dimension(s), and `at` {len(at)}",
            whole,
            secondary=(Label(handle.span, f"{array.rank} dimension(s)"),),
            help="one index for each dimension: "
            + (f"`at=({', '.join('ijklm'[: array.rank])})`" if array.rank > 1 else "`at=i`"),
        )
    moves = [True] * len(view.shape)
    if array.map is not None:
        left = list(array.map.params)
        for k, result in enumerate(array.map.results):
            used = [p for p in array.map.params if p in variables(result)]
            moves[k] = bool(used)
            if used and (used != left[:1] or unit_stride(result, left.pop(0)) is None):
                left = [used[0]]
                break
        if left:
            raise c.type_error(
                f"`{handle.name}` is not a part of the array that was only moved: a box of it is no box of the array",
                span,
                secondary=(Label(handle.span, "lowered here"),),
                help="use an index function of the form `lambda i, j: (m0 + i, n0 + j)`",
            )
    index = mapped(array, at)
    for i in index:
        if isinstance(i, ir.Const) and not convert.fits(i.value, I32):
            raise c.type_error(f"a coordinate of a box is an `i32`, which does not hold {i.value}", whole)
    index = tuple(convert.cast(i, I32) for i in index)
    return ir.MemAccess(view, index, handle, span=span), moves


# In its row a box begins at a multiple of 16 bytes; one that is written begins at no negative index.  What only a
# launch tells is up to the machine.
def _begins(c: State, op: str, origin: ir.MemAccess, array: Memory, span: Span) -> None:
    name, last = array.handle.name, origin.index[-1]
    if isinstance(last, ir.Const) and last.value * array.elem.bytes % BOX_BYTES:
        step = BOX_BYTES // array.elem.bytes
        raise c.type_error(
            f"a box begins at a multiple of 16 bytes in its row, and this one of `{name}` at {last.value} x"
            f" {array.elem.bytes}",
            span,
            help=f"copy from index {last.value // step * step} on, a multiple of {step}, and use what you need of it",
        )
    before = [i.value for i in origin.index if isinstance(i, ir.Const) and i.value < 0]
    if before and op != "load":
        raise c.type_error(
            f"a box that is written begins inside of its array, and this one of `{name}` at index {before[0]}",
            span,
            note="it may end outside, where nothing is written; and a box that is read may begin outside as well",
        )


def _contiguous(c: State, tile: ir.Tile, name: str, span: Span) -> None:
    dims = dimensions(tile)
    first = next((k for k, n in enumerate(tile.shape) if n != 1), len(dims))
    for k in range(first + 1, len(dims)):
        if tile.shape[k] != dims[k]:
            raise c.type_error(
                f"this box of `{name}` lies in pieces: it has {tile.shape[k]} of the {dims[k]} elements of"
                f" dimension {k}",
                span,
                "not contiguous",
                secondary=declared(tile.access.view.obj),
                help="take whole rows, or make panels: a leading dimension that holds one box after another",
            )


# Every block issues its share of the rows, for all blocks: so all of them must get here, equally often, with the same
# box.
def _alike(c: State, tile: ir.Tile, origin: ir.MemAccess, box: tuple[int, ...], span: Span, tile_span: Span) -> None:
    obj, start = tile.access.view.obj, c.frames[0].place
    declared = Label(obj.span, "every block of the cluster holds a copy")
    if start.held(Level.CLUSTER) is None:
        raise c.fail(
            "SNAP006",
            f"a copy into all blocks' copies of `{obj.name}` is issued by every block alike, and a function at"
            f" `{start.privilege}` cannot tell",
            span,
            help="issue it in the kernel, or in a function that requires `cluster[1]`",
        )
    for frame in c.frames:
        if frame.branch is not None and frame.branch.level >= Level.BLOCK:
            raise c.fail(
                "SNAP006",
                f"a copy into all blocks' copies of `{obj.name}` is issued by every block, and only some of them come"
                " here",
                span,
                secondary=(declared, Label(frame.span, "these blocks only")),
                help="issue it outside of this split",
            )
    apart = decided_below(c, CLUSTER1, c.frames)
    where = differs(c, CLUSTER1, *origin.index, *tile.access.index)
    if apart is not None or where is not None:
        way, what = apart or (None, where)
        raise c.fail(
            "SNAP006",
            f"every block of the cluster issues its share of this copy into `{obj.name}`, and the blocks may "
            + ("come here differently often" if apart is not None else "mean different boxes"),
            span,
            "must be the same in all blocks",
            (declared, Label(what.span if what is not None else way.span, "may differ between blocks")),
            note="a block that has not sent its share leaves a hole in all the others' copies",
            help="decide it with values at `cluster[1]` or above"
            + ("; or declare the memory `across=block`" if apart is None else ""),
        )
    decides = (*(e for frame in c.frames for e in frame.decides), *origin.index, *tile.access.index)
    agreed_in(c, decides, Want(CLUSTER1, "decides about a copy that all blocks of the cluster issue alike"))
    blocks = start.held(Level.BLOCK).count
    rows = core(box)[0]
    share = math.prod(box) // rows * (rows // blocks) * tile.access.view.elem.bytes
    need = box_align(obj.swizzle)
    if rows % blocks or share % need:
        raise c.type_error(
            (
                f"each of the {blocks} blocks copies a share of the {rows} rows, and that does not come out even"
                if rows % blocks
                else (
                    f"each of the {blocks} blocks copies {rows // blocks} rows, {share} bytes; it must be a multiple of"
                    f" {need}"
                )
            ),
            tile_span,
            secondary=(declared,),
            help=f"choose a number of rows that {blocks} divides" if rows % blocks else "make the box larger",
        )
