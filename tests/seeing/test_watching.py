"""Long runs on the CPU: the line that tells how far one is, and the ways to stop it."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import snap
from snap import *
from snap import SnapWarning
from snap.machine import watching

SOURCE = Path(__file__).resolve().parents[2] / "src"


@kernel(threads=64)
def slow(x: ptr(float), n: int):
    with each(thread, x) as i:
        for k in range(n):
            x[i] = x[i] * 1.0000001 + 1.0
        if i < 2:
            print("ends", i)


@kernel(threads=64)
def spins(x: ptr(int), n: int):
    with each(thread, x) as i:
        k = 0
        while k < n:
            k += 1
            x[i] = k


@kernel(threads=64)
def racy(x: ptr(int), n: int):
    with each(block, x, disjoint=x):
        for k in range(n):
            with partition(x, p=thread[1], f=lambda j: j) as mine, group(thread[1]):
                mine[0] = mine[1] + k


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def hasty(monkeypatch):
    """Everything is shown at once."""
    monkeypatch.setattr(watching, "SHOWN_AFTER", 0.0)
    monkeypatch.setattr(watching, "SHOWN_EVERY", 0.0)


def floats(n=64):
    return np.zeros(n, np.float32)


# ---- the line -------------------------------------------------------------------------------------------------------


def test_a_terminal_sees_a_line_that_is_taken_away(hasty, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    slow[1](floats(), 200)
    text = sys.stderr.getvalue()
    assert "`slow` on the CPU machine: block 0 of 1, 0 s (Ctrl-C stops it)" in text
    assert text.endswith(watching._CLEAR) and "\n" not in text


def test_it_does_not_stand_in_the_program_s_own_output(hasty, monkeypatch):
    both = Terminal()
    monkeypatch.setattr(sys, "stderr", both)
    monkeypatch.setattr(sys, "stdout", both)
    slow[1](floats(), 200)
    before, _, after = both.getvalue().partition("block 0, thread 0: ends 0\nblock 0, thread 1: ends 1\n")
    assert after in ("", watching._CLEAR) and before.endswith(watching._CLEAR)


def test_nothing_is_written_where_nobody_watches(hasty, capfd):
    slow[1](floats(), 50)
    assert slow.races(floats(), 5, blocks=1, seeds=1) == []
    assert capfd.readouterr().err == ""


def test_short_runs_show_nothing(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    slow[1](floats(), 20)
    assert sys.stderr.getvalue() == ""


def test_the_environment_asks_for_it_or_forbids_it(hasty, monkeypatch, capsys):
    monkeypatch.setenv("SNAP_PROGRESS", "1")
    slow[1](floats(), 50)
    lines = capsys.readouterr().err.splitlines()
    assert lines and all(line.startswith("`slow` on the CPU machine: block 0 of 1") for line in lines)
    monkeypatch.setenv("SNAP_PROGRESS", "0")
    monkeypatch.setattr(sys, "stderr", Terminal())
    slow[1](floats(), 50)
    assert sys.stderr.getvalue() == ""


def test_races_tell_the_schedule(hasty, capsys, monkeypatch):
    monkeypatch.setattr(watching, "WRITTEN_EVERY", 0.0)
    slow.races(floats(128), 20, blocks=2, seeds=3, progress=True)
    text = capsys.readouterr().err
    assert "races of `slow`: schedule 1 of 3, 0 of 4 warps have ended, 0 s" in text and "schedule 3 of 3" in text


def test_batches_of_blocks_are_counted(hasty, capsys, monkeypatch):
    monkeypatch.setattr(watching, "WRITTEN_EVERY", 0.0)
    monkeypatch.setattr("snap.machine.reference.BATCH", 128)
    monkeypatch.setenv("SNAP_PROGRESS", "1")
    slow[8](floats(512), 3)
    assert "block 6 of 8" in capsys.readouterr().err


# ---- a limit --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [slow, spins], ids=["for", "while"])
@pytest.mark.parametrize("seed", [None, 1])
def test_a_run_ends_when_its_time_is_over(k, seed):
    began = time.monotonic()
    x = np.zeros(64, np.float32 if k is slow else np.int32)
    with pytest.raises(snap.MachineError) as raised:
        k.launch(x, 1_000_000, blocks=1, seed=seed, seconds=0.3)
    assert raised.value.kind == "time limit" and time.monotonic() - began < 5
    assert "time ran out" in str(raised.value) and "seconds=" in str(raised.value) and x.any()


def test_enough_time_changes_nothing():
    x, y = floats(), floats()
    slow.launch(x, 20, blocks=1, seconds=60)
    slow.launch(y, 20, blocks=1)
    np.testing.assert_array_equal(x, y)


def test_races_seen_until_then_are_returned_with_a_warning():
    x = np.zeros(70, np.int32)
    with pytest.warns(SnapWarning, match="time ran out: races of `racy`: schedule 1 of 4") as told:
        found = racy.races(x, 1_000_000, blocks=1, seeds=4, seconds=0.5)
    assert len(found) >= 1 and found[0].object == "x" and told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert slow.races(floats(), 2, blocks=1, seeds=1, seconds=60) == []


@pytest.mark.parametrize("seconds", [0, -1, True, "1", float("nan")])
def test_a_limit_is_a_positive_number(seconds):
    for run in (lambda: slow.launch(floats(), 1, blocks=1, seconds=seconds), lambda: slow.races(floats(), 1, blocks=1, seconds=seconds)):
        with pytest.raises(snap.LaunchError, match="seconds= is a positive number"):
            run()


# ---- Ctrl-C ---------------------------------------------------------------------------------------------------------


def interrupted(monkeypatch, after: int):
    """Ctrl-C at a tick."""
    ticks = iter(range(after))

    def tick(self):
        if next(ticks, None) is None:
            raise KeyboardInterrupt

    monkeypatch.setattr(watching.Watch, "tick", tick)
    monkeypatch.setenv("SNAP_PROGRESS", "1")


def test_ctrl_c_says_how_far_it_came(monkeypatch):
    interrupted(monkeypatch, 30)
    with pytest.raises(snap.Stopped) as stopped:
        slow[1](floats(), 1000)
    assert str(stopped.value) == "stopped: `slow` on the CPU machine: block 0 of 1, 0 s; its arrays hold what was written so far"
    assert isinstance(stopped.value, KeyboardInterrupt) and stopped.value.__cause__ is None


def test_ctrl_c_hands_over_the_races_so_far(monkeypatch):
    interrupted(monkeypatch, 400)
    with pytest.raises(snap.Stopped, match=r"stopped: races of `racy`: schedule \d of 8, .*; \d found so far") as stopped:
        racy.races(np.zeros(70, np.int32), 1000, blocks=1)
    assert stopped.value.found[0].object == "x"


PROGRAM = """
import numpy as np
import snap
from snap import *

@kernel(threads=64)
def slow(x: ptr(float), n: int):
    with each(thread, x) as i:
        for k in range(n):
            x[i] = x[i] * 1.0000001 + 1.0

if __name__ == "__main__":
    slow[1](np.zeros(64, np.float32), 1)  # what is imported and checked at first is over when it begins
    print("begins", flush=True)
    slow[1](np.zeros(64, np.float32), 100_000_000)
"""


def started(tmp_path, *options: str) -> subprocess.Popen:
    (tmp_path / "slow.py").write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-m", "snap", "run", *options, "slow.py"]
    heard = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs ignore it, and what they start does, too
    return subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heard)


def test_the_command_ends_cleanly(tmp_path):
    process = started(tmp_path)
    assert process.stdout.readline() == "begins\n"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in error, error
    assert error.startswith("stopped: `slow` on the CPU machine: "), error


def test_the_command_has_a_limit(tmp_path):
    process = started(tmp_path, "--seconds", "0.5")
    out, error = process.communicate(timeout=60)
    assert process.returncode == 1 and "time ran out: `slow` on the CPU machine" in error, error
