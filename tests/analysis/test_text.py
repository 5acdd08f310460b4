"""What the text tells of a value: divisors, remainders, signs, and which way it moves in a loop."""

from __future__ import annotations

import pytest
from analysis.building import HERE, K, chosen, const, k, less, m, n, op, read, var

from snap._compiler.analysis.syntactic import Text, direction, divisor, natural, remainder
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import I8, I32, I64, THREAD1, U32, U64, Held, Level, Place

ID = ir.UnitId(THREAD1, Place(((Level.BLOCK, Held(1)), (Level.THREAD, Held(64)))), I32, span=HERE)
TWICE, MOVED, ONCE = var("twice", 20), var("moved", 21), var("once", 22)
DECLARED = {
    TWICE.uid: (op(n, "*", 2),),
    MOVED.uid: (op(const(7), "-", k),),
    ONCE.uid: (read(ONCE),),  # a circle
    K.uid: (const(16), n, const(48)),
}


def text(proofs: bool) -> Text:
    return Text(lambda v: DECLARED.get(v.uid), proofs)


@pytest.mark.parametrize("e, known", [
    (const(0), 0), (const(-12), 12), (n, 1), (op(n, "*", 8), 8), (read(TWICE), 2), (op(read(TWICE), "*", 4), 8),
    (op(op(n, "*", 8), "+", 12), 4), (op(op(n, "*", m), "*", 4), 4), (op(read(TWICE), "*", read(TWICE)), 4),
    (op(op(n, "*", 8), "%", 12), 4), (op(n, "<<", 5), 32), (op(n, "/", 8), 1),
    (chosen(less(n, m), op(n, "*", 8), const(12)), 4), (op(chosen(less(n, m), const(8), const(16)), "+", 8), 8),
    (k, 16), (op(k, "*", 2), 32), (ID, 1), (read(ONCE), 1),
    (op(n, "-", n), 1),  # n is assigned: the two reads may differ
    (ir.Cast(op(n, "*", 16), I64, span=HERE), 16), (ir.Cast(op(n, "*", 48), I8, span=HERE), 16),
    (op(ir.Cast(n, U32, span=HERE), "*", 24, U32), 8),  # 24 n modulo 2 ** 32: powers of two are left
])  # fmt: skip
def test_divisors(e, known):
    for proofs in (True, False):
        found = divisor(e, text(proofs))
        assert found & -found == known & -known  # powers of two, which survive wrapping
        assert not proofs or found == 0 or known % found == 0


@pytest.mark.parametrize("e, by, left", [(op(op(n, "*", 8), "+", 6), 4, 2), (op(op(n, "*", 8), "-", 1), 8, 7), (n, 2, None), (const(5), 4, 1), (k, 32, None), (k, 16, 0)])
def test_remainders(e, by, left):
    assert remainder(e, by, text(False)) == left == remainder(e, by, text(True))


@pytest.mark.parametrize("e, sure", [
    (const(0), True), (const(-1), False), (n, False), (ID, True), (k, True), (op(k, "/", 3), True), (op(k, "%", n), True), (op(n, "%", 3), False),
    (op(n, "&", 255), True), (op(n, "&", m), False), (op(ID, "+", 1), False),  # 2 ** 31 - 1 units there may be
    (op(op(ID, "%", 32), "+", 1), True), (op(k, "+", 1), False), (op(op(k, "%", 64), "*", 8), True), (op(ID, "-", 1), False),
    (ir.Math("max", (n, const(0)), I32, False, span=HERE), True), (ir.Math("min", (n, const(0)), I32, False, span=HERE), False),
    (chosen(less(n, m), const(1), k), True), (read(ONCE), False), (ir.UnitCount(THREAD1, ID.place, I32, span=HERE), True),
])  # fmt: skip
def test_natural(e, sure):
    assert natural(e, text(proofs=True)) is sure


@pytest.mark.parametrize("e, way", [
    (k, 1), (op(const(7), "-", k), -1), (read(MOVED), -1), (op(read(MOVED), "*", -2), 1), (op(n, "-", k), -1), (op(k, "/", 5), 0), (n, 0),
    (op(op(k, "*", 2), "-", k), 1), (op(k, "%", 4), 0), (op(k, "+", op(k, "/", 5)), 0),
])  # fmt: skip
def test_directions(e, way):
    assert direction(e, K, text(False)) == way


def test_a_loop_that_counts_down_turns_directions_round():
    down = Text(lambda v: (n, const(0), const(-1)) if v == K else None, proofs=False)
    assert direction(k, K, down) == -1 and direction(op(const(7), "-", k), K, down) == 1
    by_n = Text(lambda v: (const(0), m, n) if v == K else None, proofs=False)
    assert direction(k, K, by_n) == 0  # nobody knows whether n is negative


def test_a_cast_to_signed_may_be_negative():
    """Half of the numbers of 64 bits are negative as i64; the sum on the way, `x + 2 ** 63`, is larger than any type."""
    given = ir.Read(ir.Var(30, "p", U64, THREAD1, span=HERE), U64, span=HERE)
    anything = Text(lambda v: None, proofs=True)
    assert natural(given, anything)
    assert not natural(ir.Cast(given, I64, span=HERE), anything)
