"""Runs programs of tests/ok and calls of the library (all, or those named) on the GPU, for a tool that watches:

    compute-sanitizer --tool racecheck --error-exitcode 1 python tests/gpu/sanitize.py hgemm boxes lib.gemm

Sizes are small, since the tools are slow, and odd, so that tails are run.  docs/sanitizers.md says what they report.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[k]) for k in (0, 1)]
import torch  # noqa: E402
from borrowed import borrow  # noqa: E402
from corpus import OK  # noqa: E402

import snap  # noqa: E402
from snap.host.launch import Launcher  # noqa: E402
from snap.lib._calls.arrays import Argument  # noqa: E402
from snap.lib._gemm.sgemm_ladder import blocked, blocks_of_elements, blocks_of_tiles, coalesced, naive, vectorized  # noqa: E402

DEVICE = "cuda"
STEPS = {naive: blocks_of_elements, coalesced: blocks_of_elements, blocked: lambda m, n: blocks_of_tiles(m, n, 128, 128),
         vectorized: lambda m, n: blocks_of_tiles(m, n, 128, 128)}


def random(*shape: int, dtype=torch.float32) -> torch.Tensor:
    return torch.randn(shape, device=DEVICE).to(dtype)


def gemm() -> None:
    for m, n, k in ((200, 264, 136), (77, 33, 50), (600, 520, 72)):
        for a in (random(m, k, dtype=torch.bfloat16), random(k, m, dtype=torch.bfloat16).T):
            for b in (random(k, n, dtype=torch.bfloat16), random(n, k, dtype=torch.bfloat16).T):
                snap.lib.gemm(a, b)
        snap.lib.gemm(random(m, k, dtype=torch.float16), random(k, n, dtype=torch.float16), bias=random(n), activation="gelu")
        snap.lib.gemm(random(m, k, dtype=torch.bfloat16), random(k, n, dtype=torch.bfloat16), out=random(m, n))
    snap.lib.gemm(random(1000, 1000, dtype=torch.bfloat16), random(1000, 1000, dtype=torch.bfloat16))  # clusters
    for m in (5, 100):  # few rows; steps divided among clusters
        snap.lib.gemm(random(m, 2000, dtype=torch.bfloat16), random(2000, 504, dtype=torch.bfloat16), bias=random(504), activation="silu")
        snap.lib.gemm(random(m, 2000, dtype=torch.bfloat16), random(504, 2000, dtype=torch.bfloat16).T)
    given = Argument.multiprocessors
    Argument.multiprocessors = lambda self: 4  # as if the GPU had so few: tiles of the last round are divided
    try:
        snap.lib.gemm(random(300, 8192, dtype=torch.bfloat16), random(8192, 256, dtype=torch.bfloat16))
    finally:
        Argument.multiprocessors = given


def gemm_tf32() -> None:
    for m, n, k in ((300, 264, 136), (77, 33, 50), (64, 64, 4096)):
        snap.lib.gemm_tf32(random(m, k), random(k, n))
        snap.lib.gemm_tf32(random(m, k), random(n, k).T)
    given = Argument.multiprocessors
    Argument.multiprocessors = lambda self: 4  # as if the GPU had so few: tiles of the last round are divided
    try:
        snap.lib.gemm_tf32(random(200, 8192), random(8192, 600))
        snap.lib.gemm_tf32(random(600, 8192), random(200, 8192).T)
    finally:
        Argument.multiprocessors = given


def sgemm() -> None:
    for m, n, k in ((300, 264, 136), (77, 33, 50), (70, 65, 700)):
        snap.lib.sgemm(random(m, k), random(k, n))
    module = sys.modules["snap.lib._gemm.sgemm"]
    given = module.planned
    try:
        for tile in module.STEP:  # each of them whole, and all but the first cut along k
            for whole, slices in ((blocks_of_tiles(300, 264, *tile[:2]), 1), (1, 3)):
                module.planned = lambda *_, plan=module.Plan(0.0, tile, whole, slices): plan
                for n in (264, 263):
                    snap.lib.sgemm(random(300, 136), random(136, n))
    finally:
        module.planned = given
    for step, blocks in STEPS.items():
        step()[blocks(300, 264)](random(300, 136), random(136, 264), random(300, 264), 300, 264, 136)


def rows() -> None:
    """One row after another, or all of them: what reads and writes memory once."""
    for n in (2, 1000, 40_003, 600_003):  # of one block, of a cluster, of many blocks
        x = torch.randint(-9, 9, (n,), device=DEVICE)
        for dtype in (torch.int8, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64):
            snap.lib.scan(x.to(dtype))
            snap.lib.reduce(x.to(dtype))
        snap.lib.scan(x.int()[1:], exclusive=True)
        snap.lib.reduce(x.int()[1:], "max")
        snap.lib.histogram(x.to(torch.uint8))
        snap.lib.histogram(x.to(torch.uint8)[1:])


def matrices() -> None:
    for m, n in ((100, 200), (33, 517), (3, 40_003), (5, 8192), (99, 40), (2, 60_000), (40, 20_000), (2, 140_000)):
        snap.lib.transpose(random(m, n))
        snap.lib.gemv(random(m, n), random(n))
        for dtype in (torch.float32, torch.bfloat16):
            snap.lib.softmax(random(m, n, dtype=dtype))


def activations() -> None:
    for dtype in (torch.bfloat16, torch.float32):
        for m, n in ((70, 264), (33, 517), (5, 40)):
            x, g, u = (random(m, n, dtype=dtype) for _ in range(3))
            for way in ("none", "tanh"):
                snap.lib.gelu(x, approximate=way)
                snap.lib.gelu_gradient(g, x, approximate=way)
                snap.lib.gelu_gradient(g, x, approximate=way, sums=True)
            snap.lib.swiglu(x, u)
            snap.lib.swiglu_gradient(g, x, u)
            snap.lib.column_sums(x, dtype="f32")
            snap.lib.dropout(x, 0.25, 9, 9)


def norms() -> None:
    for dtype in (torch.bfloat16, torch.float32):
        for m, n in ((70, 264), (9, 517), (3, 8192)):
            x, r, g = (random(m, n, dtype=dtype) for _ in range(3))
            w, b = random(n, dtype=dtype), random(n, dtype=dtype)
            _, s, mean, rstd = snap.lib.layer_norm(x, w, b, residual=r, statistics=True)
            snap.lib.layer_norm_gradient(g, s, w, mean, rstd, grad_residual=r, sums=True)
            _, rstd = snap.lib.rms_norm(x, w, statistics=True)
            snap.lib.rms_norm_gradient(g, x, w, rstd)


def tokens() -> None:
    """What begins and ends a model: lookups, losses, rotations, the optimizer."""
    for dtype in (torch.bfloat16, torch.float32):
        for count, rows, length in ((70, 33, 264), (5, 400, 40), (300, 7, 515)):
            named, table = torch.randint(0, rows, (2, count), device=DEVICE), random(rows, length, dtype=dtype)
            snap.lib.embedding(named, table, positions=random(count, length, dtype=dtype))
            g = random(2, count, length, dtype=dtype)
            snap.lib.embedding_gradient(g, named, rows, positions=count, dtype="f32")
            snap.lib.embedding_gradient(g, named, rows, deterministic=False)
        for count, length in ((70, 264), (9, 517), (5, 50_304), (3, 50_257)):
            logits, targets = random(count, length, dtype=dtype), torch.randint(0, length, (count,), device=DEVICE)
            snap.lib.cross_entropy(logits, targets, gradient=True)
            snap.lib.cross_entropy(logits, targets.int(), gradient=True, in_place=True)
            snap.lib.cross_entropy(random(count, length + 5, dtype=dtype)[:, 3:-2], targets, reduction="none")  # rows begin anywhere
        angles = random(37, 32, dtype=dtype)
        for interleaved in (False, True):
            snap.lib.rotary_gradient(snap.lib.rotary(random(2, 3, 37, 64, dtype=dtype), angles, angles, interleaved=interleaved), angles, angles)
    p, g, m, v = (random(10_007) for _ in range(4))
    snap.lib.adamw(p, g, m, v * v, 3, lr=1e-3, scale=snap.lib.global_norm(g, clip=1.0)[1], copy=torch.empty(10_007, device=DEVICE, dtype=torch.bfloat16))


def attention() -> None:
    for heads, shared, rows, keys, width, options in ((4, 2, 200, 200, 64, {"causal": True}), (2, 2, 130, 77, 128, {}), (2, 1, 150, 150, 128, {"causal": True, "window": 50}),
                                                     (2, 2, 65, 65, 80, {"causal": True})):
        q, k, v = (random(1, count, length, width, dtype=torch.bfloat16).requires_grad_() for count, length in ((heads, rows), (shared, keys), (shared, keys)))
        snap.lib.attention(q, k, v, **options).sum().backward()


def many() -> None:
    a, b = random(3, 70, 136, dtype=torch.bfloat16), random(3, 136, 72, dtype=torch.bfloat16)
    snap.lib.gemm_batched(a, b)
    ends = torch.tensor([50, 50, 210], dtype=torch.int32, device=DEVICE)
    flat, weights = a.view(210, 136).requires_grad_(), b.requires_grad_()
    snap.lib.gemm_grouped(flat, weights, ends).sum().backward()
    eight = [random(*shape).to(torch.float8_e4m3fn) for shape in ((200, 272), (136, 272))]
    for fast in (False, True):
        snap.lib.gemm_fp8(eight[0], eight[1].mT, fast=fast)


LIBRARY = {"gemm": gemm, "gemm_tf32": gemm_tf32, "sgemm": sgemm, "rows": rows, "matrices": matrices, "activations": activations, "norms": norms, "tokens": tokens,
           "attention": attention, "many": many}


def main(names: list[str]) -> None:
    for name, call in LIBRARY.items():
        if not names or f"lib.{name}" in names:
            call()
            torch.cuda.synchronize()
            print(f"lib.{name}", flush=True)
    launches: list = []
    Launcher._run_on_cpu = borrow(launches)
    snap.SnapFunction.races = lambda *args, **options: []  # a matter of the CPU machine
    for program in OK:
        if not names or program.path.stem in names:
            before = len(launches)
            namespace = program.execute()
            (namespace.get("check") or namespace["main"])()
            print(f"{program.name}: {len(launches) - before} launches", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
