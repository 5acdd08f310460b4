"""Addresses: elements of memory and of local arrays as CUDA lvalues.

Input:      `MemAccess`, `ArrayRef` with indices, whole views as arguments
Output:     CUDA lvalues and pointers
Invariant:  row-major; the index of an array whose size is only known at run time is computed in 64 bits; swizzled
            objects permute 16-byte chunks as TMA does
Non-goals:  bounds
"""

from __future__ import annotations

import math

from snap._compiler.codegen.core import tree
from snap._compiler.codegen.core.module import Helper
from snap._compiler.codegen.core.scope import Scope
from snap._compiler.codegen.core.spelling import type_name
from snap._compiler.codegen.memory import swizzles
from snap._compiler.codegen.values import fold
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.hardware import SWIZZLE_CHUNK
from snap._compiler.ir.types import I32, I64, Array, Scalar, Space, as_array, as_scalar
from snap.record import replace


def pointer(scope: Scope, view: ir.MemView) -> tree.Expr:
    """The start of the object, as a pointer to the view's elements."""
    name = tree.Name(scope.state.objects[view.obj.uid])
    if view.elem is view.obj.elem or view.elem == view.obj.elem:  # mostly the very same
        return name
    const = "const " if view.obj.const else ""
    return tree.Reinterpret(f"{const}{type_name(scope.module, view.elem)}*", name)


# Distributed shared memory: the same place in another block of the cluster.
AT_BLOCK = Helper(
    "snap_at_block",
    """\
template <typename Element>
static __device__ __forceinline__ Element* snap_at_block(Element* here, int block) {
    unsigned long long there;
    asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(here), "r"(block));
    return reinterpret_cast<Element*>(there);
}""",
    min_arch=90,
)


def base(scope: Scope, access: ir.MemAccess) -> tree.Expr:
    """The start of the object, or of its part in another block."""
    return _in_block(scope, access, pointer(scope, access.view))


def _in_block(scope: Scope, access: ir.MemAccess, start: tree.Expr) -> tree.Expr:
    """A place in the block's own part, or the same one in another block's."""
    if access.block is None:
        return start
    return tree.Call(scope.module.helper(AT_BLOCK), (start, scope.lower(access.block)))


def tile_start(scope: Scope, tile: ir.Tile) -> tree.Expr:
    """Compute where a tile begins, as TMA and the tensor cores count: they swizzle by themselves."""
    return fold.binary("+", base(scope, tile.access), linear(scope, tile.access.view, tile.access.index), I32)


def lvalue(scope: Scope, access: ir.MemAccess) -> tree.Expr:
    view = access.view
    start, last = _begins(access.index[-1])
    if start is not None and not view.obj.swizzle:
        return tree.Index(
            _in_block(scope, access, _from(scope, view, start)), linear(scope, view, (*access.index[:-1], last))
        )
    index = linear(scope, view, access.index)
    if view.obj.swizzle and view.elem.bytes <= SWIZZLE_CHUNK:
        index = swizzles.place(scope.module, view.obj.swizzle, view.elem.bytes, index)
    if start is None:
        return tree.Index(base(scope, access), index)
    # Swizzling moves whole elements of the view; what the part begins behind one stays.
    left_over = replace(start, left=ir.Binary("%", start.left, start.right, start.type, span=start.span))
    return tree.Index(_in_block(scope, access, _from(scope, view, left_over)), index)


def _begins(e: ir.Expr) -> tuple[ir.Binary | None, ir.Expr]:
    """The exact division in a sum, and what is left of the sum."""
    match e:
        case ir.Binary("/", exact=True):
            return e, ir.Const(0, as_scalar(e.type), span=e.span)
        case ir.Binary("+", left):
            start, rest = _begins(left)
            return (start, replace(e, left=rest)) if start is not None else (None, e)
    return None, e


def _from(scope: Scope, view: ir.MemView, start: ir.Binary) -> tree.Expr:
    """The view counted from the part's own first element: where that is not aligned for the view's, the access faults
    instead of moving down.
    """
    (by,) = ir.extents((start.right,))
    unit, const = view.elem.bytes // by, "const " if view.obj.const else ""
    name: tree.Expr = tree.Name(scope.state.objects[view.obj.uid])
    at = scope.lower(start.left)
    if unit != view.obj.elem.bytes:
        name, at = (
            tree.Reinterpret(f"{const}unsigned char*", name),
            fold.binary("*", _widened(at), tree.Integer(unit), I64),
        )
    return tree.Reinterpret(f"{const}{type_name(scope.module, view.elem)}*", tree.Binary("+", name, at))


def address(scope: Scope, access: ir.MemAccess) -> tree.Expr:
    return address_of(lvalue(scope, access))


def address_of(place: tree.Expr) -> tree.Expr:
    if isinstance(place, tree.Index) and place.index == tree.Integer(0):
        return place.base
    return tree.Unary("&", place)


def linear(scope: Scope, view: ir.MemView, index: tuple[ir.Expr, ...]) -> tree.Expr:
    """The offset of an element, row by row.  Where the array may have 2^31 elements or more, what an extent multiplies
    is 64 bits wide, and so is the product: an offset above 2^31 comes about in no other way.  Only the sum of a leading
    zero and an index needs no width of its own.
    """
    first, *rest = (scope.lower(i) for i in index)
    if view.shape is None or not rest:
        return first
    known = ir.extents(view.shape)
    small = len(known) == len(view.shape) and math.prod(known) < 1 << 31
    wide = view.obj.space is not Space.SHARED and not small
    type = I64 if wide else I32
    total, narrow = first, wide and as_scalar(index[0].type).bits < 64
    for dim, i, at in zip(view.shape[1:], index[1:], rest):
        if isinstance(total, tree.Integer) and total.value == 0:
            total, narrow = at, wide and as_scalar(i.type).bits < 64
            continue
        row = scope.lower(dim)
        if narrow and total == tree.Integer(1):
            total, row = row, total
        total = fold.binary("+", fold.binary("*", _widened(total) if narrow else total, row, type), at, type)
        narrow = False
    return total


def _widened(value: tree.Expr) -> tree.Expr:
    """A 32-bit integer as one of 64 bits."""
    return tree.Integer(value.value, "ll") if isinstance(value, tree.Integer) else tree.Cast("long long", value)


# ---- local arrays ---------------------------------------------------------------------------------------------------


def own_shape(array: ir.ArrayRef) -> bool:
    own = as_array(array.var.type)
    return (array.elem, array.shape) == (own.elem, own.shape)


def element(scope: Scope, array: ir.ArrayRef, index: tuple[ir.Expr, ...]) -> tree.Expr:
    name: tree.Expr = tree.Name(scope.state.variables[array.var.uid])
    if own_shape(array):
        for i in index:
            name = tree.Index(name, scope.lower(i))
        return name
    total: tree.Expr = scope.lower(index[0])
    for n, i in zip(array.shape[1:], index[1:]):
        total = fold.binary("+", fold.binary("*", total, tree.Integer(n), I32), scope.lower(i), I32)
    const = "const " if array.var.uid in scope.state.constants else ""
    return tree.Index(tree.Reinterpret(f"{const}{type_name(scope.module, array.elem)}*", name), total)


def start(scope: Scope, array: ir.ArrayRef) -> tree.Expr:
    """A local array, or a window of one, as it was declared: its row or rows."""
    name: tree.Expr = tree.Name(scope.state.variables[array.var.uid])
    for i in array.at:
        name = tree.Index(name, scope.lower(i))
    return name


def whole(scope: Scope, array: ir.ArrayRef, want: Array, const: bool) -> tree.Expr:
    """A local array, or a window of one, as an argument; seen with another type where the parameter has one."""
    name, own = start(scope, array), as_array(array.var.type)
    if (want.elem, want.shape) == (own.elem, own.shape[len(array.at) :]):
        return name
    dims = "".join(f"[{n}]" for n in want.shape)
    return tree.Reinterpret(f"{'const ' if const else ''}{type_name(scope.module, want.elem)} (&){dims}", name)


def natural_align(array: Array) -> int:
    """16-bit and narrower arrays lie in whole registers, so that pairs can be operands of tensor-core instructions."""
    narrow = isinstance(array.elem, Scalar) and array.elem.bytes < 4 and array.bytes % 4 == 0
    return 4 if narrow else 0
