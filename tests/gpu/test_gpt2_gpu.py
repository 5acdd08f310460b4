"""examples/gpt2 on a GPU: every kernel of a step is Snap's, by torch's profiler; the graph's step is the step without one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parents[2] / "examples" / "gpt2"


@pytest.fixture(autouse=True)
def modules(monkeypatch):
    """The example's modules, found as its own program finds them."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield
    for name in ("train", "model", "data", "picture", "twin", "kernels", "launches"):
        sys.modules.pop(name, None)


def test_every_kernel_of_a_step_is_snaps(capsys):
    import launches

    assert launches.main(["--batch", "2", "--length", "256", "--layers", "2"]) == []
    shown = capsys.readouterr().out
    assert all(f" {name} " in shown for name in ("gemm", "attention", "adamw", "cross_entropy", "norm_gradient", "advance"))


def test_a_step_by_a_graph():
    from model import Config, Model
    from train import Training

    config = Config(layers=2, length=128)
    tokens = torch.randint(0, 256, (2, 129), generator=torch.Generator().manual_seed(3)).cuda()
    sides = [Training(Model(config, "cuda"), graph, 1) for graph in (False, True)]
    losses = [[float(side.step(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous(), 1e-3)) for _ in range(5)] for side in sides]
    assert losses[0][-1] < losses[0][0] - 0.5
    assert all(abs(one - other) < 2e-2 for one, other in zip(*losses)), losses
    assert [int(side.optimizer.steps) for side in sides] == [5, 5]
