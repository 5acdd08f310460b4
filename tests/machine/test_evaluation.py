"""Expressions are evaluated from left to right, and each part once: the same lines give the same numbers in Python."""

from __future__ import annotations

import numpy as np
import pytest
from check.checking import execute  # noqa: E402

from snap.machine.errors import MachineError  # noqa: E402

DEVICE = """
@device
@requires(thread[1])
def f(r: ref(int[4]) @ thread[1]) -> int @ thread[1]:
    r[0] = r[0] + 10
    r[1] = 3 - r[1]
    return 100

@device
@requires(thread[1])
def g(m: ptr(int) @ thread[1]) -> int @ thread[1]:
    m[0] = m[0] * 2 + 1
    return m[0]

@device
@requires(thread[1])
def minus(a: int @ thread[1], b: int @ thread[1], c: int @ thread[1]) -> int @ thread[1]:
    return a * 100 - b * 10 - c

@device
@requires(thread[1])
def first(a: int[4] @ thread[1], b: int @ thread[1]) -> int @ thread[1]:
    return a[0] * 1000 + b

@kernel
@requires(grid[1], block[1], thread[1])
def k(y: ptr(int) @ grid[1]):
    i: int @ thread[1] = id()
    with partition(y, p=thread[1], offset=i) as m:
        with group(thread[1]):
            x: int[4] @ thread[1]
            x[0] = 1
            x[1] = 2
            m[0] = 5
            m[1] = 7
            LINE
            m[2] = x[0] * 16 + x[1]
            m[3] = x[2] * 16 + x[3]
"""


def f(r):
    r[0] += 10
    r[1] = 3 - r[1]
    return 100


def g(m):
    m[0] = m[0] * 2 + 1
    return m[0]


def minus(a, b, c):
    return a * 100 - b * 10 - c


def first(a, b):
    return a * 1000 + b


LINES = [
    "m[1] = x[0] + f(x)", "m[1] = f(x) + x[0]", "m[1] = x[0] + f(x) + x[0]", "m[1] = x[0] - (x[1] - f(x) - x[0])", "m[1] = -x[0] * f(x)",
    "m[1] = m[0] + g(m)", "m[1] = m[0] - g(m) * m[0] + g(m)", "m[1] = m[x[1]] + m[0] + g(m) + f(x)",
    "m[1] = min(x[0], f(x), x[0])", "m[1] = max(x[0], f(x) - 95)", "m[1] = minus(x[0], f(x), x[0])", "m[1] = minus(c=x[0], b=f(x), a=x[0])",
    "m[1] = minus(x[0], c=x[1], b=f(x))", "m[1] = minus(m[0], g(m), m[0])", "m[1] = minus(minus(x[0], f(x), x[1]), x[0], f(x))",
    "m[1] = x[x[1]] + x[f(x) - 100]", "m[x[1] + 2] = f(x)", "m[f(x) - 98] = x[0]", "m[g(m) - 9] = m[0]", "m[f(x) - 99] = m[0] * g(m)",
    "x[1] += f(x)", "x[x[1]] += f(x)", "x[0] *= f(x) + x[0]", "m[0] += g(m)", "m[x[1] + 1] -= f(x) + x[1]", "m[1] -= g(m) - m[0]",
    "m[1] = int(x[0] < f(x)) + int(x[0] > f(x) - 90)", "m[1] = int(x[0] < 5 < f(x))", "m[1] = int(0 < f(x) < 200)", "m[1] = int(f(x) < x[0] < f(x))",
    "m[1] = int(x[0] < x[1] < f(x) < 3)", "m[1] = int(0 < x[0] < f(x) < 200 < x[0])", "m[1] = int(m[0] < g(m) == m[0])", "m[1] = int(0 < x[0] < x[1] < 9)",
    "m[1] = x[0] if f(x) > x[0] else x[1]", "m[1] = x[0] + (f(x) if x[1] > 1 else x[0])", "m[1] = x[0] + (f(x) if x[1] > 2 else x[0])",
    "m[1] = int(x[0] == 1 and f(x) == 100 and x[0] == 11)", "m[1] = x[0] + int(x[0] == 2 or f(x) == 100) + x[0]",
    "x[2] = x[0] + f(x)", "x[f(x) - 98] = x[0]", "v: int = x[0] + f(x)\n            m[1] = v", "v = x[0] - f(x)\n            m[1] = v + x[0]",
    "if x[0] + f(x) == 101:\n                m[1] = x[0]", "while x[0] + f(x) < 120:\n                m[1] += x[0]",
    "for j in range(x[0], f(x) - 95, x[1]):\n                m[1] += j", "for j in range(f(x) - 98, x[0], x[1]):\n                m[1] += j",
]


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("seed", [None, 3])
def test_as_in_python(line, seed):
    x, m = [1, 2, 0, 0], [5, 7, 0, 0, 0, 0, 0, 0]
    exec("\n".join(part[12:] if part[:1] == " " else part for part in line.replace("v: int", "v").split("\n")), {"x": x, "m": m, "f": f, "g": g, "minus": minus})
    m[2], m[3] = x[0] * 16 + x[1], x[2] * 16 + x[3]
    y = np.zeros(8, np.int32)
    execute(DEVICE.replace("LINE", line))["k"].launch(y, blocks=1, seed=seed)
    assert y.tolist() == m


@pytest.mark.parametrize("line, expected", [
    ("m[1] = first(x, f(x))", 1100),  # by value: the array as it was
    ("m[1] = first(b=f(x), a=x)", 11100),
    ("m[1] = int(-1 < atomic.add(m, 0, 1) < 10) + m[0]", 7),
    ("m[1] = m[0] + atomic.add(m, 0, 1) * 100 + m[0] * 10000", 60505),
    ("m[1] = m[0] * 100 + atomic.exch(m, x[1] - 2, f(x))", 505),
    ("m[1] = atomic.add(m, 0, x[0]) + int(x[0] < f(x)) + atomic.add(m, 0, x[0])", 12),
    ("v = int2(x[0], f(x))\n            m[1] = v.x + v.y", 101),
])
def test_what_python_does_not_have(line, expected):
    y = np.zeros(8, np.int32)
    execute(DEVICE.replace("LINE", line))["k"][1](y)
    assert y[1] == expected


@pytest.mark.parametrize("line, kept", [
    ("m[1] = x[0] + f(x)", 1), ("m[1] = f(x) + x[0]", 0), ("m[1] = m[0] + f(x)", 0), ("m[1] = x[0] + g(m)", 0), ("m[1] = i + f(x)", 0),
    ("m[1] = x[0] + atomic.add(m, 0, 1)", 0), ("m[1] = m[0] + atomic.load(m, 1)", 0), ("m[1] = m[0] + atomic.add(m, 0, 1)", 1),
    ("m[1] = m[0] + atomic.load(m, 1, order=\"acquire\")", 1),
])
def test_only_what_may_change_is_kept(line, kept):
    assert execute(DEVICE.replace("LINE", line))["k"].cuda().count(" before = ") == kept


PARTS = """
@kernel
@requires(grid[1], block[1], thread[8])
def k(y: ptr(int) @ grid[1], a: ptr(int, (8, N)) @ grid[1], n: INDEX @ grid[1], o: int @ grid[1], N: int @ grid[1]):
    with group(grid[1]):
        g: int @ thread[1] = id()
        with partition(y, p=thread[1], f=lambda k: g * n + o + k) as mine:
            with group(thread[1]):
                if g % 2 == 1:
                    mine.view(VIEW)[0] = VIEW(1)
        with partition(a, p=thread[1], f=lambda i, j: (g + i, o + j)) as row:
            with group(thread[1]):
                if g % 2 == 1:
                    row.view(VIEW)[0, 1] = VIEW(1)
"""


@pytest.mark.parametrize("index", ["int", "i64"])
@pytest.mark.parametrize("view, lanes", [("int2", 2), ("int4", 4)])
@pytest.mark.parametrize("n, o", [(4, 0), (4, 4), (4, 1), (2, 0), (2, 2), (6, 2), (3, 1), (8, 4), (4, 2)])
def test_a_view_begins_where_its_part_begins(index, view, lanes, n, o):
    """Only threads that access it count; what they access is theirs, or it is a fault."""
    k = execute(PARTS.replace("INDEX", index).replace("VIEW", view))["k"]
    assert all(f"reinterpret_cast<{view}*>({name} + " in k.cuda() for name in "ya")  # the part's own address, not one rounded down
    for seed in (None, 1):
        y, a = np.zeros(80, np.int32), np.zeros((8, 16), np.int32)
        starts = [g * n + o for g in range(1, 8, 2)]
        if any(start % lanes for start in (*starts, o)):
            with pytest.raises(MachineError):
                k.launch(y, a, n, o, 16, blocks=1, seed=seed)
            continue
        k.launch(y, a, n, o, 16, blocks=1, seed=seed)
        expected = np.zeros_like(y)
        for start in starts:
            expected[start:start + lanes] = 1
        assert y.tolist() == expected.tolist()
        assert np.flatnonzero(a[3]).tolist() == list(range(o + lanes, o + 2 * lanes)) and not a[2].any()
