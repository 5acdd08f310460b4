"""Find fields: what `w.mean`, `p[i].x` and `t[0]` denote, in registers and in memory.

Input: trees of expressions; memory whose elements are records.  Output: a `RecordPlace`, or the tree of one field in
terms of what there is without records: a variable called `w.mean`, an element of a local array, an element of a view.
Invariant: a view of a field has that field's type, and a stride of whole elements of it, as C's layout has it, so that
accesses, proofs and machines know nothing of records.  Non-goals: values (check/operations/records.py).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass

from snap._compiler.check.core import convert
from snap._compiler.check.core.bindings import Constant, IndexMap, Memory
from snap._compiler.check.core.names import word_called
from snap._compiler.check.core.records import RecordLeaf, RecordName, RecordType
from snap._compiler.check.core.state import Checker
from snap._compiler.check.memory.owners import use
from snap._compiler.frontend import tree
from snap._compiler.frontend.printer import expression as expression_text
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import BOOL, GRID1, I32, I64, SCALARS, Array, Element, Scalar, Space, Vector
from snap.diag.span import Span
from snap.diag.wording import counted
from snap.record import replace


@dataclass(slots=True, eq=False)
class RecordPlace:
    """Say where a record, or a field of one, lies.  type: what is there, None for a pointer.  path: the field, "" for
    the whole.  index: of an array of records, and then of a field that is an array.
    """

    root: RecordName | Memory
    type: Element | Array | RecordType | None
    path: str
    index: tuple[tree.Expr, ...]
    span: Span

    @property
    def rank(self) -> int:
        return self.root.rank

    @property
    def name(self) -> str:
        return self.root.name if isinstance(self.root, RecordName) else self.root.handle.name

    @property
    def spelled(self) -> str:
        at = f"[{', '.join(map(expression_text, self.index[: self.rank]))}]" if self.index else ""
        fields = (f"[{one}]" if one.isdigit() else f".{one}" for one in self.path.split(".") if one)
        return f"{self.name.rstrip()}{at}{''.join(fields)}"


# Set by check/operations/records.py: keeps the value of an expression that is no place in registers.
Holds = Callable[[Checker, tree.Expr], "RecordName | None"]
HELD: list[Holds] = []
TILES: list[Callable[[Checker, tree.Call], Memory]] = []  # set by check/memory/storage.py


def place(c: Checker, e: tree.Expr) -> RecordPlace | None:
    """Find the record, or the field, that an expression names; None where it names none. Nothing is evaluated to tell,
    so a field of what a call gives is found once the call is `taken`.
    """
    match e:
        case tree.Name(name):
            found = c.lookup(name)
            if isinstance(found, RecordName):
                return RecordPlace(found, found.type, "", (), e.span)
            if isinstance(found, Memory) and found.record is not None:
                use(c, found, e.span)
                return RecordPlace(found, found.record, "", (), e.span)
            return None
        case tree.Known(RecordName() | Memory() as found):
            type = found.type if isinstance(found, RecordName) else found.record
            return None if type is None else RecordPlace(found, type, "", (), e.span)
        case tree.Attribute(value, name):
            base = place(c, value)
            return None if base is None else _field(c, base, name, e.span)
        case tree.Subscript(value, index):
            base = place(c, value)
            return None if base is None else _element(c, base, index, e.span)
        case tree.Call() if word_called(c, e) == "tile":
            found = TILES[0](c, e)
            return None if found.record is None else RecordPlace(found, found.record, "", (), e.span)
        case _:
            return None


def taken(c: Checker, e: tree.Expr) -> tree.Expr:
    """The same field, `f(w).n`, of what a call or a choice gives: that is evaluated now, once, and kept."""
    match e:
        case tree.Attribute(value) | tree.Subscript(value):
            inner = taken(c, value)
            if inner is value and isinstance(value, (tree.Call, tree.Conditional)):
                found = HELD[0](c, value)
                inner = value if found is None else tree.Known(found, found.name, span=value.span)
            return e if inner is value else replace(e, value=inner)
    return e


def _field(c: Checker, base: RecordPlace, name: str, span: Span) -> RecordPlace | None:
    type = base.type
    if not isinstance(type, RecordType):
        return None
    names = [one for one, _ in type.fields]
    if name not in names:
        if isinstance(base.root, Memory) and not base.index and name == "view":
            return None
        if name == "_replace" or type.is_tuple:
            return None
        close = difflib.get_close_matches(name, names, n=1)
        help = f"did you mean `.{close[0]}`?" if close else f"it has {', '.join(f'`.{one}`' for one in names)}"
        raise c.type_error(f"`{base.spelled}` is a `{type}`, which has no field `{name}`", span, help=help)
    if len(base.index) < base.rank and isinstance(base.root, RecordName):
        raise _not_indexed(c, base, span)
    path = f"{base.path}.{name}" if base.path else name
    if (named := _memory_field(c, base, name)) is not None:
        return place(c, tree.Name(named, span=span))
    return RecordPlace(base.root, type.type_of(name), path, base.index, span)


def _as_array(type: RecordType, name: str) -> str:
    """Say which local array has indices that are computed: of values that have all one type."""
    same = type.is_tuple and type.scalar is not None and len(type.leaves) == len(type.fields)
    return f"; or declare a local array, which has indices: `{name}: {type.scalar}[{len(type.fields)}]`" if same else ""


def _not_indexed(c: Checker, base: RecordPlace, span: Span) -> Exception:
    at = ", ".join("ijkl"[: base.rank])
    field = base.type.fields[0][0] if isinstance(base.type, RecordType) else ""
    return c.type_error(
        f"`{base.name}` is an array of records, and this takes a field of one of them",
        span,
        help=f"index it first: `{base.name}[{at}].{field}`",
    )


def _element(c: Checker, base: RecordPlace, index: tuple[tree.Expr, ...], span: Span) -> RecordPlace | None:
    if not isinstance(base.type, RecordType) or len(base.index) < base.rank:
        if not base.path and len(base.index) + len(index) != base.rank:
            if isinstance(base.root, Memory):
                return None  # a window of it, or an error that says how many
            raise c.type_error(
                f"`{base.name}` takes {counted(base.rank, 'index')}, not {len(index)}", span, help="give one for each"
            )
        return RecordPlace(base.root, base.type, base.path, (*base.index, *index), span)
    (number,) = index if len(index) == 1 else (None,)
    given = number
    if isinstance(given, tree.Name) and isinstance(known := c.lookup(given.id), Constant):
        given = tree.Number(known.value.value, span=span)
    if not isinstance(given, tree.Number) or type(given.value) is not int:
        raise c.type_error(
            f"`{base.spelled}` is a `{base.type}`: which of its fields is meant must be written",
            span,
            help=f"write a number, `{base.spelled}[0]`{_as_array(base.type, base.spelled)}",
        )
    if not 0 <= given.value < len(base.type.fields):
        raise c.type_error(
            f"`{base.spelled}` has {counted(len(base.type.fields), 'value')}, and this asks for number {given.value}",
            span,
            help="they count from 0",
        )
    return _field(c, base, base.type.fields[given.value][0], span)


# ---- fields as trees ------------------------------------------------------------------------------------------------


def plain(c: Checker, e: tree.Expr) -> tree.Expr | None:
    """Give what an expression that names a field stands for; None where it names none, or a record."""
    found = place(c, e)
    base = place(c, e.value) if isinstance(e, tree.Attribute) else None
    if base is not None and isinstance(e, tree.Attribute) and (name := _memory_field(c, base, e.name)):
        return tree.Name(name, span=e.span)
    if found is None or isinstance(found.type, RecordType):
        return None
    return leaf_tree(c, found, "", ())


def _memory_field(c: Checker, base: RecordPlace, field: str) -> str | None:
    """The name of memory of records that is a field of a kernel's parameter, `w.stats`."""
    name = ".".join(part for part in (base.name, base.path, field) if part)
    found = c.lookup(name) if isinstance(base.root, RecordName) else None
    return name if isinstance(found, Memory) and found.record is not None else None


def leaf_tree(c: Checker, of: RecordPlace, path: str, index: tuple[tree.Expr, ...]) -> tree.Expr:
    """The field `path` of what is there, `index` of which is meant."""
    whole = f"{of.path}.{path}" if of.path and path else of.path or path
    at = (*of.index, *index)
    if isinstance(of.root, Memory):
        memory = field_view(c, of.root, whole, of.span)
        named: tree.Expr = tree.Known(memory, f"{of.name}.{whole}", span=of.span)
        return tree.Subscript(named, at, span=of.span) if at else named
    named = tree.Name(f"{of.name}.{whole}", span=of.span)
    if of.root.by_reference and not isinstance(_type_at(of.root.type, whole), Array) and not of.rank:
        at = (tree.Number(0, span=of.span),)
    return tree.Subscript(named, at, span=of.span) if at else named


def _type_at(type: RecordType, path: str) -> Element | Array | None:
    found: Element | Array | RecordType | None = type
    for name in path.split("."):
        found = found.type_of(name) if isinstance(found, RecordType) else None
    return None if isinstance(found, RecordType) else found


# ---- memory ---------------------------------------------------------------------------------------------------------


def of_records(c: Checker, memory: Memory, record: RecordType, shape: tuple[ir.Expr, ...] | None, span: Span) -> Memory:
    """Memory whose elements are records.  memory: what the object is for the compiler, units in a last dimension or,
    without a shape, one after the other.
    """
    params = tuple(c.temp(f"k{i}", I32, GRID1, span) for i in range(1 if shape is None else len(shape)))
    reads: tuple[ir.Expr, ...] = tuple(ir.Read(p, I32, span=span) for p in params)
    if shape is None:
        wide = I32 if memory.handle.obj.space is Space.SHARED else I64  # there are more units than 32 bits count
        results: tuple[ir.Expr, ...] = (
            reads[0]
            if record.units == 1
            else convert.binary("*", convert.cast(reads[0], wide), _number(record.units, wide, span), span),
        )
    else:
        results = (*reads, _number(0, I32, span))
    return Memory(memory.handle, memory.view, IndexMap(params, results), shape, record=record)


def _number(n: int, type: Scalar, span: Span) -> ir.Const:
    return ir.Const(n, type, span=span)


def field_view(c: Checker, memory: Memory, path: str, span: Span) -> Memory:
    """A field of every record, as memory of its own."""
    assert memory.record is not None
    leaf = next(leaf for leaf in memory.record.leaves if leaf.path == path)
    return _seen_as(c, memory, leaf.elem, leaf, span)


def vector_of(record: RecordType) -> Vector | None:
    """Give what one access of 8 or 16 bytes loads and stores a record as; None where it takes one for each field."""
    if record.bytes not in (8, 16) or record.units == 1 or any(leaf.shape for leaf in record.leaves):
        return None
    if record.scalar is not None and record.scalar != BOOL and record.units in (2, 4):
        return Vector(record.scalar, record.units)
    elem = SCALARS["u64" if record.align >= 8 else "u32"]
    return Vector(elem, record.bytes // elem.bytes) if record.bytes > elem.bytes else None


def whole_view(c: Checker, memory: Memory, elem: Element, span: Span) -> Memory:
    """Every record as one element of a type of its size."""
    return _seen_as(c, memory, elem, None, span)


def _seen_as(c: Checker, memory: Memory, elem: Element, leaf: RecordLeaf | None, span: Span) -> Memory:
    record, map, shape = memory.record, memory.map, memory.view.shape
    assert record is not None and map is not None
    if shape is not None:
        last = _number(record.bytes // elem.bytes, I32, span)
        shape = (*shape[:-1], last)
    first = _first(map.results[-1], record, elem, span)
    inner = () if leaf is None else leaf.shape
    extra = tuple(c.temp(f"e{i}", I32, GRID1, span) for i in range(len(inner)))
    within: ir.Expr = _number(0, I32, span)
    for p, n in zip(extra, inner):
        within = convert.binary(
            "+", convert.binary("*", within, _number(n, I32, span), span), ir.Read(p, I32, span=span), span
        )
    offset = 0 if leaf is None else leaf.offset // elem.bytes
    at = _plus(_plus(first, within, span), _number(offset, I32, span), span)
    made = IndexMap((*map.params, *extra), (*map.results[:-1], at), map.block)
    extents = memory.shape
    if extents is not None:
        extents = (*extents, *(_number(n, I32, span) for n in inner))
    seen = ir.MemView(memory.view.obj, elem, shape)
    return Memory(memory.handle, seen, made, extents, memory.lowered, memory.claim, inner=inner)


def _plus(a: ir.Expr, b: ir.Expr, span: Span) -> ir.Expr:
    if isinstance(b, ir.Const) and b.value == 0:
        return a
    return b if isinstance(a, ir.Const) and a.value == 0 else convert.binary("+", a, b, span)


def _first(start: ir.Expr, record: RecordType, elem: Element, span: Span) -> ir.Expr:
    """Say where a record begins, counted in `elem`, which is counted in units there: a multiple of a record's size."""
    unit = record.unit.bytes
    if isinstance(start, ir.Const):
        return replace(start, value=int(start.value) * unit // elem.bytes)
    match start:
        case ir.Binary("*", i, ir.Const(value=units) as factor):
            times = int(units) * unit // elem.bytes
            return i if times == 1 else convert.binary("*", i, replace(factor, value=times), span)
    return start if elem.bytes == unit else convert.binary("*", start, _number(unit // elem.bytes, I32, span), span)
