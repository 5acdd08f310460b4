"""What a function leaves behind, whichever way a thread comes out of it: by any `return`, in a branch or a loop, or at its end."""

from __future__ import annotations

import mutations
import numpy as np
import pytest

from snap import *
from snap._compiler.ir import synced
from snap.machine import MachineError
from snap.prove.order.goal import order
from snap.prove.verdict import Verdict

T = 32


@device(thread)
def early(a: ref(int[2]), n: int):
    a[0] = 1
    if n > 3:
        a[0] = 1000
        return
    a[0] = 2


@device(thread)
def in_a_loop(a: ref(int[2]), n: int):
    for i in range(n):
        if i == 3:
            a[0] = 1000
            return
    a[0] = 2


@device(thread)
def behind_an_endless_loop(a: ref(int[2]), n: int):
    i = 0
    while True:
        a[0] = i
        if i >= n:
            return
        i += 1


@device(thread)
def nested(a: ref(int[2]), n: int):
    if n > 0:
        if n > 3:
            a[0] = 1000
            return
        a[0] = 2
    else:
        for i in range(2):
            for j in range(n, n + 2):
                if j == 7:
                    return
        a[0] = 2


@device(thread)
def through_another(a: ref(int[2]), n: int):
    early(a, n)
    if n < 0:
        return
    a[1] = 1


@device(thread)
def last_is_a_loop(a: ref(int[2]), n: int):
    """Behind the call it is not known that i >= n: who returns has left before."""
    a[0] = 2
    i = 0
    while i < n:
        if i == 3:
            a[0] = 1000
            return
        i += 1


@device(thread)
def twice(n: int) -> int:
    for i in range(n):
        if i == 3:
            return 1000
    return 2


@device(thread)
def by_its_result(a: ref(int[2]), n: int):
    a[0] = twice(n)


WAYS = (early, in_a_loop, behind_an_endless_loop, nested, through_another, last_is_a_loop, by_its_result)


def _calls(f, room):
    @kernel(threads=T, blocks=1, where=lambda x, n: (len(x) >= room, -9 <= n <= 9))
    def k(x: ptr(int), n: int):
        with each(thread, x) as t:
            a: int[2]
            a[0] = 2
            f(a, n)
            x[t + a[0]] = 1

    return k


@pytest.mark.parametrize("f", WAYS, ids=lambda f: f.definition.tree.name)
def test_what_is_left_on_one_way_out_is_not_forgotten(f):
    """Only n > 3 leads there."""
    k = _calls(f, T + 2)
    x = np.zeros(T + 2, np.int32)
    k[1](x, 2)
    with pytest.raises(MachineError, match="outside"):
        k[1](x, 9)
    assert k.prove(properties="bounds").verdict is not Verdict.PROVED


@pytest.mark.parametrize("f", [f for f in WAYS if f is not behind_an_endless_loop], ids=lambda f: f.definition.tree.name)
def test_all_that_is_left_is_between_these(f):
    """Where every way out is counted in, the ranges on all of them are known."""
    found = _calls(f, T + 1000).prove(properties="bounds")
    assert found.verdict is Verdict.PROVED, found.render()


def test_what_is_known_at_the_end_is_not_known_of_who_returned():
    """Behind the loop i >= n holds of those who come to the end."""

    @device(thread)
    def f(n: int):
        i = 0
        while i < n:
            if n > 5:
                return
            i += 1

    @kernel(threads=T, blocks=1, where=lambda x, n: (len(x) >= T, 0 <= n <= 9))
    def k(x: ptr(int), n: int):
        with each(thread, x) as t:
            f(n)
            if n > 5:
                x[t + 1] = 1

    assert k.prove(properties="bounds").verdict is Verdict.REFUTED


def test_each_call_of_a_loop_has_its_own_way_out():
    @kernel(threads=T, blocks=1, where=lambda x, n: (len(x) >= T + 2, 0 <= n <= 9))
    def k(x: ptr(int), n: int):
        with each(thread, x) as t:
            a: int[2]
            for j in range(n):
                early(a, j)
                if a[0] <= 2:
                    x[t + a[0]] = 1

    @kernel(threads=T, blocks=1, where=lambda x, n: (len(x) >= T + 2, 0 <= n <= 9))
    def wrong(x: ptr(int), n: int):
        with each(thread, x) as t:
            a: int[2]
            for j in range(n):
                early(a, j)
                x[t + a[0]] = 1

    assert k.prove(properties="bounds").verdict is Verdict.PROVED
    assert wrong.prove(properties="bounds").verdict is not Verdict.PROVED


def test_which_way_is_known_where_the_arguments_tell():
    @kernel(threads=T, blocks=1, where=lambda x: len(x) >= T + 2)
    def k(x: ptr(int), n: int):
        with each(thread, x) as t:
            a: int[2]
            early(a, n)
            if n <= 3:
                x[t + a[0]] = 1

    assert k.prove(properties="bounds").verdict is Verdict.PROVED


# ---- order --------------------------------------------------------------------------------------------------------------------------------


@device(thread)
def unless_small(y: ref(int[2]), n: int):
    if n < 1:
        return
    y[0] = 1


@device(thread)
def once_it_is_large(y: ref(int[2]), n: int):
    i = 0
    while i < 9:
        if i >= n:
            return
        y[0] = i
        i += 1


def _without_barriers(k):
    """The kernel with each of its barriers left out, one at a time."""
    return [made for _, made in mutations.edited(k._the_one({}).synced, lambda s: [("", ())] if isinstance(s, synced.Sync) else [])]


@pytest.mark.parametrize("f", [unless_small, once_it_is_large], ids=lambda f: f.definition.tree.name)
def test_order_knows_of_each_way_out_what_holds_on_it(f):
    """Who returned has n < 1: then thread t reads what thread 2 * T - 1 - t has written."""

    @kernel(threads=2 * T, blocks=1, where=lambda x: len(x) >= 2 * T)
    def k(x: ptr(int), n: int):
        with each(block, x):
            s: shared(int[4 * T])
            with each(thread, s) as t:
                s[t] = t
            with each(thread, x) as t:
                y: int[2]
                f(y, n)
                x[t] = s[2 * T - 1 - t + 2 * T * n]

    assert order(k._the_one({}).synced).verdict == "ordered"
    found = _without_barriers(k)
    assert found and all(order(made).verdict == "unknown" for made in found)


# ---- shifts -------------------------------------------------------------------------------------------------------------------------------


def _shifts(least, most):
    @kernel(threads=T, blocks=1, where=lambda x, y, s: (len(x) >= T, len(y) >= T, least <= s <= most))
    def k(x: ptr(const(int)), y: ptr(int), s: int):
        with each(thread, y) as t:
            y[t] = x[t >> s]

    return k


@pytest.mark.parametrize(("least", "most"), [(0, 31), (3, 7)])
def test_a_shift_to_the_right_makes_no_number_larger(least, most):
    assert _shifts(least, most).prove(properties="bounds").verdict is Verdict.PROVED


@pytest.mark.parametrize(("least", "most"), [(0, 32), (-1, 31), (-(2**31), 2**31 - 1)])
def test_a_shift_by_the_width_or_a_negative_number_may_be_anything(least, most):
    assert _shifts(least, most).prove(properties="bounds").verdict is Verdict.UNKNOWN


def test_a_guard_says_by_how_much_is_shifted():
    @kernel(threads=T, blocks=1, where=lambda x, y: (len(x) >= T, len(y) >= T))
    def k(x: ptr(const(int)), y: ptr(int), s: int):
        with each(thread, y) as t:
            if 0 <= s < 32:
                y[t] = x[t >> s]

    assert k.prove(properties="bounds").verdict is Verdict.PROVED
