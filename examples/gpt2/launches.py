"""List all that the GPU does in one step of training: kernels of Snap, and copies.

    python examples/gpt2/launches.py [--batch 32] [--length 1024] [--layers 12]

The profiler of torch lists every kernel, copy and fill of some steps.  A kernel is Snap's if the runtime has loaded one
of that name; any other one is an error, and the exit code 1.  Copies have their reasons here.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import torch
from data import Text, text
from model import Config, Model
from train import Training

from snap.host.device.gpu import GpuKernel

COPIES = {
    "HtoD": "tokens and targets, which the host draws",
    "DtoD": "the batch to where the graph reads it, and the loss to where it is kept",
    "DtoH": "losses, where they are printed",
}


def names_of_snap() -> set[str]:
    """Return the names of all loaded kernels."""
    return {one.compiled.module.kernel for one in gc.get_objects() if isinstance(one, GpuKernel)}


def profiled(training: Training, words: Text, steps: int) -> list:
    """Profile the GPU: (name, microseconds it began, microseconds it took)."""
    from torch.profiler import ProfilerActivity, profile

    for step in range(3):
        training.step(*words.on("cuda", step), 1e-4)
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as seen:
        kept = [training.step(*words.on("cuda", step), 1e-4).clone() for step in range(steps)]
        torch.cuda.synchronize()
    assert all(torch.isfinite(loss) for loss in kept)
    return sorted(
        (event.time_range.start, event.time_range.elapsed_us(), event.name)
        for event in seen.events()
        if event.device_type == torch.autograd.DeviceType.CUDA
    )


def main(given: list[str] | None = None) -> list[str]:
    """Return the names of operations that are neither Snap's nor a copy."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--steps", type=int, default=3)
    o = parser.parse_args(given)
    config = Config(layers=o.layers, length=o.length)
    training = Training(Model(config, "cuda"), True, 1)
    events = profiled(training, Text(text(None), o.batch, o.length, 1), o.steps)
    ours = names_of_snap()
    times: dict[str, list[float]] = defaultdict(list)
    for _, took, name in events:
        times[name].append(took)
    foreign = []
    for name, took in sorted(times.items(), key=lambda item: -sum(item[1])):
        copy = next((why for word, why in COPIES.items() if name.startswith("Memcpy") and word in name), None)
        whose = "Snap" if name in ours else "copy" if copy else "OTHER"
        if whose == "OTHER":
            foreign.append(name)
        print(
            f"{whose:5} {len(took) / o.steps:6.1f} a step, {sum(took) / o.steps:9.1f} us a step, {sum(took) / len(took):8.1f} us each  {name[:90]} {copy or ''}"
        )
    busy = sum(took for _, took, _ in events) / o.steps
    idle = sum(max(0.0, b[0] - a[0] - a[1]) for a, b in zip(events, events[1:])) / o.steps
    print(
        f"{len(events) / o.steps:.0f} a step; the GPU is busy for {busy / 1e3:.2f} ms of a step, and idle for {idle / 1e3:.2f} ms between them"
    )
    print(
        "all kernels of a step are Snap's" if not foreign else f"kernels that are not Snap's: {', '.join(foreign)}",
        flush=True,
    )
    return foreign


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
