"""Read tables of constants: NumPy arrays captured from outside, `WEIGHTS[i, j]`.

Input: the captured array and the tree of an element.  Output: a `Lookup`, or the number where the indices are
constants.  Invariant: a function computes with what the array held when the function was defined (`frontend/names.py`
has copied it).  Nobody writes a table, so its elements are one for the grid where the indices are, and no barrier is
for it.  Non-goals: tables as memory: they have no views, tiles, parts or copies, and are no arguments.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

from snap._compiler.check.core import convert
from snap._compiler.check.core.state import Checker, Want
from snap._compiler.check.memory.accesses import indices
from snap._compiler.frontend import tree
from snap._compiler.frontend.names import is_array
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.hardware import TABLE_LARGEST
from snap._compiler.ir.types import BF16, BOOL, F16, F32, F64, SCALARS, Scalar
from snap.diag.span import Span
from snap.diag.wording import counted

DTYPES: dict[str, Scalar] = {
    "bool": BOOL,
    **{f"{'u' if name[0] == 'u' else ''}int{name[1:]}": t for name, t in SCALARS.items() if name[0] in "iu"},
    **{"float16": F16, "bfloat16": BF16, "float32": F32, "float64": F64},
}


def element(c: Checker, array: Any, e: tree.Subscript, want: Want) -> ir.Expr:
    """One element of a captured array, evaluated for whom its indices are."""
    table = _table(c, array, spelled(e.value), e.value.span)
    if len(e.index) != len(table.shape):
        raise c.type_error(
            f"`{table.name}` takes {counted(len(table.shape), 'index')}, not {len(e.index)}",
            e.span,
            help="give one index for each dimension: `T[i, j]`",
        )
    if c.no_calls:
        raise c.type_error(f"{c.no_calls} cannot read a table", e.span, help="read it into a variable first")
    index = indices(c, e.index, want)
    for i, n, item in zip(index, table.shape, e.index):
        if isinstance(i, ir.Const) and not 0 <= i.value < n:
            raise c.type_error(
                f"index {i.value} is outside of `{table.name}`, whose dimension here is {n}",
                item.span,
                help="indices count from 0",
            )
    if all(isinstance(i, ir.Const) for i in index):
        return _number(array, ir.extents(index), table.elem, e.span)
    return ir.Lookup(table, index, table.elem, span=e.span)


def spelled(e: tree.Expr) -> str:
    return e.id if isinstance(e, tree.Name) else e.name if isinstance(e, tree.Attribute) else "table"


def _number(array: Any, at: tuple[int, ...], type: Scalar, span: Span) -> ir.Const:
    value = array[at]
    number = bool(value) if type == BOOL else float(value) if type.is_float else int(value)
    return convert.constant(number, type, span, source=F64)


# A table is small: it is a part of the program's text.
def _table(c: Checker, array: Any, name: str, span: Span) -> ir.Table:
    elem = DTYPES.get(array.dtype.name)
    if elem is None:
        raise c.type_error(
            f"`{name}` has dtype `{array.dtype}`, which Snap does not support",
            span,
            help=f"convert it outside: `{name}.astype(np.float32)`; tables hold {', '.join(DTYPES)}",
        )
    if array.size == 0:
        raise c.type_error(f"`{name}` is empty", span, help="give it an element, or leave it out where there is none")
    if array.nbytes > TABLE_LARGEST:
        raise c.type_error(
            f"`{name}` has {array.nbytes} bytes, and a table has at most {TABLE_LARGEST}",
            span,
            help=f"pass it to the kernel: `{name}: ptr(const({elem}), {array.shape})`",
        )
    data = array.astype(array.dtype.newbyteorder("="), order="C", copy=False).tobytes()
    return _made(name, elem, array.shape, data)


@lru_cache(64)
def _made(name: str, elem: Scalar, shape: tuple[int, ...], data: bytes) -> ir.Table:
    digest = hashlib.sha256(data).hexdigest()
    return ir.Table(name, elem, shape, digest, data)


__all__ = ["element", "is_array", "spelled"]
