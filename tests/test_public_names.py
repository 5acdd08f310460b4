"""The names of the package: what there is, where it comes from, and which of the version before still work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import snap
from snap import *

SOURCES = Path(__file__).parents[1] / "src"


@kernel(threads=32, blocks=lambda n: -(-n // 32))
def numbered(x: ptr(int), n: int):
    with each(thread, x) as i:
        if i < n:
            x[i] = i


@kernel(threads=64)
def meeting(x: ptr(int)):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(x, p=thread[1], f=lambda k: i + k) as mine, group(thread[1]):
            mine[0] = mine[1]


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": str(SOURCES)})
    assert not done.returncode, done.stderr
    return done.stdout + done.stderr


def test_the_version_is_written_twice():
    assert f'version = "{snap.__version__}"\n' in (SOURCES.parent / "pyproject.toml").read_text()


def test_every_name_that_dir_lists_is_there():
    assert not [name for name in dir(snap) if name != "torch" and not hasattr(snap, name)]
    assert {"PTX", "Tuner", "TuneError", "tune", "lib", "Stopped"} <= set(dir(snap))


def test_races_are_a_kernels():
    assert numbered.races(np.zeros(64, np.int32), 64) == [], "as many blocks as its decorator says"
    (race,) = meeting.races(np.zeros(65, np.int32), blocks=1, seeds=4)
    assert race.object == "x"


def test_a_kernel_without_blocks_asks_how_many():
    with pytest.raises(snap.LaunchError, match="how many blocks"):
        meeting.races(np.zeros(1, np.int32))


def test_a_kernel_is_not_iterated():
    """`k[0]`, `k[1]`, ... are launches, and never end."""
    with pytest.raises(TypeError, match="not iterable"):
        list(numbered)
    with pytest.raises(TypeError, match="not iterable"):
        3 in numbered  # noqa: B015


def test_old_names_warn_and_work():
    x = np.zeros(64, np.int32)
    with pytest.warns(DeprecationWarning, match=r"`snap.races\(k, ...\)` is now `k.races\(...\)`") as told:
        assert snap.races(numbered, x, 64, blocks=2) == []
    assert told[0].filename == __file__
    with pytest.warns(DeprecationWarning, match="`k.launches` is private"):
        assert numbered.launches is numbered._at
    with pytest.warns(DeprecationWarning, match="`k.split_arguments` is private"):
        assert numbered.split_arguments((x, 64), {})[1] == [x, 64]
    with pytest.raises(AttributeError, match="has no attribute 'launched'"):
        numbered.launched
    with pytest.raises(TypeError, match="takes a kernel"):
        snap.races(print, blocks=1)


def test_tune_is_a_function():
    """`snap.tune.Tuner` is `snap.Tuner`; the module of that name is kept for one version."""
    assert type(snap.tune) is type(python) and snap.tune.TuneError is snap.TuneError and snap.tune.Tuner is snap.Tuner
    assert not python("import snap; assert snap.tune.Tuner is snap.Tuner")


def test_the_old_module_says_so():
    said = python("import sys, snap\nfrom snap.tune import Tuner, tune; assert snap.tune is tune is sys.modules['snap.tune'] and Tuner is snap.Tuner")
    assert said.startswith("<string>:2: DeprecationWarning: `from snap.tune import ...` is now `from snap import ...`")
