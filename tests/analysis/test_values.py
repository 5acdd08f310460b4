"""Forms of expressions, and what is assumed on the way: the inference's guess that signed arithmetic stays in its type."""

from __future__ import annotations

import pytest
from analysis.building import MINE, M, N, T, const, loop, m, mine, n, op, read, t, var

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.footprints import Footprint, unknowns
from snap._compiler.analysis.linear.overlap import Overlap
from snap._compiler.analysis.linear.values import Values, facts, form, trips
from snap._compiler.analysis.solvers import solve
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.integers import held_by
from snap._compiler.ir.types import BLOCK1, F32, I32, I64, U32, WARP1
from snap._compiler.ir.walk import loop_values
from snap.diag.span import Span

THREAD = forms.unknown(("thread",))
OF_N = ("var", (), 0, "start")  # the first variable that `told` meets


def told(proofs: bool, *known: forms.Form) -> Values:
    values = Values(proofs=proofs, threads=256, facts=list(known))
    values.known[(), T.uid] = THREAD
    for v in (N, M, MINE):
        values.known[(), v.uid] = values.fresh((), v, "start")
    return values


def owner(index: ir.Expr, values: Values):
    """Within which group threads meet that write `s[index]`."""
    at = form(index, values, (), None)
    f = Footprint(F32, None, (at,), tuple(values.facts))
    return Overlap(values, 256, clusters=False).group(f, f, BLOCK1), open_assumptions(values)


def open_assumptions(values: Values) -> set:
    """What was assumed, and is not plain from the types of what it is about."""
    return {(x, type) for x, type in values.assumed.items() if not values.within(x, *held_by(type))}


def test_what_is_assumed_is_not_proved():
    """`s[3000 * mine + t]`: for small numbers no two threads meet.  From 2 ** 31 / 3000 on the product wraps, and they may."""
    index = op(op(mine, "*", 3000), "+", t)
    (guessed, assumed), proved = owner(index, told(False)), owner(index, told(True))
    assert guessed is None  # apart
    assert proved == (BLOCK1, set())  # any two threads of the block may meet
    product = form(op(mine, "*", 3000), told(False), (), None)
    assert assumed == {(product, I32), (forms.add(product, THREAD), I32)}  # what a proof must show, or be given


def test_with_what_it_needs_it_is_proved():
    """The same, where `0 <= mine < 1000` is known."""
    values = told(True)
    values.facts += facts(ir.Compare("<", mine, const(1000), I32, span=mine.span), True, values, (), None)
    values.facts += facts(ir.Compare(">=", mine, const(0), I32, span=mine.span), True, values, (), None)
    assert owner(op(op(mine, "*", 3000), "+", t), values) == (None, set())


@pytest.mark.parametrize("index, group", [
    (t, None),
    (op(t, "/", 2), WARP1),
    (op(op(t, "*", 4), "+", 3), None),
    (op(op(n, "*", 1024), "+", t), None),  # n is the block's: both wrap alike
    (op(op(t, "*", 4), "+", n), None),
])  # fmt: skip
def test_what_needs_no_assumption(index, group):
    assert owner(index, told(True)) == (group, set()) and owner(index, told(False))[0] == group


def test_positions_do_not_leave_their_types():
    assert not owner(op(op(t, "*", 4), "+", 3), told(False))[1]  # 4 * 1023 + 3 is an i32: nothing is left to show


def test_where_it_wraps_a_model_says():
    """The two threads that meet, and the numbers with which they do."""
    values = told(True)
    one, other = (form(op(op(read(v), "*", 3000), "+", read(u)), values, (), None) for v, u in ((var("a", 30), var("x", 31)), (var("b", 32), var("y", 33))))
    a, b, s, u = (values.unknown_of(((), uid), "start") for uid in (30, 32, 31, 33))
    x, y = forms.unknown(s), forms.unknown(u)
    inside = [x, forms.subtract(forms.number(255), x), forms.subtract(forms.subtract(y, x), forms.number(1)), forms.subtract(forms.number(255), y)]
    zero = [forms.subtract(one, other)]
    found = solve.solve(zero, inside)
    if found is solve.UNKNOWN:
        z3 = pytest.importorskip("z3")
        from snap._compiler.analysis.solvers.oracles import z3_solve

        assert z3 is not None
        found = z3_solve(zero, inside)
    a, b, s, u = (found[atom] for atom in (a, b, s, u))
    assert s != u and (3000 * a + s - 3000 * b - u) % 2**32 == 0


@pytest.mark.parametrize("start, stop, step, count, exact", [
    (const(0), n, const(1), (0, ((OF_N, 1),)), False),  # n may be negative: then it runs not at all
    (const(0), const(10), const(3), (4, ()), True),
    (const(10), const(0), const(-3), (4, ()), True),
    (const(3), const(1), const(1), (-2, ()), False),
    (t, const(256), const(64), forms.quotient(forms.subtract(forms.number(319), THREAD), 64), True),  # as often as elements are left
    (n, op(n, "+", 8), const(2), (4, ()), True),  # where it does not wrap
    (const(0), n, m, None, None),
])  # fmt: skip
def test_trip_counts(start, stop, step, count, exact):
    values = told(False, forms.subtract(forms.number(255), THREAD), THREAD)
    found = trips(loop(var("i", 40), start, stop, step), values, (), None)
    assert (found is None) if count is None else (found.count, found.exact) == (count, exact)


def test_a_loop_that_is_left_early_runs_at_most_so_often():
    span = Span("x.py", 1, 1, 1, 1)
    values = told(True)
    for way_out, exact in ((ir.Break(span=span), False), (ir.Continue(span=span), True)):
        assert trips(loop(var("i", 40), const(0), const(8), const(1), way_out), values, (), None).exact is exact
    assert loop_values(loop(var("i", 40), const(8), const(0), const(-2))) == range(8, 0, -2)
    assert loop_values(loop(var("i", 40), const(0), n, const(1))) is None
    assert loop_values(loop(var("i", 40), const(-(1 << 62)), const(1 << 62), const(1))) is None  # longer than `len` can say


def test_a_footprint_names_what_it_depends_on():
    """`s[64 * n + t / 2]`: of the thread and of n, each where its type has it."""
    values = told(False)
    at = form(op(op(n, "*", 64), "+", op(t, "/", 2)), values, (), None)
    f = Footprint(F32, None, (at,), ())
    assert unknowns(f, values) == {OF_N: (-(2**31), 2**31 - 1), ("thread",): (0, 1023)}
    elements = {forms.value(at, {OF_N: 3, ("thread",): k}) for k in range(8)}
    assert elements == {192, 193, 194, 195}


@pytest.mark.parametrize("e, same", [
    (op(ir.Cast(n, U32, span=n.span), "+", 1, U32), False),  # unsigned sums wrap
    (ir.Cast(n, I64, span=n.span), True),
    (op(n, "+", 1), True),  # assumed
])  # fmt: skip
def test_what_wraps(e, same):
    values = told(False)
    x = form(e, values, (), None)
    assert any(atom[0] == "div" for atom, _ in x[1]) is not same
