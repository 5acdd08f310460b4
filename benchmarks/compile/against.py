"""The compiler's time against another commit's: definition, check, synchronization and generation of every program of the corpus, every example
and the library's kernels that both commits have, each written as its own commit writes it.

`python benchmarks/compile/against.py --against REF` checks REF out beside (a temporary worktree) and starts one process a side.  For each program both are
asked in turn, so that what else the machine does hits both alike; the figure is the ratio of the fastest runs, of all and of each stage (check: all but the other
two), and beside it that of the functions called in one run, which no other load changes.  Output: a line a program, the sums a folder, and `benchmarks/results/compile-against-*.json`.  Target: at most 1.05.
"""

from __future__ import annotations

import argparse
import contextlib
import cProfile
import gc
import importlib
import importlib.util
import io
import math
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from library_kernels import BEFORE_EPILOGUES, CONSTANTS, KERNELS  # noqa: E402

# ---- one side: a process with the package of one commit -------------------------------------------------------------


def answer() -> None:
    """Reads names of programs, and prints the seconds (all, synchronization, generation), or with `calls` before the name the functions called, of one run of it."""
    root = Path(os.environ["SNAP_MEASURED"])
    sys.path[:0] = [str(root / "src"), str(root / "tests"), str(root / "examples")]
    spent = timed_stages()
    for line in sys.stdin:
        how, what = line.rstrip("\n").split(" ", 1)
        run = prepared(root, what)
        gc.collect()
        if how == "calls":
            profile = cProfile.Profile()
            with contextlib.redirect_stdout(io.StringIO()):
                profile.runcall(run)
            print(sum(entry.callcount for entry in profile.getstats()), flush=True)
            continue
        with contextlib.redirect_stdout(io.StringIO()):
            spent.clear()
            start = time.process_time()
            run()
            seconds = time.process_time() - start
        print(seconds, spent["sync"], spent["codegen"], flush=True)


def timed_stages() -> Counter[str]:
    """The seconds spent in the stages' functions; where one calls another (a definition in a definition), the outer one has them."""
    spent: Counter[str] = Counter()
    inside: list[str] = []

    def timed(stage: str, function: Callable) -> Callable:
        def run(*args, **keywords):
            start = time.process_time()
            inside.append(stage)
            try:
                return function(*args, **keywords)
            finally:
                inside.pop()
                if not inside:
                    spent[stage] += time.process_time() - start

        return run

    for stage, names in (("sync", ("synchronize", "probe")), ("codegen", ("emit",))):
        module = stage_of(stage)
        for name in names:
            if hasattr(module, name):  # `probe` is younger than some commits
                setattr(module, name, timed(stage, getattr(module, name)))
    return spent


def stage_of(name: str) -> ModuleType:
    """The module of a stage, where the commit that is measured has it."""
    private = importlib.util.find_spec("snap._compiler") is not None
    return importlib.import_module(f"snap._compiler.{name}" if private else f"snap.{name}")


def module_of(path: str) -> ModuleType:
    """A module of the library; commits before its folders have it by the last words: `_gemm.kernels` is `gemm_kernels`."""
    if importlib.util.find_spec("snap._compiler") is not None:
        return importlib.import_module(f"snap.lib.{path}")
    folder, _, name = path.rpartition(".")
    folder = folder.removeprefix("_")
    older = f"{folder}_{name}" if importlib.util.find_spec(f"snap.lib.{folder}_{name}") else name
    return importlib.import_module(f"snap.lib.{older}")


def prepared(root: Path, what: str) -> Callable[[], None]:
    return in_library(what.removeprefix("library: ")) if what.startswith("library: ") else in_file(root / what)


def in_file(path: Path) -> Callable[[], None]:
    from snap.api import SnapFunction
    from snap.diag.source import register_source

    text = path.read_text()
    register_source(str(path), text)
    code = compile(text, str(path), "exec", dont_inherit=True)

    def run() -> None:
        space: dict = {"__name__": "measured", "__file__": str(path)}
        exec(code, space)
        kernels = [v for v in space.values() if isinstance(v, SnapFunction) and v.is_kernel]
        for kernel in [*kernels, *space.get("GOLDEN", ())]:
            if all(n in CONSTANTS for n in kernel.generic):
                kernel.cuda(**{n: CONSTANTS[n] for n in kernel.generic})

    return run


def in_library(what: str) -> Callable[[], None]:
    """The library is imported anew, so that no kernel and no function of it is remembered; that time does not count, except for "import"."""
    for name in [name for name in sys.modules if name.startswith("snap.lib.")]:
        del sys.modules[name]
    sys.modules.pop("snap.lib", None)
    if what == "import":
        return lambda: importlib.import_module("snap.lib") and None
    of, maker, arguments = KERNELS[what]
    importlib.import_module("snap.lib")
    module = module_of(of)
    if not hasattr(module, "Epilogue"):
        arguments = BEFORE_EPILOGUES.get(what, arguments)
    given = {**vars(stage_of("ir.types")), "module": module, "make": getattr(module, maker)}
    call = compile(f"make({arguments}).cuda()", what, "eval")
    return lambda: eval(call, given)


# ---- both -----------------------------------------------------------------------------------------------------------


class Side:
    def __init__(self, root: Path):
        environment = {**os.environ, "SNAP_MEASURED": str(root), "PYTHONHASHSEED": "0", "PYTHONPATH": str(root / "src")}
        environment.pop("SNAP_VERIFY", None)
        self.process = subprocess.Popen([sys.executable, __file__, "--answer"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def ask(self, how: str, what: str) -> list[float]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{how} {what}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{what} could not be measured: the process has ended")
        return [float(number) for number in line.split()]


def programs(there: Path, only: list[str]) -> list[str]:
    files = [str(p.relative_to(ROOT)) for folder in ("examples", "tests/ok") for p in sorted((ROOT / folder).glob("[!_]*.py"))]
    both = [name for name in files if (there / name).exists() and not name.endswith("demo.py")]
    return [name for name in [*both, *(f"library: {name}" for name in KERNELS)] if not only or any(o in name for o in only)]


def compared(there: Path, repeats: int, only: list[str]) -> dict[str, dict[str, float]]:
    now, before = Side(ROOT), Side(there)
    found = {}
    for what in programs(there, only):
        for side in (now, before):  # once without a look: imports, and what is remembered for good
            side.ask("time", what)
        seconds = [(now.ask("time", what), before.ask("time", what)) for _ in range(repeats)]
        one = {}
        for stage, of in STAGES.items():
            one[f"{stage}s"], one[f"before_{stage}s"] = (min(of(*run[side]) for run in seconds) for side in (0, 1))
        (one["calls"],), (one["before_calls"],) = now.ask("calls", what), before.ask("calls", what)
        found[what] = one
        print(f"{what:42} {one['s'] * 1e3:8.1f} ms, {one['s'] / one['before_s']:.2f} of before; calls {one['calls'] / one['before_calls']:.2f}", flush=True)
    for side in (now, before):
        assert side.process.stdin is not None
        side.process.stdin.close()
        side.process.wait()
    return found


STAGES: dict[str, Callable[[float, float, float], float]] = {
    "": lambda all, sync, codegen: all,
    "check_": lambda all, sync, codegen: all - sync - codegen,
    "sync_": lambda all, sync, codegen: sync,
    "codegen_": lambda all, sync, codegen: codegen,
}


def summed(found: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """A folder: the ratio of the sums, and the geometric mean of the ratios, of time and of calls."""
    sums = {}
    for folder in ("examples", "tests/ok", "library", ""):
        rows = [row for name, row in found.items() if name.startswith(folder)]
        if rows:
            sums[folder or "all"] = {
                "time": sum(r["s"] for r in rows) / sum(r["before_s"] for r in rows),
                **{f"{stage}time": sum(r[f"{stage}s"] for r in rows) / sum(r[f"before_{stage}s"] for r in rows) for stage in STAGES if stage},
                "time_mean": math.exp(sum(math.log(r["s"] / r["before_s"]) for r in rows) / len(rows)),
                "calls": sum(r["calls"] for r in rows) / sum(r["before_calls"] for r in rows),
                "calls_mean": math.exp(sum(math.log(r["calls"] / r["before_calls"]) for r in rows) / len(rows)),
            }
    return sums


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--against", metavar="REF", default="afde0ab", help="the other commit, or a folder with its checkout")
    options.add_argument("--repeats", type=int, default=7)
    options.add_argument("--only", nargs="*", default=[], metavar="NAME", help="programs whose name has that in it")
    options.add_argument("--write", action="store_true", help="keep the result")
    options.add_argument("--answer", action="store_true", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.answer:
        answer()
        return
    with contextlib.ExitStack() as ended:
        there = Path(given.against)
        if not there.is_dir():
            there = Path(ended.enter_context(tempfile.TemporaryDirectory())) / "before"
            subprocess.run(["git", "worktree", "add", "--detach", str(there), given.against], cwd=ROOT, check=True, capture_output=True)
            ended.callback(lambda: subprocess.run(["git", "worktree", "remove", "--force", str(there)], cwd=ROOT, check=True))
        found = compared(there.resolve(), given.repeats, given.only)
    sums = summed(found)
    for folder, row in sums.items():
        stages = ", ".join(f"{stage.rstrip('_')} {row[f'{stage}time']:.3f}" for stage in STAGES if stage)
        print(f"{folder:10} time {row['time']:.3f} ({stages}; mean of ratios {row['time_mean']:.3f}), calls {row['calls']:.3f} (mean {row['calls_mean']:.3f})")
    if given.write:
        sys.path.insert(0, str(ROOT / "benchmarks"))
        from report import surroundings, write

        result = {**surroundings(), "benchmark": "compile-against", "against": given.against, "programs": found, "sums": sums}
        result["targets"] = [{"all": sums["all"]["time"], "target": 1.05, "met": sums["all"]["time"] <= 1.05}]
        print(write("compile-against", result))


if __name__ == "__main__":
    main()
