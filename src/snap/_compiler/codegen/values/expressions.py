"""IR expressions -> CUDA expressions.

Input:      a typed IR expression and the scope it stands in
Output:     a CUDA tree of the C++ type that spells the expression's type (narrow integers and positions: see
            `Cast.implicit`)
Invariant:  pure in, pure out; integer constants are folded
Non-goals:  statements, memory layout (`memory/addresses.py`)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from snap._compiler.codegen.core import tree
from snap._compiler.codegen.core.positions import unit_count, unit_id
from snap._compiler.codegen.core.scope import Scope
from snap._compiler.codegen.core.spelling import COMPONENTS, literal, make_vector
from snap._compiler.codegen.hopper import accumulators
from snap._compiler.codegen.memory import addresses, hints, tables
from snap._compiler.codegen.values import arithmetic, mathematics, vectors
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import I32, Array, Scalar, Vector, as_element, as_scalar, as_vector
from snap.record import replace

LOGICAL = {"and": "&&", "or": "||"}


def lower(scope: Scope, e: ir.Expr) -> tree.Expr:
    return _LOWERED[type(e)](scope, e)


def _each(scope: Scope, parts: tuple[ir.Expr, ...]) -> tuple[tree.Expr, ...]:
    return tuple([lower(scope, part) for part in parts])


def _read(scope: Scope, e: ir.Read) -> tree.Expr:
    state, uid = scope.state, e.var.uid
    inlined = state.inline.get(uid)
    return tree.Name(state.variables[uid]) if inlined is None else inlined


def _make_vector(scope: Scope, e: ir.MakeVector) -> tree.Expr:
    made = _each(scope, e.items)
    if isinstance(e.type, Array):
        return tree.Braces("", made)
    return made[0] if isinstance(e.type, Scalar) else make_vector(scope.module, e.type, made)


def _load(scope: Scope, e: ir.Load) -> tree.Expr:
    return hints.load(scope, e) if e.cache or e.l2 else addresses.lvalue(scope, e.access)


def _unary(scope: Scope, e: ir.Unary) -> tree.Expr:
    value = lower(scope, e.value)
    if isinstance(e.type, Vector):
        return vectors.unary(scope.module, e.op, value, e.type)
    return arithmetic.unary(scope.module, e.op, value, e.type)


def _binary(scope: Scope, e: ir.Binary) -> tree.Expr:
    left, right = lower(scope, e.left), lower(scope, e.right)
    if isinstance(e.type, Vector):
        types = as_element(e.left.type), as_element(e.right.type)
        return vectors.binary(scope.module, e.op, left, right, types, e.type)
    return arithmetic.binary(scope.module, e.op, left, right, e.type)


def _compare(scope: Scope, e: ir.Compare) -> tree.Expr:
    left = e.left
    match e:
        case ir.Compare("==" | "!=", ir.Binary("mod"), ir.Const(0)):  # whether something is left: however it is rounded
            left = replace(left, op="%")
    return tree.Binary(e.op, lower(scope, left), lower(scope, e.right))


def _logical(scope: Scope, e: ir.Logical) -> tree.Expr:
    return tree.Binary(LOGICAL[e.op], lower(scope, e.left), lower(scope, e.right))


def _select(scope: Scope, e: ir.Select) -> tree.Expr:
    return tree.Ternary(lower(scope, e.cond), lower(scope, e.then), lower(scope, e.other))


def _cast(scope: Scope, e: ir.Cast) -> tree.Expr:
    value, type = e.value, e.type
    if isinstance(type, Vector):
        return vectors.convert(scope.module, lower(scope, value), as_vector(value.type), type)
    if isinstance(value, ir.Const) and type.is_float:
        return literal(scope.module, value.value, type)
    return arithmetic.convert(scope.module, lower(scope, value), as_scalar(value.type), type)


def _math(scope: Scope, e: ir.Math) -> tree.Expr:
    given = _each(scope, e.args)
    if isinstance(e.type, Vector):
        return vectors.function(scope.module, e.op, given, tuple(arg.type for arg in e.args), e.type, e.fast)
    return mathematics.function(scope.module, e.op, given, as_scalar(e.args[0].type), e.fast)


def _lane(scope: Scope, e: ir.Lane) -> tree.Expr:
    return tree.Cast("int", tree.Binary("%", tree.Name("threadIdx.x"), tree.Integer(e.among)))


# By class: a kernel has thousands of expressions.
_LOWERED: dict[type, Callable[[Scope, Any], tree.Expr]] = {
    ir.Const: lambda scope, e: literal(scope.module, e.value, e.type),
    ir.Read: _read,
    ir.Elem: lambda scope, e: accumulators.value(scope, e.array, addresses.element(scope, e.array, e.index)),
    ir.ArrayValue: lambda scope, e: addresses.whole(scope, e.array, e.type, const=True),
    ir.Component: lambda scope, e: tree.Member(lower(scope, e.value), COMPONENTS[e.lane]),
    ir.MakeVector: _make_vector,
    ir.Load: _load,
    ir.Lookup: lambda scope, e: tables.element(scope.module, e.table, _each(scope, e.index)),
    ir.Unary: _unary,
    ir.Binary: _binary,
    ir.Compare: _compare,
    ir.Logical: _logical,
    ir.Select: _select,
    ir.Cast: _cast,
    ir.Bitcast: lambda scope, e: arithmetic.bitcast(scope.module, lower(scope, e.value), e.value.type, e.type),
    ir.Math: _math,
    ir.UnitId: lambda scope, e: _as_type(scope, unit_id(scope.module, scope.positions, e), e.type),
    ir.UnitCount: lambda scope, e: _as_type(scope, unit_count(scope.module, e), e.type),
    ir.Lane: _lane,
}


def _as_type(scope: Scope, value: tree.Expr, type: Scalar) -> tree.Expr:
    return arithmetic.convert(scope.module, value, I32, type)


def stored(value: tree.Expr, type_name: str) -> tree.Expr:
    """`value` where a variable of this type receives it: conversions that C++ makes by itself are left to it."""
    match value:
        case tree.Cast(type, inner, True) if type == type_name:
            return inner
        case tree.Deferred(cell, True) if type_name == "int":
            return tree.Deferred(cell, signed=False)
        case _:
            return value


def positive(scope: Scope, e: ir.Expr) -> bool:
    """Return whether e is known to be above zero; a grid has fewer than 2^31 units of anything."""
    match e:
        case ir.Const(value):
            return value > 0
        case ir.UnitCount():
            return True
        case ir.Read(var):
            return var.uid in scope.state.positive
        case _:
            return False


def invariant(scope: Scope, e: ir.Expr) -> bool:
    """Return whether e has one value wherever it stands in the scope: it reads constants only."""
    match e:
        case ir.Const() | ir.UnitId() | ir.UnitCount() | ir.Lane():
            return True
        case ir.Read(var):
            return var.uid in scope.state.constants
        case ir.Unary(_, value) | ir.Cast(value):
            return invariant(scope, value)
        case ir.Binary(_, left, right) | ir.Compare(_, left, right):
            return invariant(scope, left) and invariant(scope, right)
        case _:
            return False
