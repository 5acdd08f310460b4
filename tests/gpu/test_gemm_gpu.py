"""`snap.lib.gemm` on a Hopper GPU, against float64: random shapes, all layouts, strides, the epilogue.

The error allowed is half a unit in the last place of the result's type, at the value itself, plus what sums of K products in f32 may lose.
"""

from __future__ import annotations

import itertools
import sys

import pytest
import torch

import snap
from snap.lib._gemm.choice import By, Plan, Product
from snap.lib._gemm.gemm import planned

pytestmark = pytest.mark.skipif(torch.cuda.get_device_capability() != (9, 0), reason="wgmma is Hopper's (sm_90a)")

HALF_UNIT = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float32: 2.0**-22}
LAYOUTS = list(itertools.product("nt", "nt"))
ACTIVATIONS = {None: lambda x: x, "relu": torch.relu, "gelu": torch.nn.functional.gelu, "silu": torch.nn.functional.silu}


def matrix(rows: int, columns: int, layout: str, dtype, random) -> torch.Tensor:
    drawn = torch.randn((columns, rows) if layout == "t" else (rows, columns), device="cuda", generator=random).to(dtype)
    return drawn.T if layout == "t" else drawn


def expect(result: torch.Tensor, a: torch.Tensor, b: torch.Tensor, bias=None, activation=None) -> None:
    exact = a.double() @ b.double()
    exact = ACTIVATIONS[activation](exact if bias is None else exact + bias.double())
    rounded = 4 * (a.double().abs() @ b.double().abs())
    cut = a.shape[1] / 16 * 2 * (a.double().square() @ b.double().square()).sqrt()  # sums so far, each time 16 products are added
    lost = 2.0**-23 * (rounded + cut) + 1e-6
    allowed = 1.05 * HALF_UNIT[result.dtype] * exact.abs() + lost
    assert result.shape == exact.shape
    assert ((result.double() - exact).abs() <= allowed).all(), (result.double() - exact).abs().max()


@pytest.mark.parametrize("layout", LAYOUTS, ids="".join)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_random_shapes(layout, dtype):
    random = torch.Generator(device="cuda").manual_seed(1)
    extents = torch.randint(1, 700, (12, 3), generator=torch.Generator().manual_seed(2)).tolist()
    rounded = [[-(-extent // 8) * 8 for extent in three] for three in extents]
    for m, n, k in [*extents, *rounded, [4096, 256, 64], [256, 4096, 1000], [1, 4096, 4096], [4096, 1, 128], [2, 3, 0], [1, 1, 1]]:
        a, b = matrix(m, k, layout[0], dtype, random), matrix(k, n, layout[1], dtype, random)
        expect(snap.lib.gemm(a, b), a, b)


def test_all_sizes_up_to_257():
    random = torch.Generator(device="cuda").manual_seed(3)
    for n in range(1, 258):
        a, b = matrix(n, n, "n", torch.bfloat16, random), matrix(n, n, "t", torch.bfloat16, random)
        expect(snap.lib.gemm(a, b), a, b)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("bias_type", [None, torch.bfloat16, torch.float32])
def test_bias_and_activation(activation, bias_type):
    random = torch.Generator(device="cuda").manual_seed(4)
    for m, n, k in ((300, 200, 100), (2048, 2000, 72)):
        a, b = matrix(m, k, "n", torch.bfloat16, random), matrix(k, n, "n", torch.bfloat16, random)
        bias = None if bias_type is None else torch.randn(n, device="cuda", generator=random).to(bias_type)
        expect(snap.lib.gemm(a, b, bias=bias, activation=activation), a, b, bias, activation)
        out = torch.full((m, n), torch.nan, device="cuda")
        expect(snap.lib.gemm(a, b, out=out, bias=bias, activation=activation), a, b, bias, activation)


def test_strides_and_addresses():
    random = torch.Generator(device="cuda").manual_seed(5)
    wide = matrix(300, 700, "n", torch.bfloat16, random)
    a, b = wide[:, 13:213], wide[::2, 3::2].T[:200]
    for left, right in ((a, b), (a[:, 3:], b[3:]), (a.contiguous(), b), (a, b.contiguous()), (wide[:200, :200], wide[:200, :200].T)):
        expect(snap.lib.gemm(left, right), left, right)
        for out in (torch.zeros(left.shape[0], 2 * right.shape[1] + 1, device="cuda").bfloat16()[:, 1::2], torch.zeros_like(left @ right).T.contiguous().T):
            assert snap.lib.gemm(left, right, out=out) is out
            expect(out, left, right)


def test_what_lies_beside_the_result_is_not_touched():
    random = torch.Generator(device="cuda").manual_seed(6)
    a, b = matrix(130, 72, "n", torch.bfloat16, random), matrix(72, 264, "n", torch.bfloat16, random)
    room = torch.full((132, 264), 7.0, device="cuda").bfloat16()
    snap.lib.gemm(a, b, out=room[1:131])
    expect(room[1:131], a, b)
    assert (room[0] == 7).all() and (room[131] == 7).all()


def test_large_and_many_in_a_row():
    random = torch.Generator(device="cuda").manual_seed(7)
    for m, n, k in ((4096, 4096, 4096), (8192, 1024, 16384), (1000, 5000, 3000)):
        a, b = matrix(m, k, "n", torch.bfloat16, random), matrix(k, n, "n", torch.bfloat16, random)
        results = [snap.lib.gemm(a, b) for _ in range(20)]
        expect(results[0], a, b)
        assert all(torch.equal(results[0], other) for other in results[1:])


@pytest.mark.parametrize("layout", LAYOUTS, ids="".join)
def test_tiles_that_are_divided_among_blocks(layout):
    """The last round is a few tiles, of many steps: all blocks share them, and the sums are the same each time."""
    random = torch.Generator(device="cuda").manual_seed(8)
    multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count
    for m, n, k in ((1040, 64 * multiprocessors + 16, 16384),):
        assert planned(Product(m, n, k, multiprocessors, along=layout[1] == "t"), a_turned=layout[0] == "t").divided
        a, b = matrix(m, k, layout[0], torch.bfloat16, random), matrix(k, n, layout[1], torch.bfloat16, random)
        bias = torch.randn(n, device="cuda", generator=random)
        results = [snap.lib.gemm(a, b, bias=bias, activation="silu", out=torch.empty(m, n, device="cuda")) for _ in range(10)]
        expect(results[0], a, b, bias, "silu")
        assert all(torch.equal(results[0], other) for other in results[1:])


@pytest.mark.parametrize("layout", LAYOUTS, ids="".join)
def test_rows_that_begin_in_the_middle_of_sectors(layout):
    """Clusters, a copy of B, or neither."""
    random = torch.Generator(device="cuda").manual_seed(9)
    kinds = set()
    for m, n, k in ((1000, 1000, 1000), (72, 1000, 520), (1000, 264, 200), (8, 8, 8), (3080, 3080, 1160), (5000, 5000, 5000)):
        plan = planned(Product(m, n, k, torch.cuda.get_device_properties(0).multi_processor_count, along=layout[1] == "t"), True, True, layout[0] == "t")
        kinds.add(plan.kind if plan.kind != By.TILES else plan.copied)
        a, b = matrix(m, k, layout[0], torch.float16, random), matrix(k, n, layout[1], torch.float16, random)
        bias = torch.randn(n, device="cuda", generator=random)
        results = [snap.lib.gemm(a, b, bias=bias, activation="gelu") for _ in range(4)]
        expect(results[0], a, b, bias, "gelu")
        assert all(torch.equal(results[0], other) for other in results[1:])
    assert {"pairs", "thin" if layout[0] == "n" else (False, False)} <= kinds


@pytest.mark.parametrize("layout", LAYOUTS, ids="".join)
def test_steps_that_are_divided_among_clusters(layout):
    random = torch.Generator(device="cuda").manual_seed(10)
    multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count
    slices = set()
    for m, n, k in ((64, 4096, 4096), (100, 2000, 3000), (512, 512, 8192), (256, 250, 9000), (100, 504, 2000), (512, 4096, 14336)):
        plan = planned(Product(m, n, k, multiprocessors, along=layout[1] == "t"), a_turned=layout[0] == "t")
        slices.add(plan.slices)
        a, b = matrix(m, k, layout[0], torch.bfloat16, random), matrix(k, n, layout[1], torch.bfloat16, random)
        bias = torch.randn(n, device="cuda", generator=random)
        results = [snap.lib.gemm(a, b, bias=bias, activation="silu", out=torch.empty(m, n, device="cuda")) for _ in range(10)]
        expect(results[0], a, b, bias, "silu")
        assert all(torch.equal(results[0], other) for other in results[1:])
    assert {2, 4, 8} <= slices


@pytest.mark.parametrize("layout", LAYOUTS, ids="".join)
def test_blocks_that_meet_anywhere(layout, monkeypatch):
    """Whatever the model thinks of it; on the default stream, where counters are used again, and on another one."""
    random = torch.Generator(device="cuda").manual_seed(12)
    for height, width, slices in ((128, 128, 4), (128, 192, 6), (128, 256, 8)):
        m, n, k = 250, 1000, 2104
        tiles = -(-m // height) * -(-n // width)
        plan = Plan(0.0, height, width, tiles * slices, By.SPLITS, slices=slices)
        monkeypatch.setattr(sys.modules["snap.lib._gemm.gemm"], "planned", lambda *sizes, plan=plan: plan)
        run = snap.lib.gemm.again()
        a, b = matrix(m, k, layout[0], torch.bfloat16, random), matrix(k, n, layout[1], torch.bfloat16, random)
        bias = torch.randn(n, device="cuda", generator=random)
        results = [run(a, b, bias=bias, activation="silu", out=torch.empty(m, n, device="cuda")) for _ in range(10)]
        torch.cuda.synchronize()
        with torch.cuda.stream(torch.cuda.Stream()):
            results += [run(a, b, bias=bias, activation="silu", out=torch.empty(m, n, device="cuda")) for _ in range(3)]
        torch.cuda.synchronize()
        expect(results[0], a, b, bias, "silu")
        assert all(torch.equal(results[0], other) for other in results[1:])


@pytest.mark.parametrize("layout", LAYOUTS, ids="".join)
def test_narrow_tiles_of_the_last_column(layout, monkeypatch):
    """Those that the model chooses, and some whatever it thinks."""
    random = torch.Generator(device="cuda").manual_seed(13)
    multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count
    choosing = sys.modules["snap.lib._gemm.gemm"].planned
    small = (Plan(0.0, 128, 256, 10, "pairs", team=2, narrow=192), Plan(0.0, 128, 224, 8, narrow=168), Plan(0.0, 64, 128, 14, "pairs", team=2, narrow=96))
    for (m, n, k), plan in (((5000, 5000, 520), None), ((4752, 6200, 264), None), ((1496, 600, 200), small[0]), ((1496, 600, 200), small[1]), ((1240, 344, 200), small[2])):
        plan = plan or choosing(Product(m, n, k, multiprocessors, along=layout[1] == "t"), True, True, layout[0] == "t")
        if not plan.narrow:
            continue
        monkeypatch.setattr(sys.modules["snap.lib._gemm.gemm"], "planned", lambda *sizes, plan=plan: plan)
        run = snap.lib.gemm.again()
        a, b = matrix(m, k, layout[0], torch.bfloat16, random), matrix(k, n, layout[1], torch.bfloat16, random)
        bias = torch.randn(n, device="cuda", generator=random)
        results = [run(a, b, bias=bias, activation="silu", out=torch.empty(m, n, device="cuda")) for _ in range(5)]
        expect(results[0], a, b, bias, "silu")
        assert all(torch.equal(results[0], other) for other in results[1:])
    assert choosing(Product(5000, 5000, 5000, 132, along=False), True, True).narrow == 192


@pytest.mark.parametrize("b_layout", ["n", "t"])
def test_few_rows(b_layout):
    random = torch.Generator(device="cuda").manual_seed(11)
    for (m, k), n in itertools.product(((1, 4096), (7, 520), (16, 14336), (32, 64), (17, 1000), (3, 8)), (8, 200, 4096, 20000)):
        a, b = matrix(m, k, "n", torch.bfloat16, random), matrix(k, n, b_layout, torch.bfloat16, random)
        bias = torch.randn(n, device="cuda", generator=random)
        results = [snap.lib.gemm(a, b, bias=bias, activation="gelu") for _ in range(4)]
        expect(results[0], a, b, bias, "gelu")
        assert all(torch.equal(results[0], other) for other in results[1:])


def test_the_gradient():
    a, b = (torch.randn(96, 96, device="cuda").bfloat16().requires_grad_() for _ in range(2))
    snap.lib.gemm(a, b).float().sum().backward()
    ones = torch.ones(96, 96, device="cuda").bfloat16()
    expect(a.grad, ones, b.detach().T)
    expect(b.grad, a.detach().T, ones)
