"""Integer arithmetic that simplifies as it is built.

Input:      an operator of C, operands as CUDA trees, and the operands' type
Output:     a tree with the same value: constants folded (wrapping as the type does), x + 0, x - 0, x * 1, x / 1, x * 0,
            x % 1, x >> 0, x & 0 reduced
Invariant:  an operand with a call in it is never dropped: the call may be an atomic's, whose result was asked for here
Non-goals:  anything on floats, whose arithmetic these laws do not hold for
"""

from __future__ import annotations

from snap._compiler.codegen.core import tree
from snap._compiler.codegen.core.spelling import integer
from snap._compiler.ir.integers import exact, wrap
from snap._compiler.ir.types import Scalar


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
        case "+" | "-" if isinstance(right, tree.Integer):
            return _joined(op, left, right, type)
        case "*" if (a == 0 or b == 0) and not _calls(left) and not _calls(right):
            return integer(0, type)
        case "*" if b == 1:
            return left
        case "*" if a == 1:
            return right
        case "/" if b == 1:
            return left
        case "%" if b == 1 and not _calls(left):
            return integer(0, type)
        case ">>" if b == 0:
            return left
        case "&" if b == 0 and not _calls(left):
            return integer(0, type)
        case _:
            return tree.Binary(op, left, right)


def _calls(e: tree.Expr) -> bool:
    """Return whether there is a call in an expression, or text whose effects are not known."""
    match e:
        case tree.Call() | tree.Raw() | tree.Deferred():
            return True
        case tree.Unary(value=x) | tree.Member(value=x) | tree.Cast(value=x) | tree.Reinterpret(value=x):
            return _calls(x)
        case tree.Binary(left=x, right=y) | tree.Index(base=x, index=y):
            return _calls(x) or _calls(y)
        case tree.Ternary(cond=x, then=y, other=z):
            return _calls(x) or _calls(y) or _calls(z)
        case tree.Braces(items=items):
            return any(map(_calls, items))
        case _:
            return False


def _joined(op: str, left: tree.Expr, right: tree.Integer, type: Scalar) -> tree.Expr:
    """(x + c) + d as x + (c + d): index functions of partitions that nest leave such chains."""
    if isinstance(left, tree.Binary) and left.op in ("+", "-") and isinstance(left.right, tree.Integer):
        inner = left.right.value if left.op == "+" else -left.right.value
        total = wrap(inner + (right.value if op == "+" else -right.value), type)
        if abs(total) < 1 << (type.bits - 2):
            return binary("+" if total >= 0 else "-", left.left, integer(abs(total), type), type)
    return tree.Binary(op, left, right)
