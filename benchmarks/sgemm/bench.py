"""A product of f32 matrices without tensor cores: the library's, and the ladder that leads to it, rung by rung."""

from __future__ import annotations

import torch
from harness import Benchmark

import snap
from snap.lib._gemm.sgemm_ladder import blocked, blocks_of_elements, blocks_of_tiles, coalesced, naive, vectorized


def inputs(size, random):
    m, n, k = size
    return torch.randn((m, k), device="cuda", generator=random), torch.randn((k, n), device="cuda", generator=random)


def cublas(a, b):
    torch.backends.cuda.matmul.allow_tf32 = False
    return a @ b


def product(a, b):
    """In float64, rows at a time: the whole of a large result would not fit beside it."""
    wide = b.double()
    return torch.cat([(part.double() @ wide).float() for part in a.split(2048)])


def rung(kernel, blocks):
    def run(a, b):
        (m, k), n = a.shape, b.shape[1]
        c = a.new_empty((m, n))
        kernel[blocks(m, n)](a, b, c, m, n, k)
        return c

    return run


def tiles(rows: int, columns: int):
    return lambda m, n: blocks_of_tiles(m, n, rows, columns)


SHARED = {
    "inputs": inputs,
    "baselines": {"cuBLAS": cublas},
    "reference": product,
    "tolerance": 1e-5,
    "bytes": lambda size: 4 * (size[0] * size[2] + size[2] * size[1] + size[0] * size[1]),
    "flops": lambda size: 2 * size[0] * size[1] * size[2],
    "rate": "flops",
    "must": 0.95,
    "aim": 1.0,
    "label": lambda size: " x ".join(map(str, size)),
}
BENCHMARKS = [
    Benchmark(
        name="sgemm",
        sizes=[(4096, 4096, 4096), (8192, 8192, 8192), (2048, 2048, 2048), (1024, 1024, 1024), (4095, 4093, 4097), (3000, 3000, 3000),
               (512, 512, 512), (128, 4096, 4096), (16, 4096, 4096), (256, 256, 65536)],
        ours={"snap": lambda a, b: snap.lib.sgemm(a, b)},
        promised=2,
        **SHARED,
    ),
    Benchmark(
        name="sgemm-ladder",
        sizes=[(4096, 4096, 4096)],
        ours={
            "1 naive": rung(naive(), blocks_of_elements),
            "2 coalesced": rung(coalesced(), blocks_of_elements),
            "3 blocked": rung(blocked(), tiles(128, 128)),
            "4 vectorised": rung(vectorized(), tiles(128, 128)),
            "5 warp-tiled": lambda a, b: snap.lib.sgemm(a, b),
        },
        **SHARED,
    ),
]
