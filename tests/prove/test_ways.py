"""Loops that are left or begun anew early, and votes: what is known of whoever goes on, and what is not."""

from __future__ import annotations

import pytest

from snap import *
from snap.prove.verdict import Verdict

W = lambda x, n, blocks: (len(x) >= n, 1 <= n <= 1000, blocks == 1)


@kernel(threads=32, where=W)
def left_at_the_end(x: ptr(int), n: int):
    """Of the iteration before it is known that it went on."""
    with one(block, x), one(thread, x):
        s: int = 0
        while True:
            x[s] = 1
            s += 1
            if s >= n:
                break


@kernel(threads=32, where=W)
def begun_anew(x: ptr(int), n: int):
    with one(block, x), one(thread, x):
        s: int = 0
        while s < n:
            if x[s] == 0:
                s += 1
                continue
            x[s] = 2
            s += 1


@kernel(threads=32, where=W)
def all_agree(x: ptr(int), n: int):
    """Where some thread says yes, what all agree on holds for each; where all do, everything."""
    with each(block, x), each(warp, x):
        t: int @ thread[1] = id()
        k: int = 0
        while intrinsic.any(k < n and x[0] > t):
            with one(thread, x):
                x[k] = 1
            k += 1
        if intrinsic.all(t < n):
            with each(thread, x):
                x[t] = 1
        some: bool = intrinsic.any(t >= n)
        with each(thread, x):
            if not some:
                x[t] = 2


@pytest.mark.parametrize("k", [left_at_the_end, begun_anew, all_agree], ids=lambda k: k.__name__)
def test_proved(k):
    found = k.prove(["races"])
    assert found.verdict is Verdict.PROVED, found.render()


@kernel(threads=32, where=lambda x, n, blocks: (len(x) >= n, 0 <= n <= 1000, blocks == 1))
def the_first_time(x: ptr(int), n: int):
    """There is an iteration before the first test: of an empty array, too."""
    with one(block, x), one(thread, x):
        s: int = 0
        while True:
            x[s] = 1
            s += 1
            if s >= n:
                break


@kernel(threads=32, where=W)
def behind_the_continue(x: ptr(int), n: int):
    """What stands behind is done by all others."""
    with one(block, x), one(thread, x):
        for k in range(n):
            if k == 0:
                continue
            x[k + 1] = 2


@kernel(threads=32, where=W)
def passes_by(x: ptr(int), n: int):
    """Who begins anew was not asked."""
    with one(block, x), one(thread, x):
        for k in range(2000):
            if n > 7:
                if x[0] == k:
                    continue
                x[0] = 1
            x[k] = 1
            if k + 1 >= n:
                break


@kernel(threads=32, where=W)
def another_one(x: ptr(int), n: int):
    """Some thread said yes: that may have been another one."""
    with each(block, x), each(warp, x):
        t: int @ thread[1] = id()
        some: bool = intrinsic.any(t < n)
        with each(thread, x):
            if some:
                x[t] = 1


@kernel(threads=32, where=W)
def wraps(x: ptr(int), n: int):
    """Each number is inside, if there is one: the sum has none where it overflows."""
    with one(block, x), one(thread, x):
        k: int = 1
        for j in range(n):
            if x[j] > 0:
                if x[j] > 1:
                    k = k * 3
                    continue
                x[j] = 0
            x[0 if k > 0 else n - 1] = 1


@pytest.mark.parametrize("k", [the_first_time, behind_the_continue, passes_by, another_one, wraps], ids=lambda k: k.__name__)
def test_not_proved(k):
    assert k.prove(["bounds"]).verdict is not Verdict.PROVED
