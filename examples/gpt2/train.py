"""Train GPT-2 by Snap kernels, on the source text of Python's standard library.

    python examples/gpt2/train.py --steps 500              # GPT-2 124M; needs a GPU
    python examples/gpt2/train.py --tiny                   # a very small one, on the CPU machine
    python examples/gpt2/train.py --twin compile           # and the same in plain torch, side by side
    torchrun --nproc-per-node 2 examples/gpt2/train.py --tiny

Losses, a checkpoint and `loss.svg` are written to `--out`; `--resume` goes on from the checkpoint.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import torch
from data import Text, text
from model import TINY, AdamW, Config, Model
from picture import curve

from snap import lib


def learning_rate(step: int, steps: int, most: float, warm: int) -> float:
    """Rise linearly, then fall in half a cosine to a tenth."""
    if step < warm:
        return most * (step + 1) / warm
    return most * (0.55 + 0.45 * math.cos(math.pi * (step - warm) / max(1, steps - warm)))


class Training:
    """The model's side: `step(tokens, targets, lr)` gives the loss.  On a GPU the whole step is a CUDA graph, which
    costs the host one launch; with several processes, DistributedDataParallel is between the gradients and AdamW.
    """

    def __init__(self, model: Model, graph: bool, processes: int):
        self.model, self.optimizer = model, AdamW(model)
        self.wants_graph = graph and processes == 1
        self.graph: torch.cuda.CUDAGraph | None = None
        self.parallel: Any = torch.nn.parallel.DistributedDataParallel(model) if processes > 1 else None
        self.given: Any = None

    def step(self, tokens: torch.Tensor, targets: torch.Tensor, lr: float) -> torch.Tensor:
        self.optimizer.begin(lr)
        if self.parallel is not None:
            return self._parallel_step(tokens, targets)
        if not self.wants_graph:
            return self._plain_step(tokens, targets)
        graph = self.graph or self._capture(tokens, targets)
        for held, new in zip(self.given, (tokens, targets)):
            held.copy_(new)
        graph.replay()
        return self.loss

    def _plain_step(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        loss = self.model.gradients(tokens, targets)
        self.optimizer.step()
        return loss

    def _capture(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.cuda.CUDAGraph:
        """The gradients are computed once before, so that everything is compiled; nothing is changed by that."""
        self.given = tokens.clone(), targets.clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.model.gradients(*self.given)
            rate, self.optimizer.lr[:] = self.optimizer.lr.clone(), 0.0
            held = [x.clone() for x in (self.optimizer.first, self.optimizer.second)]
            self.optimizer.step()  # compiled; a rate of 0 leaves the parameters, and the moments are put back
            for x, before in zip((self.optimizer.first, self.optimizer.second), held):
                x.copy_(before)
            self.optimizer.lr.copy_(rate)
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self._plain_step(*self.given)
        return self.graph

    def _parallel_step(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        loss = self.parallel(tokens, targets)
        loss.backward()
        for view, parameter in zip(self.model.g.values(), self.model.parameters()):
            assert parameter.grad is not None
            view.copy_(parameter.grad)
            parameter.grad = None
        self.optimizer.step()
        return loss.detach()


# ---- progress -------------------------------------------------------------------------------------------------------


class Report:
    """Losses and times, printed and kept.  Losses stay on the GPU until a line is printed: no step waits for them."""

    def __init__(self, tokens: int, losses: dict[str, list]):
        self.tokens, self.losses = tokens, losses
        self.held: list[tuple[int, torch.Tensor]] = []
        self.rates: dict[str, float] = {}

    def begin(self, name: str) -> None:
        self.name, self.since, self.counted = name, 0.0, 0
        self.losses.setdefault(name, [])

    def note(self, step: int, loss: torch.Tensor) -> None:
        self.held.append((step, loss.clone()))
        self.counted += 1

    def start_the_clock(self) -> None:
        """Start the clock after the first steps, which compile."""
        self._read()
        self.since, self.counted = time.perf_counter(), 0

    def paused(self, work: Callable[[], None]) -> None:
        """Stop the clock for work that is not part of the training."""
        self._read()
        begin = time.perf_counter()
        work()
        self.since += time.perf_counter() - begin

    def line(self, step: int) -> str:
        self._read()
        if self.counted and self.since:
            self.rates[self.name] = self.tokens * self.counted / (time.perf_counter() - self.since)
        return f"step {step:5}: {self.name} loss {self.losses[self.name][-1][1]:.4f}, {self.rate(self.name):,.0f} tokens/s"

    def rate(self, name: str) -> float:
        return self.rates.get(name, 0.0)

    def _read(self) -> None:
        self.losses[self.name] += [(step, float(loss)) for step, loss in self.held]
        self.held.clear()


def held_back(model: Model, words: Text, device: str, batches: int = 1) -> float:
    """Return the mean loss of text that no step has seen."""
    total = 0.0
    for k in range(batches):
        tokens, targets = words.on(device, k, validation=True)
        with torch.no_grad():
            total += float(lib.cross_entropy(model.logits(tokens), targets.reshape(-1)))
    return total / batches


def sample(model: Model, prompt: bytes, count: int, temperature: float, seed: int) -> bytes:
    """Return the bytes that the model writes after the prompt."""
    random = torch.Generator().manual_seed(seed)
    written = list(prompt)
    for _ in range(count):
        context = torch.tensor([written[-model.config.length :]], device=model.flat.device)
        with torch.no_grad():
            scores = model.logits(context)[-1, : model.config.used].float().cpu() / temperature
        written.append(int(torch.multinomial(scores.softmax(0), 1, generator=random)))
    return bytes(written)


# ---- the program ----------------------------------------------------------------------------------------------------


def options(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="GPT-2, trained by Snap kernels")
    parser.add_argument("--file", help="the text to learn; the standard library's source by default")
    parser.add_argument(
        "--tiny", action="store_true", help="a very small model, on the CPU machine where there is no GPU"
    )
    parser.add_argument("--steps", type=int)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--length", type=int, help="of a sequence")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--lr", type=float)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--twin", choices=["eager", "compile"], help="train the same model in plain torch beside it")
    parser.add_argument("--no-graph", action="store_true", help="launch every kernel from Python")
    parser.add_argument("--every", type=int, default=10, help="steps between two lines")
    parser.add_argument("--out", default="build/gpt2", help="where losses, picture and checkpoint go")
    parser.add_argument("--save", type=int, default=250, metavar="N", help="steps between two checkpoints")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint in `--out`")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="write N bytes at the end")
    parser.add_argument("--prompt", default="def ")
    return parser.parse_args(given)


def configured(o: argparse.Namespace) -> tuple[Config, int, int]:
    """Return the model, the batch and the number of steps."""
    config = TINY if o.tiny else Config()
    changes = {name: value for name, value in (("length", o.length), ("layers", o.layers)) if value is not None}
    config = Config(**{**config.__dict__, **changes})
    return config, o.batch or (1 if o.tiny else 32), (4 if o.tiny else 500) if o.steps is None else o.steps


def device_for(o: argparse.Namespace) -> str:
    if torch.cuda.is_available():
        return f"cuda:{int(os.environ.get('LOCAL_RANK', 0)) % torch.cuda.device_count()}"
    if not o.tiny:
        raise SystemExit("GPT-2 124M needs a GPU; `--tiny` trains a very small model on the CPU machine")
    return "cpu"


def save(path: Path, training: Training, report: Report, step: int) -> None:
    path.mkdir(parents=True, exist_ok=True)
    state = {"parameters": training.model.flat, "step": step, "losses": report.losses, **training.optimizer.state()}
    torch.save(state, path / "checkpoint.pt.new")
    os.replace(path / "checkpoint.pt.new", path / "checkpoint.pt")
    draw(path, report)


def draw(path: Path, report: Report) -> None:
    (path / "losses.json").write_text(json.dumps(report.losses))
    curve(path / "loss.svg", report.losses)


def load(path: Path, training: Training) -> dict[str, Any]:
    if not (path / "checkpoint.pt").exists():
        raise SystemExit(f"there is no {path / 'checkpoint.pt'} to go on from: leave `--resume` out, or name `--out`")
    state = torch.load(path / "checkpoint.pt", map_location=training.model.flat.device, weights_only=True)
    if state["parameters"].shape != training.model.flat.shape:
        held, wanted = state["parameters"].numel(), training.model.flat.numel()
        raise SystemExit(f"the checkpoint has {held:,} parameters, and the model {wanted:,}: use the options of before")
    training.model.flat.copy_(state["parameters"])
    training.model.rounded.copy_(training.model.flat)
    training.optimizer.load(state)
    return state


def main(given: list[str] | None = None) -> Report:
    o = options(given)
    config, batch, steps = configured(o)
    processes, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
    if processes > 1:
        torch.distributed.init_process_group("gloo")
    device = device_for(o)
    if device != "cpu":
        torch.cuda.set_device(device)
    words = Text(text(o.file), batch, config.length, o.seed, rank)
    training = Training(Model(config, device, o.seed), device != "cpu" and not o.no_graph, processes)
    sides: dict[str, Any] = {"snap": training}
    if o.twin and o.resume:
        raise SystemExit("`--twin` has no checkpoint, so that it cannot go on: leave `--resume` or `--twin` out")
    if o.twin and processes == 1:
        from twin import TwinTraining

        sides[f"torch {o.twin}"] = TwinTraining(config, training.model.flat, o.twin)
    state = load(Path(o.out), training) if o.resume else {"step": 0, "losses": {}}
    report = Report(processes * batch * config.length, state["losses"])
    peak, first = o.lr or (3e-3 if o.tiny else 6e-4), state["step"]
    for name, side in sides.items():
        report.begin(name)
        for step in range(first, steps):
            rate = learning_rate(step, steps, peak, min(100, steps // 5 + 1))
            report.note(step, side.step(*words.on(device, step), rate))
            if step == first + 2:
                report.start_the_clock()
            if rank == 0 and (step % o.every == 0 or step == steps - 1):
                print(report.line(step), flush=True)
            if rank == 0 and side is training and ((step + 1) % max(1, o.save) == 0 or step == steps - 1):
                report.paused(lambda: save(Path(o.out), training, report, step + 1))
    if rank == 0 and len(sides) > 1:
        draw(Path(o.out), report)
        ours, theirs = (report.losses[name] for name in sides)
        most = max(abs(one[1] - other[1]) for one, other in zip(ours, theirs))
        print(f"the losses of {len(ours)} steps differ by at most {most:.4f}")
    if rank == 0:
        print(f"loss of text that was held back: {held_back(training.model, words, device):.4f}")
        if o.sample:
            print(sample(training.model, o.prompt.encode(), o.sample, 0.8, o.seed).decode(errors="replace"))
    if processes > 1:
        torch.distributed.destroy_process_group()
    return report


if __name__ == "__main__":
    main()
