"""The softmax of each row of a matrix of bf16."""

from __future__ import annotations

import torch
from harness import Benchmark

import snap

BENCHMARK = Benchmark(
    name="softmax",
    sizes=[(32768, 8192), (32768, 1024), (4096, 50257), (65536, 64), (1024, 32000), (32, 128256)],
    inputs=lambda size, random: (torch.randn(size, device="cuda", generator=random).bfloat16(),),
    ours={"snap": lambda x: snap.lib.softmax(x)},
    baselines={"torch": lambda x: x.softmax(-1)},
    reference=lambda x: x.double().softmax(-1),
    tolerance=2.0**-8,  # a unit in the last place of bf16, at the largest value
    bytes=lambda size: 4 * size[0] * size[1],
    flops=lambda size: 5 * size[0] * size[1],
    must=2.5, aim=3.8,
    label=lambda size: f"{size[0]} x {size[1]}",
)
