"""Inlined functions: what is checked is what it would be, had their statements been written in the caller."""

from __future__ import annotations

import dataclasses
import re
from typing import NamedTuple

import numpy as np
import pytest

import snap
from snap import *
from snap.diag.error import SnapError
from snap.diag.source import source_line


class Sizes(NamedTuple):
    WIDE: int
    E: object
    step: object = None


@dataclasses.dataclass(frozen=True)
class Frozen:
    TIMES: int


@dataclasses.dataclass
class Changing:
    TIMES: int


sizes, frozen, changing = Sizes(64, float), Frozen(2), Changing(2)


@inline
def tile_of(t, across, BM, BN):
    row, column = t / across, t % across
    return row * BM, column * BN


@inline
def staged(g, slots, load, x, n, first=0):
    for k in range(first, n):
        with stage(slots) as s:
            with load(s):
                async_copy(s, x, at=(k, 0))
            yield k, s


@inline
def add(acc, s, i, TIMES):
    if TIMES == 2:
        acc[0] += s[0, i]
    for j in unroll(range(TIMES)):
        acc[j] += s[0, 63 - i]


def plain(text: str) -> str:
    """CUDA without comments, which name lines."""
    return re.sub(r"\s*(//.*|/\*.*?\*/)", "", text)


def pipelined():
    @kernel(threads=256)
    def k(x: ptr(const(float), (n, 64)), y: ptr(float, (2, 128)), n: int):
        with each(block, y):
            slots: pipeline(shared(sizes.E[1, sizes.WIDE]), 3)
            t: int @ thread[1] = id() % 128
            acc: float[2] @ thread[1]
            compute, load = roles(128, 128)
            for k, s in staged(sizes, slots, load, x, n):
                with compute(s), each(thread):
                    add(acc, s, t % 64, frozen.TIMES)
            m0, n0 = tile_of(n + 5, 4, 100, 10)
            with compute(), each(thread, y):
                for j in unroll(range(2)):
                    y[j, t] = acc[j] + m0 + n0

    return k


def written():
    @kernel(threads=256)
    def k(x: ptr(const(float), (n, 64)), y: ptr(float, (2, 128)), n: int):
        with each(block, y):
            slots: pipeline(shared(float[1, 64]), 3)
            t: int @ thread[1] = id() % 128
            acc: float[2] @ thread[1]
            compute, load = roles(128, 128)
            for k in range(0, n):
                with stage(slots) as s:
                    with load(s):
                        async_copy(s, x, at=(k, 0))
                    with compute(s), each(thread):
                        i = t % 64
                        acc[0] += s[0, i]
                        for j_1 in unroll(range(2)):
                            acc[j_1] += s[0, 63 - i]
            t_1 = n + 5
            row, column = t_1 / 4, t_1 % 4
            m0, n0 = row * 100, column * 10
            with compute(), each(thread, y):
                for j in unroll(range(2)):
                    y[j, t] = acc[j] + m0 + n0

    return k


def test_the_same_program():
    """Roles, pipelines, registers, constants and results go through the calls, and nothing of them is left."""
    one, other = pipelined(), written()
    assert plain(one.cuda()) == plain(other.cuda())
    assert [p.kind for p in one.syncs()] == [p.kind for p in other.syncs()]
    x, y = np.random.default_rng(1).random((5, 64)).astype(np.float32), np.zeros((2, 128), np.float32)
    one[1](x, y, 5)
    sums = x.sum(0)
    np.testing.assert_allclose(y[1, :64], sums[::-1] + 200 + 20, rtol=1e-6)
    np.testing.assert_allclose(y[0, 64:], sums[::-1] + sums + 200 + 20, rtol=1e-6)


i, j, k = 7, 8, 9  # which the functions below do not mean


@inline
def hidden(x, at):
    i = at
    with partition(x, p=thread[1], f=lambda j: j + i + at) as mine, group(thread[1]):
        mine[0] += k


@inline
def twice(f, x, at):
    f(x, at)
    f(x, at)


def test_no_name_is_taken_for_another():
    @kernel(threads=32)
    def own(x: ptr(int)):
        j: int @ thread[1] = id()
        i: int @ thread[1] = 1000
        twice(hidden, x, j)
        mine: int @ thread[1] = i + j
        with each(thread, x):
            x[2 * j + 1] = mine

    x = np.zeros(64, np.int32)
    own[1](x)
    assert (x[::2] == 18).all() and (x[1::2] == 1000 + np.arange(32)).all()


@inline
def squared(x):
    return x * x


@inline
def scope(x):
    with each(thread, x) as t:
        yield t, 2 * t


def test_arguments_are_evaluated_once():
    @kernel(threads=32)
    def k(counter: ptr(int), y: ptr(int)):
        with scope(y) as (t, twice):
            v = squared(atomic.add(counter, 0, 1))
            y[t] = v + twice - 2 * t

    counter, y = np.zeros(1, np.int32), np.zeros(32, np.int32)
    k[1](counter, y)
    assert counter[0] == 32 and sorted(y) == [n * n for n in range(32)]


@inline
def cleared(x, at, N):
    for j in unroll(range(N)):
        x[at + j] = 0.0


@snap.kernel(threads=32)
def clears(x: ptr(float, (64,)), N: snap.constexpr(int)):
    with each(thread, x, disjoint=x) as t:
        cleared(x, 2 * t, N * 1)


def test_an_argument_of_constants_is_no_variable_however_constexpr_is_named():
    assert "j < 2;" in clears.cuda(N=2)


@inline
def counted(counter, y, t):
    y[t] = t
    return atomic.add(counter, 0, 1), 2 + atomic.add(counter, 1, 1), min(t, 1), y.view(int2)


def test_what_is_returned_is_computed_though_nobody_takes_it():
    @kernel(threads=32)
    def k(counter: ptr(int), y: ptr(int)):
        with each(thread, y, counter) as t:
            counted(counter, y, t)

    counter, y = np.zeros(2, np.int32), np.zeros(32, np.int32)
    k[1](counter, y)
    assert counter.tolist() == [32, 32]


@inline
def cells(y, t, n, m):
    for i in range(n):
        for j in range(m):
            y[t] += 10 * i + j
            yield i, j


def test_a_name_that_is_given_twice_is_the_last_one():
    @kernel(threads=32)
    def k(y: ptr(int)):
        with each(thread, y) as t:
            for _, _ in cells(y, t, 3, 4):
                y[t] += 1000 * _

    y = np.zeros(32, np.int32)
    k[1](y)
    assert (y == sum(10 * i + 1001 * j for i in range(3) for j in range(4))).all()


@inline
def least(a):
    min = a - 1
    return min


@inline
def at_most(a, b=-5):
    return min(a, -b)


def test_a_variable_hides_no_word_of_another_function():
    @kernel(threads=32)
    def k(y: ptr(int)):
        with each(thread, y) as t:
            a = least(t)
            b = at_most(t)
            y[t] = 100 * a + b

    y = np.zeros(32, np.int32)
    k[1](y)
    assert y.tolist() == [100 * (t - 1) + min(t, 5) for t in range(32)]


class Outer(NamedTuple):
    inner: object


outer = Outer(Sizes(64, float, least))


def test_a_function_in_an_object_in_an_object():
    @kernel(threads=32)
    def k(y: ptr(int)):
        with each(thread, y) as t:
            y[t] = outer.inner.step(t)

    y = np.zeros(32, np.int32)
    k[1](y)
    assert y.tolist() == list(range(-1, 31))


@inline
def wrong(a):
    return a.nothing


@inline
def calls_wrong(a):
    b = wrong(a)
    return b


@inline
def only(a):
    yield a + 1


def test_a_scope_is_left_where_nothing_follows():
    @kernel(threads=32)
    def k(y: ptr(int)):
        with each(thread, y) as t:
            for i in range(5):
                with only(i) as j:
                    if j == 4:
                        break
                    y[t] += j

    y = np.zeros(32, np.int32)
    k[1](y)
    assert (y == 6).all()


def test_the_calls_around_a_mistake_are_told():
    """Those that brought it there, from the inside out, and none that brought the same text elsewhere."""
    with pytest.raises(SnapError) as found:

        @kernel(threads=32)
        def k(x: ptr(int)):
            with each(thread, x) as t:
                u = calls_wrong(t)
                v = calls_wrong(t + 1)
                x[t] = u + v

    of_both = [error.diagnostic.secondary for error in found.value.all]
    assert [[label.text for label in labels] for labels in of_both] == 2 * [["`wrong` is written out here", "`calls_wrong` is written out here"]]
    assert [labels[1].span.line - of_both[0][1].span.line for labels in of_both] == [0, 1]


@inline
def assigns(x, i, value):
    x[i] = value


def test_only_the_call_that_is_wrong_is_told():
    with pytest.raises(SnapError) as found:

        @kernel(threads=32)
        def k(x: ptr(float), y: ptr(int)):
            with each(thread, x, y) as i:
                half = 0.5
                assigns(x, i, half)
                assigns(y, i, half)
                assigns(x, i, half)

    (error,) = found.value.all
    (label,) = [label for label in error.diagnostic.secondary if "written out" in label.text]
    assert source_line(label.span.filename, label.span.line).strip() == "assigns(y, i, half)"


def test_a_window_that_is_given_is_no_value():
    with pytest.raises(SnapError, match="`acc` with 1 of its 2 indices is a window of registers"):

        @kernel(threads=32)
        def k(x: ptr(float)):
            with each(block, x) as b:
                acc: float[4, 8] @ thread[1]
                assigns(acc[0], 1, 2.0)


@inline
def countdown(n):
    for i in range(n):
        yield n - i


def test_a_loop_has_its_own_variable():
    """What is yielded has the name of a variable, and of an argument."""

    @kernel(threads=32)
    def k(y: ptr(int)):
        with each(thread, y) as t:
            n = 3
            m = 100
            for n in countdown(n):
                for m in countdown(2):
                    y[t] = 10 * y[t] + n * m
            y[t] += 1000000 * n + m

    y = np.zeros(32, np.int32)
    k[1](y)
    assert (y == 634221 + 3000100).all()


def test_a_mistake_is_told_where_it_was_written_and_where_it_is_called():
    with pytest.raises(SnapError) as found:

        @kernel(threads=32)
        def k(x: ptr(int)):
            with each(thread, x) as t:
                add(t, x, t, 2)

    text = found.value.render()
    assert "acc[0] += s[0, i]" in text and "`add` is written out here" in text and "add(t, x, t, 2)" in text


HEAD = "from __future__ import annotations\nfrom snap import *\nimport math\n"
KERNEL = "@kernel(threads=32)\ndef k(x: ptr(int), n: int):\n    with each(thread, x) as t:\n"
F, G = "@inline\ndef f(a, b=1):\n", "@inline\ndef g(n):\n    for i in range(n):\n        yield i\n"
C = "from typing import NamedTuple\nclass C(NamedTuple):\n    TILE: int\n    NO: object = None\n    part = property(lambda c: c.TILE / 0)\nc = C(4)\n"
REFUSED = {
    "typed": (F.replace("a,", "a: int,") + "    pass\n", "SNAP017", "has no type"),
    "result": ("@inline\ndef f() -> int:\n    return 1\n", "SNAP017", "declares no result"),
    "default": ("@inline\ndef f(a=math.pi * n):\n    return 1\n".replace("math.pi * n", '"a"'), "SNAP017", "not a number"),
    "assigned": (F + "    a = 3\n", "SNAP017", "is a parameter"),
    "added": (F + "    a += 3\n", "SNAP017", "is a parameter"),
    "named": (F + "    for a in range(3):\n        pass\n", "SNAP017", "is a parameter"),
    "early": (F + "    if a > 0:\n        return 1\n    return 2\n", "SNAP017", "must be the last statement"),
    "two": (F + "    yield a\n    yield b\n", "SNAP017", "at one place"),
    "both": (F + "    yield a\n    return b\n", "SNAP017", "at one place"),
    "in device": ("@device(thread)\ndef f(a: int) -> int:\n    yield a\n", "SNAP017", "`yield` is not part"),
    "in an expression": (F + "    own = a\n    return own\n" + KERNEL + "        x[t] = 1 + f(t)\n", "SNAP017", "cannot be part of an expression"),
    "in an argument": (F + "    own = a\n    return own\n" + KERNEL + "        x[t] = f(f(t))\n", "SNAP017", "cannot be part of an expression"),
    "in a condition": (F + "    return a, a\n" + KERNEL + "        if f(t):\n            pass\n", "SNAP017", "cannot be part of an expression"),
    "nothing returned": (F + "    pass\n" + KERNEL + "        x[t] = f(t)\n", "SNAP017", "returns nothing"),
    "not yielding": (F + "    pass\n" + KERNEL + "        for i in f(t):\n            pass\n", "SNAP017", "does not yield"),
    "yielding": (G + KERNEL + "        g(3)\n", "SNAP017", "yields"),
    "often": (G + KERNEL + "        with g(3) as i:\n            pass\n", "SNAP017", "more than once"),
    "break": (G + KERNEL + "        for i in g(3):\n            break\n", "SNAP007", "left early"),
    "continue": (G + KERNEL + "        for i in g(3):\n            if t > i:\n                continue\n", "SNAP007", "left early"),
    "what follows left out": (F + "    yield a\n    b[0] = 1\n" + KERNEL + "        for j in range(3):\n            with f(t, x) as i:\n                if i > j:\n                    continue\n", "SNAP007", "a scope that `f` makes is not left early"),
    "what follows left out by return": (F + "    yield a\n    b[0] = 1\n" + KERNEL + "        with f(t, x) as i:\n            return\n", "SNAP007", "a scope that `f` makes is not left early"),
    "yielded name": (G + KERNEL + "        for i in g(3):\n            i = 2\n", "SNAP017", "what `g` yields"),
    "argument changed": (G + KERNEL + "        m = 3\n        for i in g(m):\n            m = 2\n", "SNAP017", "another value"),
    "a part changed": (G.replace("(n)", "(n)").replace("range(n)", "range(n[0])") + KERNEL + "        m = 3\n        for i in g((m, 2)):\n            m = 2\n", "SNAP017", "another value"),
    "an annotation's name": ("@inline\ndef f(a):\n    block = 3\n    b: int @ block[1] = 4\n", "SNAP017", "is a variable here"),
    "names": (G + KERNEL + "        for i, j in g(3):\n            pass\n", "SNAP018", "yields 1 values"),
    "values": (F + "    return a, b\n" + KERNEL + "        i, j, l = f(t)\n", "SNAP018", "returns 2 values"),
    "one value": (F + "    return a, b\n" + KERNEL + "        x[t] = f(t)\n", "SNAP018", "returns 2 values"),
    "too many": (F + "    pass\n" + KERNEL + "        f(1, 2, 3)\n", "SNAP018", "takes 2 arguments"),
    "missing": (F + "    pass\n" + KERNEL + "        f(b=2)\n", "SNAP018", "takes 2 arguments"),
    "unknown": (F + "    pass\n" + KERNEL + "        f(1, c=2)\n", "SNAP018", "no parameter `c`"),
    "given twice": (F + "    pass\n" + KERNEL + "        f(1, a=2)\n", "SNAP018", "given twice"),
    "the caller's variable": (F + "    x[a] = n\n" + KERNEL + "        f(t)\n", "SNAP019", "one of the function that calls it"),
    "a hidden word": (F + "    return min(a, b)\n" + KERNEL + "        min = t\n        i = f(t)\n", "SNAP019", "one of the function"),
    "too much": (F + "    pass\n" + "".join(f"@inline\ndef f{n}(a):\n    {'f' if not n else f'f{n - 1}'}(a)\n    {'f' if not n else f'f{n - 1}'}(a)\n" for n in range(12)) + KERNEL + "        f11(t)\n", "SNAP017", "more than 2000"),
    "itself": (F + "    f(a)\n" + KERNEL + "        f(t)\n", "SNAP017", "calls itself"),
    "given to itself": ("@inline\ndef f(g, a):\n    g(g, a)\n" + KERNEL + "        f(f, t)\n", "SNAP017", "more than 50"),
    "given to itself, yielding": ("@inline\ndef f(g, a):\n    for i in g(g, a):\n        yield i\n" + KERNEL + "        for i in f(f, t):\n            pass\n", "SNAP017", "more than 50"),
    "doubled": ("@inline\ndef f(g, a):\n    g(g, a + a)\n" + KERNEL + "        f(f, 1)\n", "SNAP017", "more than 1000 parts"),
    "tuples of tuples": ("@inline\ndef f(g, a):\n    g(g, (a, a))\n" + KERNEL + "        f(f, 1)\n", "SNAP017", "more than 1000 parts"),
    "nested too deeply": ("".join(f"@inline\ndef f{n}(a):\n" + "".join(f"{'    ' * d}if a > {d}:\n" for d in range(1, 16)) + f"{'    ' * 16}{f'f{n - 1}(a)' if n else 'pass'}\n" for n in range(40)) + KERNEL + "        f39(t)\n", "SNAP017", "nested too deeply"),
    "index": (F + "    pass\n" + KERNEL + "        f(id())\n", "SNAP018", "always 0"),
    "another's global": (F + "    return a + y\ny = 7\n@inline\ndef g(a):\n    return a + y\ndel y\n" + KERNEL + "        i = f(t)\n        j = g(t)\n", "SNAP019", "unknown name `y`"),
    "a field given": (C + KERNEL + "        c.TILE = 3\n", "SNAP018", "`c.TILE` is a constant"),
    "fields given": (C + KERNEL + "        i, c.TILE = 3, 4\n", "SNAP018", "`c.TILE` is a constant"),
    "nothing in a field": (C + KERNEL + "        x[t] = c.NO\n", "SNAP018", "`c.NO` is `None`"),
    "a field that fails": (C + KERNEL + "        x[t] = c.part\n", "SNAP018", "raises ZeroDivisionError"),
    "a field": ("from typing import NamedTuple\nclass C(NamedTuple):\n    TILE: int\nc = C(4)\n" + KERNEL + "        x[t] = c.TIEL\n", "SNAP019", "no `TIEL`"),
    "memory's part": (F + "    a[0] = 1\n" + KERNEL + "        f(x.view(int2))\n", "SNAP018", "cannot be assigned"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name, tmp_path):
    text, code, message = REFUSED[name]
    filename = str(tmp_path / "refused.py")
    snap.register_source(filename, HEAD + text)
    with pytest.raises(SnapError) as found:
        exec(compile(HEAD + text, filename, "exec"), {})
    assert found.value.code == code and message in found.value.message
    assert found.value.diagnostic.help and found.value.diagnostic.span.filename == filename


def test_a_module_that_changes_holds_no_constants():
    with pytest.raises(SnapError, match="SNAP018|SNAP019"):

        @kernel(threads=32)
        def k(x: ptr(int)):
            with each(thread, x) as t:
                x[t] = changing.TIMES


def test_python_does_not_call_it():
    with pytest.raises(TypeError, match="written out"):
        tile_of(1, 2, 3, 4)


@inline
def square_of(a):
    """Its square."""
    return a * a


@inline
def plus(a, b):
    return square_of(a) + b


@inline
def in_warp(a):
    return intrinsic.reduce_add(a)


@device(thread)
def next_of(r: ref(int[1])) -> int:
    r[0] += 1
    return r[0]


@kernel(threads=32, blocks=1)
def in_expressions(x: ptr(int), n: int):
    with each(warp, x):
        t: int @ thread[1] = id()
        s = 0
        for i in range(square_of(n)):
            s += in_warp(t) + square_of(i)
        with each(thread, x) as t:
            r: int[1] = 0
            a = r[0] + square_of(next_of(r)) * 10 + r[0] * 100
            if t > 3 and square_of(next_of(r)) > 1:
                a += 1000
            while square_of(next_of(r)) < 50:
                a += 10000
            z: int[3] = [square_of(next_of(r)) for i in range(3)]
            z[square_of(r[0]) % 3] += square_of(next_of(r))
            x[t] = s + a + z[0] + z[1] * 3 + z[2] * 7 + plus(x[t], plus(t, 2))


def test_a_function_of_one_return_is_a_value():
    """Each argument is evaluated once, in the order of the text, and only where the call is reached."""

    def want(t: int) -> int:
        calls = 0

        def squares() -> int:
            nonlocal calls
            calls += 1
            return calls**2

        a = squares() * 10 + calls * 100
        a += 1000 * (t > 3 and squares() > 1)
        while squares() < 50:
            a += 10000
        z = [squares() for _ in range(3)]
        at = calls**2 % 3
        z[at] += squares()
        return 4 * 496 + 14 + a + z[0] + z[1] * 3 + z[2] * 7 + t**2 + t**2 + 2

    x = np.arange(32, dtype=np.int32)
    in_expressions(x, 2)
    assert x.tolist() == [want(t) for t in range(32)]
