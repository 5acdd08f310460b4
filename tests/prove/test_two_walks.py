"""`lean=True` fails safe: of the two walks that it asks, either one may be wrong, and no barrier that is needed is left out.

Each program has a barrier that some launch needs.  Each mutant is an exchange of text in one of the walks, after which that walk alone would leave
the barrier out; the other one keeps it.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import types

import numpy as np
import pytest

from snap import *
from snap._compiler.analysis.linear import forms
from snap._compiler.frontend.conditions import condition_tree
from snap._compiler.ir.points import points
from snap._compiler.sync import conflicting_places, synchronize
from snap.prove import kept
from snap.prove.order.goal import asked_of, order, told
from snap.prove.properties.needless import needless
from snap.record import replace

T = 64


@device(thread)
def pick(a: ref(int[1]), n: int):
    if n > 3:
        a[0] = 1
        return
    a[0] = 0


@device(thread)
def unless_small(a: ref(int[1]), n: int):
    if n < 1:
        return
    a[0] = 1


def of_a_return():
    @kernel(threads=T, lean=True, blocks=1, where=lambda x: len(x) >= T)
    def k(x: ptr(int), n: int):
        with each(block, x):
            s: shared(int[T])
            with each(thread, s) as t:
                s[t] = t
            with each(thread, x) as t:
                a: int[1]
                pick(a, n)
                x[t] = s[(t + a[0]) % T]

    return k, 5


def of_the_other_return():
    """Where n is 1, thread t reads what nobody writes; with 0 it is T - 1 - t."""

    @kernel(threads=T, lean=True, blocks=1, where=lambda x, n: (len(x) >= T, 0 <= n <= 1))
    def k(x: ptr(int), n: int):
        with each(block, x):
            s: shared(int[2 * T])
            with each(thread, s) as t:
                s[t] = t
            with each(thread, x) as t:
                a: int[1]
                unless_small(a, n)
                x[t] = s[T - 1 - t + T * n]

    return k, 0


def of_a_loop():
    @kernel(threads=T, lean=True, blocks=1, where=lambda x, n: (len(x) >= T, 0 <= n <= 9))
    def k(x: ptr(int), n: int):
        with each(block, x):
            s: shared(int[T])
            i = 0
            with each(thread, s) as t:
                s[t] = t
            for j in range(n):
                i += 1
            with each(thread, x) as t:
                x[t] = s[(t + i) % T]

    return k, 3


def of_a_branch(first=0, second=1):
    @kernel(threads=T, lean=True, blocks=1, where=lambda x: len(x) >= T)
    def k(x: ptr(int), n: int):
        with each(block, x):
            s: shared(int[T])
            with each(thread, s) as t:
                s[t] = t
            i = 0
            if n != 3:
                i = first
            else:
                i = second
            with each(thread, x) as t:
                x[t] = s[(t + i) % T]

    return k, 3 if second else 2


def of_the_other_branch():
    return of_a_branch(1, 0)


def of_rows():
    @kernel(threads=T, lean=True, blocks=1, where=lambda x, n: (T - 1 <= n <= 2**20, len(x) >= 4 * n + T))
    def k(x: ptr(int), n: int):
        with each(block, x):
            for i in range(4):
                with each(thread, x) as t:
                    x[i * n + t] = i

    return k, T - 1


PROGRAMS = (of_a_return, of_the_other_return, of_a_loop, of_a_branch, of_the_other_branch, of_rows)

# What one walk gets wrong: the program, the file, and the exchange.
FIRST = {
    "a return is forgotten": (of_a_return, "_compiler.walk.calls", "    if len(out) > 1 or out[0].taken is None:\n", "    if False:\n"),
    "a loop changes nothing": (of_a_loop, "_compiler.walk.loops", "                found[key] = Carried(var, w.vars[key])\n", "                pass\n"),
    "a branch is forgotten": (of_the_other_branch, "_compiler.walk.evaluate", "if a is None or a == b:", "if True:"),
    "where= says more": (of_rows, "_compiler.walk.values", "            return at_least(y, x)\n", "            return below(x, y)\n"),
    "all threads are in one iteration": (of_rows, "prove.properties.needless", "lambda atom: atom.depth == 0 and atom.per", "lambda atom: atom.per"),
}
SECOND = {
    "a return is forgotten": (of_the_other_return, "prove.order.walk", "        self.values.facts = held\n        self.join(ways", "        self.join(ways"),
    "a loop changes nothing": (of_a_loop, "prove.order.loops", "found, ours = self._given[id(s)][1], self.mbarriers.counted(_body(s))", "found, ours = set(), set()"),
    "a branch is forgotten": (of_a_branch, "prove.order.walk", "any(known.get(key) != x for _, known, _ in alive[1:])", "False"),
    "where= says more": (of_rows, "prove.order.reading", '"<=": [less]', '"<=": [forms.subtract(less, one)]'),
    "all threads are in one iteration": (of_rows, "prove.order.sites", "return (forms.OLD, side, atom)", "return atom"),
}


def functions(of):
    """Those whose text stands in the module, methods too, by name."""
    found = [one for one in vars(of).values() if getattr(one, "__module__", "") == of.__name__]
    found += [one for each in found if isinstance(each, type) for one in vars(each).values()]
    return {f.__qualname__: f for f in found if isinstance(f, types.FunctionType) and f.__code__.co_filename == of.__file__}


def weaken(monkeypatch, module, old, new):
    """The module's functions with the exchange made."""
    real = importlib.import_module(f"snap.{module}")
    text = inspect.getsource(real)
    assert text.count(old) == 1, (module, old)
    made = types.ModuleType(real.__name__)
    made.__dict__.update(__file__=real.__file__, __package__=real.__package__)
    exec(compile(text.replace(old, new), real.__file__, "exec"), made.__dict__)
    there, instead = functions(real), functions(made)
    changed = [name for name in there if _said(there[name].__code__) != _said(instead[name].__code__)]
    assert len(changed) == 1, changed
    monkeypatch.setattr(there[changed[0]], "__code__", instead[changed[0]].__code__)


def _said(code):
    return code.co_code, code.co_names, [_said(one) if isinstance(one, types.CodeType) else one for one in code.co_consts]


CONDITIONS = (
    lambda n, m: n < m + 2,
    lambda n, m: (n >= 1, m <= 3),
    lambda n, m: 0 <= n < m <= 3,
    lambda n, m: n == 2 * m and -m <= n,
    lambda n, m: n % 3 == 1,
    lambda n, m: (n // 2 > m, m % 2 == n % 2),
    lambda n, m: n * m < 2**2,
    lambda n, m: (n + 1) * (m - 1) >= n * n,
    lambda n, m: n < 2 or m > 1,
    lambda n, m: (n in (1, 2), not m > 2, n != m),
)


@pytest.mark.parametrize("k", range(len(CONDITIONS)))
def test_what_the_second_walk_reads_of_where_holds_where_python_says_so(k):
    """And says something: of those that are read, some launch that `where=` excludes keeps none of it."""
    holds, (tree, _) = CONDITIONS[k], condition_tree(CONDITIONS[k])
    found = told(tree.body, {"n": forms.unknown(("n",)), "m": forms.unknown(("m",))})
    excluded = False
    for n, m in itertools.product(range(-5, 6), repeat=2):
        kept_ = holds(n, m) if not isinstance(holds(n, m), tuple) else all(holds(n, m))
        read = all(forms.value(form, {("n",): n, ("m",): m}) >= 0 for form in found)
        assert read or not kept_, (n, m)
        excluded = excluded or not read
    assert excluded == (k < 8)


@pytest.fixture(autouse=True)
def nothing_is_remembered(monkeypatch):
    monkeypatch.setattr(kept, "decided", lambda task: False)


def first_walk(k):
    """Whether it names a pair whose barrier is to be left out."""
    one = k._the_one({})
    return bool(needless(one.task, conflicting_places(one.typed))[0])


def second_walk(k):
    """Whether it takes the program without the barrier for ordered."""
    one = k._the_one({})
    bare = synchronize(replace(one.typed, apart=frozenset(conflicting_places(one.typed))))
    assert len(barriers(points(bare))) < len(barriers(k.syncs()))
    return order(bare, asked_of(one.task)).verdict == "ordered"


def barriers(found):
    return [point for point in found if point.kind in ("warp", "block")]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_the_barrier_is_needed_and_both_walks_say_so(program):
    k, n = program()
    assert len(barriers(k.syncs())) == 1 and not k.left_out()[0]
    assert not first_walk(k) and not second_walk(k)
    assert not k.races(np.zeros(8 * T, np.int32), n, blocks=1)


@pytest.mark.parametrize("name", FIRST)
def test_the_first_walk_alone_leaves_out_nothing(name, monkeypatch):
    program, *exchange = FIRST[name]
    weaken(monkeypatch, *exchange)
    k, _ = program()
    assert first_walk(k) and not second_walk(k)
    left, why = k.left_out()
    assert len(barriers(k.syncs())) == 1 and not left and "by another walk" in why


@pytest.mark.parametrize("name", SECOND)
def test_the_second_walk_alone_leaves_out_nothing(name, monkeypatch):
    program, *exchange = SECOND[name]
    weaken(monkeypatch, *exchange)
    k, _ = program()
    assert second_walk(k) and not first_walk(k)
    assert len(barriers(k.syncs())) == 1 and not k.left_out()[0]


def test_what_the_second_walk_agrees_to_is_left_out_all_the_same(monkeypatch):
    """Two barriers, of which one is needless: the first walk names both."""
    weaken(monkeypatch, *FIRST["a return is forgotten"][1:])

    @kernel(threads=T, lean=True, blocks=1, where=lambda x, n: (T <= n <= 2**20, len(x) >= 4 * n + T))
    def k(x: ptr(int), n: int, m: int):
        with each(block, x):
            for i in range(4):
                with each(thread, x) as t:
                    x[i * n + t] = i
            s: shared(int[T])
            with each(thread, s) as t:
                s[t] = t
            with each(thread, x) as t:
                a: int[1]
                pick(a, m)
                x[3 * n + t] = s[(t + a[0]) % T]

    one = k._the_one({})
    assert len(needless(one.task, conflicting_places(one.typed))[0]) > 2
    left, _ = k.left_out()
    assert [point.object for point in left] == ["x"] and [point.object for point in barriers(k.syncs())] == ["s"]
