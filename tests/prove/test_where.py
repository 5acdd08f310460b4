"""`where=`: checked at every launch, with the condition that does not hold in the message."""

from __future__ import annotations

import numpy as np
import pytest

import snap
from snap import *
from snap.prove.verdict import Verdict

SIZE = 64


@kernel(threads=64, where=lambda n, x, blocks: (n % SIZE == 0, len(x) >= n, n == 64 * blocks))
def add_one(x: ptr(float), n: int):
    with each(thread, x) as i:
        x[i] += 1.0


@kernel
@requires(grid[1], block[1], thread[32], blocks=lambda n: -(-n // 32), where=lambda y: len(y) % 2 == 0)
def pairs(y: ptr(float2), n: int):
    with each(thread, y) as i:
        if i < n:
            y[i] = y[i] * 2.0


@kernel(threads=32, where=lambda rows, TILE, a: (rows % TILE == 0 and len(a) == rows))
def shaped(a: ptr(float, (rows, 32)), rows: int, TILE: constexpr(int)):
    with each(thread, a) as t:
        a[0, t] = 1.0


def test_a_launch_that_keeps_it_runs():
    x = np.zeros(128, np.float32)
    add_one[2](x, 128)
    assert (x == 1).all()
    y = np.ones(8, np.float32)
    pairs(y, 4)
    assert (y == 2).all()
    shaped[1](np.zeros((8, 32), np.float32), 8, 4)


@pytest.mark.parametrize(
    ("launch", "asks"),
    [
        (lambda: add_one[1](np.zeros(65, np.float32), 65), "`n % SIZE == 0`, and here x = 65 elements, n = 65, blocks = 1"),
        (lambda: add_one[2](np.zeros(64, np.float32), 128), "`len(x) >= n`"),
        (lambda: add_one[1](np.zeros((2, 64), np.float32), 128), "`n == 64 * blocks`"),
        (lambda: pairs[1](np.zeros(6, np.float32), 3), "`len(y) % 2 == 0`, and here y = 3 elements"),
        (lambda: shaped[1](np.zeros((9, 32), np.float32), 9, 4), "`rows % TILE == 0 and len(a) == rows`"),
    ],
)
def test_a_launch_that_does_not_is_refused(launch, asks):
    with pytest.raises(snap.LaunchError) as caught:
        launch()
    assert f"its `where=` asks for {asks}" in str(caught.value)


@kernel(threads=32, blocks=1, where=lambda x: len(x) >= 32)
def once(x: ptr(int)):
    with each(block, x), each(thread, x) as t:
        x[t] = 1


@kernel(threads=32, blocks=2, where=lambda x, by: (len(x) >= 64, 0 <= by <= 32))
def twice(x: ptr(int), by: int):
    with each(block, x) as b, each(thread, x) as t:
        x[t + by * b] = 1


@kernel(threads=32, blocks=(2, 3))
def of_a_grid(out: ptr(int, (6,))):
    with each(block, out, shape=...) as (i, j), one(thread, out):
        out[i * 3 + j] = 10 * i + j


@kernel(threads=32, blocks=lambda n: 1, where=lambda x: len(x) >= 32)
def by_a_function(x: ptr(int), n: int):
    with each(block, x), each(thread, x) as t:
        x[t] = 1


@pytest.mark.parametrize(
    ("k", "verdict"),
    [(once, "proved"), (twice, "refuted"), (of_a_grid, "proved"), (by_a_function, "refuted")],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_a_number_of_blocks_in_the_decorator_is_known_to_proofs(k, verdict):
    """And none that a function computes: a launch may have another one."""
    found = k.prove(["races"])
    assert found.verdict == verdict, found.render()
    assert any("`blocks=" in text for text in found.assumed) == (k is not by_a_function)


@pytest.mark.parametrize(
    "launch",
    [
        lambda: once[2](np.zeros(64, np.int32)),
        lambda: of_a_grid[3, 2](np.zeros(6, np.int32)),
        lambda: once.races(np.zeros(64, np.int32), blocks=2),
    ],
)
def test_a_launch_with_another_number_is_refused(launch):
    with pytest.raises(
        snap.LaunchError, match="its decorator says `blocks=.*, and this launch has (2 blocks|a grid of another shape)"
    ):
        launch()


def test_a_launch_with_the_number_of_the_decorator_runs():
    x, out = np.zeros(32, np.int32), np.zeros(6, np.int32)
    once(x), once[1](x), of_a_grid(out), of_a_grid[2, 3](out)
    once[0](x)  # runs nothing
    assert (x == 1).all() and out.tolist() == [0, 1, 2, 10, 11, 12]


@pytest.mark.parametrize("where", [lambda x, n: (len(x) == n, len(x) >= n + 9), lambda x, n: (n % 2 == 0, n % 4 == 1), lambda x, n, blocks: (n == 3, blocks * 2 == n)])
def test_conditions_that_contradict_each_other_prove_nothing(where):
    @kernel(threads=32, where=where)
    def k(x: ptr(int), n: int):
        with each(thread, x) as i:
            x[n + i] = 1

    found = k.prove(["races"])
    assert found.verdict is Verdict.UNKNOWN and found.open[0].what == "some launch keeps `where=`", found.render()


def test_races_keep_it_too():
    with pytest.raises(snap.LaunchError, match="asks for"):
        add_one.races(np.zeros(65, np.float32), 65, blocks=1)


def test_a_condition_that_fails():
    @kernel(threads=32, where=lambda n: 32 % n == 0)
    def k(n: int):
        pass

    with pytest.raises(snap.LaunchError, match="its `where=` fails for these arguments: ZeroDivisionError"):
        k[1](0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"where": lambda m: m > 0}, "`where` asks for `m`, and the kernel has no parameter of that name"),
        ({"where": 3}, "`where` is a function of the arguments by name, not 3"),
    ],
)
def test_refused_when_it_is_defined(options, message):
    with pytest.raises(snap.SnapError) as caught:

        @kernel(threads=32, **options)
        def k(n: int):
            pass

    assert message in str(caught.value)


def test_a_device_function_is_proved_with_its_callers():
    with pytest.raises(snap.SnapError, match="`proved=` is for kernels"):

        @device
        @requires(thread[1], where=lambda n: n > 0, proved=True)
        def f(n: int @ thread[1]):
            pass


def test_a_kernel_promises_nothing():
    with pytest.raises(snap.SnapError, match="`ensures=` is for device functions"):

        @kernel
        @requires(grid[1], block[1], thread[1], ensures=lambda n: n > 0)
        def f(n: int):
            pass


@kernel(threads=32, where=lambda x, n, blocks: (n in (1, 2), blocks == 1, len(x) >= 32 * n))
def one_of(x: ptr(int), n: int):
    with each(thread, x) as i:
        x[i * n] = 1


@kernel(threads=32, where=lambda x, n, blocks, m=2: (n not in range(3, 9), m >= n >= 1, blocks == 1, len(x) >= 32 * n, f"{n}" != ""))
def and_what_is_no_integer(x: ptr(int), n: int):
    with each(thread, x) as i:
        x[i * n] = 1


@pytest.mark.parametrize("k", [one_of, and_what_is_no_integer])
def test_python_that_snap_has_no_words_for(k):
    assert k.prove(["bounds"]).verdict is Verdict.PROVED
    with pytest.raises(snap.LaunchError, match="its `where=` asks for `n (not )?in "):
        k[1](np.zeros(160, np.int32), 5)


def test_the_generated_launch_asks_too():
    from snap.host.launch import launcher
    from snap.host.plan.conditions import Conditions

    calls = launcher(add_one._the_one({}))
    assert "where(blocks, n0 // 4, a1)" in " ".join(Conditions(calls.signature, calls.where).held())
    assert calls.where.quick(2, 128, 128) and not calls.where.quick(2, 100, 128)


@kernel(threads=32, where=lambda x, blocks: [len(x) >= 32, blocks == 1])
def listed(x: ptr(int)):
    with each(thread, x) as i:
        x[i] = 1


def test_a_list_of_conditions_is_checked():
    assert listed.prove(["bounds"]).verdict is Verdict.PROVED
    with pytest.raises(snap.LaunchError, match="len"):
        listed[1](np.zeros(3, np.int32))


def test_names_are_what_they_were_when_it_was_defined():
    found = []
    for least in (32, 0):

        @kernel(threads=32, where=lambda x, blocks: (len(x) >= least, blocks == 1))
        def filled(x: ptr(int)):
            with each(thread, x) as i:
                x[i] = 1

        found.append(filled)
    assert found[0].prove(["bounds"]).verdict is Verdict.PROVED
    with pytest.raises(snap.LaunchError, match="len"):
        found[0][1](np.zeros(3, np.int32))


@kernel(threads=32, where=lambda x, n, blocks: ((n and 2) * len(x) >= 64, blocks == 1))
def one_of_two(x: ptr(int), n: int):
    """`n and 2` is 2, not True."""
    with each(thread, x) as i:
        x[i + 30] = 1


def max(a, b):
    return a


@kernel(threads=32, where=lambda x, n, blocks: (len(x) >= max(n, 32), blocks == 1))
def by_another_max(x: ptr(int), n: int):
    with each(thread, x) as i:
        x[i] = 1


@pytest.mark.parametrize("k", [one_of_two, by_another_max], ids=lambda k: k.__name__)
def test_as_python_means_it(k):
    assert k.prove(["bounds"]).verdict is not Verdict.PROVED


@kernel(threads=32, where=lambda x, n, m, blocks: (n % m == 0, len(x) >= n, blocks == 1))
def divided(x: ptr(int), n: int, m: int):
    with each(thread, x) as i:
        if i < n / m:
            for j in range(m):
                x[i * m + j] = 1


def test_a_divisor_that_may_be_negative_is_named_alone():
    found = divided.prove(["bounds"])
    assert found.verdict is Verdict.UNKNOWN
    told = found.render()
    assert told.count("error[") == 1 and "not shown: `m`, by which `where=` divides, is positive" in told
    assert "add `m >= 1` to `where=`" in told and "3 more are open, and may follow from that" in told


@kernel(threads=32, where=lambda x, n, m, blocks: (m >= 1, n % m == 0, len(x) >= n, blocks == 1))
def divided_by_a_positive_number(x: ptr(int), n: int, m: int):
    with each(thread, x) as i:
        if i < n / m:
            for j in range(m):
                x[i * m + j] = 1


@kernel(threads=32, where=lambda x, m, blocks: (m >= 0, 8 % m == 0, len(x) >= m, blocks == 1))
def never_by_zero(x: ptr(int), m: int):
    """A launch with m = 0 is refused: Python does not divide by it."""
    with one(block, x):
        with one(thread, x):
            x[m - 1] = 1


@kernel(threads=32, where=lambda x, n, m, blocks: (m >= 0, n == 1 or 8 % m == 0, len(x) >= m, blocks == 1))
def perhaps_by_zero(x: ptr(int), n: int, m: int):
    """With n = 1 nothing is divided."""
    with one(block, x):
        with one(thread, x):
            x[m - 1] = 1


def test_who_divides_has_a_divisor():
    assert divided_by_a_positive_number.prove(["bounds"]).verdict is Verdict.PROVED
    assert never_by_zero.prove(["bounds"]).verdict is Verdict.PROVED
    assert perhaps_by_zero.prove(["bounds"]).verdict is Verdict.REFUTED
