"""Products of many matrices of bf16, against torch.bmm."""

from __future__ import annotations

import torch
from harness import Benchmark

import snap


def inputs(size, random):
    """Size: (matrices, M, N, K, layout); a "t" is an operand that lies transposed."""
    z, m, n, k, layout = size

    def matrices(rows: int, columns: int, turned: bool):
        drawn = torch.randn((z, columns, rows) if turned else (z, rows, columns), device="cuda", generator=random).bfloat16()
        return drawn.mT if turned else drawn

    return matrices(m, k, layout[0] == "t"), matrices(k, n, layout[1] == "t")


BENCHMARK = Benchmark(
    name="gemm-batched",
    sizes=[(16, 2048, 2048, 2048, "nn"), (16, 2048, 2048, 2048, "nt"), (64, 1024, 1024, 128, "nt"), (64, 1024, 128, 1024, "nn"), (8, 4096, 4096, 4096, "nn"),
           (512, 128, 128, 64, "nt"), (64, 1024, 1024, 1024, "tn")],
    inputs=inputs,
    ours={"snap": lambda a, b: snap.lib.gemm_batched(a, b)},
    baselines={"torch.bmm": lambda a, b: torch.bmm(a, b)},
    reference=lambda a, b: torch.stack([(x.double() @ y.double()).float() for x, y in zip(a, b)]),
    tolerance=2.0**-8,
    bytes=lambda size: 2 * size[0] * (size[1] * size[3] + size[3] * size[2] + size[1] * size[2]),
    flops=lambda size: 2 * size[0] * size[1] * size[2] * size[3],
    rate="flops",
    must=0.95, aim=1.0, promised=2,
    label=lambda size: f"{size[0]} of {size[1]} x {size[2]} x {size[3]} {size[4]}",
)
