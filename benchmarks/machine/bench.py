"""The CPU machine against other ways to run GPU kernels without a GPU: naive matmul 128^3, one thread an element, and vector add of
65,536.

`python benchmarks/machine/bench.py [--python PATH]`.  Every tool runs in a process of its own, one after the other, in one run; a
tool that is not installed is left out with a note.  `--python` names an interpreter that has the other tools, where they are not
installed beside Snap.  Targets: at least 200 times faster than numba's simulator, 20 times than Triton's interpreter, within 10
times of Warp compiled for the CPU; memory at most 4 times the arrays plus the lanes' registers.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from report import ROOT, surroundings, write  # noqa: E402

TOOLS = {"snap": 20, "numba-simulator": 1, "triton-interpreter": 3, "warp-cpu": 20}  # how often, after a first run
TARGETS = {"numba-simulator": 200.0, "triton-interpreter": 20.0, "warp-cpu": 0.1}  # their time over ours, at least
REGISTERS = {"matmul": 128 * 128 * 16 * 4, "add": 65_536 * 8 * 4}  # bytes: a generous count of 4-byte values a lane keeps
KERNELS = ("matmul", "add")


def run(python: str, tool: str, kernel: str, repeats: int) -> dict:
    """One tool on one kernel: its figures, or why there are none."""
    search = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": search, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([python, str(HERE / "kernels.py"), tool, kernel, str(repeats)], capture_output=True, text=True, env=environment)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit code {done.returncode}"
        return {"skipped": last}
    found = json.loads(done.stdout.strip().splitlines()[-1])
    return {**found, "median_s": statistics.median(found["times_s"])}


def verdicts(figures: dict) -> list[dict]:
    ours = figures["snap"]
    found = []
    for kernel in KERNELS:
        for tool, target in TARGETS.items():
            theirs = figures[tool][kernel]
            if "median_s" in theirs and "median_s" in ours[kernel]:
                ratio = theirs["median_s"] / ours[kernel]["median_s"]
                found.append({"kernel": kernel, "against": tool, "times_faster": ratio, "target": target, "met": ratio >= target})
        if "median_s" in ours[kernel]:
            allowed = 4 * ours[kernel]["array_bytes"] + REGISTERS[kernel]
            used = ours[kernel]["array_bytes"] + ours[kernel]["working_bytes"]
            found.append({"kernel": kernel, "memory_bytes": used, "allowed_bytes": allowed, "met": used <= allowed})
    return found


def shown(found: dict) -> str:
    if "skipped" in found:
        return f"left out: {found['skipped']}"
    return f"{found['median_s'] * 1e3:10.2f} ms, working memory {found['working_bytes'] / 2**20:6.2f} MiB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable, help="interpreter that has numba, triton and warp")
    arguments = parser.parse_args()
    figures: dict[str, dict] = {}
    for tool, repeats in TOOLS.items():
        figures[tool] = {}
        for kernel in KERNELS:
            figures[tool][kernel] = found = run(sys.executable if tool == "snap" else arguments.python, tool, kernel, repeats)
            print(f"{tool:20} {kernel:8} {shown(found)}", flush=True)
    result = {**surroundings(), "benchmark": "machine", "tools": figures, "targets": verdicts(figures)}
    for line in result["targets"]:
        print(line)
    print(write("machine", result))


if __name__ == "__main__":
    main()
