"""Where roles lie in a block (check/core/placement.py)."""

from __future__ import annotations

import itertools
import random

import pytest

from snap._compiler.check.core.placement import placed


@pytest.mark.parametrize("sizes, order", [
    ((256, 128), (0, 1)),
    ((32, 96), (1, 0)),
    ((32, 32, 64), (0, 1, 2)),  # the order of the text stays where it is aligned
    ((3, 3), (0, 1)),
    ((128, 256), (1, 0)),
    ((32, 96, 256), (2, 0, 1)),
    ((256, 96, 32), (0, 2, 1)),
    ((1, 32, 1, 64), (3, 1, 0, 2)),  # of one size, in the order of the text
    ((96, 160), None),
    ((1,) * 500 + (2,), (*range(500), 500)),
])
def test_the_order_in_which_roles_lie(sizes, order):
    assert placed(sizes, 0) == order


def test_what_is_known_of_the_first_thread_counts():
    assert placed((64, 128), 64) is None and placed((128, 64), 128) == (0, 1) and placed((64, 128), 128) == (1, 0)


def test_an_order_is_found_exactly_where_there_is_one():
    draw = random.Random(5)
    for _ in range(300):
        sizes = tuple(draw.choice((1, 2, 3, 4, 6, 8, 12, 32, 96)) for _ in range(draw.randint(1, 6)))
        aligned = lambda order: all(start % sizes[k] == 0 for k, start in zip(order, itertools.accumulate((sizes[k] for k in order), initial=0)))
        order = placed(sizes, 0)
        if order is None:
            assert not any(map(aligned, itertools.permutations(range(len(sizes))))), sizes
        else:
            assert sorted(order) == list(range(len(sizes))) and aligned(order), (sizes, order)


def test_many_odd_roles_end():
    assert placed(tuple(range(2, 45)), 0) is None
    assert placed((2, 3, 7) * 200, 0) is None
