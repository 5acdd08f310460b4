"""Measure the library's kernels against their baselines on this machine's GPU.

    python benchmarks/run.py [op...] [--quick] [--limit 300] [--seconds 1200] [--processes 12] [--list]

Each op is a folder benchmarks/<op>/ whose bench.py declares BENCHMARK (or BENCHMARKS, a list, of which `op/name` is one): its kernels are timed on the
GPU.  `calls`, `steps` and `launch` are what a caller sees: host time and time by the clock of the library's functions, beside torch's; training steps of
two models, beside torch's; launches of a kernel of one's own, beside the bare call of the driver.  Results go to benchmarks/results/ as JSON, each when it
is measured; docs/make_performance.py makes the page and the plot from them.

They are measured in a process apart (apart.py), a new one after each that failed or took longer than `--limit`; sizes that were measured until then are
kept in a file that says that it is unfinished.  With `--processes` the kernels of all are compiled by so many at the same time, and then timed one after
the other (side_by_side.py).  The exit status is 1 where a result was wrong or is missing.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

import apart  # noqa: E402
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
        write("steps", {**surroundings, "kind": "steps", "benchmark": "steps", "steps": rows}, folder, finished=not quick and len(rows) == len(measures))
    return any(row["losses_apart"] > gpt.APART for row in rows)


def launches(surroundings: dict, folder: Path, quick: bool) -> bool:
    bench = _module(HERE / "launch" / "bench.py")
    found = bench.measured(quick)
    print(f"written to {report.write('launch', {**surroundings, **found}, folder)}")
    return False


AS_CALLED = {"calls": calls, "steps": steps, "launch": launches}  # each tells whether a result was wrong


def several(chosen: argparse.Namespace, benchmarks: list[harness.Benchmark]) -> int:
    """Processes part before the GPU is touched, which no process can share with one that it was made of."""
    found = side_by_side.run(benchmarks, chosen.processes, chosen.seconds or 600)
    device = harness.CudaDevice()
    surroundings = {**report.surroundings(PACKAGES, chosen.commit), "gpu": device.name, "driver": driver_version(), "l2_bytes": device.l2}
    surroundings["copy_bytes_per_s"] = device.copy_speed()
    for benchmark in benchmarks:
        result = next((one for one in found if one["benchmark"] == benchmark.name), None)
        if result is not None:
            write(benchmark.name, {**surroundings, **result}, chosen.results, finished=not chosen.quick and len(result["sizes"]) + len(result["failed"]) == len(benchmark.sizes))
    return int(len(found) < len(benchmarks) or any(result["failed"] for result in found))


def write(name: str, record: dict, folder: Path, finished: bool = True) -> None:
    """What is not finished has a file of its own, until it is."""
    path = report.write(name if finished else f"{name}-unfinished", {**record, **({} if finished else {"unfinished": True})}, folder)
    if finished:
        path.with_name(path.name.replace(name, f"{name}-unfinished", 1)).unlink(missing_ok=True)
    print(f"written to {path}", flush=True)


def here(chosen: argparse.Namespace, known: dict[str, Path]) -> int:
    """In this process, one after the other."""
    device = harness.CudaDevice()
    surroundings = {**report.surroundings(PACKAGES, chosen.commit), "gpu": device.name, "driver": driver_version(), "l2_bytes": device.l2}
    surroundings["copy_bytes_per_s"] = device.copy_speed()
    print(f"{device.name}, driver {surroundings['driver']}: device copy {surroundings['copy_bytes_per_s'] / 1e12:.2f} TB/s", flush=True)
    wrong = False
    for op in chosen.ops or [*known, *AS_CALLED]:
        folder, _, only = op.partition("/")
        benchmarks = [None] if op in AS_CALLED else [found for found in load(known[folder]) if only in ("", found.name)]
        for benchmark in benchmarks:
            name = op if benchmark is None else f"{folder}/{benchmark.name}"
            if name in chosen.skip:
                continue
            print(f"{apart.BEGINS}{name}", flush=True)
            if benchmark is None:
                wrong |= AS_CALLED[op](surroundings, chosen.results, chosen.quick)
                continue
            sizes, rounds = (list(benchmark.sizes)[:1], harness.LEAST_ROUNDS) if chosen.quick else (None, None)
            keep = lambda record, name=benchmark.name: write(name, {**surroundings, **record}, chosen.results, finished=False)  # noqa: E731
            result = {**surroundings, **harness.run(benchmark, device, sizes, rounds, keep=keep)}
            wrong |= bool(result["failed"])
            write(benchmark.name, result, chosen.results, finished=not chosen.quick)
    return apart.WRONG if wrong else 0


def elsewhere(words: list[str], limit: float, seconds: float | None) -> int:
    """In a process apart, and in another one after each that did not come to its end."""
    problems, took = apart.run(apart.command(__file__, *words, "--here"), limit, seconds)
    print(f"{len(took)} benchmarks in {sum(took.values()):.0f} s: " + ", ".join(f"{name} {spent:.0f}" for name, spent in took.items()))
    for problem in problems:
        print(f"FAILED {problem}")
    return int(bool(problems))


def main(words: list[str] | None = None) -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("ops", nargs="*", metavar="op", help="which to measure; all where none is named")
    arguments.add_argument("--quick", action="store_true", help="the first size of each, the least rounds; written as unfinished")
    arguments.add_argument("--list", action="store_true", help="name the ops and stop")
    arguments.add_argument("--results", type=Path, default=report.RESULTS, metavar="FOLDER", help="where to write; default benchmarks/results")
    arguments.add_argument("--commit", help="what is measured, where git here does not say (no checkout, or another one)")
    arguments.add_argument("--limit", type=float, default=300, help="seconds that one benchmark may take; default 300")
    arguments.add_argument("--seconds", type=float, help="what all may take; what is not timed by then is left out")
    arguments.add_argument("--processes", type=int, default=1, help="so many compile at the same time, before anything is timed")
    arguments.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    arguments.add_argument("--skip", action="append", default=[], help=argparse.SUPPRESS)
    words = sys.argv[1:] if words is None else words
    chosen = arguments.parse_args(words)
    known = declared()
    unknown = [op for op in chosen.ops if op.partition("/")[0] not in (*known, *AS_CALLED)]
    if unknown:
        arguments.error(f"there is no benchmarks/{unknown[0]}/bench.py that declares a benchmark; there is {', '.join(known) or 'none'}")
    if chosen.list:
        print("\n".join([*known, *AS_CALLED]))
        return 0
    if chosen.here:
        return here(chosen, known)
    until = None if chosen.seconds is None else time.monotonic() + chosen.seconds
    wrong, rest = 0, chosen.ops
    if chosen.processes > 1:
        asked = [op.partition("/") for op in chosen.ops or known if op not in AS_CALLED]
        found = [one for folder, _, only in asked for one in load(known[folder]) if only in ("", one.name)]
        found = [dataclasses.replace(one, sizes=list(one.sizes)[:1]) for one in found] if chosen.quick else found
        wrong = several(chosen, found) if found else 0
        rest = [op for op in chosen.ops or AS_CALLED if op in AS_CALLED]
        if not rest:
            return wrong
    options = [*(["--quick"] if chosen.quick else []), "--results", str(chosen.results), *(["--commit", chosen.commit] if chosen.commit else [])]
    return wrong | elsewhere([*rest, *options], chosen.limit, None if until is None else max(1.0, until - time.monotonic()))


if __name__ == "__main__":
    sys.exit(main())
