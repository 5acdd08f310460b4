"""The wheel has every file of the package, and in an environment of its own runs README's first kernel on the CPU machine."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy
import pytest

ROOT = Path(__file__).resolve().parents[1]
WITHOUT_PIP = "import ensurepip, sys, venv; venv.create(sys.argv[1], with_pip=False)"


def builds() -> bool:
    try:
        return int(version("setuptools").split(".")[0]) >= 77
    except PackageNotFoundError:
        return False


pytestmark = [pytest.mark.slow, pytest.mark.skipif(not builds(), reason="setuptools 77 or later is not installed: pip install -e '.[test]'")]


def ran(*command: object, cwd: Path) -> str:
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", "HOME": str(cwd)})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built from a copy, since building writes beside the sources."""
    folder = tmp_path_factory.mktemp("built")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    ran(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", folder / "dist", folder, cwd=folder)
    (made,) = (folder / "dist").glob("*.whl")
    return made


def test_the_wheel_has_every_file(wheel):
    package = ROOT / "src" / "snap"
    wanted = {path.relative_to(ROOT / "src").as_posix() for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    packed = set(zipfile.ZipFile(wheel).namelist())
    assert wanted - packed == set() and {name for name in packed - wanted if ".dist-info/" not in name} == set()
    metadata = next(zipfile.ZipFile(wheel).read(name).decode() for name in packed if name.endswith("/METADATA"))
    for extra in ("gpu", "prove", "torch", "all"):
        assert f"Provides-Extra: {extra}\n" in metadata
    assert 'Requires-Dist: snap-gpu[cudac,gpu,prove,torch]; extra == "all"' in metadata


def test_an_empty_environment_runs_the_first_kernel(wheel, tmp_path):
    """It has the wheel alone; NumPy and what the command line needs are the suite's own."""
    ran(sys.executable, "-c", WITHOUT_PIP, tmp_path / "env", cwd=tmp_path)
    python = tmp_path / "env" / "bin" / "python"
    ran(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=tmp_path)
    (packages,) = (tmp_path / "env" / "lib").glob("python3.*/site-packages")
    paths = dict.fromkeys(str(Path(module.__file__).parents[1]) for module in (numpy, pytest))
    (packages / "suite.pth").write_text("\n".join(paths))
    first = next(text for text in re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL) if "@kernel" in text)
    (tmp_path / "first.py").write_text(first + "\nimport snap, os\nassert 'env' + os.sep in snap.__file__, snap.__file__\n")
    assert ran(python, "first.py", cwd=tmp_path) == "[1. 3. 5. 7.]\n"
    assert "no errors" in subprocess.run([tmp_path / "env/bin/snap", "check", "first.py"], cwd=tmp_path, capture_output=True, text=True).stderr
