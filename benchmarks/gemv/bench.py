"""A matrix of f32 times a vector."""

from __future__ import annotations

import torch
from harness import Benchmark

import snap

BENCHMARK = Benchmark(
    name="gemv",
    sizes=[(16384, 16384), (4096, 4096), (1024, 65536), (4096, 14336), (128, 131072), (16, 131072)],
    inputs=lambda size, random: (torch.randn(size, device="cuda", generator=random), torch.randn(size[1], device="cuda", generator=random)),
    ours={"snap": lambda a, x: snap.lib.gemv(a, x)},
    baselines={"cuBLAS": lambda a, x: a.mv(x)},
    reference=lambda a, x: a.double().mv(x.double()),
    tolerance=1e-5,
    bytes=lambda size: 4 * (size[0] * size[1] + size[0] + size[1]),
    flops=lambda size: 2 * size[0] * size[1],
    must=1.0, aim=1.13,
    label=lambda size: f"{size[0]} x {size[1]}",
)
