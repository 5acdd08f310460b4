"""Declarations: variables, arrays, pointers, structs, references, shared memory.

Input: cursors of variables.  Output: what their names stand for, in `KernelText.names`, and statements that declare
them.  Non-goals: variables of the file (state.py).
"""

from __future__ import annotations

from math import prod
from typing import Any

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import BLOCK1, I32, I64, Array, Scalar, Space
from snap.cudac.calls import changes
from snap.cudac.cursors import peeled
from snap.cudac.errors import outside, refusal, span_of
from snap.cudac.expressions import as_type, fill, fresh, struct, value
from snap.cudac.memory import copied, lvalue, pointer
from snap.cudac.state import (
    ArrayElement,
    ArrayMemory,
    ArrayRegisters,
    CArray,
    CooperativeGroup,
    CVariable,
    KernelText,
    PointerVariable,
    StructFields,
    constant,
)
from snap.cudac.types import (
    CStruct,
    element,
    element_or_none,
    extents,
    is_array,
    kind_or_none,
    pointee,
    struct_or_none,
)
from snap.diag.span import Span

ALIGNED = 16  # bytes


def declare(s: KernelText, cursor: Any) -> None:
    span, type = span_of(cursor), cursor.type
    canonical = type.get_canonical()
    if cursor.storage_class.name == "STATIC" and not (canonical.is_const_qualified() or is_array(type)):
        raise outside("a static variable", cursor)
    first = next((c for c in reversed(list(cursor.get_children())) if c.kind.is_expression()), None)
    if any(c.kind.name == "CUDASHARED_ATTR" for c in cursor.get_children()):
        _shared(s, cursor, span)
    elif is_array(type):
        _array(s, cursor, first, span)
    elif canonical.kind.name == "LVALUEREFERENCE":
        assert first is not None
        s.names[cursor.hash] = lvalue(s, first)
    elif pointee(type) is not None:
        _pointer(s, cursor, first, span)
    elif canonical.spelling.removeprefix("const ").startswith("cooperative_groups::thread_block"):
        s.names[cursor.hash] = CooperativeGroup(0)
    elif element_or_none(type) is None and (kind := struct_or_none(type)) is not None:
        s.names[cursor.hash] = _struct(s, cursor, kind, first, span)
    else:
        elem = element(type, cursor)
        given = first is not None and (isinstance(elem, Scalar) or not _default(first))
        init = as_type(value(s, first), elem, span) if given else None
        var = s.variable(cursor.spelling, elem, span)
        s.out.append(ir.Declare(var, init, span=span))
        s.names[cursor.hash] = CVariable(var)


def _default(first: Any) -> bool:
    """Return whether an initializer is the default constructor, which leaves things as they are."""
    made = first.referenced
    return (
        first.kind.name == "CALL_EXPR"
        and not list(first.get_arguments())
        and made is not None
        and made.kind.name == "CONSTRUCTOR"
    )


def _array(s: KernelText, cursor: Any, first: Any | None, span: Span) -> None:
    shape, inner = extents(cursor.type, cursor)
    kind = kind_or_none(inner)
    if kind is None:
        raise outside(f"an array of `{inner.spelling}`", cursor)
    start = first if first is not None and first.kind.name == "INIT_LIST_EXPR" else None
    if isinstance(kind, CStruct):
        if start is not None and list(start.get_children()):
            raise outside("an initializer of an array of structs", cursor, "assign the elements")
        words = (prod(shape) * kind.bytes // kind.unit.bytes,)
        var = s.variable(cursor.spelling, Array(kind.unit, words), span)
        s.out.append(ir.Declare(var, None, zero=start is not None, span=span))
        s.names[cursor.hash] = CArray(ArrayRegisters(var, words), shape, (), kind)
        return
    var = s.variable(cursor.spelling, Array(kind, shape), span)
    s.out.append(ir.Declare(var, None, zero=start is not None, span=span))
    whole = CArray(ArrayRegisters(var, shape), shape, (), kind)
    s.names[cursor.hash] = whole
    if start is not None:
        _listed(s, whole, (), start)


def _pointer(s: KernelText, cursor: Any, first: Any | None, span: Span) -> None:
    if first is None or peeled(first).kind.name in ("CXX_NULL_PTR_LITERAL_EXPR", "GNU_NULL_EXPR"):
        kind = kind_or_none(pointee(cursor.type))
        if kind is None:
            raise outside(f"a pointer to `{cursor.type.spelling}`", cursor)
        nowhere = s.variable(cursor.spelling, I64, span)
        s.out.append(ir.Declare(nowhere, constant(0, I64, span), span=span))
        s.names[cursor.hash] = PointerVariable(None, nowhere, kind)
        return
    p = pointer(s, first)
    if p.offset is None and not changes(s, cursor):
        s.names[cursor.hash] = p
        return
    offset = s.variable(cursor.spelling, I64, span)
    start = constant(0, I64, span) if p.offset is None else as_type(p.offset, I64, span)
    s.out.append(ir.Declare(offset, start, span=span))
    s.names[cursor.hash] = PointerVariable(p.base, offset, p.elem)


def _struct(s: KernelText, cursor: Any, kind: CStruct, first: Any | None, span: Span) -> StructFields:
    fields = fresh(s, kind, cursor.spelling, span)
    if first is not None and first.kind.name == "INIT_LIST_EXPR":
        fill(s, fields, first)
    elif first is not None and not _default(first):
        copied(s, fields, struct(s, first), span)
    return fields


def _listed(s: KernelText, whole: CArray, index: tuple[int, ...], items: Any) -> None:
    span = span_of(items)
    for k, item in enumerate(items.get_children()):
        if item.kind.name == "INIT_LIST_EXPR" and len(index) + 1 < len(whole.shape):
            _listed(s, whole, (*index, k), item)
            continue
        where = tuple(constant(n, I32, span) for n in (*index, k))
        assert isinstance(whole.base, ArrayRegisters) and not isinstance(whole.elem, CStruct)
        target = ir.ElemTarget(ir.ArrayRef(whole.base.var, whole.elem, whole.shape), where, span=span)
        s.out.append(ir.Assign(target, as_type(value(s, item), whole.elem, span), span=span))


def _shared(s: KernelText, cursor: Any, span: Span) -> None:
    type = cursor.type
    if type.get_canonical().kind.name == "INCOMPLETEARRAY":
        inner = type.get_canonical().element_type
        shape: tuple[int, ...] = (0,)
    else:
        shape, inner = extents(type, cursor) if is_array(type) else ((1,), type)
    kind = kind_or_none(inner)
    if kind is None:
        raise outside(f"shared memory of type `{type.spelling}`", cursor)
    unit = kind.unit if isinstance(kind, CStruct) else kind
    if shape == (0,):
        shape = (s.dynamic // kind.bytes,)
        if not s.dynamic:
            help = "give the bytes: `shared=4096`, `--shared 4096`"
            raise refusal("CUDAC004", f"how long `{cursor.spelling}` is, a launch says", span, help)
    start = -(-s.shared // max(ALIGNED, unit.bytes)) * max(ALIGNED, unit.bytes)
    s.shared = start + kind.bytes * prod(shape)
    words = (prod(shape) * kind.bytes // unit.bytes,) if isinstance(kind, CStruct) else shape
    consts = tuple(constant(n, I32, span) for n in words)
    obj = ir.MemObject(s.new(), cursor.spelling, unit, consts, False, Space.SHARED, BLOCK1, start, span=span)
    handle = ir.Handle(s.new(), cursor.spelling, obj, BLOCK1, False, ir.Origin.SHARED, span=span)
    s.out.append(ir.DeclareShared(obj, handle, span=span))
    base = ArrayMemory(handle, words)
    if is_array(type):
        s.names[cursor.hash] = CArray(base, shape, (), kind)
    else:
        s.names[cursor.hash] = ArrayElement(
            base, (constant(0, I32, span),), () if isinstance(kind, CStruct) else shape, kind
        )
