"""Pointers, subscripts, and what can be assigned to.

Input: cursors of expressions.  Output: a `Pointer`, an lvalue, or the statement that stores.  Invariant: every pointer
has one base that is known; how far it has gone is an integer.  Non-goals: two bases that a run chooses between.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import gcd
from typing import Any

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import I32, I64, Array, Element, Vector
from snap.cudac.cursors import BINARY, UNARY, binary_kind, peeled, unary_kind
from snap.cudac.errors import outside, refusal, span_of
from snap.cudac.state import (
    ArrayElement,
    ArrayMemory,
    ArrayRegisters,
    CArray,
    CLvalue,
    CPointer,
    CVariable,
    KernelText,
    PointerVariable,
    StructFields,
    VectorPart,
    added,
    constant,
)
from snap.cudac.types import CStruct, CType, element, is_array, kind_or_none, pointee
from snap.diag.span import Span


def lvalue(s: KernelText, cursor: Any) -> CLvalue | CArray:
    """Return what can be assigned to, or the array that it is."""
    cursor, span = peeled(cursor), span_of(cursor)
    match cursor.kind.name:
        case "DECL_REF_EXPR":
            meaning = s.meaning(cursor)
            if isinstance(meaning, (CVariable, ArrayElement, VectorPart, CArray, StructFields)):
                return meaning
        case "ARRAY_SUBSCRIPT_EXPR":
            base, at = list(cursor.get_children())
            if is_array(peeled(base).type):
                whole = lvalue(s, base)
                assert isinstance(whole, CArray)
                return _narrower(CArray(whole.base, whole.shape, (*whole.index, s.lower.value(s, at)), whole.elem))
            p = pointer(s, base)
            return at_pointer(CPointer(p.base, _moved(p.offset, s.lower.value(s, at)), p.elem), span)
        case "UNARY_OPERATOR" if (inner := list(cursor.get_children())) and _is_pointer(inner[0]):
            return at_pointer(pointer(s, inner[0]), span)
        case "MEMBER_REF_EXPR":
            (inner, *_) = [c for c in cursor.get_children() if c.kind.is_expression()] or [None]
            if inner is not None:
                through = pointee(inner.type) is not None
                of = at_pointer(pointer(s, inner), span) if through else lvalue(s, inner)
                found = member(of, cursor.spelling, span)
                if found is not None:
                    return found
        case "CALL_EXPR":
            made = s.lower.called_struct(s, cursor)
            if made is not None:
                return made
        case "CSTYLE_CAST_EXPR" | "CXX_STATIC_CAST_EXPR" | "CXX_REINTERPRET_CAST_EXPR":
            inner = [c for c in cursor.get_children() if c.kind.is_expression()]
            if inner and not is_array(inner[-1].type):
                of = lvalue(s, inner[-1])
                wanted = element(cursor.type, cursor)
                if isinstance(of, ArrayElement):
                    return at_pointer(seen_as(flat(of, span), wanted, span), span)
    raise outside("what is assigned to here", cursor)


def member(of: CLvalue | CArray, name: str, span: Span) -> CLvalue | CArray | None:
    """A component of a vector, or a field of a struct."""
    if isinstance(of, StructFields):
        found = of.of.get(name)
        return found if isinstance(found, (CVariable, ArrayElement, VectorPart, CArray, StructFields)) else None
    kind = of.var.type if isinstance(of, CVariable) else of.elem
    if isinstance(kind, Vector) and isinstance(of, (CVariable, ArrayElement)):
        return VectorPart(of, kind.components.index(name), kind.elem) if name in kind.components else None
    if isinstance(kind, CStruct) and isinstance(of, ArrayElement):
        for field, elem, shape, at in kind.fields:
            if field == name:
                start = flat(of, span)
                if isinstance(elem, CStruct) and (kind.bytes % elem.size or at % elem.size):
                    elem = replace(elem, counted=gcd(kind.bytes, at, elem.unit.bytes))
                p = seen_as(CPointer(start.base, start.offset, kind), elem, span, at)
                if not shape:
                    return at_pointer(p, span)
                return (
                    CArray(p.base, shape, (), elem)
                    if p.offset is None
                    else CArray(p.base, (0, *shape), (p.offset,), elem)
                )
    return None


def _is_pointer(cursor: Any) -> bool:
    return pointee(cursor.type) is not None or is_array(cursor.type)


def _narrower(w: CArray) -> CArray | ArrayElement:
    if w.shape[0] == 0 and len(w.index) == len(w.shape):
        where = flat(w, Span("", 1, 0, 1, 0)).offset
        assert where is not None
        return ArrayElement(w.base, (where,), (), w.elem)
    return ArrayElement(w.base, w.index, w.shape, w.elem) if len(w.index) == len(w.shape) else w


def _moved(offset: ir.Expr | None, by: ir.Expr) -> ir.Expr:
    moved = added(offset, by)
    assert moved is not None
    return moved


def at_pointer(p: CPointer, span: Span) -> ArrayElement:
    offset = constant(0, I64, span) if p.offset is None else p.offset
    return ArrayElement(p.base, (offset,), (), p.elem)


def flat(e: ArrayElement | CArray, span: Span) -> CPointer:
    """Return where an element, or what is left of an array, begins."""
    if not e.index:
        return CPointer(e.base, None, e.elem)
    if not e.shape:
        return CPointer(e.base, e.index[0], e.elem)
    if e.shape[0] == 0:  # an array that begins at an element
        rest = flat(CArray(e.base, e.shape[1:], e.index[1:], e.elem), span)
        return CPointer(e.base, added(e.index[0], rest.offset), e.elem)
    offset: ir.Expr | None = None
    for k, at in enumerate(e.index):
        step = 1
        for n in e.shape[k + 1 :]:
            step *= n
        part = at if step == 1 else ir.Binary("*", _wide(at), constant(step, I64, span), I64, span=span)
        offset = added(offset, part)
    return CPointer(e.base, offset, e.elem)


def _wide(e: ir.Expr) -> ir.Expr:
    return e if e.type == I64 else ir.Cast(e, I64, span=e.span)


def seen_as(p: CPointer, elem: CType, span: Span, more: int = 0) -> CPointer:
    """The same place, counted in other elements; `more`: so many bytes further."""
    if elem == p.elem and not more:
        return p
    a, b, offset = p.elem.bytes, elem.bytes, p.offset
    if offset is not None and a % b == 0:
        offset = offset if a == b else ir.Binary("*", _wide(offset), constant(a // b, I64, span), I64, span=span)
    elif offset is not None:  # a struct of twelve bytes is no whole number of eights: bytes, then elements
        step = gcd(a, b)
        offset = offset if a == step else ir.Binary("*", _wide(offset), constant(a // step, I64, span), I64, span=span)
        offset = ir.Binary("/", _wide(offset), constant(b // step, I64, span), I64, True, span=span)
    if more:
        if more % b:
            raise refusal("CUDAC003", f"a field at byte {more}, which is not a multiple of its size,", span)
        offset = added(offset, constant(more // b, I64, span))
    return CPointer(p.base, offset, elem)


# ---- pointers -------------------------------------------------------------------------------------------------------


def pointer(s: KernelText, cursor: Any) -> CPointer:
    span = span_of(cursor)
    match cursor.kind.name:
        case "UNEXPOSED_EXPR" | "PAREN_EXPR":
            (inner,) = [c for c in cursor.get_children() if c.kind.is_expression()] or [None]
            if inner is not None:
                return _retyped(pointer(s, inner), cursor, span)
        case "DECL_REF_EXPR":
            meaning = s.meaning(cursor)
            if isinstance(meaning, CArray):
                return flat(meaning, span)
            if isinstance(meaning, CPointer):
                return meaning
            if isinstance(meaning, PointerVariable):
                if meaning.base is None:
                    raise outside("a pointer that points nowhere yet", cursor)
                return CPointer(meaning.base, ir.Read(meaning.offset, I64, span=span), meaning.elem)
        case "ARRAY_SUBSCRIPT_EXPR":
            found = lvalue(s, cursor)
            if isinstance(found, CArray):
                return flat(found, span)
        case "UNARY_OPERATOR":
            return _by_operator(s, cursor, span)
        case "BINARY_OPERATOR" if BINARY.get(binary_kind(cursor)) in ("+", "-"):
            a, b = list(cursor.get_children())
            if not _is_pointer(a):
                a, b = b, a
            p, by = pointer(s, a), s.lower.value(s, b)
            if BINARY[binary_kind(cursor)] == "-":
                by = ir.Unary("-", _wide(by), I64, span=span)
            return CPointer(p.base, _moved(p.offset, by), p.elem)
        case "CSTYLE_CAST_EXPR" | "CXX_STATIC_CAST_EXPR" | "CXX_REINTERPRET_CAST_EXPR" | "CXX_CONST_CAST_EXPR":
            inner = [c for c in cursor.get_children() if c.kind.is_expression()]
            if inner and _is_pointer(inner[-1]):
                return _retyped(pointer(s, inner[-1]), cursor, span)
        case "CONDITIONAL_OPERATOR":
            return _chosen_pointer(s, cursor, span)
    raise outside("this pointer", cursor)


def _by_operator(s: KernelText, cursor: Any, span: Span) -> CPointer:
    """`&x[i]`, `p++`."""
    (inner,) = list(cursor.get_children())
    kind = UNARY.get(unary_kind(cursor), "")
    if kind in ("x++", "x--", "++x", "--x"):
        return _stepped(s, inner, kind, span)
    if kind != "&":
        raise outside("this pointer", cursor)
    found = lvalue(s, inner)
    if isinstance(found, VectorPart) and isinstance(found.of, ArrayElement):
        p = seen_as(flat(found.of, span), found.elem, span)
        return CPointer(p.base, added(p.offset, constant(found.lane, I64, span)), p.elem)
    if isinstance(found, (ArrayElement, CArray)):
        return flat(found, span)
    raise outside("the address of a variable", cursor, "give it as an argument, and take the result")


def _chosen_pointer(s: KernelText, cursor: Any, span: Span) -> CPointer:
    """`c ? p : q`, into one array."""
    cond, yes, no = list(cursor.get_children())
    one, other = pointer(s, yes), pointer(s, no)
    if one.base != other.base or one.elem != other.elem:
        raise outside("a pointer that may be into two arrays", cursor)
    zero = constant(0, I64, span)
    offsets = _wide(one.offset or zero), _wide(other.offset or zero)
    return CPointer(one.base, ir.Select(s.lower.value(s, cond), *offsets, I64, span=span), one.elem)


def _retyped(p: CPointer, cursor: Any, span: Span) -> CPointer:
    to = pointee(cursor.type)
    elem = None if to is None else kind_or_none(to)
    return p if elem is None else seen_as(p, elem, span)


def _stepped(s: KernelText, inner: Any, kind: str, span: Span) -> CPointer:
    before = pointer(s, inner)
    name = s.names.get(peeled(inner).referenced.hash)
    if not isinstance(name, PointerVariable):
        raise outside("what steps this pointer", inner)
    if kind.startswith("x") and before.offset is not None:
        before = CPointer(before.base, s.keep(before.offset, I64, span), before.elem)
    by = constant(1 if "+" in kind else -1, I64, span)
    moved = ir.Binary("+", ir.Read(name.offset, I64, span=span), by, I64, span=span)
    s.out.append(ir.Assign(ir.VarTarget(name.offset, span=span), moved, span=span))
    return before if kind.startswith("x") else pointer(s, inner)


# ---- access ---------------------------------------------------------------------------------------------------------


def read(at: CLvalue, span: Span) -> ir.Expr:
    match at:
        case CVariable(var):
            return ir.Read(var, var.type, span=span)
        case VectorPart(of, lane, elem):
            return ir.Component(read(of, span), lane, elem, span=span)
        case ArrayElement(ArrayRegisters() as base, _, _, elem) if not isinstance(elem, CStruct):
            return ir.Elem(ir.ArrayRef(base.var, *_seen(base, at)), at.index, elem, span=span)
        case ArrayElement(_, _, _, elem) if not isinstance(elem, CStruct):
            return ir.Load(access(at, span), elem, span=span)
    raise refusal("CUDAC003", "a struct as one value is outside the subset", span)


def target(at: CLvalue, span: Span) -> ir.Target:
    match at:
        case CVariable(var):
            return ir.VarTarget(var, span=span)
        case VectorPart(of, lane, _):
            inner = target(of, span)
            assert not isinstance(inner, ir.ComponentTarget)
            return ir.ComponentTarget(inner, lane, span=span)
        case ArrayElement(ArrayRegisters() as base):
            return ir.ElemTarget(ir.ArrayRef(base.var, *_seen(base, at)), at.index, span=span)
        case ArrayElement():
            return ir.MemTarget(access(at, span), span=span)
    raise refusal("CUDAC003", "a struct as one value is outside the subset", span)


def store(s: KernelText, at: CLvalue, value: ir.Expr, span: Span) -> None:
    if isinstance(at, ArrayElement) and isinstance(at.base, ArrayMemory) and at.base.handle.const:
        raise refusal("CUDAC003", "this stores through a pointer to const", span)
    s.out.append(ir.Assign(target(at, span), value, span=span))


def copied(s: KernelText, to: CLvalue | CArray, given: CLvalue | CArray, span: Span) -> None:
    """Copy a struct, field by field, or an array in one."""
    kind = to.kind if isinstance(to, StructFields) else getattr(to, "elem", None)
    if isinstance(to, CArray) and isinstance(given, CArray):
        shape = to.shape[1:] if to.shape and to.shape[0] == 0 else to.shape
        for place in product(*map(range, shape)):
            index = tuple(constant(n, I32, span) for n in place)
            one = _narrower(CArray(to.base, to.shape, (*to.index, *index), to.elem))
            other = _narrower(CArray(given.base, given.shape, (*given.index, *index), given.elem))
            copied(s, one, other, span)
        return
    if isinstance(kind, CStruct):
        for name, _, _, _ in kind.fields:
            a, b = member(to, name, span), member(given, name, span)
            if a is None or b is None:
                raise refusal("CUDAC003", f"the field `{name}` is outside the subset", span)
            copied(s, a, b, span)
        return
    store(s, to, read(given, span), span)  # type: ignore[arg-type]


def access(at: ArrayElement, span: Span) -> ir.MemAccess:
    base = at.base
    assert isinstance(base, ArrayMemory)
    shape: tuple[ir.Expr, ...] | None = None
    if at.shape and len(at.index) == len(at.shape):
        shape = tuple(constant(n, I32, span) for n in at.shape)
    elif base.shape:  # shared memory, seen flat
        total = 1
        for n in base.shape:
            total *= n
        shape = (constant(total * base.handle.obj.elem.bytes // at.elem.bytes, I32, span),)
    assert not isinstance(at.elem, CStruct)
    return ir.MemAccess(ir.MemView(base.handle.obj, at.elem, shape), at.index, base.handle, span=span)


def _seen(base: ArrayRegisters, at: ArrayElement) -> tuple[Element, tuple[int, ...]]:
    """An array of registers as it is declared, or flat, as other elements."""
    assert isinstance(base.var.type, Array)
    elem = base.var.type.elem
    if at.shape and at.elem == elem:
        return elem, at.shape
    total = 1
    for n in base.shape:
        total *= n
    assert not isinstance(at.elem, CStruct)
    return at.elem, (total * elem.bytes // at.elem.bytes,)
