"""Describe what a kernel takes, in the form that launches are checked against.

Input:      a specialized kernel's parameters in the typed IR
Output:     `Signature`: one `Pointer` or `ValueArgument` a parameter, and what the number of blocks is a multiple of
Invariant:  a shape is kept as Python text over the scalar parameters, so that the checked path and the generated fast
            path evaluate the same thing
Non-goals:  looking at arguments
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.hardware import WIDEST
from snap._compiler.ir.integers import divide, remainder
from snap._compiler.ir.launches import MOST_BLOCKS, most_blocks
from snap._compiler.ir.types import BF16, Array, Level, Scalar, ScalarKind, ValueType, Vector, scalar_of
from snap.host.arguments.alignment import whole_rows, widest
from snap.host.arguments.sizes import LaunchShared, shared_of
from snap.host.errors import InternalError
from snap.record import record

_PACK = {
    "bool": "?",
    "i8": "b",
    "i16": "h",
    "i32": "i",
    "i64": "q",
    "u8": "B",
    "u16": "H",
    "u32": "I",
    "u64": "Q",
    "f16": "e",
    "bf16": "H",
    "f32": "f",
    "f64": "d",
}


@record
class Pointer:
    """dims: None, or Python text of a tuple over the names `a0`, `a1`, ... of the arguments.

    align: what every array's address must be a multiple of, in bytes.  widest: what fits every access in the kernel; an
    array whose address is no multiple of it fits some launches only (follow.py).  whole: the same of the last
    dimension, in elements.  layout: of records, which are numbers of this type one after the other.
    """

    name: str
    elem: Scalar
    lanes: int
    const: bool
    dims: str | None
    widest: int = 1
    whole: int = 1
    layout: ir.RecordLayout | None = None

    @property
    def align(self) -> int:
        return min(self.elem.bytes * self.lanes, WIDEST)

    @property
    def units(self) -> int:
        """Count the numbers that one record is made of; 1 of what is no record."""
        return 1 if self.layout is None else self.layout.bytes // self.elem.bytes

    @property
    def type_name(self) -> str:
        if self.layout is not None:
            return f"`{self.layout.name}`"
        return str(self.elem if self.lanes == 1 else Vector(self.elem, self.lanes))


@record
class ValueArgument:
    name: str
    type: ValueType

    @property
    def scalar(self) -> Scalar:
        return scalar_of(self.type)

    @property
    def count(self) -> int:
        """Count the scalars that it is made of."""
        match self.type:
            case Scalar():
                return 1
            case Vector(lanes=lanes):
                return lanes
            case Array(elem=elem) as array:
                return array.size * (elem.lanes if isinstance(elem, Vector) else 1)
            case other:
                raise InternalError(f"a kernel parameter of type {other}")

    @property
    def packing(self) -> str:
        return _PACK[self.scalar.name] * self.count


@record
class Signature:
    """`multiple`: what `@requires` promised the number of blocks to be a multiple of.  `cluster`: blocks a cluster, 0
    without clusters.  `axes`: the dimensions of the grid whose extents are the last of the parameters: a launch knows
    them, and users do not pass them.  `most`: how many blocks it may have.
    """

    kernel: str
    params: tuple[Pointer | ValueArgument, ...]
    multiple: int
    dims: tuple[Callable[..., tuple[int, ...]] | None, ...]
    cluster: int = 0
    axes: tuple[int, ...] = ()
    shared: LaunchShared = LaunchShared()
    most: Callable[[], int] = field(default=lambda: MOST_BLOCKS, compare=False)

    @property
    def names(self) -> list[str]:
        """Name the parameters that users pass."""
        return [param.name for param in self.params[: len(self.params) - len(self.axes)]]

    @staticmethod
    def of(function: ir.Function, most: Callable[[], int] | None = None) -> Signature:
        names = {
            param.var.uid: f"a{index}"
            for index, param in enumerate(function.params)
            if isinstance(param, ir.ValueParam)
        }
        asked, rows = widest(function), whole_rows(function)
        params = tuple(_param(param, names, asked, rows) for param in function.params)
        return Signature(
            function.name,
            params,
            _multiple(function),
            shapes(params),
            _cluster(function),
            function.axes,
            shared_of(function),
            most or (lambda: most_blocks(function)),
        )


def _multiple(function: ir.Function) -> int:
    """Blocks of a grid, or clusters of a grid times blocks of a cluster."""
    held = (function.place.held(level) for level in (Level.CLUSTER, Level.BLOCK))
    return math.prod(entry.count or 1 for entry in held if entry is not None)


def _cluster(function: ir.Function) -> int:
    return function.place.known(Level.BLOCK) if function.place.held(Level.CLUSTER) is not None else 0


def _param(
    param: ir.Param, names: dict[int, str], asked: dict[int, int], rows: dict[int, int]
) -> Pointer | ValueArgument:
    match param:
        case ir.ValueParam(var=var):
            return ValueArgument(var.name, var.type)
        case ir.MemParam(handle=handle, layout=layout):
            elem = handle.obj.elem
            shape = handle.obj.shape
            dims = None if shape is None else f"({''.join(python_text(dim, names) + ', ' for dim in shape)})"
            return Pointer(
                handle.name,
                scalar_of(elem),
                elem.lanes if isinstance(elem, Vector) else 1,
                handle.const,
                dims,
                max(elem.bytes, asked.get(handle.obj.uid, 1)),
                rows.get(handle.obj.uid, 1),
                layout,
            )
        case other:
            raise InternalError(f"a kernel cannot take a {type(other).__name__}")


# ---- shapes ---------------------------------------------------------------------------------------------------------


HELPERS = {"_divide": divide, "_remainder": remainder}


def shapes(params: tuple[Pointer | ValueArgument, ...]) -> tuple[Callable[..., tuple[int, ...]] | None, ...]:
    """Give, of each array, the function of all arguments that computes its declared shape; None where there is none."""
    order = ", ".join(f"a{index}" for index in range(len(params)))
    return tuple(
        eval(f"lambda {order}: {param.dims}", dict(HELPERS)) if isinstance(param, Pointer) and param.dims else None
        for param in params
    )


def python_text(expr: ir.Expr, names: dict[int, str]) -> str:
    """A shape's dimension, an integer expression over parameters, as Python.  Nothing wraps: a size that overflows fits
    no array.
    """

    def text(inner: ir.Expr) -> str:
        return python_text(inner, names)

    match expr:
        case ir.Const(value=value):
            return repr(value)
        case ir.Read(var=var):
            return names[var.uid]
        case ir.Cast(value=value, type=Scalar(kind=ScalarKind.BOOL)):
            return f"({text(value)} != 0)"
        case ir.Cast(value=value):
            return f"int({text(value)})"
        case ir.Unary(op=op, value=value):
            return f"({op} {text(value)})"
        case ir.Binary(op="/", left=left, right=right):
            return f"_divide({text(left)}, {text(right)})"
        case ir.Binary(op="%", left=left, right=right):
            return f"_remainder({text(left)}, {text(right)})"
        case ir.Binary(op="mod", left=left, right=right):
            return f"({text(left)} % {text(right)})"
        case (
            ir.Binary(op=op, left=left, right=right)
            | ir.Compare(op=op, left=left, right=right)
            | ir.Logical(op=op, left=left, right=right)
        ):
            return f"({text(left)} {op} {text(right)})"
        case ir.Select(cond=cond, then=then, other=other):
            return f"({text(then)} if {text(cond)} else {text(other)})"
        case ir.Math(op="min" | "max" | "abs" as op, args=args):
            return f"{op}({', '.join(map(text, args))})"
        case other:
            raise InternalError(f"{type(other).__name__} in the shape of a parameter")


def bf16_bits(value: float) -> int:
    """Round to nearest even, as the hardware does."""
    import struct

    try:
        bits = struct.unpack("<I", struct.pack("<f", value))[0]
    except OverflowError:
        bits = 0xFF800000 if value < 0 else 0x7F800000
    if bits & 0x7FFFFFFF > 0x7F800000:
        return (bits >> 16) | 0x40  # a NaN stays one
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 & 0xFFFF


def overflows(scalar: Scalar, value: float) -> bool:
    """A finite number that the type would turn into infinity."""
    import struct

    if math.isinf(value) or math.isnan(value):
        return False
    if scalar == BF16:
        return bf16_bits(value) & 0x7FFF == 0x7F80
    try:
        struct.pack("<" + _PACK[scalar.name], value)
        return False
    except OverflowError:
        return True
