"""Numbers that threads draw from a counter differ, where it is one: what is written by them does not meet."""

from __future__ import annotations

import pytest

from snap import *
from snap.prove.verdict import Verdict

W = lambda x, out, c, n, blocks: (0 <= n <= 2**20, len(x) >= n, len(out) >= n, len(c) >= 2, blocks <= 2**15)


@kernel(threads=64, where=W)
def appended(x: ptr(const(int)), out: ptr(int), c: ptr(int), n: int):
    with each(thread, out) as i:
        if i < n and x[i] > 0:
            at: int = atomic.add(c, 0, 1)
            assert 0 <= at < n
            out[at] = x[i]


@kernel(threads=64, where=W)
def pairs_of_two(x: ptr(const(int)), out: ptr(int), c: ptr(int), n: int):
    with each(thread, out) as i:
        at: int = atomic.add(c, 0, 2)
        assert 0 <= at < n - 1
        out[at] = 1
        out[at + 1] = 2


@kernel(threads=64, where=W)
def in_the_block(x: ptr(const(int)), out: ptr(int), c: ptr(int), n: int):
    """A shared counter, set once."""
    with each(block, out) as b:
        s: shared(int[64])
        many: shared(int[1])
        with one(thread, many):
            many[0] = 0
        with each(thread, s) as t:
            if t < n and x[t] > 0:
                at: int = atomic.add(many, 0, 1)
                assert 0 <= at < 64
                s[at] = t


@kernel(threads=64, where=W)
def as_many_as_wanted(x: ptr(const(int)), out: ptr(int), c: ptr(int), n: int):
    with each(thread, out) as i:
        if i < n:
            wanted: int = max(x[i], 0)
            at: int = atomic.add(c, 0, wanted)
            for k in range(wanted):
                assert 0 <= at + k < n
                out[at + k] = i


@kernel(threads=64, where=W)
def by_way_of_a_cell(x: ptr(const(int)), out: ptr(int), c: ptr(int), n: int):
    """One thread draws, and all of its block read what it has drawn."""
    with each(block, out):
        cell: shared(int[1])
        with one(thread, cell):
            cell[0] = atomic.add(c, 0, 1)
        tile: int = cell[0]
        assert 0 <= tile < n / 64
        with each(thread, out) as t:
            out[64 * tile + t] = t


@kernel(threads=64, where=W)
def beside_another_number(x: ptr(const(int)), out: ptr(int), c: ptr(int), n: int):
    with each(thread, out) as i:
        atomic.exch(c, 1, i)
        at: int = atomic.add(c, 0, 1)
        assert 0 <= at < n
        out[at] = i


@pytest.mark.parametrize("k", [appended, pairs_of_two, in_the_block, as_many_as_wanted, beside_another_number, by_way_of_a_cell], ids=lambda k: k.__name__)
def test_apart(k):
    found = k.prove(["races"]).of("races")
    assert found.verdict is Verdict.PROVED, found.render()
    assert any("stays in its type (two draws of an `atomic.add` differ)" in text for text in found.assumed)


@kernel(threads=64, where=W)
def one_too_many(x: ptr(const(int)), out: ptr(int), c: ptr(int), n: int):
    with each(thread, out) as i:
        at: int = atomic.add(c, 0, 1)
        assert 0 <= at < n - 1
        out[at] = 1
        out[at + 1] = 2


@kernel(threads=64, where=W)
def taken_off(x: ptr(const(int)), out: ptr(int), c: ptr(int), n: int):
    with each(thread, out) as i:
        at: int = atomic.add(c, 0, 1)
        assert 0 <= at < n
        out[at] = i
        atomic.add(c, 0, -1)


@kernel(threads=64, where=W)
def set_again(x: ptr(const(int)), out: ptr(int), c: ptr(int), n: int):
    with each(thread, out) as i:
        atomic.exch(c, 0, 0)
        at: int = atomic.add(c, 0, 1)
        assert 0 <= at < n
        out[at] = i


@kernel(threads=64, where=W)
def two_counters(x: ptr(const(int)), out: ptr(int), c: ptr(int), n: int):
    with each(thread, out) as i:
        at: int = atomic.add(c, i % 2, 1)
        assert 0 <= at < n
        out[at] = i


@kernel(threads=64, where=W)
def nothing_is_added(x: ptr(const(int)), out: ptr(int), c: ptr(int), n: int):
    with each(thread, out) as i:
        at: int = atomic.add(c, 0, max(x[0], 0))
        assert 0 <= at < n
        out[at] = i


@kernel(threads=64, where=W)
def each_block_its_own(x: ptr(const(int)), out: ptr(int), c: ptr(int), n: int):
    """Two blocks draw the same numbers."""
    with each(block, out):
        many: shared(int[1])
        with one(thread, many):
            many[0] = 0
        with each(thread, out) as t:
            at: int = atomic.add(many, 0, 1)
            assert 0 <= at < n
            out[at] = t


@kernel(threads=64, where=W)
def set_in_a_loop(x: ptr(const(int)), out: ptr(int), c: ptr(int), n: int):
    with each(block, out):
        s: shared(int[64])
        many: shared(int[1])
        at: int @ thread[1] = 0
        for k in range(n):
            with one(thread, many):
                many[0] = 0
            with each(thread) as t:
                if t % 2 == k % 2:
                    at = atomic.add(many, 0, 1)
        assert 0 <= at < 64
        with each(thread, s):
            s[at] = 1


@kernel(threads=64, where=W)
def one_cell_for_all(x: ptr(const(int)), out: ptr(int), c: ptr(int), n: int):
    """Threads of a block have read the same number."""
    with each(block, out):
        cell: shared(int[1])
        with one(thread, cell):
            cell[0] = atomic.add(c, 0, 1)
        with each(thread, out):
            tile: int = cell[0]
            assert 0 <= tile < n
            out[tile] = 1


@kernel(threads=64, where=W)
def a_cell_that_is_written_again(x: ptr(const(int)), out: ptr(int), c: ptr(int), n: int):
    with each(block, out):
        cell: shared(int[1])
        with one(thread, cell):
            cell[0] = n / 65
        if n > 1000:
            with one(thread, cell):
                cell[0] = atomic.add(c, 0, 1)
        tile: int = cell[0]
        assert 0 <= tile < n / 64
        with each(thread, out) as t:
            out[64 * tile + t] = t


@pytest.mark.parametrize(
    "k",
    [one_cell_for_all, a_cell_that_is_written_again, one_too_many, taken_off, set_again, two_counters, nothing_is_added, each_block_its_own, set_in_a_loop],
    ids=lambda k: k.__name__,
)
def test_not_apart(k):
    assert k.prove(["races"]).of("races").verdict is not Verdict.PROVED


@kernel(threads=64, where=lambda out, c, blocks: (len(out) >= 64, len(c) >= 4, blocks == 1))
def in_two_types(out: ptr(int), c: ptr(int)):
    """What is added to the wider number takes one off its lower half."""
    with each(thread, out) as i:
        at: int = atomic.add(c, 0, 1)
        atomic.add(c.view(u64), 0, u64(4294967295))
        assert 0 <= at < 64
        out[at] = i


def test_counters_of_two_types_are_not_apart():
    assert in_two_types.prove(["races"]).of("races").verdict is not Verdict.PROVED
