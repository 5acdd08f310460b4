"""A training step of a GPT by the clock: torch as it is, and the same model whose Linear layers are `snap.lib.gemm`; eager and compiled.

    python benchmarks/calls/gpt.py [--compiled | --only-compiled | --gpt2 eager | --gpt2 compile] [--rounds 7] [--layers 8] [--width 1024] [--batch 8] [--length 1024] [--json FILE]

Needs a GPU and torch.  bf16 weights and activations, attention and all else torch's own; forward, backward and a fused AdamW.  Both take turns in rounds
of steps, one after the other as in training; `host` is the time until the calls of a round have returned, `clock` until the GPU has finished, a step;
medians over rounds.  Losses of both are compared.  torch's compiler takes most of a minute: `--only-compiled --rounds 3` leaves out the rest.
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

ROUNDS, STEPS, WARM, VOCABULARY = 7, 5, 4, 50304
APART = 0.02  # losses of both models, from the same parameters and batches
GPT2_STEPS = 40


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
    times = {name: [] for name in steps}
    losses = {name: [step(number).item() for number in range(WARM)] for name, step in steps.items()}
    for turn in range(options.rounds):
        order = list(steps.items())
        for name, step in order if turn % 2 else reversed(order):
            torch.cuda.synchronize()
            start = time.perf_counter()
            found = [step(number) for number in range(STEPS)]
            host = time.perf_counter()
            torch.cuda.synchronize()
            times[name].append(((host - start) * 1e3 / STEPS, (time.perf_counter() - start) * 1e3 / STEPS))
            losses[name] += [loss.item() for loss in found]
    found = {name: tuple(statistics.median(column) for column in zip(*runs)) for name, runs in times.items()}
    apart = max(abs(one - other) for one, other in zip(*losses.values()))
    (host, clock), (their_host, their_clock) = found["snap"], found["torch"]
    name = f"Linear layers, {'compiled' if compiled else 'eager'}"
    print(f"{name:23} host {host:6.2f} ms, torch {their_host:6.2f} ({host / their_host:4.2f})   clock {clock:6.2f}, torch {their_clock:6.2f} ({clock / their_clock:5.3f})"
          f"   losses differ by at most {apart:.1e} (last {losses['snap'][-1]:.4f})", flush=True)
    return {"model": name, "host_ms": host, "torch_host_ms": their_host, "clock_ms": clock, "torch_clock_ms": their_clock, "losses_apart": apart}


def gpt2(kind: str) -> dict:
    """A step of examples/gpt2, 124M parameters and batch 32 x 1024, in which all is Snap's, beside torch's model, eager or compiled."""
    import tempfile

    sys.path.insert(0, str(ROOT / "examples" / "gpt2"))
    import train

    with tempfile.TemporaryDirectory() as folder:
        report = train.main(["--steps", str(GPT2_STEPS), "--twin", kind, "--every", "20", "--out", folder])
    (ours, clock), (theirs, their_clock) = ((name, report.tokens / report.rate(name) * 1e3) for name in report.losses)
    apart = max(abs(one - other) for (_, one), (_, other) in zip(report.losses[ours], report.losses[theirs]))
    name = f"GPT-2 124M, torch {'compiled' if kind == 'compile' else kind}"
    print(f"{name:23} clock {clock:6.2f}, torch {their_clock:6.2f} ({clock / their_clock:5.3f})   losses differ by at most {apart:.1e}", flush=True)
    return {"model": name, "clock_ms": clock, "torch_clock_ms": their_clock, "losses_apart": apart}


def products(torch, options) -> None:
    """The products of a step, each alone on the GPU: forward, gradient of the input, gradient of the weight."""
    from snap import lib
    from snap.lib._gemm.product_gradients import gemm_gradients

    tokens, width = options.batch * options.length, options.width
    for name, rows, columns, times in (("qkv", width, 3 * width, options.layers), ("out", width, width, options.layers),
                                       ("up", width, 4 * width, options.layers), ("down", 4 * width, width, options.layers), ("head", width, VOCABULARY, 1)):
        x, w, bias = (torch.randn(shape, device="cuda").bfloat16() for shape in ((tokens, rows), (columns, rows), (columns,)))
        grad = torch.randn((tokens, columns), device="cuda").bfloat16()
        calls = {
            "forward": (lambda: lib.gemm(x, w.t(), None, bias), lambda: torch.addmm(bias, x, w.t())),
            "of input": (lambda: gemm_gradients(grad, x, w.t(), True, False), lambda: grad @ w),
            "of weight": (lambda: gemm_gradients(grad, x, w.t(), False, True), lambda: grad.t() @ x),
        }
        told = []
        for what, pair in calls.items():
            found = [on_gpu(torch, call) for call in pair]
            told.append(f"{what} {found[0]:7.1f} us, torch {found[1]:7.1f} ({found[0] / found[1]:4.2f})")
        print(f"{name:5} x {times}: {'   '.join(told)}", flush=True)


def on_gpu(torch, call, runs: int = 20) -> float:
    """Microseconds, the median."""
    for _ in range(3):
        call()
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(runs)]
    for start, end in events:
        start.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(end) * 1e3 for start, end in events)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, default in (("layers", 8), ("width", 1024), ("batch", 8), ("length", 1024), ("rounds", ROUNDS)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--compiled", action="store_true", help="the compiled model too")
    parser.add_argument("--only-compiled", action="store_true", help="the compiled model alone")
    parser.add_argument("--gpt2", choices=["eager", "compile"], help="GPT-2 124M of examples/gpt2 alone, beside torch's")
    parser.add_argument("--products", action="store_true", help="each product of a step alone, on the GPU")
    parser.add_argument("--json")
    options = parser.parse_args()
    import torch

    kinds = () if options.gpt2 else (True,) if options.only_compiled else (False, True) if options.compiled else (False,)
    rows = [gpt2(options.gpt2)] if options.gpt2 else [measured(torch, options, compiled) for compiled in kinds]
    if options.products:
        products(torch, options)
    if options.json:
        from report import surroundings

        told = {"kind": "steps", "benchmark": "steps", **surroundings(("torch",)), "gpu": torch.cuda.get_device_name(), "steps": rows}
        Path(options.json).write_text(json.dumps(told, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
