"""How often the text is walked: counting what is in flight takes no more than finding what is in conflict, and what is passed over would change nothing.

Both walk a loop again with what is new at its top, alone.  Were the counting walk to begin again with all that is there, each loop around another
would double it.
"""

from __future__ import annotations

import numpy as np
import pytest
from corpus import OK
from fuzz.coverage import functions

import snap
from snap.api import SnapFunction
from snap.ir.text import text
from snap.sync import synchronize
from snap.sync.edges import Visitor
from snap.sync.graph import Walk
from snap.sync.groups import Counter

PROGRAMS = {"hgemm": "hgemm", "hgemm_cluster": "hgemm", "sgemm_pipelined": "three_stages", "attention": "attention"}


@pytest.mark.parametrize("program", PROGRAMS)
def test_counting_walks_as_often_as_finding(program, monkeypatch):
    walked = {"finding": 0, "counting": 0}
    reaches = Walk._reaches  # whether a statement is walked, and not passed over

    def counted(self, *given):
        found = reaches(self, *given)
        walked["counting" if isinstance(self.visitor, Counter) else "finding"] += found
        return found

    kernel = next(p for p in OK if p.path.stem == program).execute()[PROGRAMS[program]]
    assert isinstance(kernel, SnapFunction)
    typed = kernel._the_one({}).typed
    monkeypatch.setattr(Walk, "_reaches", counted)
    synchronize(typed)
    assert 0 < walked["counting"] <= 1.25 * walked["finding"], walked


# Arrays that take each other's bytes, and a way out of a loop, each in a statement that the accesses which come around are no part of.
AROUND = """from __future__ import annotations
from snap import *

@kernel(threads=64)
def k(out: ptr(int), x: ptr(const(int)), n: int):
    with each(block):
        s: shared(int[64])
        for j in range(n):
            if j % 2 == 0:
                a: shared(int[64])
                with each(thread, a) as t:
                    a[t] = x[t] + j
                with each(thread, out) as t:
                    out[t] = a[63 - t]
            if j % 3 == 0:
                b: shared(int[64])
                with each(thread, b) as t:
                    b[t] = x[t] - j
                with each(thread, out) as t:
                    out[t] += b[63 - t]
            if x[j] > 7:
                break
            with each(thread, s) as t:
                s[t] = x[t]
            for i in range(n):
                with each(thread, out) as t:
                    out[t] += s[63 - t] * i
        with each(thread, s) as t:
            s[t] = n
"""

# Copies behind ways out that are gone with nothing in flight: by `break`, and by `return`.
BEHIND = """from __future__ import annotations
from snap import *

@device(block)
def chosen(x: ptr(shared(int), (64,)) @ block[1], y: ptr(const(int)), n: int) -> int @ block[1]:
    with each(thread, x) as t:
        async_copy(x[t], y[t])
    first: int = x[0]
    if n == 1:
        return 7
    return first

@kernel(threads=64)
def k(out: ptr(int), x: ptr(const(int)), n: int):
    with each(block):
        s: shared(int[64])
        j: int = 0
        while True:
            j += 1
            if j > n:
                break
        v: int = chosen(s, x, n)
        with each(thread, s) as t:
            async_copy(s[t], x[t])
        with each(thread, out) as t:
            out[t] = s[63 - t] + v
"""


@pytest.mark.parametrize("program", ["sgemm_pipelined", "attention", "lookback_scan", AROUND, BEHIND], ids=["sgemm_pipelined", "attention", "lookback_scan", "around", "behind"])
def test_what_is_passed_over_changes_nothing(program, monkeypatch):
    from small import compiled

    kernel = next(k for k in next(p for p in OK if p.path.stem == program).execute().values() if isinstance(k, SnapFunction) and k.is_kernel) if "\n" not in program else compiled(program)
    typed = kernel._the_one({}).typed
    passed_over = [text(f) for f in functions(synchronize(typed))]
    monkeypatch.setattr(Visitor, "concerned", lambda self, s, frame, paths: True)
    monkeypatch.setattr(Counter, "concerned", lambda self, s, frame, paths: True)
    assert passed_over == [text(f) for f in functions(synchronize(typed))]


COPIES_WRITTEN_OUT = """from __future__ import annotations
from snap import *

@kernel(threads=64)
def k(out: ptr(int), x: ptr(const(int)), n: int):
    with each(block):
        s: shared(int[2, 64])
        for j in range(n):
            b: int = 0
            for i in range(3):
                with each(thread, s) as t:
                    async_copy(s[b, t], x[t])
                with each(thread, out) as t:
                    out[t] = s[b, 63 - t] + j
                b = 1 - b
"""


def test_copies_are_counted_in_loops_that_are_written_out_inside_of_others():
    """The walk that counts copies passes over the declaration of `b`, and is told by the first what it needs of it."""
    from small import compiled

    k = compiled(COPIES_WRITTEN_OUT)
    out, x = np.zeros(64, np.int32), np.arange(64, dtype=np.int32)
    k[1](out, x, 3)
    np.testing.assert_array_equal(out, x[::-1] + 2)
    assert not snap.races(k, out, x, 3, blocks=1, seeds=4)
