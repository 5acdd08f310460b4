"""Results of statements with effects, and the variables that receive them.

Input:      declarations, and calls, atomics and `unsafe` with a target
Output:     CUDA declarations and the expressions that initialize them
Invariant:  an effect is evaluated exactly where its statement stands: it moves into the next statement only where
            nothing that it could change is evaluated before it
Non-goals:  effects without a result
"""

from __future__ import annotations

from snap._compiler.codegen.core import tree
from snap._compiler.codegen.core.positions import ZERO, within
from snap._compiler.codegen.core.scope import FunctionState, Scope
from snap._compiler.codegen.core.spelling import type_name, zero_value
from snap._compiler.codegen.core.usage import Usage
from snap._compiler.codegen.memory import addresses
from snap._compiler.codegen.memory.atomics import atomic
from snap._compiler.codegen.threads import collectives
from snap._compiler.codegen.threads.unsafe import raw
from snap._compiler.codegen.values.expressions import lower, stored
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.types import Array, ValueType, as_array
from snap.record import replace


def result(scope: Scope, s: ir.Atomic | ir.Call | ir.Unsafe) -> tree.Expr:
    match s:
        case ir.Atomic(op, access, args, _, order, sync_scope):
            values = tuple(lower(scope, arg) for arg in args)
            return atomic(
                scope.module, op, access.view.elem, order, sync_scope, addresses.address(scope, access), values
            )
        case ir.Call():
            return call(scope, s)
        case ir.Unsafe():
            return raw(scope, s)
        case _:
            raise TypeError(type(s).__name__)


def call(scope: Scope, s: ir.Call) -> tree.Expr:
    """A device function, with the hidden parameters that it takes: index at its highest level, shared memory, tensor
    maps, barriers.
    """
    state = scope.state
    callee = state.callee(synced.callee(s), scope.whole)
    args = [_argument(scope, param, arg) for param, arg in zip(s.function.params, s.args)]
    if callee.position:
        args.append(_position(scope, s))
    if callee.smem:
        args.append(state.shared_base(s.smem_offset))
    args += [state.tensor(replace(use, array=s.view(index).obj.uid)) for index, use in callee.tensors]
    args += [tree.Name(state.mbarriers[uid]) for uid in callee.mbarriers]
    if callee.grid_barrier:
        args.append(state.grid_barrier_word())
    return tree.Call(callee.name, tuple(args))


def _argument(scope: Scope, param: ir.Param, arg: ir.Expr | ir.ArrayRef | ir.MemView) -> tree.Expr:
    match param, arg:
        case ir.MemParam(handle), ir.MemView(obj):
            return addresses.pointer(scope, ir.MemView(obj, handle.obj.elem, None))
        case ir.RefParam(var), ir.ArrayRef() as array:
            return addresses.whole(scope, array, as_array(var.type), const=False)
        case ir.ValueParam(var), ir.ArrayValue(array):
            return addresses.whole(scope, array, as_array(var.type), const=True)
        case ir.ValueParam(var), _ if not isinstance(arg, (ir.ArrayRef, ir.MemView)):
            return store(scope, lower(scope, arg), var.type)
        case _:
            raise TypeError(f"{type(arg).__name__} for {type(param).__name__}")


def _position(scope: Scope, s: ir.Call) -> tree.Expr:
    top = s.function.place.top
    here = scope.positions[top]
    inside = within(scope.positions, scope.place, s.function.place.privilege)
    if inside is ZERO:
        return tree.Integer(0)
    return inside.use(signed=False) if inside is here else inside.formula()


def store(scope: Scope, value: tree.Expr, type: ValueType) -> tree.Expr:
    """`value` where something of this type receives it."""
    return value if isinstance(type, Array) else stored(value, type_name(scope.module, type))


# ---- declarations ---------------------------------------------------------------------------------------------------


def declaration(scope: Scope, var: ir.Var, init: tree.Expr | None, zero: bool = False) -> tree.Stmt:
    """`init` counts as the first write of a variable that gets its value from the statement after its declaration."""
    state = scope.state
    name = state.variables[var.uid] = state.namer.user(var.name)
    match var.type:
        case Array(elem, shape):
            return tree.Declare(
                type_name(state.module, elem),
                name,
                tree.Braces("", ()) if zero else init,
                dims=shape,
                align=array_align(state, var),
            )
        case _:
            const = (init is not None or zero) and not state.usage.writes[var.uid] and var.uid not in state.usage.pinned
            if const:
                state.constants.add(var.uid)
            value = init if init is not None else zero_value(state.module, var.type) if zero else None
            return tree.Declare(
                type_name(state.module, var.type),
                name,
                None if value is None else store(scope, value, var.type),
                const=const,
            )


def array_align(state: FunctionState, var: ir.Var) -> int:
    return max(state.usage.align.get(var.uid, 0), addresses.natural_align(as_array(var.type)))


def merged(scope: Scope, statements: ir.Body, at: int) -> tuple[ir.Var, tree.Expr] | None:
    """`x; x = effect();` as `x = effect();`: the declared variable and its value."""
    if type(statements[at]) is not ir.Declare:
        return None
    usage = scope.state.usage
    match statements[at : at + 2]:
        case (ir.Declare(var, None), _) if usage.dead(var):
            return None
        case (ir.Declare(var, None), ir.Collective(targets=(ir.VarTarget(other),)) as s) if var == other:
            value = None if _mentions(s.args, var) else collectives.value(scope, s)
        case (
            ir.Declare(var, None),
            (ir.Atomic(target=ir.VarTarget(other)) | ir.Call(target=ir.VarTarget(other))) as s,
        ) if var == other:
            value = None if _mentions((s.args, getattr(s, "access", ())), var) else result(scope, s)
        case (ir.Declare(var, None), ir.Unsafe(target=ir.VarTarget(other)) as s) if var == other and s.type is not None:
            value = None if _mentions((s.values, s.memory), var) else result(scope, s)
        case _:
            return None
    if value is None:
        return None
    usage.writes[var.uid] -= 1
    return var, value


def _mentions(parts: object, var: ir.Var) -> bool:
    usage = Usage()
    usage.visit(parts)
    return bool(usage.reads[var.uid])


def consumer_of(scope: Scope, var: ir.Var, following: ir.Body) -> bool:
    """Return whether the next statement is the one reader of a temporary, and evaluates it before anything that its
    effect could change.
    """
    usage = scope.state.usage
    match following:
        case (ir.Declare(other, init),) if init is not None and not usage.unused(other):
            return consumed_by(scope, var, init)
        case (ir.Assign(ir.VarTarget(other), value),) if not usage.dead(other):
            return consumed_by(scope, var, value)
        case (ir.Assign(ir.MemTarget(access), value),) if all(
            map(_pure_of_memory, (*access.index, *(access.view.shape or ())))
        ):
            return consumed_by(scope, var, value)  # C++17 evaluates the right side of an assignment first
        case (ir.Assign(ir.ElemTarget(_, index), value),) if all(map(_pure_of_memory, index)):
            return consumed_by(scope, var, value)
        case (ir.Return(value),) if value is not None:
            return consumed_by(scope, var, value)
        case (ir.If(cond, then, other),) if then or other:
            return consumed_by(scope, var, cond)
        case _:
            return False


def consumed_by(scope: Scope, var: ir.Var, e: ir.Expr) -> bool:
    """Return whether e is the one reader of a temporary, certainly reads it, and besides it only variables."""
    usage = scope.state.usage
    return (
        var.temp
        and usage.reads[var.uid] == 1
        and not usage.writes[var.uid]
        and _pure_of_memory(e)
        and _always_reads(e, var)
    )


def _pure_of_memory(e: ir.Expr) -> bool:
    match e:
        case ir.Const() | ir.Read() | ir.UnitId() | ir.UnitCount() | ir.Lane():
            return True
        case ir.Unary(_, value) | ir.Cast(value) | ir.Bitcast(value):
            return _pure_of_memory(value)
        case ir.Lookup(_, index):
            return all(map(_pure_of_memory, index))
        case ir.Component(value):
            return _pure_of_memory(value)
        case ir.Binary(_, left, right) | ir.Compare(_, left, right) | ir.Logical(_, left, right):
            return _pure_of_memory(left) and _pure_of_memory(right)
        case ir.Math(_, args) | ir.MakeVector(args):
            return all(map(_pure_of_memory, args))
        case _:
            return False


def _always_reads(e: ir.Expr, var: ir.Var) -> bool:
    match e:
        case ir.Read(other):
            return var == other
        case ir.Unary(_, value) | ir.Cast(value) | ir.Bitcast(value):
            return _always_reads(value, var)
        case ir.Component(value):
            return _always_reads(value, var)
        case ir.Binary(_, left, right) | ir.Compare(_, left, right):
            return _always_reads(left, var) or _always_reads(right, var)
        case ir.Logical(_, left, _):
            return _always_reads(left, var)
        case ir.Math(_, args) | ir.MakeVector(args):
            return any(_always_reads(arg, var) for arg in args)
        case _:
            return False
