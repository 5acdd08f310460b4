"""Numbers that are multiples of others, quotients and products of what they are made of: attention tells heads, tiles and places of sums so."""

from __future__ import annotations

import itertools

import pytest

from snap import *
from snap._compiler.analysis.exact import kinds
from snap._compiler.analysis.exact.ask import decided
from snap._compiler.analysis.exact.conditions import at_least, below, equal, negated
from snap._compiler.analysis.exact.ladder import NO
from snap._compiler.analysis.exact.renaming import undivided
from snap._compiler.analysis.exact.slices import Slices
from snap._compiler.analysis.exact.system import System
from snap._compiler.analysis.exact.terms import Terms, evaluated, holds, number
from snap._compiler.walk.where import divisible


def numbers(terms: Terms, **spans):
    return tuple(terms.base(kinds.ANY, *span, name=name) for name, span in spans.items())


def test_a_product_is_divided_by_its_factors():
    terms = Terms()
    x, y, z = numbers(terms, x=(0, 9), y=(1, 9), z=(0, 9))
    assert terms.divide(x * y * 6, y * 2) == x * 3
    assert terms.divide(x * y + y, y) == x + 1
    assert terms.remainder(x * y, y) == number(0)
    assert terms.divide(x * y * 3, y * 2) != x
    assert terms.divide(x * z, z) != x  # z may be zero: then it is any number


def test_a_quotient_times_its_divisor_and_what_is_left():
    terms = Terms()
    x, y, s = numbers(terms, x=(0, 40), y=(1, 9), s=(0, 3))
    (a,), (b,), (c,) = x.atoms, y.atoms, s.atoms
    quotient, rest = terms.divide(x, y), terms.remainder(x, y)
    assert undivided(terms, quotient * y * s + rest * s + 7) == x * s + 7
    for p in (quotient * y * 2 + rest, quotient * s + rest, rest + 1):  # something is left of the quotient
        found = undivided(terms, p)
        for at in itertools.product(range(0, 41, 7), range(1, 10, 3), range(4)):
            values = dict(zip((a, b, c), at))
            assert evaluated(found, dict(values)) == evaluated(p, dict(values))


@pytest.mark.parametrize(("low", "taken"), [(0, True), (-1, False)])
def test_a_number_with_a_factor_whose_sign_is_known_is_chosen(low, taken):
    """x * f <= 5 for some x from 0 to 9, whatever f is, if it is not negative; x * f >= 5 is another matter."""
    terms = Terms()
    x, f = numbers(terms, x=(0, 9), f=(low, 9))
    assert Slices([at_least(number(5), x * f)], f.atoms).left == ([] if taken else [at_least(number(5), x * f)])
    assert Slices([at_least(x * f, 5)], f.atoms).left == [at_least(f * 9 if taken else x * f, 5)]


@pytest.mark.parametrize(("more", "follows"), [(1, True), (0, False)])
def test_products_of_three_by_way_of_others(more, follows):
    """((w + u) * s + j) * P + P <= U*s*P, where u < v, w + v <= U and j < s; not where u <= v only."""
    terms = Terms()
    u, v, w, U, j = numbers(terms, **dict.fromkeys(("u", "v", "w", "U", "j"), (0, 1 << 20)))
    s, P = numbers(terms, s=(1, 1 << 20), P=(1, 1 << 20))
    conds = [at_least(v, u + more), at_least(U, w + v), below(j, s)]
    system = System(terms, [*conds, negated(at_least(U * s * P, ((w + u) * s + j) * P + P))])
    assert (decided(system, [*system.lemmas.sure, *system.lemmas.chained]) is NO) == follows
    assert decided(system, system.lemmas.sure) is not NO


def test_factors_that_may_be_negative_multiply_nothing():
    terms = Terms()
    u, v, s, P = numbers(terms, u=(0, 2), v=(0, 2), s=(-2, 2), P=(-2, 2))
    conds = [at_least(v, u), at_least(u * s * P + v * s * P, -9)]
    atoms = [next(iter(p.atoms)) for p in (u, v, s, P)]
    lemmas = System(terms, conds).lemmas
    for at in itertools.product(range(3), range(3), range(-2, 3), range(-2, 3)):
        values = dict(zip(atoms, at))
        if all(holds(c, dict(values)) for c in conds):
            assert all(holds(c, dict(values)) for c in (*lemmas.sure, *lemmas.cases, *lemmas.chained)), at


# ---- kernels --------------------------------------------------------------------------------------------------------


@kernel(threads=32, where=lambda x, heads, shared, blocks: (
    1 <= shared and 1 <= heads <= 2**20 and heads % shared == 0, blocks % (heads // shared) == 0, len(x) >= blocks * shared))
def of_heads(x: ptr(int), heads: int, shared: int):
    with each(block, x, disjoint=x) as b:
        for j in range(shared):
            with one(thread, x):
                x[i64(b) / (heads / shared) * heads + b % (heads / shared) * shared + j] = 1


@kernel(threads=32, where=lambda x, heads, shared, blocks: (
    1 <= shared and 1 <= heads <= 2**20 and heads % shared == 1, blocks % (heads // shared) == 0, len(x) >= blocks * shared))
def of_other_heads(x: ptr(int), heads: int, shared: int):
    with each(block, x, disjoint=x) as b:
        for j in range(shared):
            with one(thread, x):
                x[i64(b) / (heads / shared) * heads + b % (heads / shared) * shared + j] = 1


@pytest.mark.parametrize(("left", "least", "found"), [(0, 1, True), (1, 1, False), (0, 0, False)])
def test_what_leaves_nothing_is_a_multiple(left, least, found):
    """Not what leaves one, and not where the divisor may be zero."""
    terms = Terms()
    heads, shared = numbers(terms, heads=(0, 99), shared=(least, 9))
    quotient = terms.divide(heads, shared)
    said = divisible([equal(heads - shared * quotient, left)])
    assert said == ((*heads.atoms, shared, *quotient.atoms) if found else None)


def test_heads_that_share():
    assert str(of_heads.prove(properties=("bounds",)).verdict) == "proved"


def test_heads_that_do_not_divide_are_no_multiples():
    assert str(of_other_heads.prove(properties=("bounds",)).verdict) != "proved"


def tiles(high):
    """Which of `high` rows of `wide` tiles, of which the last ones have fewer in a row."""

    @kernel(threads=32, where=lambda x, wide, high, all, blocks: (
        1 <= wide <= 2**10 and 1 <= high <= 2**10 and 1 <= all <= 2**10, blocks == all * high, len(x) >= high))
    def rows(x: ptr(int), wide: int, high: int, all: int):
        with each(block) as b:
            first: int = b / (wide * high) * wide
            many: int = min(wide, all - first)
            row: int = b % (wide * high) / many
            with one(thread, x):
                atomic.add(x, row, 1)

    @kernel(threads=32, where=lambda x, wide, high, all, blocks: (
        1 <= wide <= 2**10 and 1 <= high <= 2**10 and 1 <= all <= 2**10, blocks == all * high, len(x) >= high))
    def too_far(x: ptr(int), wide: int, high: int, all: int):
        with each(block) as b:
            first: int = b / (wide * high) * wide
            many: int = max(min(wide, all - first) - 1, 1)
            row: int = b % (wide * high) / many
            with one(thread, x):
                atomic.add(x, row, 1)

    return rows if high else too_far


def test_rows_of_tiles():
    assert str(tiles(True).prove(properties=("bounds",)).verdict) == "proved"


def test_rows_of_fewer_tiles_are_more():
    assert str(tiles(False).prove(properties=("bounds",)).verdict) != "proved"


def places(MOST):
    """Where the batch of each of n elements begins: the sizes of one are numbers of the launch, n a multiple of all."""

    @kernel(threads=32, where=lambda x, n, wide, high, deep, step, row, blocks: (
        1 <= wide <= 2**20 and 1 <= high <= 2**20 and 1 <= deep <= 2**20 and 0 <= step <= 2**30 and 0 <= row <= 2**30,
        0 <= n <= MOST, n % (wide * high * deep) == 0, blocks <= 2**16,
        len(x) > (n // (wide * high * deep) - 1) * step + (deep - 1) * row))
    def batches(x: ptr(int), n: i64, wide: int, high: int, deep: int, step: i64, row: i64):
        threads: int = count(thread[1])
        with each(thread) as t:
            for j in range(t, int(n), threads):
                at: int = j / wide / high
                atomic.add(x, i64(at / deep) * step + i64(at % deep) * row, 1)

    return batches


def narrowed(MOST):
    @kernel(threads=32, where=lambda x, n, wide, high: (
        1 <= wide <= 2**20 and 1 <= high <= 2**20, 0 <= n <= MOST, n % (wide * high) == 0, len(x) > n))
    def end(x: ptr(int), n: i64, wide: int, high: int):
        with each(thread):
            atomic.add(x, int(n), 1)

    return end


@pytest.mark.parametrize("made", [places, narrowed])
@pytest.mark.parametrize(("most", "proved"), [(2**30, True), (2**33, False)])
def test_a_product_that_stands_for_a_number_lies_where_that_lies(made, most, proved):
    """So `int(n)` is n; not where n may be more than an int holds."""
    assert (str(made(most).prove(properties=("bounds",)).verdict) == "proved") == proved
