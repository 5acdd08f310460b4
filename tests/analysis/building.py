"""Expressions of the typed IR, by hand."""

from __future__ import annotations

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import BLOCK1, BOOL, I32, THREAD1
from snap.diag.span import Span

HERE = Span("x.py", 1, 1, 1, 1)


def var(name: str, uid: int, type=I32, privilege=THREAD1) -> ir.Var:
    return ir.Var(uid, name, type, privilege, span=HERE)


def read(v: ir.Var) -> ir.Read:
    return ir.Read(v, v.type, span=HERE)


def const(n, type=I32) -> ir.Const:
    return ir.Const(n, type, span=HERE)


def op(a: ir.Expr, symbol: str, b: ir.Expr | int, type=None) -> ir.Binary:
    type = type or a.type
    return ir.Binary(symbol, a, b if isinstance(b, ir.Expr) else const(b, type), type, span=HERE)


def less(a: ir.Expr, b: ir.Expr | int, symbol: str = "<") -> ir.Compare:
    return ir.Compare(symbol, a, b if isinstance(b, ir.Expr) else const(b, a.type), BOOL, span=HERE)


def chosen(cond: ir.Expr, a: ir.Expr, b: ir.Expr) -> ir.Select:
    return ir.Select(cond, a, b, a.type, span=HERE)


def loop(v: ir.Var, start: ir.Expr, stop: ir.Expr, step: ir.Expr, *body: ir.Stmt) -> ir.For:
    return ir.For(v, start, stop, step, tuple(body), span=HERE)


N, M, K = (var(name, uid, privilege=BLOCK1) for uid, name in enumerate("nmk"))
T, MINE = var("t", 10), var("mine", 11)
n, m, k, t, mine = map(read, (N, M, K, T, MINE))
