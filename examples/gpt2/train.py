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
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import torch
from data import Text, text
from model import TINY, AdamW, Config, Model
from picture import curve


def learning_rate(step: int, steps: int, most: float, warm: int) -> float:
    """Up in a line, then down in half a cosine to a tenth."""
    if step < warm:
        return most * (step + 1) / warm
    return most * (0.55 + 0.45 * math.cos(math.pi * (step - warm) / max(1, steps - warm)))


class Training:
    """The model's side: `step(tokens, targets, lr)` gives the loss.  On a GPU the whole step is a CUDA graph, which
    costs the host one launch; with several processes, DistributedDataParallel is between the gradients and AdamW.
    """

    def __init__(self, model: Model, graph: bool, processes: int):
        self.model, self.optimizer = model, AdamW(model)
        self.wants_graph, self.graph = graph and processes == 1, None
        self.parallel: Any = torch.nn.parallel.DistributedDataParallel(model) if processes > 1 else None
        self.given: Any = None

    def step(self, tokens: torch.Tensor, targets: torch.Tensor, lr: float) -> torch.Tensor:
        self.optimizer.lr.fill_(lr)
        self.optimizer.steps += 1
        if self.parallel is not None:
            return self._parallel_step(tokens, targets)
        if not self.wants_graph:
            return self._plain_step(tokens, targets)
        if self.graph is None:
            self._capture(tokens, targets)
        for held, new in zip(self.given, (tokens, targets)):
            held.copy_(new)
        self.graph.replay()
        return self.loss

    def _plain_step(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        loss = self.model.gradients(tokens, targets)
        self.optimizer.step()
        return loss

    def _capture(self, tokens: torch.Tensor, targets: torch.Tensor) -> None:
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

    def _parallel_step(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        loss = self.parallel(tokens, targets)
        loss.backward()
        for view, parameter in zip(self.model.g.values(), self.model.parameters()):
            view.copy_(parameter.grad)
            parameter.grad = None
        self.optimizer.step()
        return loss.detach()


# ---- progress -------------------------------------------------------------------------------------------------------


class Report:
    """Losses and times, printed and kept."""

    def __init__(self, names: list[str], tokens: int, every: int, losses: dict[str, list] | None = None):
        self.losses: dict[str, list] = losses or {name: [] for name in names}
        self.tokens, self.every = tokens, every
        self.seconds = dict.fromkeys(names, 0.0)
        self.counted = dict.fromkeys(names, 0)

    def note(self, name: str, step: int, loss: float, seconds: float, first: bool) -> None:
        """Of the first steps, which compile, the time does not count."""
        self.losses.setdefault(name, []).append((step, loss))
        if not first:
            self.seconds[name] += seconds
            self.counted[name] += 1

    def rate(self, name: str) -> float:
        return self.tokens * self.counted[name] / self.seconds[name] if self.seconds[name] else 0.0

    def line(self, step: int) -> str:
        parts = [
            f"{name} loss {self.losses[name][-1][1]:.4f}, {self.rate(name):,.0f} tokens/s" for name in self.seconds
        ]
        return f"step {step:5}: " + "; ".join(parts)


def sample(model: Model, prompt: bytes, count: int, temperature: float, seed: int) -> bytes:
    """Bytes that the model writes after the prompt."""
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
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="write N bytes at the end")
    parser.add_argument("--prompt", default="def ")
    return parser.parse_args(given)


def configured(o: argparse.Namespace) -> tuple[Config, int, int]:
    """The model, the batch and the number of steps."""
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
    (path / "losses.json").write_text(json.dumps(report.losses))
    curve(path / "loss.svg", report.losses)


def load(path: Path, training: Training) -> dict[str, Any]:
    state = torch.load(path / "checkpoint.pt", map_location=training.model.flat.device, weights_only=True)
    training.model.flat.copy_(state["parameters"])
    training.model.half.copy_(training.model.flat)
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
    if o.twin and processes == 1:
        from twin import TwinTraining

        sides[f"torch {o.twin}"] = TwinTraining(config, training.model.flat, o.twin)
    state = load(Path(o.out), training) if o.resume else {"step": 0, "losses": None}
    report = Report(list(sides), processes * batch * config.length, o.every, state["losses"])
    peak = o.lr or (3e-3 if o.tiny else 6e-4)
    for step in range(state["step"], steps):
        lr = learning_rate(step, steps, peak, min(100, steps // 5 + 1))
        tokens, targets = (x.to(device) for x in words.batch(step))
        for name, side in sides.items():
            begin = time.perf_counter()
            loss = float(side.step(tokens, targets, lr))
            report.note(name, step, loss, time.perf_counter() - begin, first=step < state["step"] + 3)
        if rank == 0 and (step % o.every == 0 or step == steps - 1):
            print(report.line(step), flush=True)
    if rank == 0:
        save(Path(o.out), training, report, max(steps, state["step"]))
        if o.sample:
            print(sample(training.model, o.prompt.encode(), o.sample, 0.8, o.seed).decode(errors="replace"))
    if processes > 1:
        torch.distributed.destroy_process_group()
    return report


if __name__ == "__main__":
    main()
