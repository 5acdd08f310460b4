"""Targets of assignment as CUDA lvalues."""

from __future__ import annotations

from snap._compiler.codegen.core import tree
from snap._compiler.codegen.core.scope import Scope
from snap._compiler.codegen.core.spelling import COMPONENTS
from snap._compiler.codegen.memory import addresses
from snap._compiler.ir import nodes as ir


def target_lvalue(scope: Scope, target: ir.Target) -> tree.Expr:
    match target:
        case ir.VarTarget(var):
            return tree.Name(scope.state.variables[var.uid])
        case ir.ElemTarget(array, index):
            return addresses.element(scope, array, index)
        case ir.MemTarget(access):
            return addresses.lvalue(scope, access)
        case ir.ComponentTarget(of, lane):
            return tree.Member(target_lvalue(scope, of), COMPONENTS[lane])
        case _:
            raise TypeError(type(target).__name__)


def reads_target(target: ir.Target, e: ir.Expr) -> bool:
    """Return whether e is the current value of the target."""
    match target, e:
        case ir.VarTarget(var), ir.Read(other):
            return var == other
        case ir.ElemTarget(array, index), ir.Elem(other, at):
            return (array, index) == (other, at)
        case ir.MemTarget(access), ir.Load(other):
            return access == other and not (e.cache or e.l2)
        case ir.ComponentTarget(of, lane), ir.Component(value, at):
            return lane == at and reads_target(of, value)
        case _:
            return False
