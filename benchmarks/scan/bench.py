"""Inclusive sums of i32 and of f32.  The bytes are those read and written, once each."""

from __future__ import annotations

import torch
from baselines import cub
from harness import Benchmark, Prepared

import snap


def sums(name, inputs, reference, tolerance):
    return Benchmark(
        name=f"scan-{name}",
        sizes=[1 << 28, 1 << 24, 1 << 29, 1 << 18, 1 << 16, 1 << 10],
        inputs=inputs,
        ours={"snap": lambda x: snap.lib.scan(x)},
        baselines={"CUB": Prepared(cub(f"scan_{name}", torch.empty_like)), "torch": lambda x: x.cumsum(0, dtype=x.dtype)},
        reference=reference,
        tolerance=tolerance,
        bytes=lambda n: 8 * n,
        flops=lambda n: n,
        must=0.95, aim=1.15, promised=3,
        label=lambda n: f"2^{n.bit_length() - 1}",
    )


BENCHMARKS = [
    sums("i32", lambda n, random: (torch.randint(-1000, 1000, (n,), dtype=torch.int32, device="cuda", generator=random),),
         lambda x: x.long().cumsum(0).int(), 0),  # modulo 2^32
    sums("f32", lambda n, random: (torch.rand(n, device="cuda", generator=random),), lambda x: x.double().cumsum(0), 1e-4),
]
