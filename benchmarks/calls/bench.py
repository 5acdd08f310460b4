"""What a library call costs as its caller sees it: host time, and time by the clock of a loop of calls with nothing else, beside torch's own.

    python benchmarks/calls/bench.py [--json FILE] [--commit NAME] [--profile]

Needs a GPU and torch.  `host` is the time until the call returns, in a loop that the GPU keeps up with (small arrays; it is waited for between rounds);
`clock` is the time of the loop until the GPU has finished, a call.  Snap and torch take turns; medians over rounds.  Every result is checked first.
`step` is a training step of a small stack of Linear layers, forward and backward, through the operators of torch.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "benchmarks")]

LOOP, ROUNDS = 1000, 9
MOST = 1.3  # what is promised: host time, of torch's


def cases(torch, lib):
    """Name, Snap's call, torch's call."""
    def random(*shape, dtype=torch.float32):
        return torch.randn(shape, device="cuda").to(dtype)

    a, b = random(64, 64, dtype=torch.bfloat16), random(64, 64, dtype=torch.bfloat16)
    c, d = random(64, 64), random(64, 64)
    x, v = random(4096), random(64)
    i = torch.randint(0, 100, (4096,), device="cuda", dtype=torch.int32)
    bias = random(64, dtype=torch.bfloat16)
    yield "gemm", lambda: lib.gemm(a, b), lambda: a @ b
    yield "gemm nt", lambda: lib.gemm(a, b.t()), lambda: a @ b.t()
    yield "gemm bias", lambda: lib.gemm(a, b, bias=bias), lambda: torch.addmm(bias, a, b)
    yield "sgemm", lambda: lib.sgemm(c, d), lambda: c @ d
    yield "gemm_tf32", lambda: lib.gemm_tf32(c, d), lambda: c @ d
    yield "softmax", lambda: lib.softmax(c), lambda: torch.softmax(c, -1)
    yield "scan", lambda: lib.scan(i), lambda: torch.cumsum(i, 0, dtype=torch.int32)
    yield "reduce", lambda: lib.reduce(x), lambda: torch.sum(x)
    yield "transpose", lambda: lib.transpose(c), lambda: c.t().contiguous()
    yield "gemv", lambda: lib.gemv(c, v), lambda: torch.mv(c, v)
    F, small = torch.nn.functional, {"dtype": torch.bfloat16}
    w, ids = random(64, **small), torch.randint(0, 64, (64,), device="cuda")
    q, k, values = (random(1, 4, 64, 64, **small) for _ in range(3))
    yield "gelu", lambda: lib.gelu(a), lambda: F.gelu(a)
    yield "layer_norm", lambda: lib.layer_norm(a, w, bias), lambda: F.layer_norm(a, (64,), w, bias)
    yield "rms_norm", lambda: lib.rms_norm(a, w, eps=1e-6), lambda: F.rms_norm(a, (64,), w, 1e-6)
    yield "embedding", lambda: lib.embedding(ids, b), lambda: F.embedding(ids, b)
    yield "cross_entropy", lambda: lib.cross_entropy(a, ids), lambda: F.cross_entropy(a, ids)
    yield "attention", lambda: lib.attention(q, k, values, causal=True), lambda: F.scaled_dot_product_attention(q, k, values, is_causal=True)
    yield "step", *(training_step(torch, product, bias) for product in (lambda x, w: lib.gemm(x, w.t()), lambda x, w: x @ w.t()))


def training_step(torch, product, _):
    generator = torch.Generator(device="cuda").manual_seed(1)
    weights = [torch.randn((256, 256), device="cuda", generator=generator).bfloat16().div_(16).requires_grad_() for _ in range(8)]
    x = torch.randn((512, 256), device="cuda", generator=generator).bfloat16()

    def step():
        y = x
        for w in weights:
            y = product(y, w).relu()
        grads = torch.autograd.grad(y.float().sum(), weights)
        return grads[0]

    return step


def timed(torch, call, loop):
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(loop):
        call()
    host = time.perf_counter()
    torch.cuda.synchronize()
    return (host - start) / loop * 1e6, (time.perf_counter() - start) / loop * 1e6


def measured(torch, ours, theirs, loop):
    found = {"snap": [], "torch": []}
    for round in range(ROUNDS):
        order = [("snap", ours), ("torch", theirs)]
        for name, call in order if round % 2 else reversed(order):
            found[name].append(timed(torch, call, loop))
    return {name: tuple(statistics.median(column) for column in zip(*runs)) for name, runs in found.items()}


def measure(torch, lib) -> tuple[list[dict], dict]:
    """A row a call, and the calls by name."""
    rows, calls = [], {}
    for name, ours, theirs in cases(torch, lib):
        for _ in range(3):
            got, want = ours(), theirs()
        near = torch.allclose(got.double(), want.double(), rtol=2e-2, atol=2e-1 if got.dtype == torch.bfloat16 else 2e-2)
        result = measured(torch, ours, theirs, LOOP if name != "step" else LOOP // 10)
        (host, clock), (their_host, their_clock) = result["snap"], result["torch"]
        rows.append({"call": name, "right": bool(near), "host_us": host, "torch_host_us": their_host, "clock_us": clock, "torch_clock_us": their_clock})
        calls[name] = ours
        print(f"{name:12} host {host:7.1f} us, torch {their_host:7.1f} ({host / their_host:4.2f})   clock {clock:7.1f}, torch {their_clock:7.1f} ({clock / their_clock:4.2f})"
              + ("" if near else "   WRONG") + ("" if host <= MOST * their_host else f"   above {MOST}"), flush=True)
    return rows, calls


def profiled(call, name: str) -> None:
    import cProfile
    import pstats

    print(f"---- {name}")
    with cProfile.Profile() as profile:
        for _ in range(1000 if name != "step" else 20):
            call()
    pstats.Stats(profile).sort_stats("tottime").print_stats(14)


def record(rows: list[dict]) -> dict:
    return {"kind": "calls", "benchmark": "calls", "loop": LOOP, "rounds": ROUNDS, "calls": rows}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json")
    parser.add_argument("--commit", default="")
    parser.add_argument("--profile", action="store_true", help="where the host time of the two worst calls goes")
    options = parser.parse_args()
    import torch

    from snap import lib

    torch.backends.cuda.matmul.allow_tf32 = False
    rows, calls = measure(torch, lib)
    if options.profile:
        for row in sorted(rows, key=lambda row: -row["host_us"] / row["torch_host_us"])[:2]:
            profiled(calls[row["call"]], row["call"])
    if options.json:
        from report import surroundings

        told = {**surroundings(("torch",), options.commit or None), "gpu": torch.cuda.get_device_name(), **record(rows)}
        Path(options.json).write_text(json.dumps(told, indent=1) + "\n")
    return not all(row["right"] for row in rows)


if __name__ == "__main__":
    sys.exit(main())
