"""Decide whether Snap's loss is within the noise of its twin in torch.

    python examples/gpt2/compare.py --steps 500                 # GPT-2 124M, batch 8 x 512; needs a GPU
    python examples/gpt2/compare.py --steps 500 --batch 32 --length 1024 --runs 4
    python examples/gpt2/compare.py --tiny --steps 20           # a very small model, on the CPU machine

Training is chaotic: a difference in rounding between two runs becomes visible.  So both are
trained several times, on the same batches, from the same parameters, at the same rates.  The runs of one side differ
only in rounding: the first sees each batch's sequences in their order, the others in an order of their own, so that sums
are taken in another order; and every second run of the twin keeps the sums of the layers in bf16, as Snap does, where
autocast keeps f32.  How far runs of one side are apart is the noise.

If sides differ by noise alone, it does not matter which runs are called Snap's.  So all runs are divided into two halves
in every possible way, and each time the largest distance between the mean curves of the halves is measured.  Snap's loss is
outside the noise if Snap and torch are a division of the rarest twentieth.  That takes four runs of each side; with
fewer, at least half of the pairs of a run of Snap's and one of the twin's must be as near as two runs of one side are.

Before, gradients: those of the first batch, by Snap and by the twin, against the twin in f32 without autocast.

`--out` has compare.json, the curves as loss.svg, and their differences from the twins' mean as differences.svg.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import torch
from data import Text, text
from model import TINY, Config, Model
from picture import curve
from train import Training, learning_rate
from twin import Twin, TwinTraining

RARE = 0.05  # of divisions
ENOUGH = 4  # runs of each side: the rarest of their divisions are less than that part
WINDOW = 20  # steps that are averaged before runs are compared: one step differs from the next by far more than runs do


def in_another_order(run: int, step: int, batch: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return the sequences of a batch, in the order of one run."""
    if run == 0:
        return batch
    random = torch.Generator().manual_seed(1000 * step + run)
    order = torch.randperm(batch[0].shape[0], generator=random).to(batch[0].device)
    return [x[order] for x in batch]


def smooth(losses: list[float]) -> list[float]:
    """Average over that many steps, one group after the other."""
    return [statistics.fmean(losses[k : k + WINDOW]) for k in range(0, len(losses) - WINDOW + 1, WINDOW)] or losses


def apart(one: list[float], other: list[float]) -> float:
    """Return the largest distance between two runs."""
    return max(abs(a - b) for a, b in zip(smooth(one), smooth(other)))


def rarity(ours: list[list[float]], twins: list[list[float]]) -> float:
    """Return the share of all divisions of the runs into two sides whose mean curves are at least as far apart as these."""
    curves = torch.tensor([smooth(run) for run in (*ours, *twins)], dtype=torch.float64)
    total, n, count = curves.sum(0), len(ours), len(curves)

    def between(chosen: tuple[int, ...]) -> float:
        some = curves[list(chosen)].sum(0)
        return float((some / n - (total - some) / (count - n)).abs().max())

    found = [between(chosen) for chosen in itertools.combinations(range(count), n)]
    return statistics.fmean(distance >= found[0] - 1e-12 for distance in found)  # the first is the true one


def judged(ours: list[list[float]], twins: list[list[float]]) -> dict[str, Any]:
    """Judge the runs.  noise: how far two runs of one side are apart, the largest of all pairs.  rarity: see above.  late: of each run
    the mean of the last fifth of the steps; shift: Snap's minus the twin's, in the mean of their runs, and chance: its
    standard error.
    """
    alone = {
        name: [apart(one, other) for one, other in itertools.combinations(side, 2)]
        for name, side in (("snap", ours), ("torch", twins))
    }
    between = [apart(one, other) for one in ours for other in twins]
    last = max(1, len(ours[0]) // 5)
    late = [[statistics.fmean(run[-last:]) for run in side] for side in (ours, twins)]
    noise = max(distance for pairs in alone.values() for distance in pairs)
    rare = rarity(ours, twins)
    return {
        "noise": noise,
        "rarity": rare,
        "pairs": alone,
        "distances": between,
        "within": rare >= RARE if len(ours) >= ENOUGH else statistics.median(between) <= noise,
        "late": {"snap": late[0], "torch": late[1]},
        "shift": statistics.fmean(late[0]) - statistics.fmean(late[1]),
        "chance": sum(statistics.variance(side) / len(side) for side in late) ** 0.5,
    }


def off(got: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> tuple[float, float]:
    """Return the relative error of all gradients together, and the largest of one parameter."""
    errors = {name: float((got[name].double() - wanted[name].double()).norm()) for name in wanted}
    sizes = {name: float(wanted[name].double().norm()) for name in wanted}
    all_of_them = (sum(e * e for e in errors.values()) / sum(s * s for s in sizes.values())) ** 0.5
    return all_of_them, max(errors[name] / sizes[name] for name in wanted if sizes[name])


def gradients(model: Model, words: Text, device: str) -> dict[str, tuple[float, float]]:
    """Compare the gradients of the first batch, by Snap and by the twin in bf16, with the twin in f32."""
    tokens, targets = words.on(device, 0)
    twin, names = Twin(model.config, model.flat), list(model.g)

    def of_twin(autocast: bool) -> dict[str, torch.Tensor]:
        twin.zero_grad()
        with torch.autocast(device.split(":")[0], dtype=torch.bfloat16, enabled=autocast):
            twin(tokens, targets).backward()
        return {name: p.grad.clone() for name, p in zip(names, twin.parameters()) if p.grad is not None}

    model.gradients(tokens, targets)
    exact = of_twin(False)
    return {"snap": off(model.g, exact), "torch": off(of_twin(True), exact)}


def trained(name: str, run: Any, words: Text, device: str, o: argparse.Namespace, order: int) -> list[float]:
    losses: list[torch.Tensor] = []
    for step in range(o.steps):
        rate = learning_rate(step, o.steps, o.lr, min(100, o.steps // 5 + 1))
        losses.append(run.step(*in_another_order(order, step, words.on(device, step)), rate).clone())
    found = [float(loss) for loss in losses]
    print(
        f"{name:24} loss {found[0]:.4f} first, {statistics.fmean(found[-WINDOW:]):.4f} in the last {WINDOW} steps",
        flush=True,
    )
    return found


def options(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Snap's loss beside several runs of its twin in torch")
    parser.add_argument("--file", help="the text to learn; the standard library's source by default")
    parser.add_argument(
        "--tiny", action="store_true", help="a very small model, on the CPU machine where there is no GPU"
    )
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--length", type=int)
    parser.add_argument("--lr", type=float)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=6, help="of each side")
    parser.add_argument("--how", choices=["eager", "compile"], default="eager", help="how torch runs the twin")
    parser.add_argument("--out", default="build/gpt2-compare")
    o = parser.parse_args(given)
    if o.runs < 2:
        raise SystemExit("noise is the difference of two runs: `--runs` is 2 at least")
    if not o.tiny and not torch.cuda.is_available():
        raise SystemExit("GPT-2 124M needs a GPU; `--tiny` trains a very small model on the CPU machine")
    o.batch, o.length = o.batch or (2 if o.tiny else 8), o.length or (TINY.length if o.tiny else 512)
    o.lr = o.lr or (3e-3 if o.tiny else 6e-4)
    return o


def main(given: list[str] | None = None) -> dict[str, Any]:
    o = options(given)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    config = Config(**{**(TINY if o.tiny else Config()).__dict__, "length": o.length})
    words = Text(text(o.file), o.batch, config.length, o.seed)
    model = Model(config, device, o.seed)
    begin = model.flat.clone()
    errors = gradients(model, words, device)
    for name, (all_of_them, worst) in errors.items():
        print(
            f"gradients, {name:12} {all_of_them:.2%} from those in f32, {worst:.2%} of one parameter at most",
            flush=True,
        )
    runs: dict[str, list[float]] = {}
    for k in range(o.runs):
        runs[f"snap, order {k}"] = trained(f"snap, order {k}", snap_from(begin, config, device), words, device, o, k)
    for k in range(o.runs):
        stream = torch.bfloat16 if k % 2 else torch.float32
        name = f"torch, order {k}, {str(stream)[6:]}"
        runs[name] = trained(name, TwinTraining(config, begin, o.how, stream=stream), words, device, o, k)
    both = list(runs.values())
    found = {**judged(both[: o.runs], both[o.runs :]), "gradients": errors, "losses": runs, **vars(o)}
    told(found)
    draw(Path(o.out), runs, found)
    return found


def snap_from(begin: torch.Tensor, config: Config, device: str) -> Training:
    model = Model(config, device)
    model.flat.copy_(begin)
    model.rounded.copy_(begin)
    return Training(model, device != "cpu", 1)


def told(found: dict[str, Any]) -> None:
    for name, pairs in found["pairs"].items():
        print(
            f"two runs of {name} are apart by {', '.join(f'{d:.4f}' for d in pairs)} at most, in means of {WINDOW} steps"
        )
    print(f"runs of Snap and of torch by {', '.join(f'{d:.4f}' for d in found['distances'])}")
    for name, late in found["late"].items():
        print(f"mean of the last fifth of the steps, {name}: {', '.join(f'{mean:.4f}' for mean in late)}")
    print(f"Snap's is {found['shift']:+.4f} from the twin's, with a standard error of {found['chance']:.4f}")
    print(f"{found['rarity']:.1%} of all divisions of the runs into two sides are as far apart, or farther")
    print(f"Snap is {'within' if found['within'] else 'OUTSIDE of'} the noise of {found['noise']:.4f}", flush=True)


def draw(path: Path, runs: dict[str, list[float]], found: dict[str, Any]) -> None:
    path.mkdir(parents=True, exist_ok=True)
    (path / "compare.json").write_text(json.dumps(found) + "\n")
    curve(path / "loss.svg", {name: list(enumerate(run)) for name, run in runs.items()})
    means = [statistics.fmean(all_of_them) for all_of_them in zip(*list(runs.values())[len(runs) // 2 :])]
    beside = {name: smooth([a - b for a, b in zip(run, means)]) for name, run in runs.items()}
    curve(
        path / "differences.svg", {name: [(WINDOW * k, d) for k, d in enumerate(run)] for name, run in beside.items()}
    )


if __name__ == "__main__":
    sys.exit(0 if main()["within"] else 1)
