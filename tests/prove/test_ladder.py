"""The steps of the ladder agree with each other and with counting, on small domains."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snap._compiler.analysis.exact import kinds, logic, products
from snap._compiler.analysis.exact.ask import Z3, Cases, decided, isl_ask
from snap._compiler.analysis.exact.bits import ask_in_bits
from snap._compiler.analysis.exact.conditions import at_least, both, either, equal, negated
from snap._compiler.analysis.exact.ladder import NO, UNKNOWN, Ladder, NoModel, Ways
from snap._compiler.analysis.exact.logic import Cond
from snap._compiler.analysis.exact.slices import Slices, completed
from snap._compiler.analysis.exact.system import System
from snap._compiler.analysis.exact.terms import Poly, Terms, bitand, evaluated, holds, number

pytest.importorskip("z3"), pytest.importorskip("islpy")
SMALL = st.integers(-4, 4)


class Drawing:
    """Numbers and conditions over three unknowns of a few values each."""

    def __init__(self, draw, products: bool):
        self.draw, self.products, self.terms = draw, products, Terms()
        spans = [(low, low + draw(st.integers(1, 4))) for low in (draw(st.integers(-3, 1)) for _ in range(3))]
        self.base = [self.terms.base(kinds.ANY, *span, name=name) for span, name in zip(spans, "xyz")]
        self.conds = [self.cond(2) for _ in range(draw(st.integers(1, 4)))]

    def number(self, depth: int) -> Poly:
        kind = self.draw(st.sampled_from(["atom", "atom", "sum"] if depth == 0 else KINDS))
        one = lambda: self.number(depth - 1)  # noqa: E731
        match kind:
            case "atom":
                return self.draw(st.sampled_from(self.base))
            case "sum":
                x, y = (self.draw(st.sampled_from(self.base)) for _ in range(2))
                return x * self.draw(SMALL) + y * self.draw(SMALL) + self.draw(SMALL)
            case "floor":
                return self.terms.floor(one(), self.draw(st.integers(2, 4)))
            case "divide":
                return self.terms.divide(one(), number(self.draw(st.integers(2, 4))))
            case "modulo":
                return self.terms.modulo(one(), self.draw(st.integers(2, 4)))
            case "min":
                return self.terms.least(one(), one())
            case "max":
                return self.terms.most(one(), one())
            case "choose":
                return self.terms.choose(self.cond(0), one(), one())
            case "and":
                x, y = self.terms.modulo(one(), 8), self.terms.modulo(one(), 8)
                return bitand(self.terms, x, y) or x
            case _:
                return one() * one() if self.products else one() + one()

    def cond(self, depth: int) -> Cond:
        kind = self.draw(st.sampled_from(["ge", "ge", "eq"] if depth == 0 else ["ge", "eq", "ne", "and", "or"]))
        if kind in ("and", "or"):
            return (both if kind == "and" else either)(self.cond(depth - 1), self.cond(depth - 1))
        x, y = self.number(depth), self.number(max(depth - 1, 0))
        found = at_least(x, y) if kind == "ge" else equal(x, y)
        return negated(found) if kind == "ne" else found

    def models(self) -> list[dict]:
        atoms = [next(iter(p.atoms)) for p in self.base]
        found = []
        for values in itertools.product(*(range(a.low, a.high + 1) for a in atoms)):
            at = dict(zip(atoms, values))
            if all(holds(c, dict(at)) for c in self.conds):
                found.append(at)
        return found


KINDS = ["atom", "sum", "sum", "floor", "divide", "modulo", "min", "max", "choose", "and", "product"]


@st.composite
def drawn(draw, products: bool):
    return Drawing(draw, products)


def answers(drawing: Drawing) -> dict[str, object]:
    """What each step says alone."""
    kept = [c for one in drawing.conds for c in (one[1:] if one[0] == "and" else (one,)) if c[0] != "true"]
    system = System(drawing.terms, kept)
    found: dict[str, object] = {}
    for name, lemmas in ("cases", []), ("cases with lemmas", [*system.lemmas.sure, *system.lemmas.cases]):
        numbers = decided(system, lemmas)
        found[name] = numbers if isinstance(numbers, NoModel) else system.model(numbers)
    found["isl"] = isl_ask(system, 1_000_000)
    found["z3, linear"] = Z3().ask(system, True, 1_000_000)
    found["z3"] = Z3().ask(system, False, 1_000_000)
    bits, _ = ask_in_bits(drawing.terms, kept, 1_000_000)
    found["bits"] = bits if isinstance(bits, NoModel) else system.model({(atom,): n for atom, n in bits.items()})
    found["slices"] = by_slices(drawing.terms, kept)
    found["ways"] = Ways(drawing.terms, lambda conds: by_slices(drawing.terms, conds) is NO).none(kept)
    return found


def by_slices(terms: Terms, conds: list[Cond]) -> object:
    """What is left of a question, asked part by part."""
    slices = Slices(conds)
    if slices.impossible:
        return NO
    found: dict = {}
    for part in slices.parts:
        answer = Z3().ask(System(terms, part), False, 1_000_000)
        if isinstance(answer, NoModel):
            return answer
        found |= answer
    return completed(conds, slices, found)


SEEN: Counter = Counter()


def compared(drawing: Drawing, exact: tuple[str, ...]) -> None:
    right = drawing.models()
    for name, answer in answers(drawing).items():
        SEEN[name, answer is NO] += 1
        if answer is NO:
            assert not right, (name, drawing.conds, right[0])
        elif answer is not UNKNOWN:
            assert all(holds(c, dict(answer)) for c in drawing.conds), (name, drawing.conds, answer)
        elif name in exact:
            raise AssertionError(f"{name} does not decide {drawing.conds}")


@settings(max_examples=70, derandomize=True, deadline=None, database=None)
@given(drawn(products=False))
def test_isl_z3_and_counting_agree(drawing):
    compared(drawing, ("isl", "z3", "slices"))


@settings(max_examples=70, derandomize=True, deadline=None, database=None)
@given(drawn(products=True))
def test_products(drawing):
    compared(drawing, ("z3", "slices"))


def test_a_number_that_stands_in_one_condition_is_chosen():
    terms = Terms()
    x, y, z = (terms.base(kinds.ANY, 0, most, name=name) for name, most in (("x", 3), ("y", 9), ("z", 1)))
    assert Slices([equal(x, y - 2)], y.atoms).left == [at_least(y, 2), at_least(number(5), y)]
    assert Slices([at_least(x * 2, y)], y.atoms).left == [at_least(number(6), y)]
    assert Slices([equal(x * 2, y)], y.atoms).left == [equal(x * 2, y)]  # not each y has one
    said = (logic.OR, (logic.AND, at_least(y, 2), equal(z, 1)), (logic.AND, negated(at_least(y, 2)), equal(z, 0)))
    assert Slices([said], y.atoms).left == [] and Slices([said, equal(z, 1)], y.atoms).left == [said, equal(z, 1)]


def test_a_number_that_is_bounded_only_is_chosen():
    terms = Terms()
    x, y, z = (terms.base(kinds.ANY, 0, most, name=name) for name, most in (("x", 3), ("y", 9), ("z", 9)))
    asked = [at_least(x, y - 2), at_least(z, x), at_least(x, 1)]
    slices = Slices(asked, (*y.atoms, *z.atoms))
    assert slices.left == [at_least(number(5), y), at_least(z, y - 2), at_least(z, 1)]
    for at in itertools.product(range(10), repeat=2):
        given = dict(zip((*y.atoms, *z.atoms), at))
        exists = any(all(holds(c, {**given, **dict.fromkeys(x.atoms, n)}) for c in asked) for n in range(4))
        assert exists == all(holds(c, dict(given)) for c in slices.left)
        assert not exists or all(holds(c, slices.completed(given)) for c in asked)
    twice = [at_least(x * 2, y), at_least(z, x * 2)]
    assert Slices(twice, (*y.atoms, *z.atoms)).left == twice  # there may be no multiple of 2 between the two
    both_sides = [*asked, at_least(y * 2, x)]
    assert Slices(both_sides, (*y.atoms, *z.atoms)).left == both_sides  # as many conditions would come of it


def test_bits_are_quotients():
    """Of numbers of either sign: those of a mask, and one bit in its place, which may be there or not."""
    terms = Terms()
    x, b = terms.base(kinds.ANY, -40, 40, name="x"), terms.base(kinds.ANY, 0, 1, name="b")
    (a,), (c,) = x.atoms, b.atoms
    for n, bit in itertools.product(range(-40, 41), range(2)):
        for mask in (0, 1, 4, 6, 20, 39):
            assert evaluated(bitand(terms, x, number(mask)), {a: n}) == n & mask
        assert evaluated(bitand(terms, b * 8, x), {a: n, c: bit}) == n & bit * 8
    for k, m, n in itertools.product((-7, -2, 1, 5), (2, 3), (4, 5)):  # quotients of quotients, and of multiples
        p = terms.floor(terms.floor(x * k + 1, m) + 3, n)
        assert all(evaluated(p, {a: at}) == ((k * at + 1) // m + 3) // n for at in range(-40, 41))


def test_what_was_asked_in_other_names():
    """The same question has the same answer; of numbers with other ranges it is another one."""
    terms = Terms()
    ladder = Ladder(terms)

    def asked(most: int, name: str) -> object:
        x, y = (terms.base(kinds.ANY, 0, most, name=name + end) for end in "xy")
        return ladder.solve(
            [at_least(x, y + 6), at_least(x * y, y), at_least(x + y * 2, 7), at_least(number(20), x * y)]
        )

    assert asked(6, "a") is NO
    before = dict(ladder.asked)
    assert asked(6, "b") is NO and dict(ladder.asked) == before
    assert isinstance(asked(9, "c"), dict)


def test_the_ladder_uses_each_step():
    """A question for each, and no further step than it needs."""
    terms = Terms()
    ladder = Ladder(terms)
    x, y, z = (terms.base(kinds.ANY, 0, 1 << 20, name=name) for name in "xyz")
    assert ladder.solve([at_least(number(-1), x)]) is NO
    assert ladder.solve([at_least(x, y + z * 2), at_least(y * 2, x + 3), at_least(z, y)]) is NO
    assert ladder.solve([at_least(x, y + 1), at_least(x * z, 1), at_least(y * z, x * z)]) is NO
    assert ladder.asked["ranges"] and ladder.asked["cases"] and ladder.asked["cases with lemmas"], ladder.asked
    found = ladder.solve([at_least(x * y, 35), at_least(number(35), x * y), at_least(x, 2), at_least(y, 2)])
    assert isinstance(found, dict) and evaluated(x * y, dict(found)) == 35


@st.composite
def with_products(draw):
    """Conditions over sums of products."""
    drawing = Drawing(draw, True)
    x, y, z = drawing.base
    quotient = drawing.terms.divide(drawing.draw(st.sampled_from([x, y + 3])), z)
    monos = [x, y, z, x * y, y * z, x * z, x * x, number(1), quotient, quotient * y]
    drawing.conds = []
    for _ in range(draw(st.integers(1, 3))):
        p = number(0)
        for mono in draw(st.lists(st.sampled_from(monos), min_size=2, max_size=4)):
            p = p + mono * draw(SMALL)
        drawing.conds.append((equal if draw(st.booleans()) else at_least)(p, 0))
    return drawing


@settings(max_examples=150, derandomize=True, deadline=None, database=None)
@given(with_products())
def test_lemmas_follow(drawing):
    lemmas = System(drawing.terms, drawing.conds).lemmas
    for at, lemma in itertools.product(drawing.models(), (*lemmas.sure, *lemmas.cases, *lemmas.chained)):
        assert holds(lemma, dict(at)), (drawing.conds, lemma, at)


def test_what_is_left_open_is_open(monkeypatch):
    """Elimination is not complete: where it does not know, there may be a solution."""
    monkeypatch.setattr("snap._compiler.analysis.exact.ask.solve", lambda zero, positive: UNKNOWN)
    assert Cases().search([], [], []) is UNKNOWN


def test_a_quotient_by_a_number_that_has_another_name():
    """block / k < n where block < n * n and k = n; not where k <= n only."""
    terms = Terms()
    n, k, block = (terms.base(kinds.ANY, low, 1 << 10, name=name) for low, name in ((0, "n"), (1, "k"), (0, "block")))
    known = [at_least(n * n, block + 1), at_least(terms.divide(block, k), n)]
    assert Ladder(terms).solve([equal(n, k), *known]) is NO
    assert Ladder(terms).solve([at_least(n, k), *known]) is not NO


def test_rows_lie_as_far_apart_as_they_are_long():
    """Of r * S, r any difference: what is said of it holds for all numbers."""
    terms = Terms()
    x, y, size = (terms.base(kinds.ANY, low, 3, name=name) for low, name in ((-3, "x"), (-3, "y"), (0, "S")))
    atoms = [next(iter(p.atoms)) for p in (x, y, size)]
    lemmas = products._whole_rows(x - y, atoms[2])
    for values in itertools.product(*(range(a.low, a.high + 1) for a in atoms)):
        assert all(holds(lemma, dict(zip(atoms, values))) for lemma in lemmas), values


def test_only_what_is_equal_has_two_names():
    terms = Terms()
    n, k, block = (terms.base(kinds.ANY, 1, 9, name=name) for name in ("n", "k", "block"))
    known = [n * n - block - 1]
    assert products._renamed([equal(n, k)], known) == [k * k - block - 1]
    assert not any(products._renamed([c], known) for c in (at_least(n, k), at_least(k, n), negated(equal(n, k))))


def test_what_stands_in_no_product_counts_at_its_most():
    terms = Terms()
    x, c, d = (terms.base(kinds.ANY, low, high, name=name) for low, high, name in ((0, 3, "x"), (-2, 5, "c"), (-1, 4, "d")))
    (atom,) = x.atoms
    assert products._loosened([x + c - d * 2 - products.FAR], {(atom, atom)}) == [x + 5 + 2 - products.FAR]


def test_the_order_of_a_question_is_that_of_the_program(monkeypatch):
    """Not that of sets, which differs between processes: what a solver's steps decide would be proved in one of them only."""
    terms, asked = Terms(), []
    numbers = [terms.base(kinds.ANY, -9, 9, name="x") for _ in range(20)]  # all print alike
    assert list(sum(numbers, number(0)).atoms) == [atom for x in numbers for atom in x.atoms]
    monkeypatch.setattr(Ladder, "_decide", lambda self, system: asked.append(system.conds) or UNKNOWN)
    question = [(logic.GE, x * 2 - y * 3) for x, y in zip(numbers, numbers[1:] + numbers[:1])]
    Ladder(terms).solve(question)
    assert asked == [question]


@pytest.mark.parametrize(("most", "follows"), [(3, True), (7, False)])
def test_quotients_of_quotients(most, follows):
    """j < w * l * g * q, taken apart by w, by l and by 4 g, with h < 4 beside it: what is left is below q.  With h up to 7 it is not; and every lemma holds."""
    terms = Terms()
    ends = {"w": (1, 2), "l": (1, 2), "g": (1, 2), "q": (0, 2), "j": (0, 400), "h": (0, most), "n": (0, 16)}
    w, l, g, q, j, h, n = (terms.base(kinds.ANY, *span, name=name) for name, span in ends.items())
    conds = [equal(n, w * l * g * q), at_least(n - 1, j)]
    group = terms.divide(terms.divide(j, w), l)
    head = terms.divide(group * 4 + h, g * 4)
    goal = at_least(q - 1, head)
    assert Ladder(terms, steps=(0, 0)).follows(conds, goal) == follows
    lemmas = System(terms, [*conds, negated(goal)]).lemmas
    said = [*lemmas.sure, *lemmas.cases, *lemmas.chained]
    atoms = [next(iter(p.atoms)) for p in (w, l, g, q, j, h, n)]
    for values in itertools.product(*(range(low, min(high, 15) + 1) for low, high in list(ends.values())[:-1])):
        at = dict(zip(atoms, (*values, values[0] * values[1] * values[2] * values[3])))
        if all(holds(c, dict(at)) for c in (*conds, negated(goal))):
            assert not follows and all(holds(c, dict(at)) for c in said), at


def test_a_difference_of_quotients():
    """x / a - x / (a * m) * m is a remainder by m, and any other difference is not."""
    terms = Terms()
    x = terms.base(kinds.ANY, 0, 999, name="x")
    (atom,) = x.atoms
    for a, b, m in itertools.product((1, 4, 6), (4, 8, 12, 24), (2, 3, 4)):
        p = (terms.floor(x, a) - terms.floor(x, b) * m) * 5
        values = [evaluated(p, {atom: n}) for n in range(1000)]
        low, high = terms.span(p)
        assert low <= min(values) and max(values) <= high
        if b == a * m:
            assert (low, high) == (0, 5 * (m - 1))


def test_bit_vectors_are_as_wide_as_sums_and_have_signs():
    terms = Terms()
    x, y = (terms.base(kinds.ANY, low, 3, name=name) for low, name in ((0, "x"), (-3, "y")))
    (atom,), (other,) = x.atoms, y.atoms
    asked = lambda *conds: ask_in_bits(terms, list(conds), 1_000_000)[0]  # noqa: E731
    assert asked(at_least(x * 100, number(290))) == {atom: 3}
    assert asked(at_least(y, number(0)), at_least(number(-1), y)) is NO
    assert asked(equal(terms.floor(y, 2), number(-2)), negated(equal(y, number(-4)))) == {other: -3}
    assert asked(equal(terms.floor(y, 3), number(0))) is UNKNOWN  # a quotient of negative numbers by what is no power of two
    assert asked(at_least(x * (1 << 62), number(1))) is UNKNOWN
