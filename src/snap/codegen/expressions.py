"""IR expressions -> CUDA expressions.

Input:      a typed IR expression and the scope it stands in
Output:     a CUDA tree of the C++ type that spells the expression's type (narrow integers and positions: see
            `Cast.implicit`)
Invariant:  pure in, pure out; integer constants are folded
Non-goals:  statements, memory layout (`memory.py`)
"""

from __future__ import annotations

from snap.codegen import arithmetic, hints, mathematics, memory, tables, tree, vectors
from snap.codegen.positions import unit_count, unit_id
from snap.codegen.scope import Scope
from snap.codegen.spelling import COMPONENTS, literal, make_vector
from snap.ir import nodes as ir
from snap.ir.types import I32, Array, Scalar, Vector

LOGICAL = {"and": "&&", "or": "||"}


def lower(scope: Scope, e: ir.Expr) -> tree.Expr:
    module = scope.module
    match e:
        case ir.Const(value, type):
            return literal(module, value, type)
        case ir.Read(var):
            inlined = scope.state.inline.get(var.uid)
            return tree.Name(scope.state.variables[var.uid]) if inlined is None else inlined
        case ir.Elem(array, index):
            return memory.element(scope, array, index)
        case ir.ArrayValue(array, type):
            return memory.whole(scope, array, type, const=True)
        case ir.Component(value, lane):
            return tree.Member(lower(scope, value), COMPONENTS[lane])
        case ir.MakeVector(items, type):
            made = tuple(lower(scope, item) for item in items)
            if isinstance(type, Array):
                return tree.Braces("", made)
            return made[0] if isinstance(type, Scalar) else make_vector(module, type, made)
        case ir.Load(access):
            return hints.load(scope, e) if e.cache or e.l2 else memory.lvalue(scope, access)
        case ir.Lookup(table, index):
            return tables.element(module, table, tuple(lower(scope, i) for i in index))
        case ir.Unary(op, value, Vector() as vector):
            return vectors.unary(module, op, lower(scope, value), vector)
        case ir.Binary(op, left, right, Vector() as vector):
            types = left.type, right.type
            return vectors.binary(module, op, lower(scope, left), lower(scope, right), types, vector)
        case ir.Math(op, args, Vector() as vector, fast):
            given = tuple(lower(scope, arg) for arg in args)
            return vectors.function(module, op, given, tuple(arg.type for arg in args), vector, fast)
        case ir.Cast(value, Vector() as vector):
            return vectors.convert(module, lower(scope, value), value.type, vector)
        case ir.Unary(op, value, type):
            return arithmetic.unary(module, op, lower(scope, value), type)
        case ir.Binary(op, left, right, type):
            return arithmetic.binary(module, op, lower(scope, left), lower(scope, right), type)
        case ir.Compare(op, left, right):
            return tree.Binary(op, lower(scope, left), lower(scope, right))
        case ir.Logical(op, left, right):
            return tree.Binary(LOGICAL[op], lower(scope, left), lower(scope, right))
        case ir.Select(cond, then, other):
            return tree.Ternary(lower(scope, cond), lower(scope, then), lower(scope, other))
        case ir.Cast(value, type):
            if isinstance(value, ir.Const) and type.is_float:
                return literal(module, value.value, type)
            return arithmetic.convert(module, lower(scope, value), value.type, type)
        case ir.Bitcast(value, type):
            return arithmetic.bitcast(module, lower(scope, value), value.type, type)
        case ir.Math(op, args, _, fast):
            return mathematics.function(module, op, tuple(lower(scope, arg) for arg in args), args[0].type, fast)
        case ir.UnitId():
            return _as_type(scope, unit_id(module, scope.positions, e), e.type)
        case ir.UnitCount():
            return _as_type(scope, unit_count(module, e), e.type)
        case ir.Lane(among):
            return tree.Cast("int", tree.Binary("%", tree.Name("threadIdx.x"), tree.Integer(among)))
        case _:
            raise TypeError(e)


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
    """Whether e is known to be above zero; a grid has fewer than 2^31 units of anything."""
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
    """Whether e has one value wherever it stands in the scope: it reads constants only."""
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
