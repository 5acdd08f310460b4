"""How often each byte occurs."""

from __future__ import annotations

import torch
from baselines import cub
from harness import Benchmark, Prepared

import snap


def counted(x):
    """In parts: torch counts 32-bit integers."""
    return torch.stack([torch.bincount(part.int(), minlength=256) for part in x.split(1 << 26)]).sum(0)


BENCHMARK = Benchmark(
    name="histogram",
    sizes=[1 << 30, 1 << 26, 1 << 20, 1 << 16],
    inputs=lambda n, random: (torch.randint(0, 256, (n,), dtype=torch.uint8, device="cuda", generator=random),),
    ours={"snap": lambda x: snap.lib.histogram(x)},
    baselines={"CUB": Prepared(cub("histogram_u8", lambda x: x.new_empty(256, dtype=torch.int32)))},
    reference=counted,
    tolerance=0,
    bytes=lambda n: n,
    flops=lambda n: n,
    must=0.9, aim=1.0,
    label=lambda n: f"2^{n.bit_length() - 1}",
)
