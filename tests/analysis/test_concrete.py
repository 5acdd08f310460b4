"""Integer expressions computed with known values: as the GPU does, and only where everything that decides is known."""

from __future__ import annotations

import pytest

from snap._compiler.analysis import concrete
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.integers import exact, fits, held_by, wrap
from snap._compiler.ir.types import BOOL, I8, I32, THREAD1, U8, U32
from snap.diag.span import Span

HERE = Span("x.py", 1, 1, 1, 1)


def const(n, type=I32):
    return ir.Const(n, type, span=HERE)


def binary(op, a, b, type=I32):
    return ir.Binary(op, a, b, type, span=HERE)


X = ir.Read(ir.Var(1, "x", I32, THREAD1, span=HERE), I32, span=HERE)


@pytest.mark.parametrize("e, expected", [
    (binary("+", const(2**31 - 1), const(1)), -(2**31)),
    (binary("-", const(0, U32), const(1, U32), U32), 2**32 - 1),
    (binary("/", const(-7), const(2)), -3),  # toward zero
    (binary("%", const(-7), const(2)), -1),
    (binary("//", const(-7), const(2)), -4),  # down
    (binary("mod", const(-7), const(2)), 1),
    (binary("mod", const(7), const(-2)), -1),
    (binary("//", const(-(2**31)), const(-1)), -(2**31)),
    (binary("/", const(1), const(0)), None),
    (binary("//", const(1), const(0)), None),
    (binary("<<", const(1), const(32)), None),
    (ir.Cast(const(200), I8, span=HERE), -56),
    (ir.Cast(const(2), BOOL, span=HERE), True),
    (ir.Unary("~", const(0), I32, span=HERE), -1),
    (ir.Logical("and", const(False, BOOL), ir.Compare("<", X, const(1), BOOL, span=HERE), BOOL, span=HERE), False),  # x does not decide
    (ir.Logical("or", const(False, BOOL), ir.Compare("<", X, const(1), BOOL, span=HERE), BOOL, span=HERE), None),
    (ir.Select(const(True, BOOL), const(5), X, I32, span=HERE), 5),
    (ir.Math("min", (const(3), const(-4)), I32, False, span=HERE), -4),
    (ir.Math("abs", (const(-(2**31)),), I32, False, span=HERE), -(2**31)),
    (binary("*", X, const(0)), None),
])  # fmt: skip
def test_values(e, expected):
    assert concrete.value(e, lambda _: None) == expected


def test_what_a_variable_is():
    assert concrete.value(binary("*", X, const(3)), lambda e: 7 if e is X else None) == 21


def test_types():
    assert [held_by(t) for t in (I8, U8, BOOL)] == [(-128, 127), (0, 255), (0, 1)]
    assert [wrap(200, t) for t in (I8, U8)] == [-56, 200] and fits(-128, I8) and not fits(128, I8)
    assert exact(">>", -5, 1, 32) == -3 and exact("**", 2, 3, 32) is None
