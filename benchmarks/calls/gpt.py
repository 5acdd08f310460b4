"""A training step of a GPT by the clock: torch as it is, and the same model whose Linear layers are `snap.lib.gemm`; eager and compiled.

    python benchmarks/calls/gpt.py [--compiled] [--layers 8] [--width 1024] [--batch 8] [--length 1024] [--json FILE]

Needs a GPU and torch.  bf16 weights and activations, attention and all else torch's own; forward, backward and a fused AdamW.  `host` is the time until
the step's calls have returned, `clock` until the GPU has finished, medians over steps in which the two take turns.  Losses of both are compared.
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

STEPS, WARM, VOCABULARY = 20, 5, 50304


def model(torch, product, options):
    nn, F = torch.nn, torch.nn.functional

    class Linear(nn.Linear):
        def forward(self, x):
            return product(x, self.weight, self.bias)

    class Block(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = Linear(width, 3 * width), Linear(width, width)
            self.up, self.down = Linear(width, 4 * width), Linear(4 * width, width)

        def forward(self, x):
            batch, length, width = x.shape
            parts = self.qkv(self.before(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(*parts, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
            return x + self.down(F.gelu(self.up(self.between(x))))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(VOCABULARY, options.width), nn.Embedding(options.length, options.width)
            self.blocks = nn.ModuleList(Block(options.width, options.width // 64) for _ in range(options.layers))
            self.norm, self.head = nn.LayerNorm(options.width), Linear(options.width, VOCABULARY)

        def forward(self, ids, targets):
            x = self.tokens(ids) + self.places.weight[: ids.shape[1]]
            for block in self.blocks:
                x = block(x)
            return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), targets.flatten())

    torch.manual_seed(1)
    return Gpt().cuda().bfloat16()


def by_snap(x, weight, bias):
    from snap import lib

    return lib.gemm(x.reshape(-1, x.shape[-1]), weight.t(), bias=bias).view(*x.shape[:-1], -1)


def stepper(torch, product, options, compiled):
    net = model(torch, product, options)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
    forward = torch.compile(net) if compiled else net
    generator = torch.Generator(device="cuda").manual_seed(2)
    batches = [torch.randint(0, VOCABULARY, (2, options.batch, options.length), device="cuda", generator=generator) for _ in range(4)]

    def step(number):
        ids, targets = batches[number % 4]
        loss = forward(ids, targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


def measured(torch, options, compiled) -> dict:
    steps = {"torch": stepper(torch, torch.nn.functional.linear, options, compiled), "snap": stepper(torch, by_snap, options, compiled)}
    times, losses = {name: [] for name in steps}, {name: [] for name in steps}
    for number in range(WARM + STEPS):
        for name, step in steps.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            loss = step(number)
            host = time.perf_counter()
            torch.cuda.synchronize()
            losses[name].append(loss.item())
            if number >= WARM:
                times[name].append(((host - start) * 1e3, (time.perf_counter() - start) * 1e3))
    found = {name: tuple(statistics.median(column) for column in zip(*runs)) for name, runs in times.items()}
    apart = max(abs(one - other) for one, other in zip(*losses.values()))
    (host, clock), (their_host, their_clock) = found["snap"], found["torch"]
    name = "compiled" if compiled else "eager"
    print(f"gpt {name:9} host {host:6.2f} ms, torch {their_host:6.2f} ({host / their_host:4.2f})   clock {clock:6.2f}, torch {their_clock:6.2f} ({clock / their_clock:5.3f})"
          f"   losses differ by at most {apart:.1e} (last {losses['snap'][-1]:.4f})", flush=True)
    return {"model": name, "host_ms": host, "torch_host_ms": their_host, "clock_ms": clock, "torch_clock_ms": their_clock, "losses_apart": apart}


def profiled(torch, options) -> None:
    """What the GPU does in a step: kernels by name, torch's beside Snap's."""
    for name, product in (("torch", torch.nn.functional.linear), ("snap", by_snap)):
        step = stepper(torch, product, options, False)
        for number in range(3):
            step(number)
        torch.cuda.synchronize()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            step(3)
            torch.cuda.synchronize()
        kernels = sorted(profile.key_averages(), key=lambda one: -one.device_time_total)
        print(f"---- {name}: {sum(one.device_time_total for one in kernels) / 1e3:.2f} ms on the GPU")
        for one in kernels[:14]:
            print(f"{one.device_time_total / 1e3:8.3f} ms {one.count:5}  {one.key[:90]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, default in (("layers", 8), ("width", 1024), ("batch", 8), ("length", 1024)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--compiled", action="store_true", help="the compiled model too")
    parser.add_argument("--profile", action="store_true", help="which kernels run in a step")
    parser.add_argument("--json")
    options = parser.parse_args()
    import torch

    rows = [measured(torch, options, compiled) for compiled in ((False, True) if options.compiled else (False,))]
    if options.profile:
        profiled(torch, options)
    if options.json:
        from report import surroundings

        told = {"kind": "steps", "benchmark": "gpt", **surroundings(("torch",)), "gpu": torch.cuda.get_device_name(), "steps": rows}
        Path(options.json).write_text(json.dumps(told, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
