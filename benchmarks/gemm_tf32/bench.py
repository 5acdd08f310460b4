"""A product of f32 matrices, multiplied as tf32: square ones in two layouts, and long ones whose K is cut into slices."""

from __future__ import annotations

import torch
from harness import Benchmark

import snap


def inputs(size, random):
    """Size: (M, N, K, layout); a "t" is an operand that lies transposed."""
    m, n, k, layout = size
    b = torch.randn((n, k) if layout[1] == "t" else (k, n), device="cuda", generator=random)
    return torch.randn((m, k), device="cuda", generator=random), b.T if layout[1] == "t" else b


def cublas(a, b):
    torch.backends.cuda.matmul.allow_tf32 = True
    return a @ b


def product(a, b):
    """In float64, rows at a time: the whole of a large result would not fit beside it."""
    wide = b.double()
    return torch.cat([(part.double() @ wide).float() for part in a.split(2048)])


BENCHMARK = Benchmark(
    name="gemm-tf32",
    sizes=[(n, n, n, layout) for layout in ("nt", "nn") for n in (4096, 8192)] + [(m, m, 65536, "nt") for m in (128, 256, 512)]
    + [(2048, 2048, 2048, "nt"), (1000, 1000, 1000, "nt"), (4095, 4093, 4097, "nn"),
       (512, 512, 65536, "nn"), (2048, 2048, 2048, "nn")],
    inputs=inputs,
    ours={"snap": lambda a, b: snap.lib.gemm_tf32(a, b)},
    baselines={"cuBLAS": cublas},
    reference=product,
    tolerance=1e-3,  # 10 bits after the point, rounded
    bytes=lambda size: 4 * (size[0] * size[2] + size[2] * size[1] + size[0] * size[1]),
    flops=lambda size: 2 * size[0] * size[1] * size[2],
    rate="flops",
    must=0.95, aim=1.05, promised=7,
    label=lambda size: f"{size[0]} x {size[1]} x {size[2]} {size[3]}",
)
