"""Views: each shows every element once (proved for all sizes, and tried for small ones), units get their own, and what
does not fit is refused."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from check.checking import codes, errors, execute
from fuzz import slow_views

import snap
from snap import views
from snap._compiler.check.memory.views import RULES, ViewStep, applied
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import GRID1, I32
from snap.diag.span import Span
from snap.member_words import VIEWS
from snap.surface import View

AT = Span("views", 1, 0, 1, 0)


def const(value: int) -> ir.Const:
    return ir.Const(value, I32, span=AT)


def steps(view: View) -> tuple[ViewStep, ...]:
    def step(word, numbers):
        inner = tuple(step(*s) for s in numbers[0].steps) if word == "mapped" else ()
        return ViewStep(word, () if inner else tuple(map(const, numbers)), inner, AT)

    return tuple(step(*s) for s in view.steps)


class Refused(Exception):
    pass


class Refusing:
    """A checker that has nothing to do but refuse."""

    def fail(self, code: str, message: str, *rest: object, **more: object) -> Exception:
        assert code == "SNAP028"
        return Refused(message)


def seen(view: View, *extents: int):
    memory = SimpleNamespace(map=None, handle=SimpleNamespace(name="x", span=AT), rank=len(extents), shape=tuple(map(const, extents)))
    return applied(Refusing(), steps(view), memory)


# A view of each word, and extents it fits.
EXAMPLES = {
    "chunks": (views.chunks(4), (12, 3)),
    "interleaved": (views.interleaved(4), (12, 3)),
    "tiles": (views.tiles(2, 3), (6, 12)),
    "joined": (views.joined(), (3, 4, 2)),
    "transposed": (views.transposed(), (3, 4, 2)),
    "backwards": (views.backwards(), (5, 2)),
    "upto": (views.upto(3), (5, 2)),
    "after": (views.after(3), (5, 2)),
    "mapped": (views.mapped(views.chunks(2) >> views.backwards()), (3, 6)),
    "banded": (views.banded(2), (5, 3)),
    "swizzled": (views.swizzled(4), (6, 8)),
    "windows": (views.windows(3, 2), (9,)),
}


def by_numpy(view: View, own: np.ndarray) -> np.ndarray:
    """The same by the independent interpreter, which moves elements."""
    return slow_views.shown(own, _plain(view))


def _plain(view: View) -> tuple:
    return tuple((word, _plain(numbers[0]) if word == "mapped" else numbers) for word, numbers in view.steps)


def shown(view: View, *extents: int) -> np.ndarray:
    made, own = seen(view, *extents), np.arange(np.prod(extents)).reshape(extents)
    shape = tuple(e.value for e in made.extents)
    out = np.zeros(shape, int)
    for index in itertools.product(*map(range, shape)):
        out[index] = own[tuple(e.value for e in made.place(tuple(map(const, index))))]
    return out


def test_every_view_has_a_meaning_and_a_picture():
    assert set(RULES) == set(EXAMPLES) == {*slow_views.WORDS, "mapped"} == set(VIEWS) - {"split_at", "zipped"}


@pytest.mark.parametrize("word", EXAMPLES)
def test_what_a_view_shows(word):
    view, extents = EXAMPLES[word]
    np.testing.assert_array_equal(shown(view, *extents), by_numpy(view, np.arange(np.prod(extents)).reshape(extents)))


refused: list[tuple[str, str]] = []


@pytest.mark.parametrize("first, second", list(itertools.product(EXAMPLES, EXAMPLES)))
def test_views_compose(first, second):
    """`a >> b` shows what b shows of what a shows."""
    extents = (12, 24, 4)[: 2 if first != "windows" else 1]
    view, then = EXAMPLES[first][0], EXAMPLES[second][0]
    try:
        once, both = shown(view, *extents), shown(view >> then, *extents)
        twice = shown(then, *once.shape)
    except Refused as why:  # and for a reason that NumPy has as well: a shape that does not fit
        assert "dimensions" in str(why) or "does not divide" in str(why) or "at " in str(why), why
        refused.append((first, second))
        assert len(refused) < len(EXAMPLES) ** 2 / 2
        return
    np.testing.assert_array_equal(both, once.reshape(-1)[twice])
    if "windows" not in (first, second):
        assert len(set(both.reshape(-1))) == both.size


# ---- the lemmas, for all sizes --------------------------------------------------------------------------------------


def symbolic(z3, e: ir.Expr, names: dict):
    match e:
        case ir.Const(value):
            return z3.IntVal(value)
        case ir.Read(var):
            return names[var.uid]
        case ir.Binary(op, left, right):
            a, b = symbolic(z3, left, names), symbolic(z3, right, names)
            return {"+": a + b, "-": a - b, "*": a * b}[op] if op in "+-*" else a / b if op == "/" else a % b
        case ir.Math("min", (left, right)):
            a, b = symbolic(z3, left, names), symbolic(z3, right, names)
            return z3.If(a < b, a, b)
    raise AssertionError(e)


LEMMAS = ["chunks", "interleaved", "tiles", "joined", "transposed", "backwards", "upto", "after", "windows"]


@pytest.mark.parametrize("word", LEMMAS)
def test_lemma_for_all_sizes(word):
    """Indices below the view's extents lie in the memory, and different ones at different elements."""
    z3 = pytest.importorskip("z3")
    names: dict[int, object] = {}

    def unknown(name: str) -> ir.Expr:
        var = ir.Var(len(names), name, I32, GRID1, span=AT)
        names[var.uid] = z3.Int(name)
        return ir.Read(var, I32, span=AT)

    extents = [unknown("n"), unknown("m")][: RULES[word].rank]
    numbers = tuple(unknown(f"k{i}") for i in range(VIEWS[word][0].count(":")))
    memory = SimpleNamespace(map=None, handle=SimpleNamespace(name="x", span=AT), rank=len(extents), shape=tuple(extents))
    made = applied(None, (ViewStep(word, numbers, (), AT),), memory)
    here, there = ([unknown(f"{side}{i}") for i in range(len(made.extents))] for side in "ab")
    value = lambda e: symbolic(z3, e, names)  # noqa: E731
    sizes, ks = list(map(value, extents)), list(map(value, numbers))
    given = [k >= 1 for k in ks] + [n >= 0 for n in sizes]
    if word in ("chunks", "interleaved", "tiles"):  # the numbers divide the extents
        wholes = [z3.Int(f"q{i}") for i in range(len(ks))]
        given += [n == k * q for n, k, q in zip(sizes, ks, wholes)] + [q >= 0 for q in wholes]
        counts = dict(zip(["k0", "k1"], wholes))
    if word in ("upto", "after"):
        given += [ks[0] <= sizes[0]]
    if word == "windows":
        given += [ks[1] >= ks[0], sizes[0] >= ks[0]]
    shown_extents = [value(e) for e in made.extents]
    if word in ("chunks", "interleaved", "tiles"):
        order = {"chunks": [0, None], "interleaved": [None, 0], "tiles": [0, 1, None, None]}[word]
        shown_extents = [e if at is None else list(counts.values())[at] for e, at in zip(shown_extents, order)]
    for side in (here, there):
        given += [z3.And(0 <= value(i), value(i) < n) for i, n in zip(side, shown_extents)]
    a, b = ([value(e) for e in made.place(tuple(side))] for side in (here, there))
    inside = z3.And(*(z3.And(0 <= e, e < n) for e, n in zip(a, sizes)))
    same = z3.And(*(x == y for x, y in zip(a, b)))
    equal = z3.And(*(value(x) == value(y) for x, y in zip(here, there)))
    for claim in (inside, z3.Implies(same, equal)):
        solver = z3.Solver()
        solver.set("rlimit", 20_000_000)
        solver.add(*given, z3.Not(claim))
        assert solver.check() == z3.unsat, (word, claim)


@pytest.mark.parametrize("word", ["banded", "swizzled"])
def test_lemma_for_small_sizes(word):
    """Of these two, quotients by products and xor, every size up to 8 is tried."""
    for n, m, k in itertools.product(range(1, 9), repeat=3):
        if word == "swizzled" and (k & (k - 1) or m % k):
            continue
        elements = shown(getattr(views, word)(k), n, m).reshape(-1)
        assert sorted(elements) == list(range(n * m)), (n, m, k)


# ---- in kernels -----------------------------------------------------------------------------------------------------

HANDED = """
@kernel(threads=64)
def k(x: ptr(int, (R, C)), R: int, C: int):
    with group(grid[1]), partition(x, p=thread[1], view={view}) as mine:
        t: int @ thread[1] = id()
        with group(thread[1]):
            for i in range({count}):
                mine[i] = t * 100 + i
"""


@pytest.mark.parametrize(
    "view, count, expected",
    [
        ("views.joined() >> views.chunks(4)", 4, lambda a: a.reshape(64, 4)),
        ("views.joined() >> views.interleaved(64)", 4, lambda a: a.reshape(4, 64).T),
        ("views.transposed() >> views.joined() >> views.chunks(4)", 4, lambda a: a.T.reshape(64, 4)),
        ("views.tiles(2, 2) >> views.joined() >> views.mapped(views.joined())", 4, lambda a: a.reshape(8, 2, 8, 2).swapaxes(1, 2).reshape(64, 4)),
        ("views.joined() >> views.chunks(4) >> views.mapped(views.backwards())", 4, lambda a: a.reshape(64, 4)[:, ::-1]),
        ("OUTSIDE", 4, lambda a: a.reshape(64, 4)[::-1]),
    ],
)
def test_units_get_their_parts(view, count, expected):
    outside = views.joined() >> views.chunks(4) >> views.backwards()
    k = execute(HANDED.format(view=view, count=count), OUTSIDE=outside)["k"]
    x = np.zeros((16, 16), np.int32)
    k[1](x, 16, 16)
    np.testing.assert_array_equal(expected(x), np.arange(64)[:, None] * 100 + np.arange(4))
    assert k.syncs() == [] and not k.races(x, 16, 16, blocks=1)


def test_selected_by_the_program():
    k = execute("""
@kernel(threads=16)
def k(x: ptr(int, (8, 8))):
    with group(grid[1]):
        b: int @ block[1] = id()
        with partition(x, p=block[1], view=views.tiles(4, 4)[b % 2, b / 2]) as part, group(block[1]):
            with partition(part, p=thread[1], view=views.joined() >> views.upto(16)) as mine:
                t: int @ thread[1] = id()
                with group(thread[1]):
                    if t < 16:
                        mine[0] = 100 * b + t
""")["k"]
    x = np.zeros((8, 8), np.int32)
    k[4](x)
    np.testing.assert_array_equal(x[4:, :4].reshape(-1), 100 + np.arange(16))
    np.testing.assert_array_equal(x[:4, 4:].reshape(-1), 200 + np.arange(16))


def test_two_parts_and_two_arrays():
    k = execute("""
@kernel(threads=64)
def k(x: ptr(const(int)), y: ptr(int)):
    with group(grid[1]), partition(y, p=block[1], view=views.chunks(64)) as own, group(block[1]):
        s: shared(int[128])
        t: int @ thread[1] = id()
        with partition(s, p=block[1], view=views.split_at(64)) as (left, right):
            with partition(views.zipped(left, own), p=thread[1], view=views.chunks(1)) as (a, b), group(thread[1]):
                a[0] = x[t]
                b[0] = 0
            with partition(right, p=thread[1], view=views.chunks(1)) as c, group(thread[1]):
                if t < 32:
                    c[0] = 7
            with partition(own, p=thread[1], view=views.backwards()) as d, group(thread[1]):
                d[0] = left[t] + right[t % 32]
""")["k"]
    x, y = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    k[1](x, y)
    np.testing.assert_array_equal(y, np.arange(64)[::-1] + 7)
    assert [point.kind for point in k.syncs()] == ["block"] and not k.races(x, y, blocks=1)


REFUSED = [
    ("view=views.chunks(5)", "does not divide"),
    ("view=views.chunks(0)", "positive"),
    ("view=views.chunks", "is called"),
    ("view=views.chunks(4, 4)", "takes 1 argument"),
    ("view=views.chunks(k=4)", "without keywords"),
    ("view=views.transposed()", "is of 2 dimensions"),
    ("view=views.upto(100)", "at 100"),
    ("view=views.swizzled(3)", "is of 2 dimensions"),
    ("view=views.chunks(8) >> views.swizzled(3)", "power of two"),
    ("view=views.windows(4, 2)", "overlap"),
    ("view=views.split_at(4)", "two parts"),
    ("view=views.split_at(4) >> views.chunks(4)", "comes last"),
    ("view=views.chunks(4)[0, 0, 0]", "3 are selected"),
    ("view=4", "not a view"),
    ("view=views.chunks(4) >> 4", "not a view"),
    ("view=views.chunks(4), f=lambda i: i", "already"),
    ("view=views.chunks(t)", ""),
    ("view=views.nothing()", ""),
]


@pytest.mark.parametrize("option, says", REFUSED)
def test_refused(option, says):
    body = f"""
        with group(grid[1]):
            t: int @ thread[1] = id()
            with partition(x, p=block[1], {option}) as part, group(block[1]):
                pass
    """
    found = errors(body, requires="grid[1], block[1], thread[64]", params="x: ptr(int, (64,)) @ grid[1]")
    assert found and found[0].code in ("SNAP028", "SNAP006", "SNAP018", "SNAP019"), found
    assert says in found[0].message and (not says or found[0].code in ("SNAP028", "SNAP018")), found[0]


def test_an_index_beyond_its_part_is_refused():
    body = """
        with group(grid[1]), partition(x, p=thread[1], view=views.chunks(4)) as mine, group(thread[1]):
            mine[4] = 1
    """
    assert codes(body, requires="grid[1], block[1], thread[64]", params="x: ptr(int) @ grid[1]") == [("SNAP018", 2)]


@pytest.mark.parametrize("wrong", [lambda: views.chunks(), lambda: views.chunks(1.5), lambda: views.mapped(3), lambda: views.chunks(4) >> 3])
def test_refused_outside(wrong):
    with pytest.raises(snap.SnapError, match="SNAP028"):
        wrong()
