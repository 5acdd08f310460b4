"""`snap.lib.sgemm`, its ladder and `snap.lib.gemm_tf32` on a GPU, against float64: all sizes to 257, random shapes, layouts, slices of K.

Allowed is what sums of K products in f32 may lose; for tf32 also what is lost where 13 bits of each factor are cut off.
"""

from __future__ import annotations

import sys

import pytest
import torch

import snap
from snap.lib._gemm.choice import Plan
from snap.lib._gemm.sgemm import LARGE, SMALL, STAGES, TILES, warp_tiled
from snap.lib._gemm.sgemm_ladder import blocked, blocks_of_elements, blocks_of_tiles, coalesced, naive, vectorized

HOPPER = pytest.mark.skipif(torch.cuda.get_device_capability() != (9, 0), reason="wgmma is Hopper's (sm_90a)")
PRODUCTS = [pytest.param("sgemm", 2.0**-23, id="sgemm"), pytest.param("gemm_tf32", 2.0**-9, id="gemm_tf32", marks=HOPPER)]


def matrix(rows: int, columns: int, random, turned: bool = False) -> torch.Tensor:
    return torch.randn((columns, rows), device="cuda", generator=random).T if turned else torch.randn((rows, columns), device="cuda", generator=random)


def expect(result: torch.Tensor, a: torch.Tensor, b: torch.Tensor, lost: float) -> None:
    exact = a.double() @ b.double()
    allowed = (lost + 2.0**-21) * (a.double().abs() @ b.double().abs()) + 1e-30
    assert result.shape == exact.shape and result.is_contiguous()
    assert ((result.double() - exact).abs() <= allowed).all(), (result.double() - exact).abs().max()


@pytest.mark.parametrize(("name", "lost"), PRODUCTS)
def test_all_sizes_to_257(name, lost):
    random = torch.Generator(device="cuda").manual_seed(1)
    for n in range(1, 258):
        a, b = matrix(n, n, random), matrix(n, n, random, turned=n % 2 == 0)
        expect(getattr(snap.lib, name)(a, b), a, b, lost)


@pytest.mark.parametrize(("name", "lost"), PRODUCTS)
def test_random_shapes(name, lost):
    random = torch.Generator(device="cuda").manual_seed(2)
    shapes = torch.randint(1, 900, (20, 3), generator=torch.Generator().manual_seed(3)).tolist()
    for m, n, k in [*shapes, [1, 4096, 300], [4096, 1, 128], [3000, 2500, 36], [2, 3, 0], [64, 64, 20000]]:
        for turned in ((False, False), (True, False), (False, True), (True, True)):
            a, b = matrix(m, k, random, turned[0]), matrix(k, n, random, turned[1])
            expect(getattr(snap.lib, name)(a, b), a, b, lost)


@HOPPER
@pytest.mark.parametrize("turned", [True, False])
@pytest.mark.parametrize("m", [64, 128, 200, 512])
def test_slices_of_a_long_k(m, turned):
    random = torch.Generator(device="cuda").manual_seed(4)
    a, b = matrix(m, 65536, random), matrix(65536, m, random, turned=turned)
    expect(snap.lib.gemm_tf32(a, b), a, b, 2.0**-9)


@pytest.mark.parametrize("tile", TILES, ids=str)
def test_every_tile_in_slices(tile, monkeypatch):
    random = torch.Generator(device="cuda").manual_seed(8)
    for (m, n, k), whole, slices in (((300, 264, 136), 1, 2), ((300, 263, 331), 2, 5), ((129, 1000, 2049), 0, 31)):
        monkeypatch.setattr(sys.modules["snap.lib._gemm.sgemm"], "planned", lambda *_, plan=Plan(0.0, *tile, 0, slices=slices, whole=whole): plan)
        a, b = matrix(m, k, random), matrix(k, n, random)
        expect(snap.lib.sgemm(a, b, alpha=-0.25) * -4, a, b, 2.0**-23)


@pytest.mark.parametrize("shape", [(512, 512, 512), (128, 4096, 4096), (16, 4096, 4099), (3000, 3001, 333), (64, 64, 65536), (4096, 130, 1000)], ids=str)
def test_slices_give_the_same_bits_again(shape):
    random = torch.Generator(device="cuda").manual_seed(7)
    m, n, k = shape
    a, b = matrix(m, k, random), matrix(k, n, random)
    first = snap.lib.sgemm(a, b)
    expect(first, a, b, 2.0**-23)
    for _ in range(5):
        assert torch.equal(snap.lib.sgemm(a, b), first)


def test_sgemm_scales():
    random = torch.Generator(device="cuda").manual_seed(5)
    a, b = matrix(130, 70, random), matrix(70, 90, random)
    expect(snap.lib.sgemm(a, b, alpha=-0.25) * -4, a, b, 2.0**-23)


def tiles(rows: int, columns: int):
    return lambda m, n: blocks_of_tiles(m, n, rows, columns)


UNCUT = (1.0, torch.empty(0, device="cuda"), 0, 1)  # alpha, and no slices of K
RUNGS = {
    "naive": (naive, blocks_of_elements, ()),
    "coalesced": (coalesced, blocks_of_elements, ()),
    "blocked": (blocked, tiles(128, 128), ()),
    "vectorized": (vectorized, tiles(128, 128), ()),
    "vectorized by ones": (lambda: vectorized(1), tiles(128, 128), ()),
    "warp-tiled": (lambda: warp_tiled(*LARGE, STAGES, 4), tiles(*LARGE[:2]), UNCUT),
    "warp-tiled by ones": (lambda: warp_tiled(*LARGE, STAGES, 1), tiles(*LARGE[:2]), UNCUT),
    "warp-tiled, small": (lambda: warp_tiled(*SMALL, STAGES, 4), tiles(*SMALL[:2]), UNCUT),
}


@pytest.mark.parametrize("name", RUNGS)
def test_rungs(name):
    make, blocks, rest = RUNGS[name]
    random = torch.Generator(device="cuda").manual_seed(6)
    for m, n, k in ((128, 256, 16), (520, 388, 204), (1024, 1024, 1024), (4, 4, 4)):
        a, b = matrix(m, k, random), matrix(k, n, random)
        c = torch.full((m, n), 7.0, device="cuda")
        make()[blocks(m, n)](a, b, c, m, n, k, *rest)
        expect(c, a, b, 2.0**-23)
