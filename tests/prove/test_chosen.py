"""Iterations that a read names: they came only if the loop goes as far (prove/properties/init.py)."""

from __future__ import annotations

import numpy as np
import pytest

import snap
from snap import *
from snap.prove.verdict import Verdict

T = 32
FEW = lambda blocks, n, x: (len(x) >= T, blocks == 1, 0 <= n < 8)  # noqa: E731
PRODUCT = lambda blocks, m, n, x: (len(x) >= T, blocks == 1, 0 <= n < 4, 0 <= m < 4)  # noqa: E731


@kernel(threads=T, where=FEW)
def beyond_the_last(x: ptr(int), n: int):
    with each(block, x):
        s: shared(int[T, 8])
        with each(thread, s) as t:
            for k in range(4):
                s[t, k] = 1
        with each(thread, s, x) as t:
            x[t] = s[t, n]


@kernel(threads=T, where=PRODUCT)
def beyond_by_a_product(x: ptr(int), n: int, m: int):
    with each(block, x):
        s: shared(int[T, 12])
        with each(thread, s, x) as t:
            for k in range(4):
                s[t, k] = 1
            x[t] = s[t, n * m]


@kernel(threads=T, where=FEW)
def before_the_first(x: ptr(int), n: int):
    with each(block, x):
        s: shared(int[T, 8])
        with each(thread, s, x) as t:
            for k in range(3, 8):
                s[t, k] = 1
            x[t] = s[t, n]


@kernel(threads=T, where=PRODUCT)
def as_far_as_it_goes(x: ptr(int), n: int, m: int):
    with each(block, x):
        s: shared(int[T, 12])
        with each(thread, s, x) as t:
            for k in range(10):
                s[t, k] = 1
            x[t] = s[t, n * m]


@pytest.mark.parametrize(
    "k, numbers",
    [(beyond_the_last, (7,)), (beyond_by_a_product, (3, 2)), (before_the_first, (2,))],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_an_iteration_that_never_comes_has_written_nothing(k, numbers):
    with pytest.raises(snap.MachineError) as error:
        k[1](np.zeros(T, np.int32), *numbers)
    assert error.value.kind == "uninitialized"
    assert k.prove(["init"]).verdict is Verdict.REFUTED


def test_an_iteration_that_comes_has():
    found = as_far_as_it_goes.prove(["init"])
    assert found.verdict is Verdict.PROVED, found.render()


@kernel(threads=T, where=FEW)
def bits_of_nothing(x: ptr(int), n: int):
    with each(thread, x) as t:
        total: int = 0
        for k in range(3):
            total += k & -4
        x[t + total] = n


def test_numbers_have_bits_whatever_their_sign():
    assert bits_of_nothing.prove().verdict is Verdict.PROVED
