"""The sum of an array of f32."""

from __future__ import annotations

import torch
from baselines import cub
from harness import Benchmark, Prepared

import snap

BENCHMARK = Benchmark(
    name="reduce",
    sizes=[1 << 28, 1 << 24, 1 << 20, 1 << 18, 1 << 16, 1 << 10],
    inputs=lambda n, random: (torch.rand(n, device="cuda", generator=random),),
    ours={"snap": lambda x: snap.lib.reduce(x)},
    baselines={"CUB": Prepared(cub("reduce_f32", lambda x: x.new_empty(()))), "torch": lambda x: x.sum()},
    reference=lambda x: x.sum(dtype=torch.float64),
    tolerance=1e-5,
    bytes=lambda n: 4 * n,
    flops=lambda n: n,
    must=0.98, aim=1.0,
    label=lambda n: f"2^{n.bit_length() - 1}",
)
