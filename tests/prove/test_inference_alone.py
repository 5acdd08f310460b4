"""Inference and *order* share no code that decides: where inference is wrong about integers, elements or overlaps, and leaves out a barrier that is needed,
*order* finds that nothing orders the pair.

Each mutant is an exchange of text in `analysis/linear/`, or in the evaluator that it shares with the walk over the typed program (`analysis/evaluate.py`), after
which inference leaves out the only barrier of a program.  What both use is arithmetic on tuples (`forms.py`) and, of solvers, what asks isl and z3; the last
test names it.
"""

from __future__ import annotations

import ast

import pytest
from corpus import ROOT

from prove.test_two_walks import barriers, weaken
from snap import *
from snap._compiler.ir.points import points
from snap._compiler.sync import synchronize
from snap.prove.order.goal import order

T = 64


@kernel(threads=T)
def reads_the_next(x: ptr(int)):
    with each(block, x):
        s: shared(int[2 * T])
        with each(thread, s) as t:
            s[t] = t
        with each(thread, x) as t:
            x[t] = s[t + 1]


@kernel(threads=T)
def reads_the_last(x: ptr(int)):
    with each(block, x):
        s: shared(int[T])
        with each(thread, s) as t:
            s[t] = t
        with each(thread, x) as t:
            if t > 0:
                x[t] = s[t - 1]


@kernel(threads=T)
def reads_backwards(x: ptr(int)):
    with each(block, x):
        s: shared(int[T])
        with each(thread, s) as t:
            if t <= 31:
                s[t] = t
        with each(thread, x) as t:
            if t <= 31:
                x[t] = s[31 - t]


@kernel(threads=T)
def wraps(x: ptr(int)):
    with each(block, x):
        s: shared(int[512])
        with each(thread, s) as t:
            s[t] = t
        with each(thread, x) as t:
            x[t] = s[int(u8(t + 250))]


@kernel(threads=T, blocks=1)
def rows(x: ptr(int), n: int):
    with each(block, x):
        for i in range(n):
            with each(thread, x) as t:
                x[i * 32 + t] = i


# What inference gets wrong: the program, the file, and the exchange.
MUTANTS = {
    "a sum is its left side": (reads_the_next, "evaluate", "return self.arithmetic(self.add(x, y, _FACTORS[op]), type, e)", "return self.arithmetic(x, type, e)"),
    "a difference is its left side": (reads_the_last, "evaluate", "return self.arithmetic(self.add(x, y, _FACTORS[op]), type, e)", "return self.arithmetic(x, type, e)"),
    "a condition is turned round": (reads_backwards, "linear.values", '"<=": [less]', '"<=": [more]'),
    "nothing wraps": (wraps, "linear.values", "    if values.within(x, low, high):\n", "    if True:\n"),
    "all iterations are one": (rows, "linear.values", "            return (forms.OLD, loop, plain)\n", "            return atom\n"),
    "an index is compared with the next one": (reads_the_next, "linear.footprints", "        return [forms.subtract(x, y) for x, y in zip(a.index, b.index)], []", "        return [forms.subtract(x, forms.add(y, forms.number(-1))) for x, y in zip(a.index, b.index)], []"),
    "sums with two numbers differ": (reads_the_next, "linear.footprints", "any(not x[1] and not y[1] and x[0] != y[0]", "any(x[0] != y[0]"),
    "the first thread is the larger one": (reads_the_last, "linear.overlap", "[both for u1, u2 in apart for both in ((u1, u2), (u2, u1))]", "apart"),
    "a warp is one thread": (reads_backwards, "linear.overlap", "if not across and not self._conflict(a, b, owner, across_blocks=False, unit=ONE):", "if not across and not self._conflict(a, b, owner, across_blocks=False, unit=WARP1.shape):"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_what_inference_leaves_out_is_not_ordered(name, monkeypatch):
    program, module, old, new = MUTANTS[name]
    typed = program._the_one({}).typed
    whole = synchronize(typed)
    assert len(barriers(points(whole))) == 1 and order(whole).verdict == "ordered"
    weaken(monkeypatch, f"_compiler.analysis.{module}", old, new)
    bare = synchronize(typed)
    assert not barriers(points(bare))
    assert order(bare).open


def test_order_imports_nothing_of_inference_that_decides():
    allowed = {
        "linear": "the module `forms` alone",
        "linear.forms": "arithmetic on tuples",
        "solvers.oracles": "isl and z3",
        "solvers.solve": "the names of their answers",
        "solvers.allowance": "how long a proof may take",
        "uniform": "which threads agree on a condition: the checker's, which inference does not ask",
    }
    found = set()
    for file in (ROOT / "src" / "snap" / "prove" / "order").glob("*.py"):
        for s in ast.walk(ast.parse(file.read_text())):
            if isinstance(s, ast.ImportFrom) and s.module and s.module.startswith("snap._compiler."):
                assert not s.module.startswith(("snap._compiler.sync", "snap._compiler.walk.")) or s.module == "snap._compiler.walk", (file.name, s.module)
                if s.module.startswith("snap._compiler.analysis."):
                    found.add(s.module.removeprefix("snap._compiler.analysis."))
                    assert s.module != "snap._compiler.analysis.linear" or [one.name for one in s.names] == ["forms"]
                    assert s.module != "snap._compiler.analysis.solvers.solve" or {one.name for one in s.names} <= {"NO", "UNKNOWN"}
    assert found == set(allowed)
