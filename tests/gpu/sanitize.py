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
from snap.lib.arrays import Argument  # noqa: E402
from snap.lib.sgemm_ladder import blocked, blocks_of_elements, blocks_of_tiles, coalesced, naive, vectorised  # noqa: E402
from snap.runtime.launch import Launcher  # noqa: E402

STEPS = {naive: blocks_of_elements, coalesced: blocks_of_elements, blocked: lambda m, n: blocks_of_tiles(m, n, 128, 128),
         vectorised: lambda m, n: blocks_of_tiles(m, n, 128, 128)}


def random(*shape: int, dtype=torch.float32) -> torch.Tensor:
    return torch.randn(shape, device="cuda").to(dtype)


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
    module = sys.modules["snap.lib.sgemm"]
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
        x = torch.randint(-9, 9, (n,), device="cuda")
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


LIBRARY = {"gemm": gemm, "gemm_tf32": gemm_tf32, "sgemm": sgemm, "rows": rows, "matrices": matrices}


def main(names: list[str]) -> None:
    for name, call in LIBRARY.items():
        if not names or f"lib.{name}" in names:
            call()
            torch.cuda.synchronize()
            print(f"lib.{name}", flush=True)
    launches: list = []
    Launcher._run_on_cpu = borrow(launches)
    snap.races = lambda *args, **options: []  # a matter of the CPU machine
    for program in OK:
        if not names or program.path.stem in names:
            before = len(launches)
            namespace = program.execute()
            (namespace.get("check") or namespace["main"])()
            print(f"{program.name}: {len(launches) - before} launches", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
