"""Causal attention of bf16, forward."""

from __future__ import annotations

import torch
from harness import Benchmark
from torch.nn.attention import SDPBackend, sdpa_kernel

import snap


def by(backend):
    def call(q, k, v):
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    return call


def reference(q, k, v):
    """In f32, head by head: the matrix of scores is large."""
    out = torch.empty(q.shape, device="cuda", dtype=torch.float32)
    hidden = torch.ones(q.shape[2], k.shape[2], device="cuda", dtype=torch.bool).triu(1)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            scores = (q[b, h].float() @ k[b, h].float().T * q.shape[3] ** -0.5).masked_fill_(hidden, -torch.inf)
            out[b, h] = scores.softmax(-1) @ v[b, h].float()
    return out


BENCHMARK = Benchmark(
    name="attention",
    sizes=[(4, 16, 4096, 128), (2, 16, 8192, 128), (1, 16, 16384, 128), (8, 32, 2048, 64), (32, 12, 1024, 64)],
    inputs=lambda size, random: tuple(torch.randn(size, device="cuda", generator=random).bfloat16() for _ in range(3)),
    ours={"snap": lambda q, k, v: snap.lib.attention(q, k, v, causal=True)},
    baselines={"cuDNN": by(SDPBackend.CUDNN_ATTENTION), "FlashAttention-2": by(SDPBackend.FLASH_ATTENTION)},
    reference=reference,
    tolerance=2.0**-6,
    bytes=lambda size: 8 * size[0] * size[1] * size[2] * size[3],
    flops=lambda size: 2 * size[0] * size[1] * size[2] ** 2 * size[3],
    rate="flops",
    must=0.9, aim=1.05, promised=5,
    label=lambda size: " x ".join(map(str, size)),
)  # fmt: skip
