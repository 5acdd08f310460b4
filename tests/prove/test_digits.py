"""Equations taken apart by digits, rows that two conditions tell apart, and writes by the element that is read: right kernels are shown, what is wrong by one is not."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snap import *
from snap._compiler.analysis.exact import kinds
from snap._compiler.analysis.exact.conditions import at_least, equal, negated
from snap._compiler.analysis.exact.digits import Digits, ends
from snap._compiler.analysis.exact.ladder import NO, Ladder
from snap._compiler.analysis.exact.terms import Terms, holds, number
from snap.prove.verdict import Verdict

pytest.importorskip("z3"), pytest.importorskip("islpy")
T = 32


# ---- conditions -------------------------------------------------------------------------------------------------------------------------


@st.composite
def of_digits(draw):
    """Equations between numbers that are made of digits, some of which do not fit; sizes that are numbers, and one that is not."""
    terms = Terms()
    spans = {"a": (0, 1), "b": (0, 1), "t": (0, 7), "u": (-1, 3), "S": (0, 3)}
    base = {name: terms.base(kinds.ANY, *span, name=name) for name, span in spans.items()}
    a, b, t, u, size = base.values()
    digits = [t, u, terms.floor(t, 2), terms.modulo(t, 4), terms.modulo(t, 2) * 3 + terms.floor(t, 4), terms.least(t, u + 2)]
    p, q = draw(st.sampled_from(digits)), draw(st.sampled_from(digits))
    n = draw(st.integers(2, 6))
    e = (a - b) * n + p - q + draw(st.integers(-n, n))
    if draw(st.booleans()):
        e = (a * draw(st.integers(1, 2)) - b + terms.floor(t * a, 2) * draw(st.integers(0, 1))) * size + p - q
    conds = [equal(e, 0)]
    for digit, end in itertools.product((p, q), (number(0), size - 1)):
        if draw(st.integers(0, 3)):
            conds.append(at_least(digit, 0) if end.value == 0 else at_least(end, digit))
    if draw(st.booleans()):
        conds += [equal(t, a), at_least(t * u + terms.floor(t + u, 2), b)]
    return terms, [next(iter(x.atoms)) for x in base.values()], [c for c in conds if c[0] != "true"]


@settings(max_examples=150, derandomize=True, deadline=None, database=None)
@given(of_digits())
def test_nothing_is_lost_and_nothing_is_added(drawn):
    terms, atoms, conds = drawn
    apart = Digits(terms).taken_apart(conds)
    for values in itertools.product(*(range(atom.low, atom.high + 1) for atom in atoms)):
        at = dict(zip(atoms, values))
        assert all(holds(c, dict(at)) for c in conds) == all(holds(c, dict(at)) for c in apart), (conds, apart, at)


def test_what_is_taken_apart():
    terms = Terms()
    a, b, x, y, t = (terms.base(kinds.ANY, 0, most, name=name) for name, most in zip("abxyt", (9, 9, 7, 7, 31)))
    apart = Digits(terms).taken_apart
    assert apart([equal(a * 8 + x, b * 8 + y)]) == [equal(a, b), equal(x, y)]
    assert apart([equal(a * 8 + x, b * 8 + y + 8)]) == [equal(a, b + 1), equal(x, y)]
    assert apart([equal(a * 7 + x, b * 7 + y)]) == [equal(a * 7 + x, b * 7 + y)]  # x may be 7
    assert apart([equal(a * 8 + x, b * 8 + y + 1)]) == [equal(a * 8 + x, b * 8 + y + 1)]  # y + 1 may be 8
    assert apart([equal(a * 8 + x + 1, b * 8)]) == [equal(a + 1, b), equal(x, 7)]  # and so may x + 1
    mixed = terms.modulo(t, 4) * 8 + terms.floor(t, 4)
    assert ends(mixed) == (0, 31) and mixed.span() != (0, 31)
    assert apart([equal(a * 32 + mixed, b * 32)]) == [equal(a, b), equal(mixed, 0)]


def test_digits_of_a_size_that_is_no_number():
    terms = Terms()
    a, b, p, q, size = (terms.base(kinds.ANY, 0, 99, name=name) for name in ("a", "b", "p", "q", "S"))
    p, q = p - 3, q - 3  # so that their ranges do not say that they are not negative
    e = equal(a * size + p, b * size + q)
    inside = [at_least(p, 0), at_least(size, p + 1), at_least(q, 0), at_least(size, q + 1)]
    apart = Digits(terms).taken_apart
    assert apart([e, *inside])[:2] == [equal(a, b), equal(p, q)]
    for k in range(4):
        less = [e, *inside[:k], *inside[k + 1 :]]
        assert apart(less) == less
    beyond = [e, at_least(p, 0), at_least(size, p), at_least(q, 0), at_least(size, q)]
    assert apart(beyond) == beyond


def test_two_names_of_one_number():
    """In products and in quotients; what a quotient is of has the range of what stands there."""
    terms = Terms()
    few, many, m = (terms.base(kinds.ANY, 0, most, name=name) for name, most in (("few", 3), ("many", 99), ("m", 9)))
    said = [equal(few, many), equal(terms.floor(many * m, 4), 5), at_least(many, 2)]
    apart = Digits(terms).taken_apart(said)
    assert apart == [equal(few, many), equal(terms.floor(few * m, 4), 5), at_least(many, 2)]
    assert terms.floor(few * m, 4).span() == (0, 6) and terms.floor(many * m, 4).span() == (0, 222)
    less = [at_least(few, many), *said[1:]]
    assert Digits(terms).taken_apart(less) == less


@pytest.mark.parametrize(("more", "apart"), [(0, True), (8, False)])
def test_rows_that_conditions_tell_apart(more, apart):
    """Of x in row r of S, from r*S on, and 8 of them inside of its first S elements: r is one for all who have it.  Not where rows reach further."""
    terms = Terms()
    b, c, k, l = (terms.base(kinds.ANY, 0, 1 << 20, name=name) for name in "bckl")
    size, g, n = (terms.base(kinds.ANY, 1, 1 << 30, name=name) for name in ("S", "g", "n"))
    x = terms.base(kinds.ANY, 0, 1 << 60, name="x")
    rows = (b + g * k, c + g * l + g)
    said = [c for r in rows for c in (at_least(x, r * size), at_least(r * size + n, x + 8))]
    said += [at_least(size + more, n), at_least(g - 1, b), at_least(g - 1, c), negated(equal(b, c))]
    assert (Ladder(terms).solve(said) is NO) == apart


# ---- kernels ----------------------------------------------------------------------------------------------------------------------------


def tiles_of_parts(apart):
    """A tile of 8 x 32 for each block, down bands of four; a thread's elements are put together from the parts of its number."""

    @kernel(threads=64, where=lambda M, N, blocks: (1 <= M <= 2**20, 1 <= N <= 2**20, blocks == (M + 7) // 8 * ((N + 31) // 32)))
    def k(x: ptr(int, (M, N)), M: int, N: int):
        down, across = (M + 7) / 8, (N + 31) / 32
        with each(block, x, disjoint=x) as b:
            band, within = b / (across * 4), b % (across * 4)
            height: int = min(4, down - band * 4)
            row, column = (band * 4 + within % height) * apart, within / height * 32
            with each(thread, x) as t:
                for k in range(4):
                    i: int = row + t % 2 * 4 + t / 32 * 2 + k / 2
                    j: int = column + t / 2 % 2 * 8 + t / 4 % 8 + k % 2 * 16
                    if i < M and j < N:
                        x[i, j] = b

    return k


def ragged_rows(more):
    """Whole words of rows that begin anywhere, which blocks take in turn."""

    @kernel(threads=T, where=lambda x, M, N, stride, blocks: (1 <= M <= 2**20, 1 <= N <= 2**10, N <= stride + more, 1 <= stride <= 2**20, blocks <= M, len(x) >= M * stride + N))
    def k(x: ptr(int), M: int, N: int, stride: i64):
        blocks: int = count(block[1])
        with each(block, x, disjoint=x) as b:
            for row in range(b, M, blocks):
                at: i64 = i64(row) * stride
                with each(thread, x, disjoint=x) as t:
                    for j in range(t, N / 4 + 1, T):
                        if (at / 4 + j) * 4 >= at and (at / 4 + j + 1) * 4 <= at + N:
                            x.view(int4)[at / 4 + j] = int4(b, b, b, b)

    return k


def turned(more):
    """Rows of a result that begin anywhere in words: parts begin where those of the other blocks end."""

    @kernel(threads=T, where=lambda x, M, N, blocks: (1 <= M <= 2**20, 1 <= N <= 2**20, len(x) >= M * (N + 1), blocks == (N + 31) // 32 * ((M + 38) // 32)))
    def k(x: ptr(int), M: int, N: int):
        across: int = (N + 31) / 32
        with each(block, x, disjoint=x) as b:
            row, column = b / across * 32, b % across * 32
            with each(thread, x, disjoint=x) as t:
                back: int = (column + t) % 8 * (M % 8) % 8
                for k in range(32):
                    if column + t < N and row + k - back >= 0 and row + k - back < M + more:
                        x[i64(column + t) * M + (row + k - back)] = b

    return k


def filled(words, rows):
    """Rows of 12, filled by words that begin before them: one more than a row has, for each of 8 rows."""

    @kernel(threads=T, where=lambda x, n, blocks: (1 <= n <= 2**20, blocks == 1, len(x) >= 96))
    def k(x: ptr(int), n: int):
        with each(block, x):
            s: shared(int[rows, 12])
            with each(thread, s) as t:
                for k in range(4):
                    c: int = t % 4 * 4 + k - t / 4 * (n % 4) % 4
                    if c >= 0 and c < 12 and t % 4 < words:
                        s[t / 4, c] = 1
            with each(thread, x) as t:
                for k in range(3):
                    x[k * 32 + t] = s[t % rows, t / 8 * 3 + k]

    return k


RIGHT = {"tiles": lambda: tiles_of_parts(8), "rows": lambda: ragged_rows(0), "a size": lambda: turned(0), "filled": lambda: filled(4, 8)}
WRONG = {
    "tiles": (lambda: tiles_of_parts(7), "races"),
    "rows": (lambda: ragged_rows(4), "races"),
    "a size": (lambda: turned(1), "races"),
    "a word less": (lambda: filled(3, 8), "init"),
    "a row more": (lambda: filled(4, 9), "init"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right(name):
    found = RIGHT[name]().prove(["races", "init"])
    assert found.verdict is Verdict.PROVED, found.render()


@pytest.mark.parametrize("name", WRONG)
def test_wrong(name):
    make, kind = WRONG[name]
    found = make().prove(["races", "init"])
    assert {o.kind for o in found.open} == {kind}, found.render()
