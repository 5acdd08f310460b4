"""Records and tuples as values: what they are made of, and what is said where one does not fit."""

from __future__ import annotations

import textwrap
from typing import NamedTuple

import numpy as np
import pytest
from check.checking import execute, program

from snap import *

HEAD = """\
from typing import NamedTuple


class W(NamedTuple):
    a: float
    n: int = 3


class V(NamedTuple):
    p: int
    q: int


@device(thread)
def two(a: int, b: float) -> tuple[int, float]:
    return (a + 1, b * 2.0)


@device(thread)
def added(p: W, q: W) -> W:
    return W(p.a + q.a, p.n + q.n)


@device(thread)
def bump(w: ref(W), by: int):
    w.n += by


@device(thread)
def changed(n: ref(int[1])) -> int:
    n[0] += 100
    return n[0]


@device(thread)
def next(w: ref(W)) -> W:
    w.n += 1
    return W(w.a, w.n)


@device(thread)
def added_to(w: ref(W), by: int):
    w.n += by


@kernel(threads=32)
def k(x: ptr(int), y: ptr(float)):
    with each(thread, x, y) as i:
"""


def run(code: str) -> tuple[np.ndarray, np.ndarray]:
    k = execute(HEAD + textwrap.indent(textwrap.dedent(code), "        "))["k"]
    x, y = np.arange(32, dtype=np.int32), np.zeros(32, np.float32)
    k[1](x, y)
    return x, y


@pytest.mark.parametrize(
    ("code", "x", "y"),
    [
        ("t: tuple[int, float] = two(i, 0.5)\nx[i] = t[0]\ny[i] = t[1]", lambda i: i + 1, 1.0),
        ("t = (i, 0.5)\nt = (t[0] + 1, t[1])\nx[i], y[i] = t", lambda i: i + 1, 0.5),
        ("p, q = two(i, 2.0)\nx[i] = p\ny[i] = q", lambda i: i + 1, 4.0),
        ("w = added(W(1.0, i), W(2.0))\nx[i] = w.n\ny[i] = w.a", lambda i: i + 3, 3.0),
        ("w = W(1.0)\nbump(w, i)\nx[i] = w.n\ny[i] = w.a", lambda i: i + 3, 1.0),
        ("w = W(1.0, i) if i < 16 else W(2.0, 0)\nx[i] = w.n\ny[i] = 0.0", lambda i: i * (i < 16), 0.0),
        ("w = W(1.0)._replace(n=i)\nx[i] = w.n\ny[i] = w.a", lambda i: i, 1.0),
        ("w = W(1.0, i)\nw = w._replace(a=2.0)\nu = w._replace(n=5)\nx[i] = w.n + u.n\ny[i] = u.a", lambda i: i + 5, 2.0),
        ("ws: W[2] = [W(1.0, i), W(2.0)]\nx[i] = ws[0].n + ws[1].n\ny[i] = ws[i % 2].a - i % 2", lambda i: i + 3, 1.0),
    ],
)
def test_a_record_has_its_fields(code, x, y):
    found = run(code)
    assert (found[0] == x(np.arange(32))).all() and (found[1] == y).all()


def test_elements_of_a_list_are_evaluated_one_after_the_other():
    """The first is what it was before the call in the second has changed it."""
    x, y = run("n: int[1] = [i]\nws: W[2] = [W(1.0, n[0]), W(2.0, changed(n))]\nx[i] = ws[0].n\ny[i] = ws[1].a")
    assert (x == np.arange(32)).all() and (y == 2.0).all()


@pytest.mark.parametrize(
    ("code", "x"),
    [
        ("x[i] = next(w).n\nx[i] += 10 * w.n", lambda i: 11),
        ("x[i] = w.n + next(w).n * 10 + w.n * 100", lambda i: 110),
        ("x[i] = w.n + (10 if i > 3 and next(w).n > 0 else 0) + 100 * w.n", lambda i: np.where(i > 3, 110, 0)),
        ("n = 0\nwhile next(w).n < 5:\n    n += 1\nx[i] = 10 * n + w.n", lambda i: 45),
        ("x[i] = next(w).n if i > 3 else 7\nx[i] += 10 * w.n", lambda i: np.where(i > 3, 11, 7)),
        ("u = W(w.a, next(w).n)\nx[i] = u.n + 10 * w.n", lambda i: 11),
        ("x[i] = two(next(w).n, 0.0)[0] + 10 * w.n", lambda i: 12),
        ("added_to(w, next(w).n)\nx[i] = w.n", lambda i: 2),
        ("ws: W[3]\nws[1] = W(0.0, 5)\nws[0].n = 1\nadded_to(ws[ws[0].n], 2)\nx[i] = ws[1].n * 10 + ws[0].n", lambda i: 71),
        ("vs: V[2]\nvs[0].p = 1\nvs[vs[0].p] = V(0, 7)\nx[i] = vs[1].q * 10 + vs[0].q", lambda i: 70),
        ("vs: V[2]\nvs[vs[0].p] = V(1, 7)\nx[i] = vs[0].q * 10 + vs[1].q", lambda i: 70),
        ("ws: W[3]\nws[next(w).n] = W(1.0, 5)\nx[i] = ws[1].n * 10 + w.n", lambda i: 51),
        ("u = W(0.0, 5)\nw, u = u, w\nx[i] = w.n * 10 + u.n", lambda i: 50),
        ("u = W(0.0, 5)\nu, w = next(w), u\nx[i] = w.n * 10 + u.n", lambda i: 51),
        ("ws: W[2] = [W(0.0, 1), W(0.0, 2)]\nws[i % 2], ws[1 - i % 2] = ws[0], ws[1]\nx[i] = ws[0].n * 10 + ws[1].n", lambda i: np.where(i % 2, 21, 12)),
        ("z: int[4] = 0\nz[next(w).n] += next(w).n\nx[i] = z[1] + 10 * w.n", lambda i: 22),
    ],
)
def test_a_call_whose_field_is_taken_is_made_once_and_what_stands_before_it_is_read_before(code, x):
    found = run("w = W(0.0, 0)\n" + code)
    assert (found[0] == x(np.arange(32))).all()


LATER = """class L(NamedTuple):
    n: int
    v: int[2]


@device(thread)
def turned(r: ref(L)) -> L:
    r.n += 5
    r.v[1] += 5
    return r


@device(thread)
def rows(a: ref(int[2, 2, 2])) -> int:
    for k in unroll(range(8)):
        a[k / 4, k / 2 % 2, k % 2] += 50
    return a[1, 1, 1]


@device(thread)
def first(p: L, q: L) -> int:
    return p.n * 10 + p.v[1]


@device(thread)
def array(a: int[2], q: L) -> int:
    return a[1]


@device(thread)
def row(a: int[2], n: int) -> int:
    return a[0] * 10 + a[1]


@device(thread)
def plane(a: int[2, 2], n: int) -> int:
    return a[0, 1] * 10 + a[1, 0]


@device(thread)
def number(n: int, q: L) -> int:
    return n


"""


@pytest.mark.parametrize(
    ("call", "x"),
    [
        ("first(r, turned(r))", 12),
        ("first(q=turned(r), p=r)", 67),
        ("first(rs[1], turned(rs[1]))", 12),
        ("array(r.v, turned(r))", 2),
        ("array(a[1, 0], L(rows(a), [0, 0]))", 5),
        ("number(r.n, turned(r))", 1),
        ("row(a[1, 0], rows(a))", 45),
        ("plane(a[1], rows(a))", 56),
    ],
)
def test_what_is_given_by_value_is_what_it_is_before_a_later_argument_changes_it(call, x):
    """Records, their fields, arrays, and windows of arrays."""
    body = f"r = L(1, [0, 2])\nrs: L[2]\nrs[1] = r\na: int[2, 2, 2]\nfor k in unroll(range(8)):\n    a[k / 4, k / 2 % 2, k % 2] = k\nx[i] = {call}"
    k = execute(HEAD.replace("class W", LATER + "class W") + textwrap.indent(body, "        "))["k"]
    found = np.zeros(32, np.int32)
    k[1](found, np.zeros(32, np.float32))
    assert (found == x).all()


def test_a_record_in_an_array_with_an_array_in_it_is_given_by_reference():
    """Which one it is was decided before the call, which changes what decided it."""
    before = "class L(NamedTuple):\n    n: int\n    v: int[2]\n\n\n@device(thread)\ndef turned(r: ref(L)):\n    r.n = 2\n    r.v[1] = r.v[0] + r.n\n\n\n"
    body = "vs: L[3]\nvs[i % 2].v[0] = 5\nvs[i % 2].n = i % 2\nturned(vs[vs[i % 2].n])\nx[i] = vs[i % 2].n * 100 + vs[i % 2].v[1] * 10 + vs[2].n"
    k = execute(HEAD.replace("class W", before + "class W") + textwrap.indent(body, "        "))["k"]
    x = np.zeros(32, np.int32)
    k[1](x, np.zeros(32, np.float32))
    assert (x == 270).all()


def test_a_class_in_a_function_has_fields_of_classes_there():
    class Inner(NamedTuple):
        c: int

    class Outer(NamedTuple):
        inner: Inner

    @kernel(threads=32)
    def k(x: ptr(int)):
        with each(thread, x) as i:
            w = Outer(Inner(i + 1))
            x[i] = w.inner.c

    x = np.zeros(32, np.int32)
    k[1](x)
    assert (x == np.arange(32) + 1).all()


def test_a_field_that_is_an_array_is_assigned_as_a_whole():
    code = "class L(NamedTuple):\n    v: float[2]\n\n\n"
    body = "w = L([1.0, 2.0])\nv: float[2] = w.v\nv += w.v\nw.v = v\nw.v *= 2.0\ny[i] = w.v[1]"
    k = execute(HEAD.replace("class W", code + "class W") + textwrap.indent(body, "        "))["k"]
    y = np.zeros(32, np.float32)
    k[1](np.zeros(32, np.int32), y)
    assert (y == 8.0).all()


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("t: tuple[int, float] = (1, 2.0, 3)", "`t` is `tuple[i32, f32]`, and this is 3 values"),
        ("w: W = (1.0, 2)", "`w` is `W`, and this is 2 values"),
        ("w = W(1.0)\nw = 3", "`w` is a record, `W(a: f32, n: i32)`, and this is none"),
        ("t = (1, 2.0)\nt = W(1.0)", "`t` is `tuple[i32, f32]`, and this is a `W`"),
        ("x[i] = (1, 2.0)", "this is a tuple, and one value is wanted here"),
        ("w: W = [1.0, 2]", "`w` is `W`, and this is a list"),
        ("t = (1, 2.0)\nt = [1, 2.0]", "`t` is `tuple[i32, f32]`, and this is a list"),
        ("t: tuple[int, tuple[int, int]] = (1, (2, i))\ny[i] = t[1] + 1.0", "`t[1]` is a `tuple[i32, i32]`, and one value is wanted here"),
        ("y[i] = two(i, 1.0)", "this is not a record, and is given a `tuple[i32, f32]`"),
        ("n = 1\nn = W(1.0)", "`n` is not a record, and is given a `W`"),
        ("t = (1, 2.0)\ny[i] = t + 1.0", "`t` is a `tuple[i32, f32]`, and one value is wanted here"),
        ("t = (1, 2.0)\ny[i] = t[2]", "`t` has 2 values, and this asks for number 2"),
        ("y[i] = two(i, 1.0) + 1.0", "this is a `tuple[i32, f32]`, and one value is wanted here"),
        ("w = W(1.0)\nw += 1", "`w` is a `W`, and `+=` works on numbers"),
        ("w = W(1.0)\ny[i] = w.b", "`w` is a `W`, which has no field `b`"),
    ],
)
def test_what_does_not_fit_is_refused(code, message):
    with pytest.raises(Exception) as refused:
        run(code)
    assert [error.message for error in refused.value.all] == [message]


def test_memory_of_records_as_a_field_of_a_parameter():
    """Handed out, read and written, as a whole and a field at a time, in a record in a record as well."""
    more = "class V(NamedTuple):\n    a: float\n    n: int\n    s: u8\n\n\nclass At(NamedTuple):\n    vs: ptr(V, (m,))\n    m: int\n\n\nclass All(NamedTuple):\n    at: At\n    by: float\n\n\n"
    body = "def k(w: All, out: ptr(V)):\n    with each(thread, w.at.vs, out) as i:\n        old = w.at.vs[i]\n        w.at.vs[i] = V(old.a * w.by, old.n + w.at.m, u8(3))\n        w.at.vs[i].n += i\n        out[i] = w.at.vs[i]\n        out[i].s += old.s\n"
    space = execute(f"from typing import NamedTuple\n{more}@kernel(threads=32)\n{body}")
    struct = np.dtype([("a", "f4"), ("n", "i4"), ("s", "u1")], align=True)
    v, out = np.zeros(32, struct), np.zeros(32, struct)
    v["a"], v["n"], v["s"] = np.arange(32), 7, 2
    space["k"][1](space["All"](space["At"](v, 32), 0.5), out)
    assert (v["a"] == np.arange(32) / 2).all() and (v["n"] == 39 + np.arange(32)).all() and (v["s"] == 3).all()
    assert (out["a"] == v["a"]).all() and (out["n"] == v["n"]).all() and (out["s"] == 5).all()


@pytest.mark.parametrize("line", [
    "a: All = w", "a = w", "a = w.at", "a: All[3]", "w.at = w.at", "w = w", "a = w if i else w", "a = (w, 1)", "a = w._replace(by=1.0)", "a = intrinsic.shfl(w, 1)", "a = At(w.at.vs, 1)", "a = All(w.at, 1.0)", "by(w)", "a, b = w",
    "for k in unroll((w, w)):\n    pass",
])
def test_records_with_pointers_are_parameters_of_kernels(line):
    """In a record in a record, too."""
    before = "from typing import NamedTuple\nclass At(NamedTuple):\n    vs: ptr(float, (m,))\n    m: int\nclass All(NamedTuple):\n    at: At\n    by: float\n"
    by = "@device(thread)\ndef by(w: All) -> float:\n    return w.by\n" if "by(w)" in line else ""
    found = program(f"{before}{by}@kernel(threads=32)\ndef k(w: All):\n    with each(thread, w.at.vs) as i:\n" + textwrap.indent(line, "        "))
    assert found and {code for code, _ in found} <= {"SNAP018"}, found


@pytest.mark.parametrize("params", ["w: ptr(All)", "w: ptr(All, (4,))", "x: int, w: All[2]"])
def test_memory_holds_no_records_with_pointers(params):
    before = "from typing import NamedTuple\nclass All(NamedTuple):\n    vs: ptr(float)\n    by: float\n"
    assert {code for code, _ in program(f"{before}@kernel(threads=32)\ndef k({params}):\n    pass\n")} == {"SNAP018"}


def test_a_record_without_an_annotation_is_for_all_who_agree_on_it():
    """In code of a block, too: what varies is each thread's own, and what does not is the block's."""
    before = "from typing import NamedTuple\nclass P(NamedTuple):\n    n: int\n    a: float\n"
    head = f"{before}@kernel(threads=64)\ndef k(x: ptr(int), m: int):\n    with each(block, x):\n        t: int @ thread[1] = id()\n        p: P @ thread[1] = P(t, 1.0)\n        q: P @ thread[1] = P(2 * t, 2.0)\n        v: P[2] @ thread[1]\n"
    body = "o = P(m, 0.5)\nr = p\np, q = q, p\nv[1], p = p, P(p.n + 1, r.a)\nw = v[1]\nz = v[0] if t > 3 else w\nif o.n > 1:\n    with each(thread, x):\n        x[t] = 1000000 * z.n + 10000 * w.n + 100 * p.n + q.n + r.n\n"
    x = np.zeros(64, np.int32)
    execute(head + textwrap.indent(body, "        "))["k"][1](x, 2)
    t = np.arange(64)
    assert (x == 1000000 * np.where(t > 3, 0, 2 * t) + 20000 * t + 100 * (2 * t + 1) + 2 * t).all()


@pytest.mark.parametrize("fields", ["n: int\n    a: float", "n: int\n    a: float\n    b: u8", "n: int\n    v: float[2]"])
def test_a_choice_reads_the_memory_of_its_side_alone(fields):
    """In code of a block each thread decides for itself; the other side may lie outside."""
    last = {"n: int\n    a: float": "1.5", "n: int\n    a: float\n    b: u8": "1.5, u8(3)", "n: int\n    v: float[2]": "[1.5, 2.5]"}[fields]
    text = f"from typing import NamedTuple\nclass P(NamedTuple):\n    {fields}\n@kernel(threads=32)\ndef k(x: ptr(int)):\n    with each(block, x):\n        cells: shared(P[32])\n        t: int @ thread[1] = id()\n        p: P @ thread[1] = P(t, {last})\n"
    text += "        with each(thread, cells):\n            cells[t] = p\n        q: P @ thread[1] = cells[t - 1] if t > 0 else P(7, " + last + ")\n        r: P @ thread[1] = cells[0]._replace(n=9) if t == 3 else cells[t + 1] if t < 31 else p\n        with each(thread, x):\n            x[t] = 100 * q.n + r.n\n"
    x = np.zeros(32, np.int32)
    k = execute(text)["k"]
    k[1](x)
    assert x.tolist() == [100 * (t - 1 if t else 7) + (9 if t == 3 else t + 1 if t < 31 else t) for t in range(32)]
    assert not k.races(np.zeros(32, np.int32), blocks=1, seeds=2)


def test_the_text_of_a_kernel_does_not_depend_on_what_was_compiled_before():
    text = HEAD + "        w, u = W(1.0, i), W(2.0, 3)\n        w, u = u, w\n        x[i] = w.n + u.n\n"
    assert execute(text)["k"].cuda().partition("\n")[2] == execute(text)["k"].cuda().partition("\n")[2]
