"""Integer arithmetic that simplifies as it is built.

Input:      an operator of C, operands as CUDA trees, and the operands' type
Output:     a tree with the same value: constants folded (wrapping as the type does), x + 0, x - 0, x * 1, x / 1, x * 0,
            x % 1, x >> 0, x & 0 reduced
Invariant:  operands are pure, so one that is dropped is not missed
Non-goals:  anything on floats, whose arithmetic these laws do not hold for
"""

from __future__ import annotations

from snap.codegen import tree
from snap.codegen.spelling import integer
from snap.ir.integers import exact, wrap
from snap.ir.types import Scalar


def binary(op: str, left: tree.Expr, right: tree.Expr, type: Scalar) -> tree.Expr:
    a = left.value if isinstance(left, tree.Integer) else None
    b = right.value if isinstance(right, tree.Integer) else None
    if a is not None and b is not None:
        value = exact(op, wrap(a, type), wrap(b, type), type.bits)
        if value is not None:
            return integer(value, type)
    match op:
        case "+" if b == 0:
            return left
        case "+" if a == 0:
            return right
        case "+" if b is not None and b < 0 and b != -(1 << (type.bits - 1)):
            return binary("-", left, integer(-b, type), type)
        case "-" if b == 0:
            return left
        case "-" if b is not None and b < 0 and b != -(1 << (type.bits - 1)):
            return binary("+", left, integer(-b, type), type)
        case "+" | "-" if b is not None:
            return _joined(op, left, right, type)
        case "*" if a == 0 or b == 0:
            return integer(0, type)
        case "*" if b == 1:
            return left
        case "*" if a == 1:
            return right
        case "/" if b == 1:
            return left
        case "%" if b == 1:
            return integer(0, type)
        case ">>" if b == 0:
            return left
        case "&" if b == 0:
            return integer(0, type)
        case _:
            return tree.Binary(op, left, right)


def _joined(op: str, left: tree.Expr, right: tree.Integer, type: Scalar) -> tree.Expr:
    """(x + c) + d as x + (c + d): index functions of partitions that nest leave such chains."""
    if isinstance(left, tree.Binary) and left.op in ("+", "-") and isinstance(left.right, tree.Integer):
        inner = left.right.value if left.op == "+" else -left.right.value
        total = wrap(inner + (right.value if op == "+" else -right.value), type)
        if abs(total) < 1 << (type.bits - 2):
            return binary("+" if total >= 0 else "-", left.left, integer(abs(total), type), type)
    return tree.Binary(op, left, right)
