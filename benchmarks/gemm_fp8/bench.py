"""A product of two matrices of e4m3 with scales, to bf16, against torch._scaled_mm: sums in f32, and as the tensor cores add up (`fast`)."""

from __future__ import annotations

import torch
from harness import Benchmark

import snap


def inputs(size, random):
    """Size: (M, N, K); b is the transpose of a row-major matrix, as the tensor cores want it."""
    m, n, k = size
    a, b = (torch.randn(rows, k, device="cuda", generator=random).to(torch.float8_e4m3fn) for rows in (m, n))
    return a, b.T, torch.full((), 0.5, device="cuda"), torch.full((), 0.25, device="cuda")


def inputs_with_rows(size, random):
    a, b, *_ = inputs(size, random)
    return a, b, torch.rand(size[0], 1, device="cuda", generator=random) + 0.5, torch.rand(1, size[1], device="cuda", generator=random) + 0.5


def product(a, b, scale_a, scale_b):
    """In float64, rows at a time."""
    wide = b.to(torch.float32).double()
    found = torch.cat([(part.to(torch.float32).double() @ wide).float() for part in a.split(2048)])
    return found * scale_a * scale_b


def benchmark(name, sizes, make, fast, tolerance, promised):
    return Benchmark(
        name=name,
        sizes=sizes,
        inputs=make,
        ours={"snap": lambda a, b, x, y: snap.lib.gemm_fp8(a, b, x, y, fast=fast)},
        baselines={"torch._scaled_mm": lambda a, b, x, y: torch._scaled_mm(a, b, x, y, out_dtype=torch.bfloat16, use_fast_accum=fast)},
        reference=product,
        tolerance=tolerance,
        bytes=lambda size: size[2] * (size[0] + size[1]) + 2 * size[0] * size[1],
        flops=lambda size: 2 * size[0] * size[1] * size[2],
        rate="flops",
        must=0.95, aim=1.0, promised=promised,
        label=lambda size: f"{size[0]} x {size[1]} x {size[2]}",
    )


SIZES = [(n, n, n) for n in (8192, 4096, 16384, 2048)] + [(8192, 28672, 8192), (512, 8192, 8192), (128, 8192, 8192)]
BENCHMARKS = [
    benchmark("gemm-fp8-fast", SIZES, inputs, True, 2.0**-6, 1),
    benchmark("gemm-fp8", SIZES, inputs, False, 2.0**-8, 1),
    benchmark("gemm-fp8-rows", SIZES[:2], inputs_with_rows, True, 2.0**-6, 1),
]
