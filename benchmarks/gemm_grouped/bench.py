"""Rows sorted by expert, each group times a matrix of its own, in bf16: against torch._grouped_mm, and a loop of products with sizes that the host knows."""

from __future__ import annotations

import torch
from harness import Benchmark

import snap
from snap.lib._gemm.ragged import grouped_gradients


def ends_of(size) -> list[int]:
    """Groups of unequal sizes, the largest some five times the smallest."""
    groups, rows = size[:2]
    parts = torch.rand(groups, generator=torch.Generator().manual_seed(3)) + 0.25
    return (parts.cumsum(0) / parts.sum() * rows).round().int().tolist()


def inputs(size, random):
    """Size: (experts, rows, N, K); weights lie as [N, K]."""
    groups, rows, n, k = size
    a, w = (torch.randn(shape, device="cuda", generator=random).bfloat16() for shape in ((rows, k), (groups, n, k)))
    return a, w.mT, torch.tensor(ends_of(size), dtype=torch.int32, device="cuda")


def product(a, b, ends):
    first, parts = 0, []
    for matrix, end in zip(b, ends.tolist()):
        parts.append((a[first:end].double() @ matrix.double()).float())
        first = end
    return torch.cat(parts)


def loop(a, b, ends):
    """Where the host knows the sizes: they are a function of how many rows and matrices there are."""
    first, parts = 0, []
    for matrix, end in zip(b, ends_of((b.shape[0], a.shape[0]))):
        parts.append(a[first:end] @ matrix)
        first = end
    return torch.cat(parts)


def inputs_of_gradients(size, random):
    """As `inputs`, and the gradient of the result."""
    groups, rows, n, k = size
    a, grad = (torch.randn((rows, wide), device="cuda", generator=random).bfloat16() for wide in (k, n))
    return a, grad, torch.tensor(ends_of(size), dtype=torch.int32, device="cuda")


def gradient(a, grad, ends):
    """By the matrices: of each group its rows of a, turned round, times its rows of grad."""
    found = []
    for first, end in zip([0, *ends.tolist()], ends.tolist()):
        found.append((a[first:end].double().T @ grad[first:end].double()).float())
    return torch.stack(found)


def ours(a, grad, ends):
    """Of the matrices only the shape counts."""
    matrices = torch.empty((), dtype=a.dtype, device="cuda").expand(len(ends), a.shape[1], grad.shape[1])
    return grouped_gradients(grad, a, matrices, ends, False, True)[1]


SHARED = dict(tolerance=2.0**-8, flops=lambda size: 2 * size[1] * size[2] * size[3], rate="flops", label=lambda size: f"{size[0]} groups, {size[1]} x {size[2]} x {size[3]}",
              bytes=lambda size: 2 * (size[1] * size[3] + size[0] * size[2] * size[3] + size[1] * size[2]), must=0.9, aim=1.0, promised=2)
SIZES = [(8, 16384, 14336, 4096), (8, 16384, 4096, 14336), (64, 8192, 2816, 2048), (128, 4096, 1536, 2048), (8, 512, 14336, 4096)]
BENCHMARKS = [
    Benchmark(
        name="gemm-grouped",
        sizes=SIZES,
        inputs=inputs,
        ours={"snap": lambda a, b, ends: snap.lib.gemm_grouped(a, b, ends)},
        baselines={"torch._grouped_mm": lambda a, b, ends: torch._grouped_mm(a, b, offs=ends), "a loop of products": loop},
        reference=product,
        **SHARED,
    ),
    Benchmark(
        name="gemm-grouped-gradients",
        sizes=SIZES[:4],
        inputs=inputs_of_gradients,
        ours={"snap": ours},
        baselines={"torch._grouped_mm": lambda a, grad, ends: torch._grouped_mm(a.T, grad, offs=ends)},
        reference=gradient,
        **SHARED,
    ),
]
