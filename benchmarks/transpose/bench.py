"""A matrix of f32, transposed; the baseline is a copy, which moves the same bytes in order."""

from __future__ import annotations

import torch
from harness import Benchmark

import snap

BENCHMARK = Benchmark(
    name="transpose",
    sizes=[(16384, 16384), (4096, 4096), (10007, 5003)],
    inputs=lambda size, random: (torch.rand(size, device="cuda", generator=random),),
    ours={"snap": lambda x: snap.lib.transpose(x)},
    baselines={"device copy": lambda x: x.clone(), "torch": lambda x: x.t().contiguous()},
    unlike=["device copy"],
    reference=lambda x: x.t().contiguous(),
    tolerance=0,
    bytes=lambda size: 8 * size[0] * size[1],
    must=0.85, aim=0.95,
    label=lambda size: f"{size[0]} x {size[1]}",
)
