"""What every benchmark writes down beside its figures: when, on what, with which versions, at which commit."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"


def git(*arguments: str) -> str:
    try:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def surroundings(packages: tuple[str, ...] = ("numpy",), commit: str | None = None) -> dict:
    """`commit`, or SNAP_COMMIT in the environment: what is measured, where git here does not say (no checkout, or another one)."""
    commit = commit or os.environ.get("SNAP_COMMIT")
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "machine": {"processor": processor(), "cores": os.cpu_count(), "system": platform.platform()},
        "python": platform.python_version(),
        "versions": {name: found for name in packages if (found := version(name)) is not None},
        "commit": commit or git("rev-parse", "HEAD") or None,
        "modified": commit is None and bool(git("status", "--porcelain", "--", "src")),
    }


def write(name: str, result: dict, folder: Path = RESULTS) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{result['date'][:10]}.json"
    path.write_text(json.dumps(result, indent=2) + "\n")
    return path
