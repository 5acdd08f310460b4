"""The gradients of causal attention of bf16: all of attention's backward, from the gradient of its result."""

from __future__ import annotations

import torch
from harness import Benchmark
from torch.nn.attention import SDPBackend, sdpa_kernel

import snap


class Three:
    """Three gradients of one shape, as the harness looks at a result."""

    def __init__(self, parts):
        self.parts, self.shape = parts, (3, *parts[0].shape)

    def double(self):
        return torch.stack([part.double() for part in self.parts])


def inputs(size, random):
    """Queries, keys, values and the gradient of the result; the results of both baselines, whose graphs are kept; ours with its logarithms."""
    q, k, v, grad = (torch.randn(size, device="cuda", generator=random).bfloat16() for _ in range(4))
    ours = snap.lib.attention(q, k, v, causal=True, lse=True)
    for x in (q, k, v):
        x.requires_grad_()
    theirs = []
    for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION):
        with sdpa_kernel(backend):
            theirs.append(torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))
    return q, k, v, grad, *ours, *theirs


def by(which):
    def call(q, k, v, grad, out, logs, *theirs):
        return Three(torch.autograd.grad(theirs[which], (q, k, v), grad, retain_graph=True))

    return call


def by_snap(deterministic):
    def call(q, k, v, grad, out, logs, *theirs):
        with torch.no_grad():
            return Three(snap.lib.attention_gradient(grad, q, k, v, out, logs, causal=True, deterministic=deterministic))

    return call


def reference(q, k, v, grad, *rest):
    """In f32, head by head: the matrix of scores is large."""
    found = torch.empty((3, *q.shape), device="cuda", dtype=torch.float32)
    hidden = torch.ones(q.shape[2], k.shape[2], device="cuda", dtype=torch.bool).triu(1)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            one = [x[b, h].detach().float().requires_grad_() for x in (q, k, v)]
            scores = (one[0] @ one[1].T * q.shape[3] ** -0.5).masked_fill(hidden, -torch.inf)
            for part, x in zip(found, torch.autograd.grad(scores.softmax(-1) @ one[2], one, grad[b, h].float())):
                part[b, h] = x
    return found


BENCHMARK = Benchmark(
    name="attention_gradients",
    sizes=[(4, 16, 4096, 128), (2, 16, 8192, 128), (1, 16, 16384, 128), (8, 32, 2048, 64), (32, 12, 1024, 64)],
    inputs=inputs,
    ours={"snap": by_snap(False), "snap, deterministic": by_snap(True)},
    baselines={"cuDNN": by(0), "FlashAttention-2": by(1)},
    reference=reference,
    tolerance=2.0**-6,
    bytes=lambda size: 16 * size[0] * size[1] * size[2] * size[3],
    flops=lambda size: 5 * size[0] * size[1] * size[2] ** 2 * size[3],
    rate="flops",
    must=0.8, aim=1.0, promised=5,
    label=lambda size: " x ".join(map(str, size)),
)  # fmt: skip
