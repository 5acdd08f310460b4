"""Expressions of CUDA C as expressions of the IR.

Input: cursors, with clang's own conversions among them.  Output: an expression; what it changes on the way is made
statements of, in C's order.  Invariant: operands of one operation have one type, as clang says.  Non-goals: calls
(calls.py), pointers (memory.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import BOOL, I32, I64, THREAD1, U32, Array, Element, Scalar, Vector
from snap.cudac.cursors import BINARY, UNARY, binary_kind, evaluated, peeled, unary_kind
from snap.cudac.errors import outside, refusal, span_of
from snap.cudac.memory import copied, lvalue, pointer, read, store
from snap.cudac.state import (
    ArrayElement,
    ArrayRegisters,
    CArray,
    CLvalue,
    CPointer,
    CVariable,
    KernelText,
    PointerVariable,
    StructFields,
    added,
    constant,
    truth,
)
from snap.cudac.types import CStruct, common, element, element_or_none, pointee, promoted, struct_or_none
from snap.diag.span import Span

_COMPARED = frozenset("< > <= >= == !=".split())


def value(s: KernelText, cursor: Any) -> ir.Expr:
    made = _MAKERS.get(cursor.kind.name)
    if made is None:
        raise outside(f"this expression ({cursor.kind.name.lower().replace('_', ' ')})", cursor)
    return made(s, cursor)


def as_type(e: ir.Expr, type: Element, span: Span) -> ir.Expr:
    if e.type == type:
        return e
    if isinstance(e, ir.Const) and isinstance(type, Scalar) and type.is_integer and type.bits >= 32:
        if isinstance(e.value, int) and 0 <= e.value < 1 << 31:
            return constant(int(e.value), type, span)
    return ir.Cast(e, type, span=span)


# ---- constants ------------------------------------------------------------------------------------------------------


def _literal(s: KernelText, cursor: Any) -> ir.Expr:
    type, found = element(cursor.type, cursor), evaluated(cursor)
    if found is None or not isinstance(type, Scalar):
        raise outside("this constant", cursor)
    return literal(found, type, span_of(cursor))


def literal(found: int | float, type: Scalar, span: Span) -> ir.Const:
    if type == BOOL:
        return constant(bool(found), type, span)
    if type.is_float:
        return constant(float(found), type, span)
    wrapped = int(found) & (1 << type.bits) - 1
    signed = type.kind is I32.kind and wrapped >> type.bits - 1
    return constant(wrapped - (1 << type.bits) if signed else wrapped, type, span)


def _boolean(s: KernelText, cursor: Any) -> ir.Expr:
    return constant(next(cursor.get_tokens()).spelling == "true", BOOL, span_of(cursor))


# ---- names and elements ---------------------------------------------------------------------------------------------


def _name(s: KernelText, cursor: Any) -> ir.Expr:
    named, span = cursor.referenced, span_of(cursor)
    meaning = s.meaning(cursor)
    if isinstance(meaning, (CPointer, PointerVariable)):
        raise outside("a pointer as a number", cursor)
    if meaning is not None:
        return read(lvalue(s, cursor), span)  # type: ignore[arg-type]
    found = evaluated(cursor)
    type = element_or_none(cursor.type)
    if found is None and named is not None:
        inner = [c for c in named.get_children() if c.kind.is_expression()]
        found = evaluated(inner[-1]) if inner and "const" in named.type.spelling else None
    if found is None or not isinstance(type, Scalar):
        raise outside(f"the global variable `{cursor.spelling}`", cursor, "give it to the kernel as an argument")
    return literal(found, type, span)


def _element(s: KernelText, cursor: Any) -> ir.Expr:
    return read(lvalue(s, cursor), span_of(cursor))  # type: ignore[arg-type]


def _member(s: KernelText, cursor: Any) -> ir.Expr:
    (inner, *_) = list(cursor.get_children()) or [None]
    span = span_of(cursor)
    if inner is not None and peeled(inner).kind.name == "DECL_REF_EXPR" and peeled(inner).spelling in _INDICES:
        return ir.Cast(position(s, peeled(inner).spelling, cursor.spelling, cursor), U32, span=span)
    if inner is not None and isinstance(vector := element_or_none(inner.type), Vector):
        if cursor.spelling in vector.components:
            return ir.Component(value(s, inner), vector.components.index(cursor.spelling), vector.elem, span=span)
    return _element(s, cursor)


_INDICES = ("threadIdx", "blockIdx", "blockDim", "gridDim")


def position(s: KernelText, word: str, axis: str, cursor: Any) -> ir.Expr:
    """An index or an extent of the launch, an i32."""
    span, k = span_of(cursor), "xyz".index(axis)
    number = lambda n: constant(n, I32, span)  # noqa: E731
    assert s.number is not None and s.count is not None
    digit = lambda e, below, extent, last: _digit(e, below, extent, last, span)  # noqa: E731
    if word == "blockDim":
        return number(s.block[k])
    if word == "threadIdx":
        t = ir.UnitId(THREAD1, s.inside, I32, span=span)
        x, y, _ = s.block
        return digit(t, number((1, x, x * y)[k]), number(s.block[k]), all(n == 1 for n in s.block[k + 1 :]))
    s.several |= k > 0
    if not s.extents:
        if word == "gridDim":
            return ir.Read(s.count, I32, span=span) if k == 0 else number(1)
        return ir.Read(s.number, I32, span=span) if k == 0 else number(0)
    gx, gy, gz = (ir.Read(var, I32, span=span) for var in s.extents)
    if word == "gridDim":
        return (gx, gy, gz)[k]
    b = ir.Read(s.number, I32, span=span)
    below = (number(1), gx, ir.Binary("*", gx, gy, I32, span=span))[k]
    return digit(b, below, (gx, gy, gz)[k], k == 2)


def _digit(e: ir.Expr, below: ir.Expr, extent: ir.Expr, last: bool, span: Span) -> ir.Expr:
    if isinstance(extent, ir.Const) and extent.value == 1:
        return constant(0, I32, span)
    if not (isinstance(below, ir.Const) and below.value == 1):
        e = ir.Binary("/", e, below, I32, span=span)
    return e if last else ir.Binary("%", e, extent, I32, span=span)


# ---- operations -----------------------------------------------------------------------------------------------------


def _converted(s: KernelText, cursor: Any) -> ir.Expr:
    inner = [c for c in cursor.get_children() if c.kind.is_expression()]
    if not inner:
        found = evaluated(cursor)
        if found is None:
            raise outside("this expression", cursor)
        return literal(found, element(cursor.type, cursor), span_of(cursor))  # type: ignore[arg-type]
    if pointee(inner[-1].type) is not None and pointee(cursor.type) is None and element_or_none(cursor.type) == BOOL:
        pointer(s, inner[-1])
        return constant(True, BOOL, span_of(cursor))  # a pointer to an array that is there
    type = element_or_none(cursor.type)
    if type is None:
        if cursor.type.get_canonical().kind.name == "VOID":
            return value(s, inner[-1])
        raise outside(f"a value of type `{cursor.type.spelling}`", cursor)
    return as_type(value(s, inner[-1]), type, span_of(cursor))


def _operation(s: KernelText, cursor: Any) -> ir.Expr:
    op, span = BINARY.get(binary_kind(cursor), "?"), span_of(cursor)
    left, right = list(cursor.get_children())
    if op == "=":
        return assigned(s, cursor, left, right)
    if op == ",":
        effect(s, left)
        return value(s, right)
    if op in ("&&", "||"):
        return _decided(s, op, left, right, span)
    if op in _COMPARED and (pointee(left.type) is not None or pointee(right.type) is not None):
        return (
            constant(op == "!=", BOOL, span) if _null(left) or _null(right) else _compared(s, op, left, right, cursor)
        )
    if op == "-" and pointee(left.type) is not None:
        one, other = pointer(s, left), pointer(s, right)
        if one.base != other.base:
            raise outside("the difference of pointers into two arrays", cursor)
        zero = constant(0, I64, span)
        return ir.Binary("-", one.offset or zero, other.offset or zero, I64, span=span)
    a, b = value(s, left), value(s, right)
    if op in _COMPARED:
        shared = common(_scalar(a, left), _scalar(b, right))
        return ir.Compare(op, as_type(a, shared, span), as_type(b, shared, span), BOOL, span=span)
    if op not in ("*", "/", "%", "+", "-", "<<", ">>", "&", "^", "|"):
        raise outside(f"the operator `{op}`", cursor)
    type = element(cursor.type, cursor)
    if op in ("<<", ">>"):
        return ir.Binary(op, as_type(a, type, span), b, type, span=span)
    return ir.Binary(op, as_type(a, type, span), as_type(b, type, span), type, span=span)


def _scalar(e: ir.Expr, cursor: Any) -> Scalar:
    if not isinstance(e.type, Scalar):
        raise outside(f"a comparison of `{e.type}`", cursor)
    return e.type


def _null(cursor: Any) -> bool:
    cursor = peeled(cursor)
    return cursor.kind.name in ("CXX_NULL_PTR_LITERAL_EXPR", "GNU_NULL_EXPR") or (
        cursor.kind.name == "INTEGER_LITERAL" and evaluated(cursor) == 0
    )


def _compared(s: KernelText, op: str, left: Any, right: Any, cursor: Any) -> ir.Expr:
    a, b, span = pointer(s, left), pointer(s, right), span_of(cursor)
    if a.base != b.base or a.elem != b.elem:
        raise outside("a comparison of pointers into two arrays", cursor)
    zero = constant(0, I64, span)
    return ir.Compare(op, as_type(a.offset or zero, I64, span), as_type(b.offset or zero, I64, span), BOOL, span=span)


def _decided(s: KernelText, op: str, left: Any, right: Any, span: Span) -> ir.Expr:
    """The right side runs only where the left one leaves it open, what it changes included."""
    a = truth(value(s, left))
    with s.apart() as made:
        b = truth(value(s, right))
    if not made:
        return ir.Logical("and" if op == "&&" else "or", a, b, BOOL, span=span)
    kept = s.keep(a, BOOL, span)
    then = (*made, ir.Assign(ir.VarTarget(kept.var, span=span), b, span=span))
    s.out.append(ir.If(kept, then, (), span=span) if op == "&&" else ir.If(kept, (), then, span=span))
    return kept


def _chosen(s: KernelText, cursor: Any) -> ir.Expr:
    cond, yes, no = list(cursor.get_children())
    span, type = span_of(cursor), element(cursor.type, cursor)
    test = truth(value(s, cond))
    with s.apart() as first:
        a = as_type(value(s, yes), type, span)
    with s.apart() as second:
        b = as_type(value(s, no), type, span)
    if not first and not second:
        return ir.Select(test, a, b, type, span=span)
    var = s.variable("chosen", type, span, temp=True)
    s.out.append(ir.Declare(var, None, span=span))
    to = ir.VarTarget(var, span=span)
    s.out.append(ir.If(test, (*first, ir.Assign(to, a, span=span)), (*second, ir.Assign(to, b, span=span)), span=span))
    return ir.Read(var, type, span=span)


def assigned(s: KernelText, cursor: Any, left: Any, right: Any) -> ir.Expr:
    span = span_of(cursor)
    if pointee(left.type) is not None:
        repoint(s, left, pointer(s, right), span)
        return constant(0, I32, span)
    if struct_or_none(left.type) is not None and element_or_none(left.type) is None:
        given = struct(s, right)
        copied(s, lvalue(s, left), given, span)
        return constant(0, I32, span)
    new, at = _then(s, value(s, right), left)
    store(s, at, as_type(new, element(left.type, left), span), span)  # type: ignore[arg-type]
    return read(at, span)  # type: ignore[arg-type]


def _then(s: KernelText, right: ir.Expr, left: Any) -> tuple[ir.Expr, CLvalue | CArray]:
    """The right side of an assignment, kept where finding the left one changes something: `a[i++] = i`."""
    with s.apart() as made:
        at = lvalue(s, left)
    if made:
        right = s.keep(right, right.type, right.span)  # type: ignore[arg-type]
    s.out += made
    return right, at


def repoint(s: KernelText, left: Any, to: CPointer, span: Span) -> None:
    name = s.names.get(peeled(left).referenced.hash) if peeled(left).referenced is not None else None
    if isinstance(name, PointerVariable) and name.base is None:
        name = s.names[peeled(left).referenced.hash] = PointerVariable(to.base, name.offset, to.elem)
    if not isinstance(name, PointerVariable) or name.base != to.base or name.elem != to.elem:
        raise outside("a pointer that changes the array it points into", left)
    offset = constant(0, I64, span) if to.offset is None else as_type(to.offset, I64, span)
    s.out.append(ir.Assign(ir.VarTarget(name.offset, span=span), offset, span=span))


def _changed(s: KernelText, cursor: Any) -> ir.Expr:
    """`x += y` and its like."""
    op, span = BINARY[binary_kind(cursor)][:-1], span_of(cursor)
    left, right = list(cursor.get_children())
    by = value(s, right)
    if pointee(left.type) is not None:
        p = pointer(s, left)
        by = as_type(by, I64, span)
        by = ir.Unary("-", by, I64, span=span) if op == "-" else by
        repoint(s, left, CPointer(p.base, added(p.offset, by), p.elem), span)
        return constant(0, I32, span)
    by, at = _then(s, by, left)
    old = read(at, span)  # type: ignore[arg-type]
    type = element(left.type, left)
    if not isinstance(type, Scalar) or not isinstance(by.type, Scalar):
        raise outside(f"`{op}=` of a vector", cursor)
    shared = promoted(type) if op in ("<<", ">>") else common(type, by.type)
    other = by if op in ("<<", ">>") else as_type(by, shared, span)
    new = ir.Binary(op, as_type(old, shared, span), other, shared, span=span)
    store(s, at, as_type(new, type, span), span)  # type: ignore[arg-type]
    return read(at, span)  # type: ignore[arg-type]


def _unary(s: KernelText, cursor: Any) -> ir.Expr:
    (inner,) = list(cursor.get_children())
    op, span = UNARY.get(unary_kind(cursor), "?"), span_of(cursor)
    if op == "*":
        return _element(s, cursor)
    if op in ("x++", "x--", "++x", "--x"):
        if pointee(inner.type) is not None:
            pointer(s, cursor)
            return constant(0, I32, span)
        at, type = lvalue(s, inner), element(inner.type, inner)
        old = read(at, span)  # type: ignore[arg-type]
        if not isinstance(type, Scalar):
            raise outside(f"`{op}` of a vector", cursor)
        if op.startswith("x"):
            old = s.keep(old, type, span)
        one = literal(1, type, span)
        store(s, at, ir.Binary("+" if "+" in op else "-", old, one, type, span=span), span)  # type: ignore[arg-type]
        return old if op.startswith("x") else read(at, span)  # type: ignore[arg-type]
    if op == "!":
        if pointee(inner.type) is not None:
            return constant(False, BOOL, span)
        return ir.Unary("not", truth(value(s, inner)), BOOL, span=span)
    type = element(cursor.type, cursor)
    of = as_type(value(s, inner), type, span)
    if op == "+":
        return of
    if op in ("-", "~"):
        if isinstance(of, ir.Const) and op == "-" and isinstance(type, Scalar):
            return literal(-of.value, type, span)
        return ir.Unary(op, of, type, span=span)
    raise outside(f"the operator `{op}`", cursor)


def struct(s: KernelText, cursor: Any) -> StructFields | ArrayElement:
    """A struct as a value: a copy, where what it is made of may change."""
    cursor = peeled(cursor)
    span, kind = span_of(cursor), struct_or_none(cursor.type)
    if kind is None:
        raise outside(f"a value of type `{cursor.type.spelling}`", cursor)
    if cursor.kind.name == "CALL_EXPR" and (called := s.lower.called_struct(s, cursor)) is not None:
        return called
    if cursor.kind.name == "INIT_LIST_EXPR":
        fields = fresh(s, kind, "", span)
        fill(s, fields, cursor)
        return fields
    if cursor.kind.name == "CONDITIONAL_OPERATOR":
        cond, *arms = list(cursor.get_children())
        test, fields, bodies = truth(value(s, cond)), fresh(s, kind, "chosen", span), []
        for arm in arms:
            with s.apart() as made:
                copied(s, fields, struct(s, arm), span)
            bodies.append(tuple(made))
        s.out.append(ir.If(test, bodies[0], bodies[1], span=span))
        return fields
    found = lvalue(s, cursor)
    if not isinstance(found, (StructFields, ArrayElement)):
        raise outside("this struct", cursor)
    return found


def fresh(s: KernelText, kind: CStruct, name: str, span: Span) -> StructFields:
    """Variables for the fields of a struct."""
    of: dict[str, Any] = {}
    for field, elem, shape, _ in kind.fields:
        word = f"{name}_{field}" if name else field
        if isinstance(elem, CStruct):
            if shape:
                raise refusal("CUDAC003", f"an array of `{elem}` in a struct is outside the subset", span)
            of[field] = fresh(s, elem, word, span)
            continue
        var = s.variable(word, Array(elem, shape) if shape else elem, span)
        s.out.append(ir.Declare(var, None, span=span))
        of[field] = CArray(ArrayRegisters(var, shape), shape, (), elem) if shape else CVariable(var)
    return StructFields(kind, of)


def fill(s: KernelText, fields: StructFields, items: Any) -> None:
    """Give the fields the values of an initializer; those that it leaves out are zero."""
    span, given = span_of(items), list(items.get_children())
    for k, (name, elem, shape, _) in enumerate(fields.kind.fields):
        to = fields.of[name]
        if shape or k >= len(given) and not isinstance(elem, Scalar):
            raise outside(f"an initializer for the field `{name}`", items, "assign the fields")
        if isinstance(to, StructFields):
            copied(s, to, struct(s, given[k]), span)
        elif not shape and isinstance(to, CVariable) and isinstance(elem, Scalar):
            new = value(s, given[k]) if k < len(given) else literal(0, elem, span)
            store(s, to, as_type(new, elem, span), span)
        elif isinstance(to, CVariable) and k < len(given):
            store(s, to, value(s, given[k]), span)


def _list(s: KernelText, cursor: Any) -> ir.Expr:
    type, span = element(cursor.type, cursor), span_of(cursor)
    items = [value(s, c) for c in cursor.get_children()]
    if isinstance(type, Scalar):
        return as_type(items[0], type, span) if items else literal(0, type, span)
    items += [literal(0, type.elem, span)] * (type.lanes - len(items))
    return ir.MakeVector(tuple(as_type(e, type.elem, span) for e in items), type, span=span)


def effect(s: KernelText, cursor: Any) -> None:
    """An expression for what it changes."""
    inner = peeled(cursor)
    if inner.kind.name == "CALL_EXPR":
        s.lower.call(s, inner)
    elif pointee(inner.type) is not None and inner.kind.name == "UNARY_OPERATOR":
        pointer(s, inner)
    elif inner.kind.name in ("CSTYLE_CAST_EXPR",) and inner.type.get_canonical().kind.name == "VOID":
        effect(s, [c for c in inner.get_children() if c.kind.is_expression()][-1])
    else:
        value(s, inner)


def _called(s: KernelText, cursor: Any) -> ir.Expr:
    made = s.lower.call(s, cursor)
    if made is None:
        raise outside(f"`{cursor.spelling}` as a value", cursor)
    return made


def _paren(s: KernelText, cursor: Any) -> ir.Expr:
    (inner,) = list(cursor.get_children())
    return value(s, inner)


_MAKERS: dict[str, Callable[[KernelText, Any], ir.Expr]] = {
    "INTEGER_LITERAL": _literal,
    "FLOATING_LITERAL": _literal,
    "CHARACTER_LITERAL": _literal,
    "CXX_UNARY_EXPR": _literal,  # sizeof
    "CXX_BOOL_LITERAL_EXPR": _boolean,
    "DECL_REF_EXPR": _name,
    "ARRAY_SUBSCRIPT_EXPR": _element,
    "MEMBER_REF_EXPR": _member,
    "UNEXPOSED_EXPR": _converted,
    "CSTYLE_CAST_EXPR": _converted,
    "CXX_STATIC_CAST_EXPR": _converted,
    "CXX_FUNCTIONAL_CAST_EXPR": _converted,
    "CXX_REINTERPRET_CAST_EXPR": _element,
    "PAREN_EXPR": _paren,
    "BINARY_OPERATOR": _operation,
    "COMPOUND_ASSIGNMENT_OPERATOR": _changed,
    "UNARY_OPERATOR": _unary,
    "CONDITIONAL_OPERATOR": _chosen,
    "INIT_LIST_EXPR": _list,
    "CALL_EXPR": _called,
}


def variable_of(s: KernelText, cursor: Any) -> CVariable | None:
    """The variable that an expression is, if it is one."""
    cursor = peeled(cursor)
    named = cursor.referenced if cursor.kind.name == "DECL_REF_EXPR" else None
    meaning = s.names.get(named.hash) if named is not None else None
    return meaning if isinstance(meaning, CVariable) else None
