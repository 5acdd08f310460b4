"""How much of our own is proved, and how long it takes: every kernel of the examples, of tests/ok and of the library, on one core.

python benchmarks/prove/bench.py                everything
python benchmarks/prove/bench.py WORD ...       only kernels whose group or name holds one of the words; the others are as in the last result

Each kernel is proved in a process of its own with nothing remembered: no proof on disk, no answer of a solver.  Seconds are
processor time of `k.prove()`; what it takes to import the solvers is told apart.  A kernel that needs more than `MOST` seconds
counts as unknown.  Targets: median below 0.3 s, none of the examples and of tests/ok above 10 s, of the library above 30 s.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import resource
import signal
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "examples")]
os.environ["SNAP_CACHE_DIR"] = ""

from library_kernels import CONSTANTS, KERNELS, LATER, LAYERS  # noqa: E402
from report import RESULTS, surroundings, write  # noqa: E402

from snap.api import SnapFunction  # noqa: E402

MOST = 30


def in_files(group: str, folder: Path) -> Iterator[tuple[str, str, object]]:
    """The kernels that files define, each with values for what is generic and has none."""
    for path in sorted(folder.glob("[a-z]*.py")):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for k in dict.fromkeys(v for v in vars(module).values() if isinstance(v, SnapFunction) and v.is_kernel):
            if k.definition.tree.span.filename == str(path):
                values = {**CONSTANTS, "TILE": 32} if "transpose" in path.stem else CONSTANTS
                given = {name: values[name] for name in k.generic if name in values}
                if all(name in given or name in k._defaults() for name in k.generic):
                    yield group, f"{path.stem}: {k.definition.tree.name}", lambda k=k, given=given: k.prove(seconds=None, **given)


def in_library() -> Iterator[tuple[str, str, object]]:
    for name, (of, maker, arguments) in {**KERNELS, **LATER, **LAYERS}.items():
        def ask(of=of, maker=maker, arguments=arguments):
            module = importlib.import_module(f"snap.lib.{of}")
            given = {**vars(importlib.import_module("snap._compiler.ir.types")), "module": module, "make": getattr(module, maker)}
            k = eval(f"make({arguments})", given)
            _ = k._the_one({}).synced  # what the compiler does is not the prover's time
            return lambda: k.prove(seconds=None)

        yield "library", name, ask


def measured(group: str, name: str, ask) -> dict:
    """In a process of its own."""
    there, here = os.pipe()
    child = os.fork()
    if child == 0:
        signal.setitimer(signal.ITIMER_PROF, MOST)
        signal.signal(signal.SIGPROF, lambda *_: os._exit(1))
        run = ask() if group == "library" else ask
        importlib.import_module("z3"), importlib.import_module("islpy")
        began = time.process_time()
        proof = run()
        seconds = time.process_time() - began
        found = [{"property": o.kind, "file": Path(o.span.filename).name, "line": o.span.line, "what": o.what, "reason": o.reason} for o in proof.open]
        told = {"verdict": str(proof.verdict), "obligations": len(proof.obligations), "seconds": round(seconds, 3), "open": found, "needs": list(proof.needs)}
        with os.fdopen(here, "w") as out:
            json.dump(told, out)
        os._exit(0)
    os.close(here)
    with os.fdopen(there) as said:
        text = said.read()
    os.waitpid(child, 0)
    told = json.loads(text) if text else {"verdict": "unknown", "obligations": 0, "seconds": MOST, "open": [], "needs": []}
    return {"group": group, "kernel": name, **told}


def summary(kernels: list[dict]) -> dict:
    found = {}
    for group in dict.fromkeys(k["group"] for k in kernels):
        mine = [k for k in kernels if k["group"] == group]
        times = [k["seconds"] for k in mine]
        proved = sum(k["verdict"] == "proved" for k in mine)
        found[group] = {"kernels": len(mine), "proved": proved, "median_s": round(statistics.median(times), 3), "most_s": max(times)}
    return found


def imports() -> float:
    began = time.process_time()
    importlib.import_module("z3"), importlib.import_module("islpy")
    return round(time.process_time() - began, 3)


def main() -> None:
    words = sys.argv[1:]
    kernels = []
    everything = [*in_files("examples", ROOT / "examples"), *in_files("tests/ok", ROOT / "tests" / "ok"), *in_library()]
    for group, name, ask in everything:
        if not words or any(word in f"{group} {name}" for word in words):
            kernels.append(measured(group, name, ask))
            last = kernels[-1]
            print(f"{group:9} {name:40} {last['verdict']:8} {last['seconds']:7.2f} s  {len(last['open'])} of {last['obligations']} open", flush=True)
    if not kernels:
        sys.exit(f"no kernel's group or name holds any of: {', '.join(words)}")
    before = max(RESULTS.glob("prove-*.json"), default=None) if words else None
    if before is not None:
        order = [(group, name) for group, name, _ in everything]
        found = {(k["group"], k["kernel"]): k for k in [*json.loads(before.read_text())["kernels"], *kernels]}
        kernels = [found[key] for key in order if key in found]
    print(json.dumps(summary(kernels), indent=2))
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    result = {"summary": summary(kernels), "import_of_solvers_s": imports(), "most_memory_MiB": memory, "kernels": kernels}
    print(write("prove", {**surroundings(("z3-solver", "islpy")), "benchmark": "prove", **result}))


if __name__ == "__main__":
    main()
