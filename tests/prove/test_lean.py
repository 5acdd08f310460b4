"""`lean=True`: barriers are left out of which a proof shows that nobody meets there, and no others."""

from __future__ import annotations

import importlib.util
import linecache
from pathlib import Path

import numpy as np
import pytest

from snap import *
from snap._compiler.sync import conflicting_places
from snap.prove.properties.needless import needless
from snap.prove.verdict import Verdict

T = 32
ROOT = Path(__file__).resolve().parents[2]


def rows_apart(least):
    """Iterations write rows of n elements: apart where no row is shorter than the threads."""

    @kernel(threads=T, lean=True, where=lambda out, n, blocks: (least <= n <= 2**20, len(out) >= 4 * n + T, blocks == 1))
    def rows(out: ptr(int), n: int):
        with each(block, out):
            for i in range(4):
                with each(thread, out) as t:
                    out[i * n + t] = i

    return rows


def barriers(k):
    return [point for point in k.syncs() if point.kind in ("warp", "block", "named", "cluster", "grid")]


def suggested(k):
    """The pairs that the walk over the typed program names, whatever the other one says."""
    one = k._the_one({})
    return needless(one.task, conflicting_places(one.typed))[0]


def test_a_barrier_where_nobody_meets_is_left_out():
    k = rows_apart(T)
    left, why = k.left_out()
    assert not barriers(k) and len(left) == 1 and not why
    assert k.prove().verdict is Verdict.PROVED


def test_one_that_is_needed_in_some_launch_stays():
    """With rows of 31 elements, thread 31 writes what thread 0 writes in the next iteration."""
    k = rows_apart(T - 1)
    left, why = k.left_out()
    assert len(barriers(k)) == 1 and not left and why and not suggested(k)
    out = np.zeros(4 * 31 + T, np.int32)
    k[1](out, 31)
    assert out[31] == 1 and not k.races(np.zeros_like(out), 31, blocks=1)


def test_without_lean_nothing_changes():
    @kernel(threads=T, where=lambda out, n, blocks: (n >= T, len(out) >= 4 * n + T, blocks == 1))
    def rows(out: ptr(int), n: int):
        with each(block, out):
            for i in range(4):
                with each(thread, out) as t:
                    out[i * n + t] = i

    assert len(barriers(rows)) == 1
    assert rows.left_out() == ([], "the kernel does not ask for it: `lean=True`")


def test_indices_that_are_not_proved_to_be_inside_leave_nothing_out():
    @kernel(threads=T, lean=True, where=lambda out, n, blocks: (n >= T, blocks == 1))
    def rows(out: ptr(int), n: int):
        with each(block, out):
            for i in range(4):
                with each(thread, out) as t:
                    out[i * n + t] = i

    left, why = rows.left_out()
    assert len(barriers(rows)) == 1 and not left and "is not proved" in why


def test_without_solvers_nothing_is_left_out(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    k = rows_apart(T + 1)
    left, why = k.left_out()
    assert len(barriers(k)) == 1 and not left and "is not installed: pip install" in why


@device(thread)
def put(to: ptr(int), at: int, v: int):
    to[at] = v


def _kept():
    """Kernels in which every barrier is needed."""

    @kernel(threads=T, lean=True, where=lambda x, out, blocks: (len(x) >= T, len(out) >= T, blocks == 1))
    def turned(x: ptr(const(int)), out: ptr(int)):
        with each(block, out):
            s: shared(int[T])
            with each(thread, s) as t:
                s[t] = x[t]
            with each(thread, out) as t:
                out[t] = s[T - 1 - t]

    @kernel(threads=T, lean=True, where=lambda out, n, blocks: (0 <= n <= T, len(out) >= T * T, blocks == 1))
    def of_zero(out: ptr(int), n: int):
        with each(block, out):
            s: shared(int[T * T])
            with each(thread, s) as t:
                s[t * n] = t
            with each(thread, out) as t:
                out[t] = s[t * n]

    @kernel(threads=T, lean=True, where=lambda at, out, blocks: (len(at) >= T, len(out) >= T, blocks == 1))
    def by_memory(at: ptr(const(int)), out: ptr(int)):
        with each(block, out):
            for i in range(2):
                with each(thread, out) as t:
                    j: int = at[t] & (T - 1)
                    out[j] = i

    @kernel(threads=T, lean=True, where=lambda out, n, blocks: (T <= n <= 2**20, len(out) >= 2 * n + T, blocks == 1))
    def through_calls(out: ptr(int), n: int):
        """One place, of two calls: they meet, though no call meets itself."""
        with each(block, out):
            with each(thread, out) as t:
                put(out, n * 0 + t, 1)
            with each(thread, out) as t:
                put(out, n * 0 + T - 1 - t, 2)

    @kernel(threads=T, lean=True, cooperative=True, where=lambda out, n: (T <= n <= 2**16, len(out) >= 2 * n + T))
    def of_blocks(out: ptr(int), n: int):
        with each(block, out) as b:
            for i in range(2):
                with each(thread, out) as t:
                    out[i * n + t] = b

    return turned, of_zero, by_memory, through_calls, of_blocks


@pytest.mark.parametrize("k", _kept(), ids=lambda k: k.definition.tree.name)
def test_barriers_that_are_needed_stay(k):
    assert barriers(k) and not k.left_out()[0] and not suggested(k)


def test_figure_6_has_two_barriers_instead_of_three():
    """The third one guards rows of C, whose length is known at run time only; `where=` says that a tile fits into it."""
    text = (ROOT / "examples" / "figure6.py").read_text().replace("smem=1280,", "smem=1280, lean=True,")
    name = "<figure 6, lean>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    import sys

    sys.path.insert(0, str(ROOT / "examples"))
    namespace: dict = {"__name__": "figure6_lean"}
    exec(compile(text, name, "exec"), namespace)
    k = namespace["mmaTF32NaiveKernel"]
    left, _ = k.left_out()
    assert len(barriers(k)) == 2 and [point.object for point in left] == ["C"]
    assert k.prove(("order",)).of("order").verdict is Verdict.PROVED
