"""Names without annotations: whose they are follows from their value; and the forms that declare several at once, `registers`, `shared`, `ids` of several levels,
loops over a shape, are the declarations and loops that they stand for.
"""

from __future__ import annotations

import numpy as np
import pytest
from short.test_short_forms import defined, instructions, is_refused, points

import snap
from snap import SnapError

SHORT = """
@kernel(threads=64)
def k(x: ptr(const(float)), y: ptr(float), n: int):
    half, rest = n / 2, n % 2
    with each(block) as b:
        s, slots = shared(float[64]), pipeline(shared(float[64]), 2)
        acc, top, sum = registers(float[2, 3], -1.0, 0.0)
        t, w = ids(thread, warp)
        row, column = t / 8 + half, t % 8 + w
        with each(thread, s):
            s[t] = x[(b * 64 + t) % n]
        for i, j in unroll(range(shape=(2, 3))):
            acc[i, j] = s[(row + 5 * i + j) % 64] * float(column + rest)
        for i, j in range(shape=(rest + 1, 3)):
            sum += acc[i % 2, j]
            top = max(top, acc[i % 2, j])
        with each(thread, y):
            y[b * 64 + t] = top + sum
"""
LONG = """
@kernel(threads=64)
def k(x: ptr(const(float)), y: ptr(float), n: int):
    half: int = n / 2
    rest: int = n % 2
    with each(block) as b:
        s: shared(float[64])
        slots: pipeline(shared(float[64]), 2)
        acc: float[2, 3] @ thread[1]
        top: float @ thread[1] = -1.0
        sum: float @ thread[1] = 0.0
        t: const(int) @ thread[1] = id()
        w: const(int) @ warp = id()
        row: int @ thread[1] = t / 8 + half
        column: int @ thread[1] = t % 8 + w
        with each(thread, s):
            s[t] = x[(b * 64 + t) % n]
        for i in unroll(range(2)):
            for j in unroll(range(3)):
                acc[i, j] = s[(row + 5 * i + j) % 64] * float(column + rest)
        extent: int = rest + 1
        for i in range(extent):
            for j in range(3):
                sum += acc[i % 2, j]
                top = max(top, acc[i % 2, j])
        with each(thread, y):
            y[b * 64 + t] = top + sum
"""


def test_they_are_what_they_stand_for():
    short, long = defined(SHORT), defined(LONG)
    results = []
    for kernel in (short, long, defined(short.core())):
        y = np.zeros(128, np.float32)
        kernel[2]((np.arange(77) ** 2 % 31).astype(np.float32), y, 77)
        results.append(y)
    assert results[0].any() and (results[0] == results[1]).all() and (results[0] == results[2]).all()
    assert points(short) == points(long)
    assert instructions(short.cuda()) == instructions(long.cuda())


def privileges(body: str) -> dict[str, str]:
    """Whose each variable of a kernel is that has code at block[1]."""
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    k = defined(f"@kernel(threads=64)\ndef k(x: ptr(const(int)), y: ptr(int), n: int):\n    with each(block) as b:\n        t, w = ids(thread, warp)\n{lines}")
    from snap._compiler.ir import nodes as ir
    from snap._compiler.ir.walk import statements

    return {s.var.name: str(s.var.privilege) for s in statements(k._the_one({}).typed.body) if isinstance(s, ir.Declare)}


@pytest.mark.parametrize("body, whose", [
    ("v = n + b", {"v": "block[1]"}),
    ("v = t + b", {"v": "thread[1]"}),
    ("v = w * 2", {"v": "thread[32]"}),
    ("u, v = w * t, n", {"u": "thread[1]", "v": "block[1]"}),
    ("u, v = divmod(t, 8)", {"u": "thread[1]", "v": "thread[1]"}),
    ("v = x[t]", {"v": "thread[1]"}),
    ("u = x[t]\nv = intrinsic.syncthreads_or(u > 0)", {"u": "thread[1]", "v": "block[1]"}),
    ("v = x[b]", {"v": "block[1]"}),
    ("u = registers(0)\nv = u + w", {"u": "thread[1]", "v": "thread[1]"}),
])  # fmt: skip
def test_whose_a_name_is(body, whose):
    found = privileges(body)
    assert {name: found[name] for name in whose} == whose


def test_what_is_tried_holds_no_memory():
    """A call that gives each thread its own is tried for the block first; its shared memory is counted once."""
    k = defined("""
@device(block, thread[64])
def turned(v: int @ thread[1]) -> int @ thread[1]:
    s = shared(int[64])
    t = ids(thread)
    with each(thread, s):
        s[t] = v
    return s[63 - t]

@kernel(threads=64)
def k(x: ptr(const(int)), y: ptr(int)):
    with each(block):
        t = ids(thread)
        v = turned(x[t])
        with each(thread, y):
            y[t] = v
""")
    assert "256 bytes of shared memory" in k.cuda()


def test_a_constant_chooses_where_a_copy_begins():
    """`at=(i, j) if C else (j, i)`: one kernel for two layouts; a condition of the launch is refused."""
    text = """
@kernel(threads=64)
def k(x: ptr(const(float), (64, 64)), y: ptr(float, (8, 8)), TURNED: constexpr(bool)):
    with each(block):
        s = shared(float[8, 8])
        async_copy(s, x, at=(8, 16) if TURNED else (16, 8))
        with each(thread, y, shape=(8, 8)) as (i, j):
            y[i, j] = s[i, j]
"""
    x = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    for turned, at in ((True, (8, 16)), (False, (16, 8))):
        y = np.zeros((8, 8), np.float32)
        defined(text)[1](x, y, turned)
        np.testing.assert_array_equal(y, x[at[0] : at[0] + 8, at[1] : at[1] + 8])
    with pytest.raises(SnapError) as refused:
        defined(text.replace("constexpr(bool)", "bool"))
    assert "the condition is not a constant" in refused.value.all[0].render()


def test_what_keeps_its_first_value_is_known():
    """A name that is assigned once, where it begins, is as well known as one that is declared: this view begins inside of an element."""
    text = """
@kernel(threads=32)
def k(y: ptr(float)):
    i, w = ids(thread, warp)
    j, m = 1, 2
    with partition(y, p=thread[1], f=lambda e: 4 * i + j + e) as mine, group(thread[1]):
        mine.view(float4)[0] = float4(1.0)
"""
    with pytest.raises(SnapError) as refused:
        defined(text)
    assert "whole" in refused.value.all[0].render() or "multiple" in refused.value.all[0].render()
    k = defined(text.replace("j, m = 1, 2", "j, m = 1, 2\n    j += 1"))  # not known any more
    with pytest.raises(snap.MachineError, match="misaligned"):
        k[1](np.zeros(256, np.float32))


BLOCK = "with each(block) as b:\n    "
REFUSED = {
    "a block decides by a thread's": (BLOCK + "t = ids(thread)\n    v = t + 1\n    if v > 3:\n        pass", "SNAP006", "`v` may differ between threads"),
    "nobody's number": (BLOCK + "t = ids(thread)\n    v = t + id()", "SNAP006", "`t` may differ"),
    "an annotation is the code's": (BLOCK + "t = ids(thread)\n    v: int = t", "SNAP006", "`t` may differ"),
    "names and levels": (BLOCK + "t, w = ids(thread)", "SNAP018", "2 names, and 1 level"),
    "one's own number": ("with each(thread) as i:\n    t = ids(thread)", "SNAP018", "always 0"),
    "levels and a shape": (BLOCK + "t, w = ids(thread, warp, shape=(2, 32))", "SNAP018", "a level and a shape, or several levels"),
    "a number twice": (BLOCK + "t, t = ids(thread, warp)", "SNAP018", "and stand once"),
    "a number of an element": (BLOCK + "v: int[2]\n    v[0] = ids(thread)", "SNAP018", "each name here must be new"),
    "declared before": (BLOCK + "t: int = 3\n    t = ids(thread)", "SNAP018", "`t` is already declared"),
    "names and memory": (BLOCK + "s, t = shared(float[64])", "SNAP018", "2 names, and 1 declaration"),
    "memory and a value": (BLOCK + "s, t = shared(float[64]), 3", "SNAP018", "this is not memory"),
    "memory again": (BLOCK + "s: int = 3\n    s = shared(float[64])", "SNAP018", "`s` is already declared"),
    "memory of before": (BLOCK + "if n > 3:\n        b = shared(float[64])", "SNAP018", "`b` is declared already"),
    "shared memory of the grid": ("s = shared(float[64])", "SNAP012", "shared"),
    "no registers": (BLOCK + "s = registers()", "SNAP018", "a type or a first value for each name"),
    "registers of several": (BLOCK + "s, t = registers(float[2], float[2]), shared(float[2])", "SNAP018", "a type or a first value"),
    "registers called": (BLOCK + "registers(float[4])", "SNAP017", "the whole right side of an assignment"),
    "registers in a sum": (BLOCK + "t = 1 + registers(3)", "SNAP017", "the whole right side of an assignment"),
    "a shape and a bound": ("for i, j in range(3, shape=(2, 2)):\n    pass", "SNAP018", "the shape alone"),
    "a factor": ("for i, j in unroll(range(shape=(2, 2)), 2):\n    pass", "SNAP018", "the shape alone"),
    "a name short": ("for i in range(shape=(2, 2)):\n    pass", "SNAP018", "2 dimensions, and there is one name"),
    "no extent": ("for i in range(shape=()):\n    pass", "SNAP018", "0 dimensions, and there is one name"),
    "a name twice": ("for i, i in range(shape=(2, 2)):\n    pass", "SNAP018", "`i` is another index already"),
    "an extent below zero": ("for i, j in range(shape=(2, -1)):\n    pass", "SNAP018", "0 or more, and this is -1"),
    "an extent left out": ("for i, j in range(shape=(..., 2)):\n    pass", "SNAP018", "none of the extents"),
    "which loop ends": ("for i, j in range(shape=(2, 2)):\n    if i == j:\n        break", "SNAP007", "the innermost"),
    "two names": ("for i, j in range(4):\n    pass", "SNAP017", "range(shape=(m, n))"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    is_refused(*REFUSED[name])


def test_a_loop_over_a_shape_may_be_empty_and_goes_on():
    k = defined("""
@kernel(threads=32)
def k(y: ptr(int), n: int):
    with each(thread, y) as t:
        m = n
        for i, j in range(shape=(m, m)):
            m = 0  # the extents are evaluated once
            if i == j:
                continue
            y[t] += 10 * i + j
""")
    for n in (0, 1, 3):
        y = np.zeros(32, np.int32)
        k[1](y, n)
        assert y[5] == sum(10 * i + j for i in range(n) for j in range(n) if i != j)
    assert not k.races(np.zeros(32, np.int32), 3, blocks=1, seeds=2)
