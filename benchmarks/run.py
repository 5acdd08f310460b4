"""Measure the library's kernels against their baselines on this machine's GPU.

    python benchmarks/run.py [op...] [--quick] [--list]

Each op is a folder benchmarks/<op>/ whose bench.py declares BENCHMARK (or BENCHMARKS, a list, of which `op/name` is one): its kernels are timed on the
GPU.  `calls`, `steps` and `launch` are what a caller sees: host time and time by the clock of the library's functions, beside torch's; training steps of
two models, beside torch's; launches of a kernel of one's own, beside the bare call of the driver.  Results go to benchmarks/results/ as JSON, each when it
is measured; docs/make_performance.py makes the page and the plot from them.  The exit status is 1 where a result was wrong.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

import harness  # noqa: E402
import report  # noqa: E402
import side_by_side  # noqa: E402

PACKAGES = ("torch", "cupy-cuda13x", "cupy-cuda12x", "triton", "numpy")
_DECLARES = re.compile(r"^BENCHMARKS?\b", re.MULTILINE)


def declared(folder: Path = HERE) -> dict[str, Path]:
    """op -> its bench.py, for those that declare a benchmark."""
    return {path.parent.name: path for path in sorted(folder.glob("*/bench.py")) if _DECLARES.search(path.read_text())}


def _module(path: Path):
    spec = importlib.util.spec_from_file_location(f"{path.stem}_{path.parent.name}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def load(path: Path) -> list[harness.Benchmark]:
    module = _module(path)
    return list(getattr(module, "BENCHMARKS", None) or [module.BENCHMARK])


def driver_version() -> str | None:
    try:
        found = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True, check=True)
        return found.stdout.split()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return None


def calls(surroundings: dict, folder: Path, quick: bool) -> bool:
    bench = _module(HERE / "calls" / "bench.py")
    import torch

    from snap import lib

    rows, _ = bench.measure(torch, lib)
    print(f"written to {report.write('calls', {**surroundings, **bench.record(rows)}, folder)}")
    return not all(row["right"] for row in rows)


def steps(surroundings: dict, folder: Path, quick: bool) -> bool:
    """One after the other, each written down when it is measured: torch's compiler takes most of a minute for each."""
    gpt = _module(HERE / "calls" / "gpt.py")
    import torch

    options = argparse.Namespace(layers=8, width=1024, batch=8, length=1024, rounds=gpt.ROUNDS)
    measures = [lambda: gpt.measured(torch, options, False)]
    if not quick:
        measures += [lambda: gpt.measured(torch, options, True), lambda: gpt.gpt2("eager"), lambda: gpt.gpt2("compile")]
    rows = []
    for measure in measures:
        rows.append(measure())
        print(f"written to {report.write('steps', {**surroundings, 'kind': 'steps', 'benchmark': 'steps', 'steps': rows}, folder)}")
    return any(row["losses_apart"] > gpt.APART for row in rows)


def launches(surroundings: dict, folder: Path, quick: bool) -> bool:
    bench = _module(HERE / "launch" / "bench.py")
    found = bench.measured(quick)
    print(f"written to {report.write('launch', {**surroundings, **found}, folder)}")
    return False


AS_CALLED = {"calls": calls, "steps": steps, "launch": launches}  # each tells whether a result was wrong


def several(chosen: argparse.Namespace, benchmarks: list[harness.Benchmark]) -> int:
    """Processes part before the GPU is touched, which no process can share with one that it was made of."""
    found = side_by_side.run(benchmarks, chosen.processes, chosen.seconds)
    device = harness.CudaDevice()
    surroundings = {**report.surroundings(PACKAGES, chosen.commit), "gpu": device.name, "driver": driver_version(), "l2_bytes": device.l2}
    surroundings["copy_bytes_per_s"] = device.copy_speed()
    for result in found:
        print(f"written to {report.write(result['benchmark'], {**surroundings, **result}, chosen.results)}")
    return int(any(result["failed"] for result in found))


def main(words: list[str] | None = None) -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("ops", nargs="*", metavar="op", help="which to measure; all where none is named")
    arguments.add_argument("--quick", action="store_true", help="the first size of each, the least rounds")
    arguments.add_argument("--list", action="store_true", help="name the ops and stop")
    arguments.add_argument("--results", type=Path, default=report.RESULTS, metavar="FOLDER", help="where to write; default benchmarks/results")
    arguments.add_argument("--commit", help="what is measured, where git here does not say (no checkout, or another one)")
    arguments.add_argument("--processes", type=int, default=1, help="so many compile at the same time, before anything is timed")
    arguments.add_argument("--seconds", type=float, default=600, help="with --processes: what is not timed by then is left out")
    chosen = arguments.parse_args(words)
    known = declared()
    unknown = [op for op in chosen.ops if op.partition("/")[0] not in (*known, *AS_CALLED)]
    if unknown:
        arguments.error(f"there is no benchmarks/{unknown[0]}/bench.py that declares a benchmark; there is {', '.join(known) or 'none'}")
    if chosen.list:
        print("\n".join([*known, *AS_CALLED]))
        return 0
    if chosen.processes > 1:
        asked = [op.partition("/") for op in chosen.ops or known if op not in AS_CALLED]
        return several(chosen, [found for folder, _, only in asked for found in load(known[folder]) if only in ("", found.name)])
    device = harness.CudaDevice()
    surroundings = {**report.surroundings(PACKAGES, chosen.commit), "gpu": device.name, "driver": driver_version(), "l2_bytes": device.l2}
    surroundings["copy_bytes_per_s"] = device.copy_speed()
    print(f"{device.name}, driver {surroundings['driver']}: device copy {surroundings['copy_bytes_per_s'] / 1e12:.2f} TB/s")
    wrong = False
    for op in chosen.ops or [*known, *AS_CALLED]:
        if op in AS_CALLED:
            wrong |= AS_CALLED[op](surroundings, chosen.results, chosen.quick)
            continue
        folder, _, only = op.partition("/")
        for benchmark in [found for found in load(known[folder]) if only in ("", found.name)]:
            sizes, rounds = (list(benchmark.sizes)[:1], harness.LEAST_ROUNDS) if chosen.quick else (None, None)
            result = {**surroundings, **harness.run(benchmark, device, sizes, rounds)}
            wrong |= bool(result["failed"])
            print(f"written to {report.write(benchmark.name, result, chosen.results)}")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
