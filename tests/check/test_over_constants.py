"""Loops over constants: what is a constant, of which type, what a body may do with it, and how iterations end."""

from __future__ import annotations

import numpy as np
import pytest
from check.checking import codes, errors, kernel

ONE = "grid[1], block[1], thread[1]"
BEFORE = """
SIZES = (4, 2)
TYPES = (u8, int)
TABLE = np.array([3, 1])
BOTH = ((1, 2), (3, 4))

def halves(n):
    while n > 1:
        n //= 2
        yield n

@device(thread)
def more(x: int) -> int:
    return x + 1

@device(thread)
def twice(x: int) -> int:
    return 2 * x
"""


def found(code: str, requires: str = "grid[1], block[1], thread[64]", params: str = "y: ptr(int, (64,)), m: int") -> list:
    return codes(code, requires, params, BEFORE, np=np)


def loop(constants: str, body: str) -> str:
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    return f"with each(block, y):\n    quad = thread[4]\n    t: int @ thread[1] = id()\n    n: constexpr(int) = 2\n    for d in unroll({constants}):\n{lines}"


@pytest.mark.parametrize("constants, body", [
    ("(4, 2, 1)", "a: int[d] @ thread[1]"), ("SIZES", "s: shared(int[d, 2 * d])"), ("TABLE", "m: int[d] @ thread[1]"), ("range(1, 4)", "a: int[d] @ thread[1]"), ("tuple(range(1, 4))", "a: int[d] @ thread[1]"),
    ("[2 * k + n for k in range(3)]", "a: int[d] @ thread[1]"), ("halves(16)", "a: int[d] @ thread[1]"), ("(32, 16)", "match split(thread, d, d):\n    case 0:\n        x: int = 0\n    case 1:\n        z: int = 0"),
    ("(32, 16, 1)", "with each(thread[d], y) as g:\n    x: int = g"), ("(u8, int, f64)", "x: d @ thread[1] = d(t)\na: d[2] @ thread[1]"), ("TYPES", "x: d @ thread[1] = d(t)"), ("(thread[8], warp, quad)", "with each(d, y) as g:\n    x: int = g"),
    ("(more, twice)", "x: int @ thread[1] = d(t)"), ("(min, max)", "x: int @ thread[1] = d(t, 3)"), ("(0.5, 1.0)", "x: float @ thread[1] = d"), ("(True, False)", "if d:\n    x: int = 1"), ("()", "x: int = d"),
    ("(views.chunks(1), views.interleaved(64))", "with partition(y, p=thread[1], view=d) as mine, group(thread[1]):\n    pass"), ("(lambda k: t + k, lambda k: 63 - t + k)", "with partition(y, p=thread[1], f=d) as mine, group(thread[1]):\n    mine[0] = 1"),
    ("(4, 2, 1)", "if d == 1:\n    break\nx: int = d"), ("(4, 2, 1)", "if d == 1:\n    continue\na: int[d - 1] @ thread[1]"),
])
def test_what_is_a_constant(constants, body):
    assert found(loop(constants, body)) == []


@pytest.mark.parametrize("constants, body, code, fragment", [
    ("(1, 0.5)", "pass", "SNAP018", "one of these constants is an integer, and another is a float"), ("(u8, 3)", "pass", "SNAP018", "another is an integer"), ("(t, 1)", "pass", "SNAP018", "constant"),
    ("(1, 2), 2", "pass", "SNAP018", "writes all of them out"), ("BOTH", "pass", "SNAP018", "cannot be written out for"), ("range(513)", "a: int[d + 1] @ thread[1]", "SNAP018", "more than 512"), ("tuple(range(513))", "pass", "SNAP018", "more than 512"),
    ("(4, 2)", "if m == d:\n    break", "SNAP007", "condition that is not a constant"), ("(4, 2)", "with each(thread, y) as i:\n    if i == d:\n        continue", "SNAP007", ""),
    ("(more, twice)", "d = 3", "SNAP018", "another meaning"), ("(more, twice)", "d: int = 3", "SNAP018", "another meaning"), ("halves(u8)", "pass", "SNAP018", "failed: TypeError"), ("(4, 0)", "a: int[d] @ thread[1]", "SNAP018", ""),
    ("(48, 32)", "match split(thread, d, 32):\n    case 0:\n        pass\n    case 1:\n        pass", "SNAP003", ""), ("([k for k in (1, u8)])", "pass", "SNAP018", ""),
])
def test_what_is_refused_and_why(constants, body, code, fragment):
    all_of_them = errors(loop(constants, body), "grid[1], block[1], thread[64]", "y: ptr(int), m: int", BEFORE, np=np)
    assert all_of_them and all_of_them[0].code == code and fragment in all_of_them[0].render(), [e.render() for e in all_of_them]


def test_the_error_says_in_which_iteration():
    (error,) = errors(loop("(2, 1, 0)", "a: int[d] @ thread[1]"), "grid[1], block[1], thread[64]", "y: ptr(int), m: int", BEFORE, np=np)
    assert "in the iteration with `d` = 0" in error.render()


def test_a_constant_has_the_type_of_a_local_without_one():
    """An int, or an i64, and no free number: what it meets decides no type for it."""
    k = kernel("with each(thread, y) as i:\n    x = 0\n    for d in unroll((1, 2)):\n        x = x * 10 + d\n    for d in unroll((4294967295, 2)):\n        x = x * 10 + (1 if u32(1) - d < 0 else 2)\n    y[i] = x", ONE, "y: ptr(int)")
    y = np.zeros(1, np.int32)
    k[1](y)
    assert y.tolist() == [1212]


def test_iterations_are_written_out_one_after_the_other():
    k = kernel("with each(thread, y) as i:\n    x = 0\n    for d in unroll((3, 5, 7)):\n        for e in unroll((1, d)):\n            if d == 5 and e == d:\n                continue\n            if d == 7 and e == 1:\n                break\n"
               "            z: int[e] = d\n            x = x * 10 + z[e - 1] * 2 + e\n    y[i] = x", "grid[1], block[1], thread[1]", "y: ptr(int)")
    y = np.zeros(1, np.int32)
    k[1](y)
    assert y.tolist() == [((3 * 2 + 1) * 10 + 3 * 2 + 3) * 10 + 5 * 2 + 1] and "int d" not in k.cuda()


def test_a_range_is_written_out_only_where_it_must_be():
    plain, sized = "x += d", "a: int[d + 1] = x\n            x = a[d] + d"
    text = "with each(thread, y) as i:\n    x = 0\n    for d in unroll(range(4)):\n        if True:\n            {}\n    y[i] = x"
    for body, loops in ((plain, True), (sized, False)):
        k = kernel(text.format(body), ONE, "y: ptr(int)")
        y = np.zeros(1, np.int32)
        k[1](y)
        assert y.tolist() == [6] and ("int d = 0" in k.cuda()) == loops
