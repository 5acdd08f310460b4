"""Find tiles: the boxes of shared memory that names show, for copies of boxes and for products.

Input: a `Memory`.  Output: an `ir.Tile`.  Invariant: a tile is a box of its object, whose extents are known; it is
contiguous, and begins where the hardware lets a box begin, where that is asked.  Non-goals: the box's place in global
memory (check/operations/boxes.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from snap._compiler.analysis.syntactic import divisor
from snap._compiler.check.core.bindings import IndexMap, Memory
from snap._compiler.check.core.explain import declared
from snap._compiler.check.core.known import as_constant
from snap._compiler.check.core.rewrite import variables
from snap._compiler.check.core.state import Checker
from snap._compiler.check.memory.accesses import foreign
from snap._compiler.check.memory.storage import unit_stride
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.hardware import box_align
from snap._compiler.ir.types import BOOL, I32, Scalar, Space
from snap.diag.error import Label
from snap.diag.span import Span


def tile_of(c: Checker, memory: Memory, what: str, span: Span) -> ir.Tile:
    """The box of shared memory that a name shows, in the dimensions of its view."""
    handle, view = memory.handle, memory.view
    _own_scalars(c, memory, what, span)
    if view.shape is None:
        raise _unknown_size(c, handle, what, span)
    start, shape = [], []
    for first, extent in _window(c, memory, span):
        known = None if extent is None else as_constant(c, extent, write_out=True)
        if known is None:
            raise _unknown_size(c, handle, what, span)
        start.append(first)
        shape.append(int(known.value))
    return ir.Tile(ir.MemAccess(view, tuple(start), handle, span=span), tuple(shape))


# A tile is made of scalars in the block's own shared memory.
def _own_scalars(c: Checker, memory: Memory, what: str, span: Span) -> None:
    handle, elem = memory.handle, memory.view.elem
    if handle.obj.space is Space.GLOBAL:
        raise c.type_error(
            f"{what} works on shared memory, and `{handle.name}` is global",
            span,
            help="copy it there first: `async_copy(tile, a, at=(i, j))`",
        )
    if not isinstance(elem, Scalar) or elem == BOOL:
        raise c.type_error(
            f"{what} works on scalars, and `{handle.name}` holds `{elem}`", span, help="take the tile without `.view`"
        )
    map = memory.map
    if map is not None and map.block is not None and foreign(c, map.block) is not None:
        named = any(p in variables(map.block) for p in map.params)
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


def _window(c: Checker, memory: Memory, span: Span) -> Iterator[tuple[ir.Expr, ir.Expr | None]]:
    """For each dimension of the view, where the box begins in it and its extent; None where the name does not say
    that.
    """
    map, handle, shape = memory.map, memory.handle, memory.view.shape or ()
    if map is None:
        yield from ((ir.Const(0, I32, span=span), n) for n in shape)
        return
    left = list(map.params)
    for n, (param, first) in zip(shape, moved(map)):
        if first is None:
            raise c.type_error(
                f"`{handle.name}` is not a box: its elements are not contiguous, in order",
                span,
                secondary=(Label(handle.span, "its index function does more than move it"),),
                help="use an index function of the form `lambda i, j: (r + i, j)`",
            )
        if param is None:
            yield first, ir.Const(1, I32, span=span)
        else:
            left.remove(param)
            begins = isinstance(first, ir.Const) and first.value == 0
            extents = memory.shape
            yield first, extents[map.params.index(param)] if extents is not None else n if begins else None
    if left:
        raise c.type_error(
            f"`{handle.name}` is not a box: one of its indices selects nothing",
            span,
            secondary=(Label(handle.span, "made here"),),
            help="let the index function only move the indices: `lambda i, j: (m0 + i, n0 + j)`",
        )


def moved(map: IndexMap) -> Iterator[tuple[ir.Var | None, ir.Expr | None]]:
    """For each index that an index function returns: the parameter it depends on, if it does, and what is added to
    that.  None is added where the function does more than move: where parameters do not come in their order, each
    once, as they are.
    """
    left = list(map.params)
    for result in map.results:
        used = [p for p in map.params if p in variables(result)]
        if not used:
            yield None, result
        else:
            yield used[0], unit_stride(result, left.pop(0)) if used == left[:1] else None


def _unknown_size(c: Checker, handle: ir.Handle, what: str, span: Span) -> Exception:
    return c.type_error(
        f"{what} has to know how large `{handle.name}` is",
        span,
        secondary=(Label(handle.span, "this name does not say it"),),
        help=f"name the box: `tile({handle.name}, (0, 0), (64, 64))`",
    )


def dimensions(tile: ir.Tile) -> list[int | None]:
    """The extents of the array that a tile lies in; None where only a launch tells."""
    return [int(n.value) if isinstance(n, ir.Const) else None for n in tile.access.view.shape or ()]


def core(shape: tuple[int, ...], least: int = 1) -> tuple[int, ...]:
    """The extents without leading ones; at least so many."""
    while len(shape) > least and shape[0] == 1:
        shape = shape[1:]
    return shape


# A box begins at a multiple of 128 bytes; a swizzled one where its pattern begins, every 8 rows.
def aligned(c: Checker, tile: ir.Tile, memory: Memory, what: str, span: Span) -> None:
    obj = tile.access.view.obj
    if obj.uid in c.unknown_layout:
        return
    need = box_align(obj.swizzle)
    stride = tile.access.view.elem.bytes
    dims = dimensions(tile)
    for k in reversed(range(len(dims))):
        known = divisor(tile.access.index[k], c.text) * stride
        if known % need:
            raise _misaligned(c, tile, memory, k, need, stride, what, span)
        stride *= dims[k] or 1


def _misaligned(
    c: Checker, tile: ir.Tile, memory: Memory, k: int, need: int, stride: int, what: str, span: Span
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
    """Find what decides index k of the object, counted as the user writes: a stage's slot and a part's own index are
    not in the text.
    """
    if memory.map is None:
        return f"index {k} of its position"
    used = [n for n, p in enumerate(memory.map.params) if p in variables(memory.map.results[k])]
    return f"index {used[0]} of its position" if used else f"index {k} that its index function returns"


def contiguous(c: Checker, tile: ir.Tile, name: str, span: Span) -> None:
    dims = dimensions(tile)
    first = next((k for k, n in enumerate(tile.shape) if n != 1), len(dims))
    for k in range(first + 1, len(dims)):
        if tile.shape[k] != dims[k]:
            raise c.type_error(
                f"this box of `{name}` is not contiguous: it has {tile.shape[k]} of the {dims[k]} elements of"
                f" dimension {k}",
                span,
                "not contiguous",
                secondary=declared(tile.access.view.obj),
                help="take whole rows, or make panels: a leading dimension that holds one box after another",
            )
