"""The autotuner on a GPU: real times, the choice on disk, arrays left alone."""

from __future__ import annotations

import pytest

import snap
from snap import *
from snap.host.compile.cache import Cache
from snap.host.device.driver import available

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.skipif(not (available() and torch.cuda.is_available()), reason="there is no GPU")


@kernel
@requires(lambda B: (grid[1], block[1], thread[B]))
def scaled(x: ptr(const(float)) @ grid[1], y: ptr(float) @ grid[1], n: int @ grid[1], B: constexpr(int), WASTE: constexpr(int)):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], f=lambda k: i + k) as mine:
            with group(thread[1]):
                if i < n:
                    v: float = x[i]
                    for k in range(WASTE):
                        v = sqrt(v * v + 1.0)
                    mine[0] = v + mine[0]


def blocks(n, B):
    return -(-n // B)


def test_the_faster_one_is_found_kept_and_found_again(tmp_path):
    n = 1 << 22
    x, y = torch.rand(n, device="cuda"), torch.ones(n, device="cuda")
    candidates = {"B": [2048, 32, 256], "WASTE": [2000, 0]}
    made = snap.tune(scaled, candidates, x, y, n, blocks=blocks, cache=Cache(tmp_path / "cache"), quiet=True)
    assert made.config == {"B": 256, "WASTE": 0} and not made.cached
    assert (y == 1).all(), "the user's array was touched"
    outcomes = [trial.outcome for trial in made.trials]
    assert outcomes == ["pruned", "pruned", "timed", "timed", "timed", "timed"]
    times = {tuple(trial.config.values()): trial.seconds for trial in made.trials if trial.seconds}
    assert times[256, 2000] > 10 * times[256, 0] > 0
    assert 12 * n / made.seconds < 6e12, "faster than the memory: the clock is wrong"
    again = snap.tune(scaled, candidates, x, y, n, blocks=blocks, cache=Cache(tmp_path / "cache"), quiet=True)
    assert again.cached and again.config == made.config
    again(x, y, n)
    torch.testing.assert_close(y, x + 1)


def test_reset_runs_before_each_timed_run(tmp_path):
    n = 1024
    x, y = torch.ones(n, device="cuda"), torch.zeros(n, device="cuda")
    sums = []
    snap.tune(scaled, {"B": [32], "WASTE": [0]}, x, y, n, blocks=blocks, cache=Cache(None), reset=lambda y: (sums.append(float(y[0])), y.zero_()))
    assert len(sums) == 7 and sums[0] == 0 and set(sums[1:]) == {1.0}


def test_off_means_the_first(monkeypatch):
    x, y = torch.ones(64, device="cuda"), torch.zeros(64, device="cuda")
    monkeypatch.setenv("SNAP_TUNE", "off")
    made = snap.tune(scaled, {"B": [32, 64], "WASTE": [9]}, x, y, 64, blocks=blocks)
    assert made.config["B"] == 32 and made.seconds is None
