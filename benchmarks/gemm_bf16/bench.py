"""A product of two matrices of bf16, sums in f32: row-major operands, all four layouts at one size, and layers of language models (x @ w.T)."""

from __future__ import annotations

import torch
from harness import Benchmark

import snap
from snap.lib._gemm.hopper import hopper_gemm


def inputs(size, random):
    """Size: (M, N, K, layout); a "t" is an operand that lies transposed."""
    m, n, k, layout = size

    def matrix(rows: int, columns: int, turned: bool):
        drawn = torch.randn((columns, rows) if turned else (rows, columns), device="cuda", generator=random).bfloat16()
        return drawn.T if turned else drawn

    return matrix(m, k, layout[0] == "t"), matrix(k, n, layout[1] == "t")


def product(a, b):
    """In float64, rows at a time: the whole of a large result would not fit beside it."""
    wide = b.double()
    return torch.cat([(part.double() @ wide).float() for part in a.split(2048)])


def plain(a, b):
    """The kernel to read first, one block for each SM."""
    (m, k), n, sms = a.shape, b.shape[1], torch.cuda.get_device_properties(a.device).multi_processor_count
    c = a.new_empty((m, n))
    hopper_gemm()[min(sms, -(-m // 128) * -(-n // 256))](a, b, c, m, n, k)
    return c


SHARED = {
    "inputs": inputs,
    "baselines": {"cuBLAS": lambda a, b: a @ b},
    "reference": product,
    "tolerance": 2.0**-8,  # a unit in the last place of bf16, at the largest value
    "bytes": lambda size: 2 * (size[0] * size[2] + size[2] * size[1] + size[0] * size[1]),
    "flops": lambda size: 2 * size[0] * size[1] * size[2],
    "rate": "flops",
    "must": 0.95,
    "label": lambda size: f"{size[0]} x {size[1]} x {size[2]} {size[3]}",
}
BENCHMARKS = [
    Benchmark(
        name="gemm-bf16",
        sizes=[(n, n, n, "nn") for n in (4096, 8192, 16384, 2048)] + [(8192, 8192, 8192, layout) for layout in ("nt", "tn", "tt")]
        + [(8192, 28672, 8192, "nt"), (1000, 1000, 1000, "nn"), (1536, 1536, 1536, "nn"), (5000, 5000, 5000, "nn"), (4095, 4093, 4097, "nn")]
        + [(m, n, k, "nt") for m in (1, 16, 64, 128, 512) for n, k in ((4096, 4096), (14336, 4096), (4096, 14336))] + [(16, 4096, 4096, "nn")],
        ours={"snap": lambda a, b: snap.lib.gemm(a, b)},
        aim=1.05,
        promised=3,
        **SHARED,
    ),
    Benchmark(
        name="gemm-bf16-plain",
        sizes=[(4096, 4096, 4096, "nn"), (8192, 8192, 8192, "nn")],
        ours={"plain": plain},
        aim=1.0,
        promised=2,
        **SHARED,
    ),
]
