"""A result is one value for its privilege: what is returned, and which `return` is reached.  Tables of device functions, refused and accepted;
kernels that call the accepted ones run with many schedules."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest
from check.checking import errors, execute, kernel_text

# `u` is one value for the 64 threads the result is for, `w` for the 32 that run the function, `t` one thread's own.
SIGNATURE = "u: int @ thread[64], w: int @ thread[32], t: int @ thread[1], s: ptr(shared(int)) @ block[1], x: ptr(int) @ grid[1]"
TWICE = """
@device
@requires(thread[32])
def twice(a: int @ thread[64]) -> int @ thread[64]:
    return 2 * a
"""
CALLER = """
with group(grid[1]):
    i: int @ thread[1] = id()
    with partition(out, p=thread[1], offset=i) as mine:
        with group(block[1]):
            s: shared(int[1])
            a: shared(int[128])
            u: int @ thread[64] = id()
            w: int @ thread[32] = id()
            with claim(s, p=thread[1]) as one:
                match split(thread):
                    case 1:
                        one[0] = n
            with partition(a, p=thread[64], offset=64 * u, disjoint=True) as half:
                with group(thread[64]):
                    t: int @ thread[1] = id()
                    if f(u, w, t, s, x) == 1:
                        with partition(half, p=thread[1], offset=t) as cell:
                            cell[0] = i
                        mine[0] = half[63 - t]
"""


def function(code: str, result: str = "int @ thread[64]", requires: str = "thread[32]") -> str:
    body = textwrap.indent(textwrap.dedent(code).strip("\n"), "    ")
    return f"{TWICE}\n@device\n@requires({requires})\ndef f({SIGNATURE}) -> {result}:\n{body}\n"


REFUSED = {
    "a warp decides": "if w == 0:\n    return 1\nreturn 2",
    "in both branches": "if w == 0:\n    return 1\nelse:\n    return 2",
    "below a good condition": "if u == 0:\n    if w == 0:\n        return 1\nreturn 2",
    "above a good condition": "if w == 0:\n    if u == 0:\n        return 1\nreturn 2",
    "in an elif": "if u == 0:\n    return 1\nelif w == 0:\n    return 2\nreturn 3",
    "one side of `and`": "if u == 0 and w == 0:\n    return 1\nreturn 2",
    "one side of `or`": "if w == 0 or u == 0:\n    return 1\nreturn 2",
    "a bound": "for i in range(w):\n    return 1\nreturn 2",
    "a first element": "for i in range(w, 4):\n    return i\nreturn 2",
    "a `while`": "while w > u:\n    return 1\nreturn 2",
    "an iteration": "for i in range(4):\n    if i == w:\n        return 1\nreturn 2",
    "after a `break`": "for i in range(4):\n    if w == i:\n        break\n    if i == 2:\n        return 1\nreturn 2",
    "after a `continue`": "for i in range(4):\n    if w == 0:\n        continue\n    return 1\nreturn 2",
    "a `while True` that is left": "while True:\n    if w == 0:\n        break\n    return 1\nreturn 2",
    "a variable of the warp": "v: int = u\nif v == 0:\n    return 1\nreturn 2",
    "a vote of the warp": "if intrinsic.any(t == 1):\n    return 1\nreturn 2",
    "each thread": "with group(thread[1]):\n    if t == 0:\n        return 1\n    else:\n        return 2",
    "memory that others change": "with group(thread[1]):\n    if x[0] == 0:\n        return 1\n    else:\n        return 2",
    "a call that may be left out": "return 1 if w == 0 else twice(2)",
    "a call behind `and`": "v: bool @ thread[32] = w == 0 and twice(u) == 2\nif v:\n    return 1\nreturn 2",
    "a choice in an argument": "return twice(1 if w == 0 else twice(2))",
}
ACCEPTED = {
    "a value of the 64": "if u == 0:\n    return 1\nreturn 2",
    "constants": "if 3 > 2:\n    return 1\nreturn 2",
    "an iteration of all": "for i in range(4):\n    if i == u:\n        return 1 + u\nreturn 2",
    "bounds of all": "for i in range(u):\n    return 1\nreturn 2",
    "a loop that is left, and no return in it": "v: int = 0\nfor i in range(4):\n    if w == i:\n        break\n    v += 1\nreturn 1 + u",
    "a call that may be left out": "return 1 if u == 0 else twice(2)",
    "a call behind `and`": "v: bool @ thread[32] = u == 0 and twice(u) == 0\nif u == 1:\n    return 1\nreturn 2",
    "shared memory": "if s[0] > 2:\n    return 1\nreturn 2",
    "shared memory, each thread": "with group(thread[1]):\n    if s[0] > 2:\n        return 1\n    else:\n        return 2",
    "a chain": "if u == 0:\n    return 1\nelif s[0] == 1:\n    return 1\nreturn 2",
}
LOWER = {
    "the warp's own": ("if w == 0:\n    return 1\nreturn 2", "int @ thread[32]"),
    "a vote": ("if intrinsic.any(t == 1):\n    return 1\nreturn 2", "int @ thread[32]"),
    "a thread's own": ("with group(thread[1]):\n    if t == 0:\n        return 1\n    else:\n        return 2", "int @ thread[1]"),
    "a `break`": ("for i in range(4):\n    if w == i:\n        break\n    if i == 2:\n        return 1\nreturn 2", "int @ thread[32]"),
}


@pytest.mark.parametrize("code", REFUSED.values(), ids=REFUSED)
def test_what_chooses_a_return_is_as_high_as_the_result(code):
    found = errors("pass", before=function(code))
    assert found and {e.code for e in found} <= {"SNAP006", "SNAP015"}, [e.render() for e in found]


@pytest.mark.parametrize("result, requires, code", [
    ("int @ block[1]", "thread[32]", "if u == 0:\n    return 1\nreturn 2"),
    ("int @ grid[1]", "block[1], thread[32]", "b: int = s[0]\nif b == 0:\n    return 1\nreturn 2"),
    ("int @ thread[48]", "thread[32]", "return 1 if w == 0 else twice(2)"),
    ("int @ thread[32]", "thread[1]", "if t == 0:\n    return 1\nreturn 2"),
])
def test_results_of_every_level(result, requires, code):
    assert {e.code for e in errors("pass", before=function(code, result, requires))} == {"SNAP006"}


def test_the_refusal_names_what_differs_and_a_result_that_may():
    [found] = errors("pass", before=function("if w == 0:\n    return 1\nreturn 2"))
    assert all(said in found.render() for said in ("`w` may differ between them", "values at `thread[64]` or above", "`-> ... @ thread[32]`"))


@pytest.mark.parametrize("code", ACCEPTED.values(), ids=ACCEPTED)
def test_what_is_accepted_keeps_the_group_together(code):
    text, _ = kernel_text(CALLER, "grid[1], block[1], thread[128]", "out: ptr(int) @ grid[1], x: ptr(int) @ grid[1], n: int @ grid[1]", function(code))
    k = execute(text)["k"]
    for n in (0, 1, 5):
        meant = np.zeros(128, np.int32)
        k[1](meant, np.zeros(4, np.int32), n)
        for seed in range(3):
            k.launch(out := np.zeros(128, np.int32), np.zeros(4, np.int32), n, blocks=1, seed=seed)
            assert (out == meant).all()
    assert not k.races(np.zeros(128, np.int32), np.zeros(4, np.int32), 5, blocks=1, seeds=2)


@pytest.mark.parametrize("code, result", LOWER.values(), ids=LOWER)
def test_a_lower_result_may_be_chosen_lower(code, result):
    assert not errors("pass", before=function(code, result))


def test_a_generic_function_is_judged_by_its_values():
    text = "@device\n@requires(lambda N: (thread[32],))\ndef f(N: constexpr(int), w: int @ thread[32]) -> int @ thread[64]:\n" + \
        "    if N > 1 and w == 0:\n        return 1\n    return 2\n"
    body = "with group(grid[1]):\n    w: int @ thread[32] = id()\n    with group(thread[64]):\n        v: int @ thread[64] = f({}, w)"
    assert {e.code for e in errors(body.format(2), before=text)} == {"SNAP006"}
    always = text.replace("N > 1 and w == 0", "N > 1")
    assert not errors(body.format(2), before=always) and not errors(body.format(1), before=always)
