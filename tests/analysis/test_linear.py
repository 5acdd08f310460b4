"""Systems of linear forms: what is called infeasible has no solution, found by trying all in a box."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.forms import value
from snap._compiler.analysis.solvers import solve

UNKNOWNS = [("x", n) for n in range(3)]
BOX = 3
small = st.integers(-5, 5)


@st.composite
def linear_forms(draw, quotients: bool = True):
    total = forms.number(draw(small))
    for atom in UNKNOWNS:
        total = forms.add(total, forms.unknown(atom), draw(st.integers(-3, 3)))
    if quotients and draw(st.booleans()):
        total = forms.add(total, forms.quotient(draw(linear_forms(quotients=False)), draw(st.integers(2, 5))), draw(st.integers(-2, 2)))
    if quotients and draw(st.booleans()):
        operands = draw(linear_forms(quotients=False)), draw(st.one_of(linear_forms(quotients=False), st.integers(0, 7).map(forms.number)))
        total = forms.add(total, forms.exclusive(*operands, -1), draw(st.integers(-2, 2)))
    return total


@settings(max_examples=400, deadline=None)
@given(st.lists(linear_forms(), max_size=2), st.lists(linear_forms(), max_size=4))
def test_infeasible_means_no_solution(zero, positive):
    box = [forms.add(forms.unknown(a), forms.number(BOX)) for a in UNKNOWNS] + [forms.subtract(forms.number(BOX), forms.unknown(a)) for a in UNKNOWNS]
    if solve.feasible(zero, [*positive, *box]):
        return
    for point in itertools.product(range(-BOX, BOX + 1), repeat=len(UNKNOWNS)):
        given = dict(zip(UNKNOWNS, point))
        assert any(value(f, given) != 0 for f in zero) or any(value(f, given) < 0 for f in positive), given


@settings(max_examples=150, deadline=None)
@given(linear_forms(quotients=False), st.integers(1, 6), st.tuples(small, small, small))
def test_quotient_and_remainder(x, n, point):
    given = dict(zip(UNKNOWNS, point))
    q, r = forms.quotient(x, n), forms.remainder(x, n)
    assert value(q, given) == value(x, given) // n
    assert value(r, given) == value(x, given) % n


def test_what_barriers_hang_on():
    t1, t2, d = (forms.unknown((name,)) for name in ("t1", "t2", "d"))
    inside = [t1, t2, forms.subtract(forms.number(255), t1), forms.subtract(forms.number(255), t2)]
    below = [forms.subtract(forms.subtract(d, t), forms.number(1)) for t in (t1, t2)]
    meets = [forms.subtract(forms.add(t1, d), t2)]  # one thread reads s[t1 + d], another writes s[t2]
    assert solve.feasible(meets, inside)
    assert not solve.feasible(meets, inside + below)  # a tree reduction, where both are below d


SYSTEMS = solve.Systems()  # for all examples: what the unknowns of another system were called does not matter


@settings(max_examples=300, deadline=None)
@given(st.lists(linear_forms(), max_size=2), st.lists(linear_forms(), max_size=6))
def test_the_parts_of_a_system_say_what_the_whole_does(zero, positive):
    renamed = lambda f: forms.rename(f, lambda atom: ("y", atom[1]) if atom[0] == "x" else None)  # noqa: E731
    beside = [renamed(f) for f in positive]
    assert SYSTEMS.feasible(zero, positive) == solve.feasible(zero, positive)
    assert SYSTEMS.feasible(zero, [*positive, *beside]) == (solve.feasible(zero, positive) and solve.feasible([], beside))


@settings(max_examples=300, deadline=None)
@given(st.lists(linear_forms(quotients=False), min_size=1, max_size=6))
def test_a_solution_that_is_found_is_none_that_elimination_denies(positive):
    numbers = {atom: n for n, atom in enumerate(UNKNOWNS)}
    rows = [(f[0], {numbers[a]: k for a, k in f[1]}) for f in positive if f[1]]
    if solve._solution(rows) is not None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(solve, "_solution", lambda *_: None)
            assert solve._eliminate(rows, None) is not solve.NO
