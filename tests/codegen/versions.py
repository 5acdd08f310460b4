"""Every NVRTC that Snap supports, on every kernel of the corpus, the examples and the library: `python tests/codegen/versions.py [VERSION ...]`.

Each version's wheels are installed into a temporary folder, some 150 MB each; nothing of the project's environment changes.  Takes some minutes of
CPU a version, most of it nvdisasm's.  The result is written to benchmarks/results.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("src", "tests", "benchmarks")]

VERSIONS = ("12.8", "12.9", "13.0", "13.1", "13.2", "13.3", "13.4")


def install(version: str, folder: Path) -> None:
    suffix = "-cu12" if version.startswith("12.") else ""
    wheels = [f"nvidia-cuda-{part}{suffix}=={version}.*" for part in ("nvrtc", "runtime")]
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target", str(folder), *wheels], check=True)


def scan(folder: Path) -> dict:
    """In a process of its own, since a process holds one NVRTC."""
    from codegen import below
    from codegen.toolchains import Nvrtc

    nvrtc, start, found, kernels = Nvrtc(folder), time.perf_counter(), {}, 0
    for text in below.texts():
        kernels += 1
        if wrong := below.findings(text, nvrtc):
            found[text.name] = wrong
    return {"kernels": kernels, "findings": found, "seconds": round(time.perf_counter() - start, 1), "cpu_seconds": round(time.process_time(), 1)}


def one(version: str) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        install(version, Path(folder))
        done = subprocess.run([sys.executable, __file__, "--scan", folder], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{version}: {done.stderr}")
    result = json.loads(done.stdout)
    print(f"NVRTC {version}: {result['kernels']} kernels, {len(result['findings'])} with findings, {result['seconds']:.0f} s", flush=True)
    for name, wrong in result["findings"].items():
        print(f"  {name}\n    " + "\n    ".join(wrong), flush=True)
    return result


def main(versions: tuple[str, ...]) -> int:
    from codegen.toolchains import NO_DISASSEMBLER, disassembler
    from report import surroundings, write

    if disassembler() is None:
        raise SystemExit(NO_DISASSEMBLER)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = dict(zip(versions, pool.map(one, versions)))
    if set(versions) == set(VERSIONS):
        print(write("compilers", {**surroundings(), "benchmark": "compilers", "nvrtc": results}))
    return any(result["findings"] for result in results.values())


if __name__ == "__main__":
    if sys.argv[1:2] == ["--scan"]:
        print(json.dumps(scan(Path(sys.argv[2]))))
    else:
        sys.exit(main(tuple(sys.argv[1:]) or VERSIONS))
