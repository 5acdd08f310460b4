"""The order of a pipeline's fills (SNAP021): what is refused where a function is defined, by the checker or over the whole kernel."""

from __future__ import annotations

import textwrap

import pytest
from check.checking import IN_BLOCK, errors, program

PARAMS = "n: int @ grid[1], x: ptr(const(int), (n, 256)) @ grid[1]"
DECLARED = "q: pipeline(shared(int[256]), 3)\nt: int @ thread[1] = id()\nm: int = n\n"


def fill(number: str, depth: int = 0) -> str:
    text = f"with stage(q, {number}) as a:\n    with partition(a, p=thread[1], offset=t) as mine:\n        mine[0] = 1\n"
    return textwrap.indent(text, "    " * depth)


def drain(number: str, depth: int = 0) -> str:
    return textwrap.indent(f"with stage(q, {number}) as b:\n    z: int @ thread[1] = b[0]\n", "    " * depth)


def body(code: str) -> str:
    return IN_BLOCK + textwrap.indent(DECLARED + code, "        ")


def refused(code: str, *fragments: str, **options: str) -> None:
    """With exactly one error."""
    (error,) = errors(body(code), **options)
    rendered = error.render()
    assert error.code == "SNAP021" and all(fragment in rendered for fragment in fragments), rendered


LOOP = "for k in range(n):\n"
NESTED = "for i in range(n):\n    for k in range(n):\n"


@pytest.mark.parametrize("code", [
    fill("0") + fill("1") + fill("2"),
    fill("0") + fill("0"),
    LOOP + fill("k", 1),
    LOOP + fill("k", 1) + drain("k - 2", 1),
    LOOP + fill("k", 1) + LOOP + drain("k", 1),
    NESTED + fill("i * n + k", 2),
    NESTED + "        f: int = i * n + k\n" + fill("f", 2),
    NESTED + fill("m + k", 2) + "    m += n\n",
    "while m > 0:\n    m -= 1\n    for k in range(n):\n" + fill("n - m + k", 2),
    fill("0") + fill("1") + LOOP + fill("k + 2", 1),
    fill("0") + fill("1") + LOOP + "    if k >= 2:\n" + fill("k", 2),
    LOOP + fill("2 * k", 1) + fill("2 * k + 1", 1),
    LOOP + fill("k", 1) + fill("k + 1", 1),
    "if n > 3:\n" + fill("1", 1) + "else:\n" + fill("0", 1),
    fill("3") + drain("0"),
    "for i in range(n):\n    q: pipeline(shared(int[256]), 3)\n    for k in range(n):\n" + fill("k", 2),
    "with stage(q, 0) as b:\n" + fill("1", 1),
    "for k in range(4):\n" + fill("k", 1) + fill("3"),
    "for k in range(n, 2 * n):\n" + fill("k", 1) + fill("0"),
    "for k in range(9, 0, -1):\n" + fill("9 - k", 1),
    "with stage(q) as a:\n    pass\nfor k in range(n):\n    with stage(q) as a:\n        pass\n",
])
def test_fills_in_order(code):
    assert errors(body(code), params=PARAMS) == []


@pytest.mark.parametrize("code, fragments", [
    (fill("1") + fill("0"), ("after one with a higher number", "filled here before")),
    (LOOP + fill("k", 1) + LOOP + fill("k", 1), ("after one with a higher number",)),
    (NESTED + fill("k", 2), ("start over with every round of an outer loop", "numbered by `k` alone", "number them over both loops")),
    (NESTED + fill("n + k", 2), ("start over",)),
    ("for i in range(n):\n    for j in range(n):\n        for k in range(n):\n" + fill("j * n + k", 3), ("start over",)),
    ("while m > 0:\n    m -= 1\n    for k in range(n):\n" + fill("k", 2), ("start over",)),
    ("for k in range(9, 0, -1):\n" + fill("k", 1), ("numbered downwards", "smaller in every round")),
    (LOOP + fill("n - k", 1), ("numbered downwards",)),
    (fill("0") + fill("3") + LOOP + fill("k + 2", 1), ("after one with a higher number",)),
    (LOOP + fill("0", 1) + fill("1", 1), ("in the next round of the loop",)),
    (LOOP + fill("k + 1", 1) + fill("k", 1), ("after one with a higher number",)),
    ("for k in range(4):\n" + fill("k", 1) + fill("2"), ("after one with a higher number",)),
    (fill("0") + "with stage(q) as b:\n    pass\n", ("both in turn and by number", "names the fill's number here", "counts on here")),
    ("with stage(q) as b:\n    pass\n" + drain("0"), ("both in turn and by number", "takes the next fill here")),
    (fill("-1"), ("numbered from 0",)),
])
def test_fills_out_of_order(code, fragments):
    refused(code, *fragments, params=PARAMS)


@pytest.mark.parametrize("filling", [
    "async_copy(a, x2, at=(0,))", "atomic.add(a, 0, 1)", "with partition(a, p=thread[1], offset=t) as d:\n            async_copy(d[0], x[0, t])",
    "with claim(a, p=thread[32]) as c:\n            match split(thread):\n                case 32:\n                    put(c)",
])
def test_what_fills(filling):
    put = "@device\n@requires(thread[32])\ndef put(p: ptr(int) @ thread[32]):\n    t: int @ thread[1] = id()\n    with partition(p, p=thread[1], offset=t) as m:\n        m[0] = 1\n"
    code = "for i in range(n):\n    for k in range(n):\n      with stage(q, k) as a:\n        " + filling
    refused(code, "start over", params=PARAMS + ", x2: ptr(const(int), (n,)) @ grid[1]", before=put)


def test_all_that_go_back_are_told():
    found = errors(body(LOOP + fill("n - k", 1) + fill("7") + fill("3")), params=PARAMS)
    assert [(error.code, error.lineno) for error in found] == [("SNAP021", 14), ("SNAP021", 20)], found


def test_in_a_function_that_is_called():
    device = "@device\n@requires(block[1], thread[64])\ndef {name}({params}):\n{body}\n"
    code = textwrap.indent("q: pipeline(shared(int[64]), 3)\nt: int @ thread[1] = id()\n" + LOOP + fill("F * k", 1), "    ")
    fills = device.format(name="fills", params="n: int @ block[1], F: constexpr(int)", body=code)
    for factor, wanted in ((1, []), (-1, [("SNAP021", 7)])):
        calls = device.format(name="calls", params="n: int @ block[1]", body=f"    fills(n, {factor})")
        assert program(fills + calls) == wanted, "where the calling function is defined"
