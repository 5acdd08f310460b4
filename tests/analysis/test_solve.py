"""The solver against z3, isl and plain evaluation, on systems of the shape that the analysis asks about: two threads, small factors, quotients and
remainders by small numbers, bounds.  Seeds are fixed: a system is a function of its number."""

from __future__ import annotations

import importlib.util
import random

import pytest

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.forms import Form, add, number, quotient, remainder, subtract, times, unknown
from snap._compiler.analysis.solvers import oracles, solve

COUNT = 300


def form(draw: random.Random, unknowns: list[Form], deep: bool = True) -> Form:
    """A sum of a few unknowns, of quotients and of remainders."""
    total = number(draw.randint(-9, 9))
    for x in draw.sample(unknowns, draw.randint(1, min(3, len(unknowns)))):
        total = add(total, x, draw.choice((-16, -4, -2, -1, 1, 1, 2, 4, 3, 8)))
    if deep and draw.random() < 0.6:
        part = draw.choice((quotient, remainder))(form(draw, unknowns, deep=False), draw.choice((2, 3, 4, 8, 32)))
        total = add(total, part, draw.choice((-8, -1, 1, 4)))
    return total


def system(seed: int) -> tuple[list[Form], list[Form]]:
    """Two threads' indices are equal, under bounds of what they are made of and a few conditions."""
    draw = random.Random(seed)
    unknowns = [unknown((name,)) for name in ("t1", "t2", "k", "n")[: draw.randint(2, 4)]]
    zero = [subtract(form(draw, unknowns), form(draw, unknowns)) for _ in range(draw.randint(0, 2))]
    positive = [form(draw, unknowns) for _ in range(draw.randint(0, 4))]
    for x in unknowns:
        if draw.random() < 0.8:
            positive += [x, subtract(number(draw.choice((3, 31, 255))), x)]
    return zero, positive


def holds(model: dict, zero: list[Form], positive: list[Form]) -> bool:
    return all(forms.value(f, model) == 0 for f in zero) and all(forms.value(f, model) >= 0 for f in positive)


@pytest.mark.parametrize("name, other", [("z3", oracles.z3_solve), ("islpy", oracles.isl_solve)])
def test_the_same_systems_have_solutions(name, other):
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    answers = {"no": 0, "model": 0, "unknown": 0}
    systems = solve.Systems()  # which remembers parts of systems, whatever their unknowns are called
    for seed in range(COUNT):
        zero, positive = system(seed)
        ours, theirs = solve.solve(zero, positive), other(zero, positive)
        assert solve.feasible(zero, positive) is (ours is not solve.NO)
        assert theirs is not solve.UNKNOWN
        if ours is solve.NO or not systems.feasible(zero, positive):
            assert theirs is solve.NO, (seed, theirs)
        for model in (ours, theirs):
            assert not isinstance(model, dict) or holds(model, zero, positive), (seed, model)
        if ours is solve.UNKNOWN or theirs is solve.NO and ours is not solve.NO:
            answers["unknown"] += 1
        else:
            answers["no" if ours is solve.NO else "model"] += 1
    assert answers["no"] >= COUNT / 8 and answers["model"] >= COUNT / 3  # both are asked about
    assert answers["unknown"] <= COUNT / 8, answers  # equalities without a factor of one, mostly


def test_a_model_of_what_meets():
    """`s[t1 + d]` is read and `s[t2]` written: which threads meet, the model tells."""
    t1, t2, d = (unknown((name,)) for name in ("t1", "t2", "d"))
    inside = [t1, t2, subtract(number(255), t1), subtract(number(255), t2), subtract(d, number(1)), subtract(subtract(t2, t1), number(3))]
    model = solve.solve([subtract(add(t1, d), t2)], inside)
    assert model[("t1",)] + model[("d",)] == model[("t2",)] >= model[("t1",)] + 3


@pytest.mark.parametrize("zero, positive, answer", [
    ([], [], {}),
    ([number(1)], [], solve.NO),
    ([times(unknown(("x",)), 2), ], [number(-1)], solve.NO),
    ([add(times(unknown(("x",)), 2), number(1))], [], solve.NO),  # an even number is not odd
    ([add(unknown(("x",)), number(-7))], [], {("x",): 7}),
    ([], [add(unknown(("x",)), number(-7))], {("x",): 7}),  # bounded on one side only
    ([subtract(unknown(("mul", unknown(("x",)), unknown(("y",)))), number(7))], [], solve.UNKNOWN),  # x y = 7: a product is an unknown to us
])  # fmt: skip
def test_small_systems(zero, positive, answer):
    assert solve.solve(zero, positive) == answer


def test_products_and_exclusive_ors_are_not_taken_at_their_word():
    x, y = unknown(("x",)), unknown(("y",))
    product = [subtract(unknown(("mul", x, y)), number(7))]
    if importlib.util.find_spec("z3") is not None:
        model = oracles.z3_solve(product, [])
        assert model[("x",)] * model[("y",)] == 7
        hidden = unknown(("mul", forms.exclusive(x, number(5), -1), y))  # x is in the exclusive or alone
        assert holds(oracles.z3_solve([], [hidden]), [], [hidden])
    if importlib.util.find_spec("islpy") is not None:
        assert oracles.isl_solve(product, []) is solve.UNKNOWN
    swizzled = [subtract(forms.exclusive(x, number(5), 3), number(9))]
    assert solve.solve(swizzled, [x, subtract(number(7), x)]) is solve.NO  # three bits are at most 7


def test_solvers_stop_after_their_steps():
    """A limit in steps ends every question, and what it ends is open."""
    pytest.importorskip("z3"), pytest.importorskip("islpy")
    cubes = ["(declare-const x Int)(declare-const y Int)(declare-const z Int)", "(assert (= (+ (* x x x) (* y y y) (* z z z)) 33))"]
    found, took = oracles.ask_z3(cubes, 20_000)
    assert found is solve.UNKNOWN and 0 < took < 2_000_000
    assert oracles.ask_isl(["x", "y"], ["3 * x + 7 * y = 1000001", "0 <= x", "0 <= y", "floor(x / 5) = floor(y / 3)"], 20) is solve.UNKNOWN


def test_steps_of_z3_do_not_depend_on_earlier_questions():
    """Then neither does an answer, which there is where the steps are enough."""
    pytest.importorskip("z3")

    def took(names: str) -> int:
        made = "".join(f"(declare-const {n} Int)(assert (<= 0 {n} 99))" for n in names)
        sums = [f"(assert (or (= (+ {a} (* 7 {b})) 45) (= (+ (* 3 {b}) {c}) (* 2 {a}))))" for a, b, c in zip(names, names[1:], names[2:])]
        found, steps = oracles.ask_z3([made, *sums, f"(assert (= (+ {' '.join(names)}) 333))"], 3_000_000)
        assert found is not solve.UNKNOWN
        return steps

    first = took("abcdefgh")
    others = [took("hgfedcba"), took("cadbhegf"), took("efghijklm")]
    assert first > 0 and [took("abcdefgh") for _ in others] == [first] * len(others)


def test_one_of_several_choices():
    """What the choices share is worked out once, but nothing that one of them bounds goes before it is asked about."""
    x, y = unknown(("x",)), unknown(("y",))
    low, high = subtract(x, number(10)), subtract(number(5), x)
    for shared in ([low], [low, subtract(y, x)]):  # x is bounded on one side only, at once or when y has gone
        assert not solve.Systems().feasible_with_one([], shared, [high])
        assert solve.Systems().feasible_with_one([], shared, [high, x])
    for seed in range(COUNT // 4):
        zero, positive = system(seed)
        draw = random.Random(~seed)
        choices = [form(draw, [unknown((name,)) for name in ("t1", "t2", "k", "n")]) for _ in range(2)]
        one_by_one = any(solve.feasible(zero, [*positive, choice]) for choice in choices)
        assert solve.Systems().feasible_with_one(zero, positive, choices) is one_by_one, seed
