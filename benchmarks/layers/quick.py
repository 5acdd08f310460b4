"""A quick look at the functions of a transformer's layers: time, bytes a second, and torch eager beside it.

    python benchmarks/layers/quick.py [name...]

bench.py, beside this file, measures them as the other benchmarks do.  Here each function is called for some milliseconds, and the
median of what CUDA events say is printed: for tuning, and where a minute is all there is.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn.functional as F

import snap
from snap import api
from snap._compiler.ir.types import BF16 as B
from snap._compiler.ir.types import F32, I64
from snap.lib._calls import recorded
from snap.lib._calls.arrays import nothing
from snap.lib._layers import layer_arrays, loss_kernels, norm_kernels, optimizers

BF16 = torch.bfloat16


def seconds(call: Callable, least: int = 5, budget: float = 0.02) -> float:
    """The median over some calls, each with the L2 cache full of something else."""
    for _ in range(3):
        call()
    times: list[float] = []
    while len(times) < least or sum(times) < budget and len(times) < 50:
        flush.zero_()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return statistics.median(times)


def show(name: str, bytes: float, ours: Callable, theirs: Callable | None = None) -> None:
    if len(sys.argv) > 1 and not any(word in name for word in sys.argv[1:]):
        return
    if wanted is not None:
        ours()
        return
    try:
        took = seconds(ours)
        line = f"{name:58s} {took * 1e6:9.1f} us {bytes / took / 1e12:6.2f} TB/s"
        if theirs is not None:
            torch_took = seconds(theirs)
            line += f"   torch {torch_took * 1e6:9.1f} us  {torch_took / took:5.2f}x"
        print(line, flush=True)
    except Exception as problem:
        print(f"{name}: {type(problem).__name__}: {str(problem)[:300]}", flush=True)


def norms_of(rows: int, columns: int) -> None:
    x, r, g = (torch.randn(rows, columns, device="cuda", dtype=BF16) for _ in range(3))
    w, b = torch.randn(columns, device="cuda", dtype=BF16), torch.randn(columns, device="cuda", dtype=BF16)
    size, label = x.numel() * 2, f"{rows} x {columns}"
    show(f"layer_norm {label}", 2 * size, lambda: snap.lib.layer_norm(x, w, b), lambda: F.layer_norm(x, (columns,), w, b))
    show(f"layer_norm + residual {label}", 4 * size, lambda: snap.lib.layer_norm(x, w, b, residual=r, statistics=True))
    show(f"rms_norm {label}", 2 * size, lambda: snap.lib.rms_norm(x, w), lambda: F.rms_norm(x, (columns,), w))
    out, mean, rstd = snap.lib.layer_norm(x, w, b, statistics=True)
    theirs = lambda: torch.ops.aten.native_layer_norm_backward(g, x, [columns], mean[:, None], rstd[:, None], w, b, [True] * 3)
    show(f"layer_norm_gradient {label}", 3 * size, lambda: snap.lib.layer_norm_gradient(g, x, w, mean, rstd), theirs)
    show(f"layer_norm_gradient + residual {label}", 4 * size, lambda: snap.lib.layer_norm_gradient(g, x, w, mean, rstd, grad_residual=r))
    show(f"rms_norm_gradient {label}", 3 * size, lambda: snap.lib.rms_norm_gradient(g, x, w, rstd))


def norm_variants(rows: int, columns: int, forward: list[tuple], backward: list[tuple]) -> None:
    """Words a thread, threads a row, threads a block, blocks a multiprocessor (None: one a team of rows); for gradients also `resident`."""
    x, r, g = (torch.randn(rows, columns, device="cuda", dtype=BF16) for _ in range(3))
    w, b = torch.randn(columns, device="cuda", dtype=BF16), torch.randn(columns, device="cuda", dtype=BF16)
    out, s, size = torch.empty_like(x), torch.empty_like(x), x.numel() * 2
    mean, rstd = torch.zeros(rows, device="cuda"), torch.ones(rows, device="cuda")
    partial = torch.empty(132 * 32, 2 * columns, device="cuda")
    for K, L, T, per in forward:
        k = norm_kernels.norm_kernel(B, B, 8, K, L, T, True, True, True, True)
        blocks = 132 * per if per else -(-rows // (T // L))
        show(f"  norm + residual {columns}: {K, L, T, per}", 4 * size, lambda: k[blocks](x, r, w, b, out, s, mean, rstd, rows, columns, 1e-5))
        k2 = norm_kernels.norm_kernel(B, B, 8, K, L, T, True, True, False, False)
        show(f"  norm {columns}: {K, L, T, per}", 2 * size, lambda: k2[blocks](x, x, w, b, out, empty, mean, rstd, rows, columns, 1e-5))
    for K, L, T, per, resident in backward:
        k = norm_kernels.norm_gradient_kernel(B, B, 8, K, L, T, True, True, True, resident)
        show(f"  gradient + residual {columns}: {K, L, T, per, resident}", 4 * size, lambda: k[132 * per](g, x, w, mean, rstd, r, out, partial, rows, columns))


def activations_of(rows: int, columns: int) -> None:
    x, g = (torch.randn(rows, columns, device="cuda", dtype=BF16) for _ in range(2))
    size, label = x.numel() * 2, f"{rows} x {columns}"
    show(f"copy (torch) {label}", 2 * size, lambda: torch.clone(x))
    for way in ("tanh", "none"):
        show(f"gelu {way} {label}", 2 * size, lambda: snap.lib.gelu(x, approximate=way), lambda: F.gelu(x, approximate=way))
        theirs = lambda: torch.ops.aten.gelu_backward(g, x, approximate=way)
        show(f"gelu_gradient {way} {label}", 3 * size, lambda: snap.lib.gelu_gradient(g, x, approximate=way), theirs)
    show(f"swiglu {label}", 3 * size, lambda: snap.lib.swiglu(x, g), lambda: F.silu(x) * g)
    show(f"swiglu_gradient {label}", 5 * size, lambda: snap.lib.swiglu_gradient(g, x, g))
    show(f"swiglu of halves {label}", 1.5 * size, lambda: snap.lib.swiglu(x))
    show(f"dropout {label}", 2 * size, lambda: snap.lib.dropout(x, 0.1, 1, 2), lambda: F.dropout(x, 0.1))
    seed, offset = torch.tensor([3], device="cuda"), torch.tensor([4], device="cuda")
    show(f"dropout, state in memory {label}", 2 * size, lambda: snap.lib.dropout(x, 0.1, seed, offset))
    show(f"column_sums {label}", size, lambda: snap.lib.column_sums(x), lambda: x.sum(0))


def rotary_of(batch: int, heads: int, length: int, size: int) -> None:
    x = torch.randn(batch, length, heads, size, device="cuda", dtype=BF16).transpose(1, 2)
    angles = torch.randn(length, size // 2, device="cuda")
    c, s = angles.cos(), angles.sin()

    def theirs():
        a, b = x.chunk(2, -1)
        return torch.cat([a * c - b * s, b * c + a * s], -1)

    show(f"rotary {tuple(x.shape)}", 4 * x.numel(), lambda: snap.lib.rotary(x, c, s), theirs)
    show(f"rotary interleaved {tuple(x.shape)}", 4 * x.numel(), lambda: snap.lib.rotary(x, c, s, interleaved=True))


def embeddings_of(rows: int, columns: int, batch: int, length: int) -> None:
    table, places = (torch.randn(n, columns, device="cuda", dtype=BF16) for n in (rows, length))
    g = torch.randn(batch, length, columns, device="cuda", dtype=BF16)
    even = torch.randint(0, rows, (batch, length), device="cuda")
    zipf = (rows ** torch.rand(batch, length, device="cuda")).long().clamp(0, rows - 1)
    size, label = g.numel() * 2, f"{batch} x {length} of {rows} x {columns}"
    show(f"embedding {label}", 2 * size, lambda: snap.lib.embedding(even, table), lambda: F.embedding(even, table))
    show(f"embedding + positions {label}", 2 * size, lambda: snap.lib.embedding(even, table, positions=places))
    for kind, tokens in (("even", even), ("zipf", zipf), ("bytes", zipf % 97)):
        moved = size + table.numel() * 2
        theirs = lambda: torch.ops.aten.embedding_dense_backward(g, tokens, rows, -1, False)
        show(f"embedding_gradient {kind} {label}", moved, lambda: snap.lib.embedding_gradient(g, tokens, rows), theirs)
        show(f"embedding_gradient {kind}, atomics {label}", moved, lambda: snap.lib.embedding_gradient(g, tokens, rows, deterministic=False))


def losses_of(rows: int, classes: int) -> None:
    x = torch.randn(rows, classes, device="cuda", dtype=BF16)
    targets = torch.randint(0, classes, (rows,), device="cuda")
    size, label = x.numel() * 2, f"{rows} x {classes}"
    wants = x.clone().requires_grad_()
    loss = F.cross_entropy(wants, targets)

    def theirs():
        loss = F.cross_entropy(wants, targets)
        wants.grad = None
        loss.backward()

    show(f"cross_entropy {label}", size, lambda: snap.lib.cross_entropy(x, targets), lambda: F.cross_entropy(x, targets))
    show(f"cross_entropy with gradient {label}", 2 * size, lambda: snap.lib.cross_entropy(x, targets, gradient=True), theirs)
    y = x.clone()
    show(f"cross_entropy with gradient in place {label}", 2 * size, lambda: snap.lib.cross_entropy(y, targets, gradient=True, in_place=True))
    if classes % 8 == 0:
        loss_of_rows, factor = torch.empty(rows, device="cuda"), torch.ones(1, device="cuda")
        out = torch.empty_like(x)
        for threads, per in ((512, 2), (1024, 2), (256, 2), (512, 4)):
            k = loss_kernels.held_loss_kernel(B, I64, 8, True, False, False, threads)
            show(f"  kernel alone, {threads, per}", 2 * size, lambda: k[132 * per](x, targets, factor, out, loss_of_rows, rows, classes, classes, classes, -100))
            k2 = loss_kernels.held_loss_kernel(B, I64, 8, True, True, False, threads)
            show(f"  in place, {threads, per}", 2 * size, lambda: k2[132 * per](empty, targets, factor, out, loss_of_rows, rows, classes, classes, classes, -100))
        k3 = loss_kernels.long_loss_kernel(B, I64, 8, True, False, False, 512)
        show("  read twice", 2 * size, lambda: k3[132 * 4](x, targets, factor, out, loss_of_rows, rows, classes, classes, classes, -100))
    del loss


def optimizer_of(size: int) -> None:
    p, g, m, v = (torch.randn(size, device="cuda").abs() for _ in range(4))
    half, copy = g.bfloat16(), torch.empty(size, device="cuda", dtype=BF16)
    parameter = torch.nn.Parameter(p.clone())
    parameter.grad = g.clone()
    theirs = torch.optim.AdamW([parameter], fused=True)
    show(f"adamw {size}", 28 * size, lambda: snap.lib.adamw(p, g, m, v, 3, lr=1e-4), theirs.step)
    show(f"adamw, bf16 gradients and copy {size}", 28 * size, lambda: snap.lib.adamw(p, half, m, v, 3, lr=1e-4, copy=copy))
    show(f"global_norm {size}", 4 * size, lambda: snap.lib.global_norm(g, clip=1.0), lambda: torch.linalg.vector_norm(g))
    for threads in (128, 512, 1024):
        k = optimizers.adamw_kernel(F32, None, 4, False, False, False, threads)
        n = nothing
        given = layer_arrays.floats("adamw", "parameters", p)
        args = (p, g, m, v, n(given, B), n(given, F32), n(given, F32), n(given, I64), size, size, 1e-4, 1.0, 0.9, 0.999, -0.1, -0.001, 0.1, 0.001, 1e-8, 0.01)
        show(f"  adamw kernel, {threads} threads", 28 * size, lambda: k[132 * 2048 // threads](*args))


def all_of_them() -> None:
    norms_of(32768, 8192)
    norms_of(32768, 768)
    activations_of(32768, 3072)
    losses_of(16384, 50304)
    optimizer_of(124_439_808)
    embeddings_of(50304, 768, 32, 1024)
    rotary_of(8, 16, 2048, 128)
    losses_of(4096, 50257)
    norms_of(4096, 16384)
    norm_variants(32768, 8192, [(4, 256, 256, None), (4, 256, 256, 4), (2, 512, 512, None), (2, 512, 512, 3), (1, 1024, 1024, 2)],
                  [(2, 512, 512, 2, None), (2, 512, 512, 2, 2), (2, 512, 512, 1, None), (4, 256, 256, 2, None), (1, 1024, 1024, 1, None)])
    norm_variants(32768, 768, [(3, 32, 128, None), (3, 32, 128, 5), (1, 96, 96, None), (1, 96, 96, 16)],
                  [(3, 32, 128, 4, None), (3, 32, 128, 5, None), (1, 96, 96, 10, None), (1, 96, 96, 16, None), (1, 96, 96, 20, None)])


if __name__ == "__main__":
    begun = time.time()
    empty = torch.empty(1, device="cuda", dtype=BF16)
    flush = torch.empty(64 * 2**20, device="cuda", dtype=torch.int32)
    # What the calls will launch, compiled in parallel.
    wanted: dict | None = {}
    launch, there, quick = recorded.RecordedLaunch.__call__, api.SnapFunction.__getitem__, recorded.quick
    recorded.quick = lambda *args: None
    recorded.RecordedLaunch.__call__ = lambda self, *args: wanted.update({id(self.kernel): self.kernel})
    api.SnapFunction.__getitem__ = lambda self, blocks: lambda *args: wanted.update({id(self): self})
    all_of_them()
    recorded.RecordedLaunch.__call__, api.SnapFunction.__getitem__, recorded.quick = launch, there, quick
    for name, module in list(sys.modules.items()):
        if name.startswith("snap.lib"):
            for value in vars(module).values():
                if isinstance(getattr(value, "calls", None), recorded.Calls):
                    value.calls.replays.clear()
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda k: k.cubin("sm_90a"), wanted.values()))
    print(f"{len(wanted)} kernels compiled after {time.time() - begun:.1f} s", flush=True)
    wanted = None
    all_of_them()
    print(f"{time.time() - begun:.1f} s")
