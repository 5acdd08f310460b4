"""Tables of constants, captured from outside: arrays at file scope that nobody writes.

Input:      a table and indices
Output:     an element of an array that the file declares, once for each table of the same contents
Invariant:  small tables lie in constant memory, which has room for 64 KB; others in global memory, const and with their
            first values, so that loads may be taken past coherence and elements at known indices are folded
Non-goals:  bounds
"""

from __future__ import annotations

import math
import struct

from snap._compiler.codegen.core import tree
from snap._compiler.codegen.core.module import Helper, Module
from snap._compiler.codegen.core.names import identifier
from snap._compiler.codegen.core.printer import expression
from snap._compiler.codegen.core.spelling import literal, type_name
from snap._compiler.codegen.values import arithmetic
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.hardware import TABLE_CONSTANT, TABLES_CONSTANT
from snap._compiler.ir.types import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, Scalar

FORMATS = {
    **{BOOL: "?", I8: "b", I16: "h", I32: "i", I64: "q", U8: "B", U16: "H", U32: "I", U64: "Q"},
    **{F32: "f", F64: "d"},
}
A_LINE = 12  # elements


def element(module: Module, table: ir.Table, index: tuple[tree.Expr, ...]) -> tree.Expr:
    place: tree.Expr = tree.Name(_declared(module, table))
    for i in index:
        place = tree.Index(place, i)
    return arithmetic.bitcast(module, place, _carrier(table), table.elem)


def _declared(module: Module, table: ir.Table) -> str:
    """The name of the table's array."""
    if table not in module.tables:
        held = sum(other.bytes for other in module.tables if other.bytes <= TABLE_CONSTANT)
        small = table.bytes <= TABLE_CONSTANT and held + table.bytes <= TABLES_CONSTANT
        # Names that begin so are nobody else's.
        name = f"snap_table_{identifier(table.name)}"
        name = module.tables[table] = f"{name}_{len(module.tables)}" if name in module.tables.values() else name
        dims = "".join(f"[{n}]" for n in table.shape)
        space = "__constant__" if small else "__device__"
        head = f"static {space} const {type_name(module, _carrier(table))} {name}{dims} = {{"
        module.helper(Helper(f"{name} {dims}", f"{head}\n{_rows(module, table)}\n}};"))
    return module.tables[table]


def _carrier(table: ir.Table) -> Scalar:
    """Spell what the array holds: where no literal has the value, the bits of it."""
    if table.elem in (F16, BF16):
        return U16
    whole = table.elem not in (F32, F64) or all(map(math.isfinite, _values(table, table.elem)))
    return table.elem if whole else U32 if table.elem == F32 else I64


def _values(table: ir.Table, seen: Scalar) -> list:
    return [value for (value,) in struct.iter_unpack(f"={FORMATS[seen]}", table.data)]


def _rows(module: Module, table: ir.Table) -> str:
    seen = _carrier(table)
    texts = [expression(literal(module, value, seen)) for value in _values(table, seen)]
    a_line = table.shape[-1] if len(table.shape) > 1 and table.shape[-1] <= A_LINE else A_LINE
    lines = [", ".join(texts[at : at + a_line]) for at in range(0, len(texts), a_line)]
    return ",\n".join(f"    {line}" for line in lines)
