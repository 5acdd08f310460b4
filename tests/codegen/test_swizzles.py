"""The index of an element in a swizzled object, taken apart."""

from __future__ import annotations

import numpy as np
import pytest

from snap import *
from snap._compiler.codegen.core import tree
from snap._compiler.codegen.memory.swizzles import parts

PERIOD = 256


def value(e: tree.Expr, names: dict[str, int]) -> int:
    match e:
        case tree.Integer(n, ""):
            return n
        case tree.Name(name):
            return names[name]
        case tree.Binary("+", a, b):
            return value(a, names) + value(b, names)
        case tree.Binary("*", a, b):
            return value(a, names) * value(b, names)
    raise AssertionError(e)


def placed(index: int) -> int:
    """Four elements in a chunk, eight chunks in a row; bits of a number that may be negative."""
    return index ^ ((index & 0xFFFFFFFF) // 32 % 8 * 4)


def plus(*terms: tree.Expr) -> tree.Expr:
    total = terms[0]
    for term in terms[1:]:
        total = tree.Binary("+", total, term)
    return total


def times(e: tree.Expr, n: int) -> tree.Expr:
    return tree.Binary("*", e, tree.Integer(n))


SLOT, ROW, COLUMN = tree.Name("slot"), tree.Name("row"), tree.Name("column")


@pytest.mark.parametrize("index", [
    plus(times(plus(times(SLOT, 64), ROW), 32), COLUMN),
    plus(times(plus(times(SLOT, 8), tree.Integer(-4), ROW), 32), COLUMN, tree.Integer(4)),
    plus(times(plus(times(SLOT, 12), ROW), 32), COLUMN),
    times(SLOT, 512), COLUMN, tree.Integer(700),
])
def test_sums_and_places_are_kept(index):
    outside, inside = parts(index, PERIOD)
    random = np.random.default_rng(0)
    for _ in range(50):
        names = {"slot": int(random.integers(0, 5)), "row": int(random.integers(0, 64)), "column": int(random.integers(0, 32))}
        assert value(outside, names) % PERIOD == 0
        assert value(outside, names) + value(inside, names) == value(index, names)
        assert value(outside, names) + placed(value(inside, names)) == placed(value(index, names))


def test_what_moves_by_whole_patterns_stays_outside():
    outside, inside = parts(plus(times(plus(times(SLOT, 64), ROW), 32), COLUMN), PERIOD)
    assert (outside, inside) == (times(SLOT, 2048), plus(times(ROW, 32), COLUMN))


def test_in_a_kernel():
    @kernel
    @requires(grid[1], block[1], thread[32])
    def turned(x: ptr(const(float), (64, 32)) @ grid[1], out: ptr(float) @ grid[1]):
        with group(grid[1]):
            with partition(out, p=block[1], f=lambda i: i) as out_block:
                with group(block[1]):
                    s: shared(float[64, 32], swizzle=128)
                    t: int @ thread[1] = id()
                    async_copy(s, x, at=(0, 0))
                    with partition(out_block, p=thread[1], f=lambda k: 64 * t + k) as mine:
                        for k in range(8):
                            for c in range(8):
                                mine[8 * k + c] = s[8 * k + c, t]

    assert "s[k * 256 + snap_place_128<4>(c * 32 + t)]" in turned.cuda()
    x, out = np.arange(2048, dtype=np.float32).reshape(64, 32), np.zeros(2048, np.float32)
    turned[1](x, out)
    np.testing.assert_array_equal(out.reshape(32, 64), x.T)
