"""`mypy --strict` has nothing to say of what users import, and gives a user's own strict file the types that it needs."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SURFACE = [ROOT / "src/snap" / name for name in ("__init__.py", "api.py", "decorators.py", "surface.py", "words.py", "targets.py", "helptext.py",
                                                  "compiled.py", "byname.py", "tune.py", "diag")]
CONFIG = """[mypy]
strict = True
follow_imports = silent
plugins = snap.mypy_plugin
mypy_path = {root}/src
python_version = 3.11
[mypy-numpy.*,torch.*,cupy.*,cuda.*,z3.*,islpy.*]
follow_imports = skip
ignore_missing_imports = True
"""
USERS = """
from __future__ import annotations

from typing import Any

import numpy as np

import snap
from snap import *


@kernel(threads=64, blocks=lambda n: -(-n // 64))
def scale(x: ptr(float), factor: float, n: int):
    with each(thread, x) as i:
        if i < n:
            x[i] = x[i] * factor


def main(n: int) -> list[str]:
    x: Any = np.zeros(n, np.float32)
    scale(x, 2.0, n)
    scale[4](x, 2.0, n)
    scale.launch(x, 2.0, n, blocks=4, target=snap.PTX(checks="races", limit=1000))
    found = [race.message for race in scale.races(x, 2.0, n, seeds=2)]
    measured = snap.measure(scale, x, 2.0, n, metrics={"traffic": {"sector loaded": 32}})
    sectors: float = scale.measure(x, 2.0, n, blocks=2).total["sectors_ld"].warp + measured.at(3)["traffic"].grid
    tuned: snap.Tuned = snap.tune(scale, {"B": [1, 2]}, x, blocks=3)
    tuner: snap.Tuner = snap.tune.Tuner(scale, {})
    spills: int = scale.resources().spill_stores
    try:
        refused: list[snap.SnapError] = snap.check(scale)
    except (snap.SnapError, snap.TuneError, snap.LaunchError, snap.MachineError) as error:
        return [str(error)]
    return [*found, scale.ir() + scale.cuda() + scale.prove().render() + tuned.report() + tuner.name, str(spills), measured.json(), str(sectors), *map(str, refused)]
"""

pytestmark = [pytest.mark.slow, pytest.mark.skipif(find_spec("mypy") is None, reason="mypy is not installed: pip install -e '.[test]'")]


@pytest.fixture(scope="module")
def strict(tmp_path_factory):
    folder = tmp_path_factory.mktemp("strict")
    (folder / "mypy.ini").write_text(CONFIG.format(root=ROOT))

    def ask(*files: Path) -> str:
        command = [sys.executable, "-m", "mypy", "--config-file", folder / "mypy.ini", "--cache-dir", folder / "cache", *files]
        said = subprocess.run(command, capture_output=True, text=True, cwd=folder, env={"PYTHONPATH": str(ROOT / "src")})
        assert not said.stderr, said.stderr
        return "\n".join(line for line in said.stdout.splitlines() if ": error:" in line)

    return ask


def test_the_surface(strict):
    assert strict(*SURFACE) == "" and strict(SURFACE[0].with_suffix(".pyi")) == ""


def test_a_users_file(strict, tmp_path):
    (tmp_path / "users.py").write_text(USERS)
    assert strict(tmp_path / "users.py") == ""
    (tmp_path / "wrong.py").write_text(USERS + "scale.launch(1, blocks='many')\nsnap.PTX(limit='many')\nsnap.races(3)\n")
    assert strict(tmp_path / "wrong.py").count("error:") == 4
