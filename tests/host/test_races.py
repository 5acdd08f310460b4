"""`k.races` and `seed=`, with the real machine."""

from __future__ import annotations

import numpy as np
import pytest

import snap
from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def racy(x: ptr(int) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(x, p=thread[1], f=lambda k: i + k) as mine:
            with group(thread[1]):
                mine[0] = mine[1] + n


@kernel
@requires(grid[1], block[1], thread[64])
def calm(x: ptr(int) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(x, p=thread[1], f=lambda k: i + k) as mine:
            with group(thread[1]):
                mine[0] = mine[0] + n


def test_a_race_is_found_once_and_the_arrays_are_left_alone():
    x = np.arange(200, dtype=np.int32)
    race, = racy.races(x, 1, blocks=2)
    assert race.object == "x" and {race.first.kind, race.second.kind} == {"read", "write"}
    assert race.first.span.line == race.second.span.line
    np.testing.assert_array_equal(x, np.arange(200))


def test_none_where_there_is_none():
    x = np.zeros(128, np.int32)
    assert calm.races(x, 1, blocks=2, seeds=[3, 4]) == []
    assert not x.any()
    calm.launch(x, 5, blocks=2, seed=3)
    assert (x == 5).all()


def test_arguments_are_checked():
    with pytest.raises(snap.LaunchError, match="takes i32"):
        calm.races(np.zeros(128), 1, blocks=2)
    with pytest.raises(snap.LaunchError, match="negative"):
        calm.races(np.zeros(128, np.int32), 1, blocks=-1)


COUNTED = """from snap import *
@kernel(threads=32)
def k(c: ptr(int), n: int):
    with each(block, c), one(thread, c):
        ticket = atomic.add(c, 0, 1, order="{order}")
        if ticket == n - 1:
            c[0] = 0
"""


@pytest.mark.parametrize("order, racy", [("acq_rel", False), ("seq_cst", False), ("release", True), ("acquire", True), ("relaxed", True)])
def test_an_atomic_that_releases_comes_before_what_acquires_it(order, racy):
    """The last one sets the counter back, plainly: all the others' atomics are over by then, the very ones that released included."""
    name = f"<counted {order}>"
    snap.register_source(name, COUNTED.format(order=order))
    space: dict = {}
    exec(compile(COUNTED.format(order=order), name, "exec"), space)
    assert bool(space["k"].races(np.zeros(1, np.int32), 3, blocks=3, seeds=6)) == racy
