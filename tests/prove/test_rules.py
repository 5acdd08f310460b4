"""Rules of the walk and of what is known of products: each shows a right kernel, and does not show one that is wrong in what the rule rests on."""

from __future__ import annotations

import numpy as np
import pytest

import snap
from snap import *
from snap.prove.verdict import Verdict

T = 32


# ---- an element of const memory is one number, whoever reads it, and whenever ----


def by_a_table(per):
    """The thread that a table names writes an element of a row; no two threads do, whenever."""
    @kernel(threads=T, where=lambda x, at, M, blocks: (1 <= M <= 2**20, blocks == 1, len(x) >= M, len(at) >= M))
    def k(x: ptr(int), at: ptr(const(int)), M: int):
        blocks: int = count(block[1])
        with each(block, x, disjoint=x) as b:
            t: int @ thread[1] = id()
            for row in range(b, M, blocks):
                owner: int = at[row] & 31
                with each(thread, x, disjoint=x):
                    if t == owner:
                        x[row / per] = 1

    return k


# ---- parameters that `where=` says to be equal, and ranges that follow from one another ----


def in_place_equal():
    @kernel(threads=T, where=lambda x, n, stride, other, M, blocks: (1 <= M <= 2**20, 1 <= n <= stride, stride <= 2**20, stride == other, blocks == 1, len(x) >= M * other))
    def k(x: ptr(int), n: int, stride: int, other: i64, M: int):
        with each(block, x), each(thread, x) as t:
            for row in range(M):
                for j in range(t, n, T):
                    x[i64(row) * stride + j] = x[i64(row) * other + j] + 1

    return k


def in_place_apart():
    @kernel(threads=T, where=lambda x, n, stride, other, M, blocks: (1 <= M <= 2**20, 1 <= n <= stride, stride <= 2**20, stride >= other, other >= n, blocks == 1, len(x) >= M * stride))
    def k(x: ptr(int), n: int, stride: int, other: i64, M: int):
        with each(block, x), each(thread, x) as t:
            for row in range(M):
                for j in range(t, n, T):
                    x[i64(row) * stride + j] = x[i64(row) * other + j] + 1

    return k


# ---- a bool that a loop only sets stays set ----


def waited(sets):
    @device(thread, where=lambda x, at, there: there or 0 <= at < len(x))
    def look(x: ptr(const(int)), at: int, there: bool, n: int) -> int:
        found: int = 0
        for k in range(n):
            if not there:
                found = x[at]
                there = found > k
            if sets < 0 and found == 7:
                there = False
        return found

    @kernel(threads=T, where=lambda x, n, blocks: (len(x) >= n, 0 <= n <= 2**20, blocks == 1))
    def k(x: ptr(const(int)), y: ptr(int, (32,)), n: int):
        with each(thread, y) as t:
            y[t] = look(x, t, t >= n, n)

    return k


# ---- what a thread has written itself, in the iteration that an index or the last one names ----


def double_buffer(ahead, guard):
    """Products in the guards: isl takes none of these writes into account."""

    @kernel(threads=T, where=lambda x, y, n, m, blocks: (1 <= n <= 2**10, 1 <= m <= 2**10, blocks == 1, len(x) >= 2**26, len(y) >= 32))
    def k(x: ptr(const(int)), y: ptr(int), n: int, m: int):
        with each(block, y):
            s: shared(int[2, 32])
            for i in range(n + 1):
                if i >= ahead and (i - 1) * m + guard <= 500:
                    with each(thread, y) as t:
                        y[t] = s[(i + 1) % 2, t]
                if i < n and i * m <= 500:
                    with each(thread, s) as t:
                        s[i % 2, t] = x[i * 32 + t]

    return k


# ---- a cell that holds one number, whichever thread has written it ----


def cell(value):
    @kernel(threads=T, where=lambda x, blocks: (blocks == 1, len(x) >= 32))
    def k(x: ptr(int)):
        with each(block, x):
            one_: shared(int[1])
            with each(thread, one_) as t:
                if t == 7:
                    one_[0] = 1 if value else t
            with each(thread, x) as t:
                at: int = one_[0]
                if value:
                    x[at * t] = 1
                else:
                    assert 0 <= at < 32
                    x[at] = 1

    return k


# ---- what is known of all who come behind a call is no guard elsewhere ----


@device(thread, where=lambda n: n >= 1)
def asks(n: int) -> int:
    return n


def written_if(always):
    @kernel(threads=T, where=lambda x, n, blocks: (0 <= n <= 5, blocks == 1, len(x) >= 32))
    def k(x: ptr(int), n: int):
        with each(block, x):
            s: shared(int[32])
            v: int @ thread[1] = 0
            if always or n >= 1:
                with each(thread, s) as t:
                    s[t] = 1
            if n >= 1:
                with each(thread):
                    v = asks(n)
            with each(thread, x) as t:
                x[t] = s[31 - t] + v

    return k


# ---- digits that are sums of products themselves; what stands in no product at its most ----


def rows_in_turn(step):
    @kernel(threads=T, where=lambda x, n, M, blocks: (1 <= M <= 2**20, 1 <= n <= 2**20, blocks <= M, len(x) >= M * n))
    def k(x: ptr(int), n: int, M: int):
        blocks: int = count(block[1])
        with each(block, x, disjoint=x) as b:
            for row in range(b, M, blocks):
                with each(thread, x, disjoint=x) as t:
                    for j in range(t, n - n % 32 if step == 32 else n, step):
                        x[i64(row) * n + j] = 1

    return k


RIGHT = {
    "a table's element is one number": lambda: by_a_table(1),
    "equal strides": in_place_equal,
    "a bool that is only set": lambda: waited(1),
    "the iteration before": lambda: double_buffer(1, 0),
    "a cell of one number": lambda: cell(True),
    "written in any case": lambda: written_if(True),
    "rows that blocks take in turn": lambda: rows_in_turn(32),
}
WRONG = {
    "an element for two rows, each with its own of a table": (lambda: by_a_table(2), "races"),
    "strides that are not equal": (in_place_apart, "races"),
    "a bool that is cleared": (lambda: waited(-1), "bounds"),
    "the first iteration, too": (lambda: double_buffer(0, 0), "init"),
    "another guard than that of the write": (lambda: double_buffer(1, -5), "init"),
    "a cell of the thread that wrote it": (lambda: cell(False), "races"),
    "written under a condition": (lambda: written_if(False), "init"),
    "rows in steps that threads share": (lambda: rows_in_turn(31), "races"),
}


def test_ranges_follow_from_one_another():
    """And reach as far as those do: n is 5 at most here, though each condition alone would leave more."""

    @kernel(threads=T, where=lambda x, n, m, blocks: (n <= m, m <= 5 + n * 0, 0 <= n, blocks == 1, len(x) >= 5))
    def k(x: ptr(int), n: int, m: int):
        with one(block, x), one(thread, x):
            x[n] = 1

    found = k.prove(["bounds"])
    assert found.verdict is Verdict.REFUTED and "n = 5, m = 5, len(x) = 5" in found.replay(), found.render()


@pytest.mark.parametrize("name", RIGHT)
def test_right(name):
    found = RIGHT[name]().prove(["races", "init"])
    assert found.verdict is Verdict.PROVED, found.render()


@pytest.mark.parametrize("name", WRONG)
def test_wrong(name):
    make, kind = WRONG[name]
    found = make().prove(["races", "init"])
    assert any(o.kind == kind for o in found.open), found.render()


def test_the_machine_agrees_about_what_is_written_under_a_condition():
    found = written_if(False).prove()
    assert found.verdict is Verdict.REFUTED and "n = 0" in found.replay() and "uninitialized" in found.replay()
    with pytest.raises(snap.MachineError, match="is read before anything was written"):
        written_if(False)[1](np.zeros(32, np.int32), 0)
