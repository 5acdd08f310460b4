"""examples/gpt2 on the CPU machine: the same losses as the twin in torch, gradients too, a checkpoint to go on from, two processes."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

FOLDER = Path(__file__).parents[2] / "examples" / "gpt2"


@pytest.fixture
def program(monkeypatch):
    """The example's modules, found as its own program finds them."""
    monkeypatch.syspath_prepend(str(FOLDER))
    if torch.cuda.is_available():
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    import train

    yield train
    for name in ("train", "model", "data", "picture", "twin", "kernels", "compare"):
        sys.modules.pop(name, None)


def test_beside_the_twin(program, tmp_path, capsys):
    report = program.main(["--tiny", "--steps", "2", "--every", "1", "--twin", "eager", "--out", str(tmp_path)])
    ours, theirs = (dict(report.losses[name]) for name in ("snap", "torch eager"))
    assert ours.keys() == theirs.keys() == {0, 1} and ours[1] < ours[0]
    assert all(abs(ours[k] - theirs[k]) < 0.01 for k in ours), (ours, theirs)
    shown = capsys.readouterr().out
    assert "snap loss" in shown and "held back" in shown
    assert "<polyline" in (tmp_path / "loss.svg").read_text()
    again = program.main(["--tiny", "--steps", "3", "--resume", "--sample", "1", "--out", str(tmp_path)])
    assert [step for step, _ in again.losses["snap"]] == [0, 1, 2]
    assert json.loads((tmp_path / "losses.json").read_text())["snap"][:2] == [[k, ours[k]] for k in (0, 1)]


def test_gradients(program):
    """Each parameter's, against torch's of the twin."""
    from model import TINY, Model
    from twin import Twin

    model = Model(TINY, "cpu", 3)
    twin = Twin(TINY, model.flat)
    tokens = torch.randint(0, 256, (2, 20), generator=torch.Generator().manual_seed(5))
    targets = tokens.roll(1, 1)
    loss = model.gradients(tokens, targets)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        expected = twin(tokens, targets)
    expected.backward()
    assert abs(float(loss) - float(expected)) < 0.01
    for (name, got), parameter in zip(model.g.items(), twin.parameters()):
        if name == "places":
            assert (got[20:] == 0).all()
        off = (got - parameter.grad).norm() / parameter.grad.norm()
        assert off < 0.05, (name, float(off))


@pytest.mark.parametrize("shift, within", [(0.0, True), (0.5, False)])
def test_noise(program, monkeypatch, tmp_path, capsys, shift, within):
    """The command's verdict, by runs whose losses are known: those of both sides are as far apart as those of one, or farther."""
    import compare

    class Run:
        def __init__(self, far):
            self.far, self.steps, self.seen = far, 0, []

        def step(self, tokens, targets, lr):
            self.seen.append(tokens)
            self.steps += 1
            return torch.tensor(3.0 - 0.01 * self.steps + self.far)

    runs = [Run(0.1 * k + shift) for k in range(2)] + [Run(0.1 * k) for k in range(2)]
    left = iter(runs)
    monkeypatch.setattr(compare, "snap_from", lambda *args: next(left))
    monkeypatch.setattr(compare, "TwinTraining", lambda *args, **words: next(left))
    monkeypatch.setattr(compare, "gradients", lambda *args: {"snap": (0.003, 0.005), "torch": (0.003, 0.005)})
    found = compare.main(["--tiny", "--steps", "60", "--batch", "4", "--runs", "2", "--out", str(tmp_path)])
    assert found["within"] is within and abs(found["noise"] - 0.1) < 1e-5 and abs(found["shift"] - shift) < 1e-5
    assert [round(d, 4) for d in found["distances"]] == [round(abs(shift + 0.1 * (i - j)), 4) for i in range(2) for j in range(2)]
    assert ("OUTSIDE" in capsys.readouterr().out) is not within
    assert (tmp_path / "differences.svg").read_text().count("<polyline") == 4
    plain, *others = (run.seen[7] for run in runs)
    assert torch.equal(plain, others[1]) and not torch.equal(plain, others[0]) and torch.equal(others[0], others[2])
    assert all(sorted(map(tuple, plain.tolist())) == sorted(map(tuple, one.tolist())) for one in others)  # the same sequences


@pytest.mark.parametrize("shift, rare", [(0.0, False), (0.01, False), (0.06, True)])
def test_sides_that_could_be_exchanged(program, shift, rare):
    """Four runs of each side, as far apart as chance puts them; then those of one side are lower."""
    import compare

    random = torch.Generator().manual_seed(3)
    runs = [[3.0 - 0.01 * k + float(far) for k in range(60)] for far in 0.02 * torch.randn(8, generator=random)]
    ours = [[loss - shift for loss in run] for run in runs[:4]]
    found = compare.judged(ours, runs[4:])
    assert found["within"] is not rare and (found["rarity"] < 0.05) is rare
    every = [abs(sum(runs[k][0] for k in some) - sum(runs[k][0] for k in range(8) if k not in some)) / 4 for some in itertools.combinations(range(8), 4)]
    true = abs(sum(run[0] for run in ours) - sum(run[0] for run in runs[4:])) / 4
    if not shift:
        assert abs(found["rarity"] - sum(one >= true - 1e-9 for one in every) / len(every)) < 1e-9


def test_a_text_that_is_too_short(program, tmp_path):
    (tmp_path / "short").write_text("abc")
    with pytest.raises(SystemExit, match="too few"):
        program.main(["--tiny", "--file", str(tmp_path / "short")])


def test_nothing_to_go_on_from(program, tmp_path):
    with pytest.raises(SystemExit, match="there is no .*checkpoint.pt to go on from"):
        program.main(["--tiny", "--resume", "--out", str(tmp_path)])
    with pytest.raises(SystemExit, match="has no checkpoint"):
        program.main(["--tiny", "--resume", "--twin", "eager", "--out", str(tmp_path)])
    torch.save({"parameters": torch.zeros(3)}, tmp_path / "checkpoint.pt")
    with pytest.raises(SystemExit, match="has 3 parameters, and the model"):
        program.main(["--tiny", "--resume", "--out", str(tmp_path)])


def test_two_processes(tmp_path):
    """Each has other sequences; the gradients are averaged by torch's own engine."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", str(FOLDER / "train.py")]
    done = subprocess.run(
        [*command, "--tiny", "--steps", "1", "--out", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("step     0: snap loss") == 1
