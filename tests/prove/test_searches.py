"""Searches: what a loop carries stays between its ends, in whichever way memory decides."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest

import snap
from snap import *
from snap.prove.verdict import Verdict

FIT = lambda x, v, out, n, blocks: (0 <= n <= 2**30, len(x) >= n, len(v) >= 32, len(out) >= 32, blocks == 1)  # noqa: E731


@kernel(threads=32, where=FIT)
def lower_bound(x: ptr(const(int)), v: ptr(const(int)), out: ptr(int), n: int):
    with each(thread, out) as t:
        lo, hi = 0, n
        for k in range(31):
            if lo < hi:
                mid = lo + (hi - lo) / 2
                if x[mid] < v[t]:
                    lo = mid + 1
                else:
                    hi = mid
        out[t] = lo


@kernel(threads=32, where=lambda a, b, out, m, n, blocks: (0 <= n <= 2**29, 0 <= m <= 2**29, len(a) >= n, len(b) >= m, len(out) >= 32, blocks == 1))
def merge_path(a: ptr(const(int)), b: ptr(const(int)), out: ptr(int), n: int, m: int):
    with each(thread, out) as t:
        d = min(t * 8, n + m)
        lo, hi = max(0, d - m), min(d, n)
        while lo < hi:
            mid = (lo + hi) / 2
            if a[mid] <= b[d - 1 - mid]:
                lo = mid + 1
            else:
                hi = mid
        out[t] = lo


@kernel(threads=32, blocks=1, where=lambda size, keys, table: (size > 0, len(keys) >= 32, len(table) >= size))
def hashed(keys: ptr(const(u32)), table: ptr(int), size: int):
    with each(thread) as i:
        at = int(keys[i] % u32(size))
        old = 1
        while old != 0:
            old = atomic.exch(table, at, old)
            at = int(u32(old) % u32(size))


@kernel(threads=32, blocks=1, where=lambda last, steps, x: (0 <= last <= 2**30, len(steps) >= 32, len(x) >= last + 1))
def no_further(steps: ptr(const(u16)), x: ptr(const(int)), last: int):
    with each(thread) as t:
        at = 0
        for k in range(100):
            at = min(at + int(steps[t]), last)
            if x[at] > 100:
                print("far")


@pytest.mark.parametrize("k", [lower_bound, merge_path, hashed, no_further], ids=lambda k: k.__name__)
def test_proved(k):
    found = k.prove(["bounds"])
    assert found.verdict is Verdict.PROVED, found


def test_a_loop_whose_ways_memory_decides_is_not_run_out():
    """31 iterations, in each of which memory says which way: it is walked with a counter, by few questions."""
    from snap.prove.properties.context import context

    task = replace(lower_bound._the_one({}).task, key="", memo={})
    assert sum(site.root.name == "x" for site in context(task).found.sites) == 1


@kernel(threads=32, blocks=1, where=lambda size, keys, table: (size > 1, len(keys) >= 32, len(table) >= size - 1))
def hashed_beyond(keys: ptr(const(u32)), table: ptr(int), size: int):
    with each(thread) as i:
        at = 0
        old = 1
        while old != 0:
            old = atomic.exch(table, at, old)
            at = int(u32(old) % u32(size))


def test_one_too_far():
    assert hashed_beyond.prove(["bounds"]).verdict is not Verdict.PROVED


TEXT = """
from __future__ import annotations
from snap import *


@kernel(threads=4, where=lambda x, v, out, n, blocks: (1 <= n <= 2**30, len(x) >= n, len(v) >= 4, len(out) >= 4, blocks == 1))
def k(x: ptr(const(int)), v: ptr(const(int)), out: ptr(int), n: int):
    with each(thread, out) as t:
        lo, hi = 0, {end}
        for k in range(12):
            if {cond}:
                mid = {middle}
                if x[mid] < v[t]:
                    lo = {up}
                else:
                    hi = {down}
        out[t] = lo
"""
CHOICES = {
    "end": ("n", "n - 1", "n + 1"),
    "cond": ("lo < hi", "lo <= hi", "lo + 1 < hi"),
    "middle": ("(lo + hi) / 2", "lo + (hi - lo) / 2", "(lo + hi + 1) / 2"),
    "up": ("mid + 1", "mid"),
    "down": ("mid", "mid - 1"),
}
ALL = [dict(zip(CHOICES, words)) for words in itertools.product(*CHOICES.values())]


def drawn(words: dict[str, str]):
    name, names = f"<search {' '.join(words.values())}>", {}
    snap.register_source(name, TEXT.format(**words))
    exec(compile(TEXT.format(**words), name, "exec"), names)
    return names["k"]


def wrong(k) -> str:
    """What the machine traps, in small launches with all that the array may answer."""
    for n in range(1, 5):
        for below in range(n + 1):
            x = np.array([0] * below + [2] * (n - below), np.int32)
            try:
                k[1](x, np.array([0, 1, 2, 3], np.int32), np.zeros(4, np.int32), n)
            except snap.MachineError as error:
                return f"n = {n}, {below} below: {error}"
    return ""


def held(words: dict[str, str]) -> Verdict:
    k = drawn(words)
    verdict = k.prove(["bounds"]).verdict
    found = wrong(k)
    assert verdict is not Verdict.PROVED or not found, f"{words}: proved, and {found}"
    assert verdict is not Verdict.REFUTED or k.prove(["bounds"]).replay(), words
    return verdict


def test_drawn_searches_that_are_proved_are_right():
    """Of 108; `python -c "from prove.test_searches import *; [held(one) for one in ALL]"` asks all."""
    seen = [held(words) for words in random.Random(5).sample(ALL, 6)]
    assert Verdict.PROVED in seen and set(seen) - {Verdict.PROVED}, seen
