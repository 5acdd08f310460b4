"""Integer expressions as the compiler writes them into the text: what adds nothing is left out."""

from __future__ import annotations

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import I32
from snap.diag.span import Span


def number(value: int, span: Span) -> ir.Const:
    return ir.Const(value, I32, span=span)


def read(var: ir.Var, span: Span) -> ir.Read:
    return ir.Read(var, var.type, span=span)


def binary(op: str, left: ir.Expr, right: int | ir.Expr, span: Span) -> ir.Expr:
    right = number(right, span) if isinstance(right, int) else right
    if isinstance(right, ir.Const) and (op in "*/" and right.value == 1 or op in "+-" and right.value == 0):
        return left
    if isinstance(right, ir.Const) and op == "%" and right.value == 1:
        return number(0, span)
    return ir.Binary(op, left, right, I32, span=span)


def counted_up(var: ir.Var, span: Span) -> ir.Assign:
    return ir.Assign(ir.VarTarget(var, span=span), binary("+", read(var, span), 1, span), span=span)


def as_i32(e: ir.Expr) -> ir.Expr:
    return e if e.type == I32 else ir.Cast(e, I32, span=e.span)
