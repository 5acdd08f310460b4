"""Products whose last column of tiles is narrow: every tile is one team's, in every layout, with bias and activation, at random, and when it pays."""

from __future__ import annotations

import importlib
import itertools

import numpy as np
import pytest

from snap._compiler.ir.types import BF16, F32
from snap.host.errors import LaunchError
from snap.lib import gemm
from snap.lib._gemm.choice import Plan, Product, narrow_edges
from snap.lib._gemm.edges import counting_on, edges_kernel
from snap.lib._gemm.gemm import planned

from .test_gemm import LAYOUTS, matrix, unpacked

module = importlib.import_module("snap.lib._gemm.gemm")


def launched(kernel, blocks: int, A, B, C, turned=(False, False), races=False, **how):
    (m, k), n = A.shape, B.shape[1]
    A, B = (np.ascontiguousarray(x.T) if flip else x for x, flip in zip((A, B), turned))
    arguments = (A, B, C, A, *A.shape, *B.shape, n, m, n, k, np.zeros(1, np.float32), np.zeros(1, np.int32))
    return kernel.races(*arguments, blocks=blocks, seeds=1) if races else kernel.launch(*arguments, blocks=blocks, **how)


# 3 x 3 tiles for 4 teams: one has a third tile.  5 x 2 for 4: two have a third, and of these one has three narrow ones.  4 x 3 for 5: two have a
# third, and all four narrow ones.
@pytest.mark.parametrize("m, n, team, blocks", [(184, 160, 1, 4), (296, 72, 1, 4), (248, 176, 1, 5), (376, 160, 2, 8)], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS, ids="".join)
def test_every_tile_is_one_teams(m, n, team, blocks, layout):
    turned = tuple(each == "t" for each in layout)
    assert narrow_edges(-(-m // (64 * team)), -(-n // 64), blocks // team, n, 64, 48)
    (a, A), (b, B), C = matrix(m, 136, 1), matrix(136, n, 2), np.full((m, n), np.nan, np.float32)
    launched(edges_kernel(BF16, F32, *turned, 64, 64, 2, TEAM=team, NARROW=48), blocks, A, B, C, turned)
    np.testing.assert_array_equal(C, a @ b)


def test_a_schedule_at_random_finds_no_race():
    (a, A), (b, B), C = matrix(190, 72, 3), matrix(72, 160, 4), np.zeros((190, 160), np.uint16)
    kernel = edges_kernel(BF16, BF16, False, False, 64, 64, 2, TEAM=1, NARROW=32)
    assert not launched(kernel, 4, A, B, C, races=True)
    launched(kernel, 4, A, B, C, seed=5)
    np.testing.assert_array_equal(unpacked(C), a @ b)


@pytest.mark.parametrize("layout", LAYOUTS, ids="".join)
def test_with_bias_and_activation(layout, monkeypatch):
    monkeypatch.setattr(module, "planned", lambda *shape: Plan(0, 64, 64, 4, narrow=48))
    (a, A), (b, B) = matrix(190, 200, 16, layout[0], "f16"), matrix(200, 160, 17, layout[1], "f16")
    bias = np.arange(160, dtype=np.float32) - 50
    np.testing.assert_array_equal(gemm(A, B, bias=bias, activation="relu"), np.maximum(a @ b + bias, 0))


# Numbers of teams for which tiles would be left over, or narrow ones would be cut.
@pytest.mark.parametrize("m, n, blocks", [(190, 160, 3), (190, 180, 4), (320, 160, 14)], ids=str)
def test_launches_that_would_leave_tiles_out_are_refused(m, n, blocks):
    (_, A), (_, B), C = matrix(m, 64, 3), matrix(64, n, 4), np.zeros((m, n), np.uint16)
    with pytest.raises(LaunchError, match="where"):
        launched(edges_kernel(BF16, BF16, False, False, 64, 64, 2, TEAM=1, NARROW=48), blocks, A, B, C)


def dealt(down: int, across: int, teams: int) -> list[tuple[int, int]]:
    """Which tiles there are, by the kernel's formulas, but in bands of one tile's height."""
    rounds, extra = divmod(down * across, teams)
    found = []
    for team in range(teams):
        for turn in range(rounds + (team < extra)):
            number = turn * extra + team
            if team < extra and number < down:
                found.append((number, across - 1))
            else:
                t = (teams - extra) * rounds + number - down if team < extra else turn * (teams - extra) + team - extra
                found.append(divmod(t, across - 1))
    return found


def test_all_numbers_of_tiles_and_teams():
    counts = [(d, a, t) for d in range(1, 9) for a in range(2, 8) for t in range(1, 14) if narrow_edges(d, a, t, a * 64 - 20, 64, 48)]
    assert len(counts) > 200
    for down, across, teams in counts:
        assert sorted(dealt(down, across, teams)) == [(i, j) for i in range(down) for j in range(across)], (down, across, teams)


def test_when_narrow_tiles_can_be_dealt():
    assert narrow_edges(3, 3, 4, 160, 64, 48) and narrow_edges(3, 3, 4, 176, 64, 48)
    assert not narrow_edges(3, 3, 4, 177, 64, 48)  # a column more than narrow tiles have
    assert not narrow_edges(3, 3, 3, 160, 64, 48)  # nobody has a tile more
    assert not narrow_edges(5, 3, 14, 160, 64, 48)  # one team has two tiles, and there are five narrow ones
    assert not narrow_edges(9, 1, 4, 40, 64, 48)  # there is no other column


@pytest.mark.parametrize("multiprocessors", [1, 8, 108, 132])
def test_plans_with_narrow_tiles_keep_what_the_kernel_counts_on(multiprocessors):
    """Also of products that take as many steps as the kernel counts, and more: 103952^3 is 60 GiB of bf16."""
    random = np.random.default_rng(7)
    drawn = [tuple(int(2 ** random.uniform(6, 17.3)) // 8 * 8 for _ in range(3)) for _ in range(400)]
    found = 0
    for (m, n, k), along, uneven in itertools.product([*drawn, (103952,) * 3, (98312,) * 3, (129408, 99088, 88680)], (False, True), (False, True)):
        plan = planned(Product(m, n, k, multiprocessors, along=along), uneven, uneven)
        if plan.narrow:
            found += 1
            kept = counting_on(plan.height, plan.width, 64, plan.team, plan.narrow, False)
            assert all(kept(None, m, n, k, n, plan.blocks)), (m, n, k, plan)
    assert found > (10 if multiprocessors > 1 else -1)


def test_several_matrices_have_no_narrow_tiles():
    many = importlib.import_module("snap.lib._gemm.many")
    assert many.planned(Product(1936, 5504, 8352, 132, 2.1, 2.1, True, 1)).narrow == 0


def test_when_it_pays():
    plan = planned(Product(5000, 5000, 5000, 132, along=False), True, True)
    assert (plan.height, plan.width, plan.team, plan.blocks, plan.narrow) == (128, 256, 2, 132, 192)
    assert not any(planned(Product(n, n, n, 132)).narrow for n in (1024, 2048, 4096, 8192))  # whole tiles
    assert not planned(Product(1000, 1000, 1000, 132), True, True).narrow  # a single round
