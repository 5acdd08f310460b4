"""Grids of several dimensions: what a launch makes of `k[m, n]`, on the fast path too.  tests/ok/grid_dimensions.py runs them."""

from __future__ import annotations

import numpy as np
import pytest

import snap
from snap import *
from snap.host.launch import launcher, plain
from snap.host.plan import generic as generics


@kernel(threads=32)
def two(out: ptr(int), n: int):
    with each(block, out, shape=...) as (i, j):
        with each(thread, out) as t:
            if t < n:
                out[t] = 1 + i + j


@kernel(threads=32, blocks=(2, 3))
def always(out: ptr(int, (6,))):
    with each(block, out, shape=...) as (i, j):
        with one(thread, out):
            out[i * 3 + j] = 10 * i + j


@kernel(threads=32, blocks=lambda M, N, T=2: (M // T, N // T))
def by_name(out: ptr(int, (M, N)), M: int, N: int):
    with each(block, shape=...) as (i, j):
        with one(thread, out):
            out[i, j] = 1


@kernel(threads=lambda T: T)
def generic(out: ptr(int), T: constexpr(int)):
    with each(block, out, shape=...) as (h, i, j):
        with one(thread, out):
            out[h * 4 + i * 2 + j] = T + h


class NotAnInteger:
    def __index__(self):
        return "2"


def zeros(*shape):
    return np.zeros(shape, np.int32)


@pytest.mark.parametrize("grid, match", [
    (6, "asks for the shape of its grid, which has 2 dimensions: `two[m, n](...)`; it is given 1"),
    ((2, 3, 1), "it is given 3"), ((6,), "it is given 1"), ((1, 2, 3, 4), "1, 2 or 3 dimensions, and `two[...]` is given 4"), ((), "is given 0"),
    ((2, -3), "extent 1 of the grid is -3; it cannot be negative"), ((True, 3), "extent 0 of the grid is an integer, not True"),
    ((2, 3.0), "extent 1 of the grid is an integer, not 3.0"), ((2, None), "not None"), ((2, NotAnInteger()), "extent 1 of the grid"),
    ((1 << 16, 1 << 15), "2147483648 blocks are more than a grid may have"), ([2, 3], "several dimensions are a tuple"), ("23", "is an integer"),
])
def test_wrong_grids_launch_nothing(grid, match):
    out = zeros(32)
    with pytest.raises(snap.LaunchError) as caught:
        two[grid](out, 32)
    assert match in str(caught.value)
    with pytest.raises(snap.LaunchError):
        two.launch(out, 32, blocks=grid)
    with pytest.raises(snap.LaunchError):
        two.races(out, 32, blocks=grid)
    assert not out.any()


def test_a_grid_without_blocks_launches_nothing():
    out = zeros(32)
    two[0, 5](out, 32)
    two[5, 0](out, 32)
    assert not out.any()


def test_arguments_are_the_users():
    out = zeros(32)
    two[1, 1](out, n=32)
    assert out.max() == 1
    for wrong in ((out,), (out, 32, 2)):
        with pytest.raises(snap.LaunchError, match=r"takes 2 arguments \(out, n\)"):
            two[1, 1](*wrong)
    with pytest.raises(snap.LaunchError, match="no parameter `grid_1`; it takes out, n"):
        two[1, 1](out, 32, grid_1=2)


def test_blocks_of_the_decorator():
    out = zeros(6)
    always(out)
    np.testing.assert_array_equal(out, [0, 1, 2, 10, 11, 12])
    grid = zeros(4, 6)
    by_name(grid, 4, N=6)
    assert grid[:2, :3].all() and grid.sum() == 6


def test_blocks_of_the_decorator_say_ceil_and_fail_as_launches():
    @kernel(threads=32, blocks=lambda n: ceil(n / 32))  # as in kernels, it needs no import
    def numbers(out: ptr(int), n: int):
        with each(thread, out) as i:
            if i < n:
                out[i] = i

    out = np.zeros(70, np.int32)
    numbers(out, 70)
    assert (out == np.arange(70)).all()
    with pytest.raises(snap.LaunchError, match="`blocks=` of its decorator failed: TypeError"):
        numbers(out, "70")
    with pytest.raises(snap.LaunchError, match="asks for `n`, which is not given"):
        numbers(out)
    with pytest.raises(snap.LaunchError, match=r"how many blocks\? Launch it as `two\[blocks\]"):
        two()


def test_generic_kernels():
    out = zeros(8)
    generic[2, 2, 2](out, 64)
    np.testing.assert_array_equal(out, [64] * 4 + [65] * 4)


def test_a_multiple_of_blocks_is_of_all_dimensions():
    @kernel
    @requires(grid[1], block[4], thread[32])
    def by_four(out: ptr(int)):
        with each(thread, out) as i:
            out[i] = i

    out = zeros(8 * 32)
    by_four[2, 4](out)
    assert out[-1] == 255
    with pytest.raises(snap.LaunchError, match="multiple of 4 blocks, but 6"):
        by_four[2, 3](out)


def test_what_is_looked_up_is_plain():
    assert plain(3) and plain((2, 3)) and not plain((True, 3)) and not plain((1.0, 3)) and not plain(True) and not plain([2, 3])


def test_the_fast_path_is_given_the_extents(monkeypatch):
    """`True` and 1.0 are the same key as 1: they must not find what (1, 3) left in the table."""
    calls = launcher(two._specialized({}))
    launched = []

    def make(number, slow, stream):
        return lambda *args: launched.append((number, args)) if len(args) == 3 else slow(args)

    monkeypatch.setattr(calls, "_maker", lambda kernel, bound: make)
    monkeypatch.setattr(calls, "_kernels", {0: None})
    monkeypatch.setattr(calls, "_ready", {})
    monkeypatch.setattr(calls, "at", type(calls.at)(calls))
    monkeypatch.setattr(two, "_at", calls.at)
    calls._prepare(None, (1, 3), 3, (3,), 0, "auto", None)
    two[1, 3]("x", 5)
    two[(1, 3)]("x", n=6)
    two.launch("x", 7, blocks=(1, 3))
    assert launched == [(3, ("x", 5, 3)), (3, ("x", 6, 3)), (3, ("x", 7, 3))]
    with pytest.raises(snap.LaunchError, match="is an integer, not True"):
        two[True, 3](zeros(32), 5)
    with pytest.raises(snap.LaunchError, match=r"takes 2 arguments \(out, n\), got 1"):
        two[1, 3](zeros(32))
    assert len(launched) == 3


def test_cuda_text_says_what_the_parameters_are():
    text = two.cuda()
    assert "int n, int grid_1)" in text and "grid of 2 dimensions, row by row; extents: grid_1" in text


@kernel(threads=32)
def plus(x: ptr(int), n: int, K: constexpr(int), TWICE: constexpr(bool) = False):
    with each(thread, x) as t:
        if t < n:
            x[t] = x[t] + (2 * K if TWICE else K)


def test_a_generic_kernel_repeated():
    """By position and by name; what was looked up for some values is not served for others, nor for arguments that do not fit."""
    x, want = np.zeros(32, np.int32), 0
    for _ in range(3):
        for args, keywords, more in (((2, True), {}, 4), ((), {"K": 2, "TWICE": True}, 4), ((), {"TWICE": True, "K": 2}, 4), ((2, False), {}, 2),
                                     ((2,), {}, 2), ((1,), {}, 1), ((), {"K": 1}, 1), ((True,), {}, 1), ((np.int32(5),), {}, 5)):
            plus[1](x, 32, *args, **keywords)
            want += more
            assert (x == want).all()
    for wrong in (lambda: plus[1](x, 32, 2, True, 1), lambda: plus[1](x, 32, 2, K=2, TWICE=True), lambda: plus[1](x, K=2, TWICE=True), lambda: plus[1](x, 32),
                  lambda: plus[1](x, 32, K=2, TWICE=True, n=3), lambda: plus[1](x, 32, K=[2], TWICE=True), lambda: plus[1](32, x, 2, True),
                  lambda: plus[True](x, 32, 2, True), lambda: plus[1.0](x, 32, 2, True), lambda: plus[1](x, 32, 2.5, True),
                  lambda: plus[1](x, 32, 2, True, K=2)):
        with pytest.raises((TypeError, snap.SnapError)):
            wrong()
    assert (x == want).all()


def test_a_specialization_that_was_launched_is_looked_up():
    """The whole way once for each choice of constexpr arguments; those are told apart by type, and what is left out is one of them."""
    ways, launched = [], []

    def table(values):
        return {4: lambda *args: launched.append((values, args))}

    call = generics.launches("k", 2, ["T", "_U"], {"_U": 7}, 4, lambda *args, **keywords: ways.append((args, keywords)), table)
    for _ in range(3):
        call("x", 5, 1)
        call("x", 6, T=1)
        call("x", 7, True)
        call("x", 8, _U=3, T=10**6)
        call("x", 9, int("1000000"), 3)
    assert ways == [(("x", 5, 1), {}), (("x", 7, True), {}), (("x", 8, 10**6, 3), {})]
    assert launched[:3] == [({"_U": 7, "T": 1}, ("x", 6)), ({"T": 10**6, "_U": 3}, ("x", 9)), ({"_U": 7, "T": 1}, ("x", 5))]
    assert [type(values["T"]) for values, _ in launched[4:6]] == [bool, int] and len(launched) == 12
    ways.clear()
    for args, keywords in ((("x",), {"T": 1}), (("x", 5, 1, 3, 9), {}), (("x",), {"n": 5, "T": 1}), (("x", 5), {"_U": 3}), (("x", 5, 1.0), {}), (("x", 5, [1]), {})):
        for _ in range(2):
            call(*args, **keywords)
            assert ways.pop() == (args, keywords)
    assert len(launched) == 12
