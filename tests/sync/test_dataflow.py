"""The walk that data flow stands on: its laws, and random trees against all their paths."""

from __future__ import annotations

import random

import pytest

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.dataflow import Forward
from snap._compiler.ir.numbering import Numbers

HERE = {"span": None}
DEEPEST, ROUNDS, TREES = 3, 6, 400


def does(what):
    """A statement that a client knows by a word: "+a" begins a, "-a" ends it."""
    return ir.Assert(None, what, **HERE)


def loop(*body, certain=False, pre=None):
    if pre is not None:
        return ir.While(pre, None, body, **HERE)
    return ir.For(None, None, None, None, body, 1 if certain else 0, **HERE)


def branch(then, other=()):
    return ir.If(None, tuple(then), tuple(other), **HERE)


def split(*cases):
    return ir.Split(None, None, tuple(ir.Case(k, 1, False, None, tuple(case), **HERE) for k, case in enumerate(cases)), **HERE)


def call(*body):
    return ir.Call(ir.Function(1, "f", False, (), None, None, body, 0, False, **HERE), (), (), None, None, 0, **HERE)


def group(*body):
    return ir.Group(None, None, None, body, **HERE)


LEAVE = {"break": ir.Break(**HERE), "continue": ir.Continue(**HERE), "return": ir.Return(None, **HERE)}


class Client(Forward):
    """What may be begun: sets.  `at`: by statement, what held there when it was asked about last."""

    def __init__(self):
        super().__init__()
        self.at, self.asked = {}, []

    def join(self, a, b, s):
        return a | b

    def change(self, what, state):
        return state | {what[1:]} if what[0] == "+" else state - {what[1:]}

    def before(self, s, state):
        self.at[s.number] = state
        self.asked.append((s.number, state))
        return state

    def transfer(self, s, state):
        if isinstance(s, ir.Assert):
            return self.change(s.message, state)
        return self.called(s, state) if isinstance(s, ir.Call) else state

    def runs(self, s):
        return isinstance(s, ir.For) and s.unroll == 1

    start = frozenset()


class Counts(Client):
    """How many may be begun, up to 4: a chain."""

    start = 0

    def join(self, a, b, s):
        return max(a, b)

    def change(self, what, state):
        return min(state + 1, 4) if what[0] == "+" else min(state, "abc".index(what[1:]))


class Paths:
    """Every path with at most so many rounds of each loop, states side by side and never joined."""

    def __init__(self, client):
        self.client, self.at = client, {}

    def body(self, body, states):
        """States at the end, and those that leave by "break", "continue" and "return"."""
        left = {"break": set(), "continue": set(), "return": set()}
        for s in body:
            if not states:
                break
            self.at.setdefault(s.number, set()).update(states)
            states, ways = self.statement(s, states)
            for way, more in ways.items():
                left[way] |= more
        return states, left

    def statement(self, s, states):
        match s:
            case ir.Assert(message=what):
                return {self.client.change(what, x) for x in states}, {}
            case ir.Break() | ir.Continue() | ir.Return():
                return set(), {type(s).__name__.lower(): states}
            case ir.For() | ir.While():
                return self.loop(s, states)
            case ir.Call():
                end, left = self.body(s.function.body, states)
                return end | left["return"], {}
            case ir.If():
                ends = [self.body(s.then, states), self.body(s.other, states)]
            case ir.Split():
                ends = [(states, {}), *(self.body(case.body, states) for case in s.cases)]
            case ir.Group():
                ends = [self.body(s.body, states)]
        return set().union(*(end for end, _ in ends)), {way: set().union(*(left.get(way, set()) for _, left in ends)) for way in LEAVE}

    def loop(self, s, top):
        out, returned = set(), set()
        for k in range(ROUNDS):
            test = self.body(s.pre, top)[0] if isinstance(s, ir.While) else top
            if k or not self.client.runs(s):
                out |= test
            end, left = self.body(s.body, test)
            out |= left["break"]
            returned |= left["return"]
            top = end | left["continue"]
        return out, {"return": returned}


def drawn(rng, depth, in_loop):
    def body(depth, in_loop):
        return tuple(drawn(rng, depth, in_loop) for _ in range(rng.randint(0, 3)))

    kind = rng.choice(["do"] * 3 + (["loop", "while", "if", "if", "split", "group", "call"] if depth else []) + ["leave"])
    match kind:
        case "do":
            return does(rng.choice("+-") + rng.choice("abc"))
        case "leave":
            return branch([LEAVE[rng.choice(["break", "continue", "return"] if in_loop else ["return"])]]) if rng.random() < 0.5 else \
                LEAVE[rng.choice(["break", "continue", "return"] if in_loop else ["return"])]
        case "loop":
            return loop(*body(depth - 1, True), certain=rng.random() < 0.3)
        case "while":
            pre = tuple(does(rng.choice("+-") + rng.choice("abc")) for _ in range(rng.randint(0, 2)))
            return loop(*body(depth - 1, True), pre=pre)
        case "if":
            return branch(body(depth - 1, in_loop), body(depth - 1, in_loop))
        case "split":
            return split(*(body(depth - 1, in_loop) for _ in range(rng.randint(1, 2))))
        case "group":
            return group(*body(depth - 1, in_loop))
        case "call":
            return call(*Numbers().given(body(depth - 1, False)))


def solved(client, *body, state=None):
    body = Numbers().given(body)
    end = client.body(body, client.start if state is None else state)
    return end, client, body


@pytest.mark.parametrize("kind", [Client, Counts])
def test_the_least_solution_is_what_all_paths_bring(kind):
    for seed in range(TREES):
        rng = random.Random(seed)
        numbers = Numbers()
        numbers.beyond([10_000])  # bodies of callees were numbered when they were drawn, and are not looked at
        body = numbers.given(tuple(drawn(rng, DEEPEST, False) for _ in range(4)))
        client, paths = kind(), Paths(kind())
        end = client.body(body, client.start)
        ends, _ = paths.body(body, {client.start})
        assert client.joined(ends, None) == end, seed
        for number in client.at.keys() | paths.at.keys():
            if number > 10_000:
                assert client.joined(paths.at[number], None) == client.at[number], (seed, number)


def test_before_the_last_time_with_no_more():
    for seed in range(100):
        numbers = Numbers()
        numbers.beyond([10_000])
        body = numbers.given((loop(*(drawn(random.Random(seed), 2, True) for _ in range(4))),))
        client = Client()
        client.body(body, frozenset())
        assert all(state <= client.at[number] for number, state in client.asked if number > 10_000)


def test_a_loop_may_run_no_round_unless_it_is_certain():
    assert solved(Client(), loop(does("+a")))[0] == {"a"}
    assert solved(Client(), loop(does("-a")), state=frozenset("a"))[0] == {"a"}
    assert solved(Client(), loop(does("-a"), certain=True), state=frozenset("a"))[0] == set()
    assert solved(Client(), loop(pre=(does("-a"),)), state=frozenset("a"))[0] == set()  # what comes before the condition always runs


def test_what_an_iteration_did_comes_around():
    inner = does("-b")
    _, client, body = solved(Client(), loop(inner, does("+a"), does("+b")))
    assert client.at[body[0].body[0].number] == {"a", "b"} and client.at[body[0].body[1].number] == {"a"}


def test_a_break_leaves_its_own_loop():
    end, client, body = solved(Client(), loop(loop(does("+a"), LEAVE["break"], does("+c")), does("+b")))
    assert end == {"a", "b"}
    unreached = body[0].body[0].body[2]
    assert unreached.message == "+c" and unreached.number not in client.at


def test_a_continue_comes_to_the_top():
    end, client, body = solved(Client(), loop(branch([does("+a"), LEAVE["continue"]]), does("-a"), certain=True))
    assert end == {"a"} and client.at[body[0].body[0].number] == {"a"}
    end, client, body = solved(Client(), loop(does("+a"), LEAVE["continue"], pre=(does("-a"),)))
    assert end == set() and client.at[body[0].pre[0].number] == {"a"}


def test_what_follows_a_return_is_not_reached():
    assert solved(Client(), does("+a"), LEAVE["return"], does("+b"))[0] is None
    assert solved(Client(), branch([LEAVE["return"]], [does("+a")]), does("+b"))[0] == {"a", "b"}
    assert solved(Client(), branch([LEAVE["return"]], [LEAVE["return"]]), does("+b"))[0] is None
    assert solved(Client(), loop(LEAVE["return"], certain=True), does("+b"))[0] is None


def test_a_call_ends_where_its_function_returns():
    assert solved(Client(), call(branch([does("+a"), LEAVE["return"]]), does("+b")))[0] == {"a", "b"}
    assert solved(Client(), call(does("+a"), LEAVE["return"], does("+b")), does("+c"))[0] == {"a", "c"}


def test_the_cases_of_a_split_are_run_by_some():
    assert solved(Client(), split([does("-a")], [does("+b")]), state=frozenset("a"))[0] == {"a", "b"}
    assert solved(Client(), split([LEAVE["return"]]), does("+b"))[0] == {"b"}


def test_states_that_change_in_place():
    """`fork` is asked wherever a state goes two ways, so that one way does not see what the other did."""

    class InPlace(Client):
        def fork(self, state):
            return set(state)

        def join(self, a, b, s):
            return a | b

        def change(self, what, state):
            (state.add if what[0] == "+" else state.discard)(what[1:])
            return state

        def before(self, s, state):
            self.at[s.number] = frozenset(state)
            return state

    for seed in range(100):
        numbers = Numbers()
        numbers.beyond([10_000])
        body = numbers.given(tuple(drawn(random.Random(seed), DEEPEST, False) for _ in range(4)))
        one, other = Client(), InPlace()
        assert one.body(body, frozenset()) == other.body(body, set()), seed
        assert one.at == other.at, seed
