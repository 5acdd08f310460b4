"""The compiler's own time: check and code generation of figure 6 and of every other example, growth with the size of the source and with the
number of calls, and `import snap`.

`python benchmarks/compile/bench.py`.  Targets: figure 6 under 50 ms, every example under 150 ms, linear growth, 256 nested calls under 2 s, import
under 0.2 s.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from report import ROOT, surroundings, write  # noqa: E402

EXAMPLES = ROOT / "examples"
sys.path[:0] = [str(ROOT / "src"), str(EXAMPLES)]

from snap.api import SnapFunction  # noqa: E402
from snap.diag.source import register_source  # noqa: E402

REPEATS = 15
SPECIAL = {"transpose": {"TILE": 32, "ROWS": 8}, "matmul_tiled": {"TILE": 16}}  # generic examples need values before there is code
STEP = """
        with partition(s{i}, p=thread[1], offset=t) as mine:
            mine[0] = x[i + {i}] * {i}
        v += s{i}[255 - t]
"""
# Functions that call functions: each writes what others read, so that every call is looked at.
CALLED = """from __future__ import annotations
from snap import *

@device
@requires(block[1], thread[64])
def f0(x: ptr(int) @ block[1], v: int @ thread[1]) -> int @ thread[1]:
    t: int @ thread[1] = id()
    with partition(x, p=thread[1], offset=t) as m:
        m[0] = v
    return x[63 - t]
"""
CALLING = """
@device
@requires(block[1], thread[64])
def {name}(x: ptr(int) @ block[1], v: int @ thread[1]) -> int @ thread[1]:
    {body}
"""
CALLER = """
@kernel
@requires(grid[1], block[1], thread[64])
def calls(out: ptr(int) @ grid[1]):
    with group(grid[1]):
        g: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=g) as mine:
            with group(block[1]):
                s: shared(int[64])
                mine[0] = {top}(s, g)
"""


def once(text: str, filename: str, constants: dict) -> float:
    """Seconds from text to CUDA: Python's own compilation is not counted, reading and checking the functions is."""
    register_source(filename, text)
    code = compile(text, filename, "exec")
    namespace: dict = {"__name__": "benchmark", "__file__": filename}
    start = time.perf_counter()
    exec(code, namespace)
    for value in list(namespace.values()):
        if isinstance(value, SnapFunction) and value.is_kernel:
            value.cuda(**constants)
    return time.perf_counter() - start


def measure(text: str, name: str, constants: dict | None = None, repeats: int = REPEATS) -> dict:
    times = [once(text, f"{name}.py", constants or {}) for _ in range(repeats + 1)]
    return {"lines": text.count("\n"), "first_s": times[0], "median_s": statistics.median(times[1:])}


def chain(steps: int) -> str:
    """A kernel with that many shared arrays, partitions and reads."""
    arrays = "".join(f"        s{i}: shared(float[256])\n" for i in range(steps))
    body = "".join(STEP.format(i=i) for i in range(steps))
    return f'''from __future__ import annotations
from snap import *

@kernel
@requires(grid[1], block[1], thread[256])
def chain(x: ptr(const(float)) @ grid[1]):
    with group(block[1]):
        i: int @ thread[1] = id()
        t: int @ thread[1] = id()
        v: float @ thread[1] = 0.0
{arrays}{body}'''


def called(functions: list[tuple[str, str]]) -> str:
    """A kernel that calls the last of these functions."""
    return CALLED + "".join(CALLING.format(name=name, body=body) for name, body in functions) + CALLER.format(top=functions[-1][0])


def tree(calls: int) -> str:
    """Each function calls the one below twice, until there are so many calls of the lowest."""
    return called([(f"f{i}", f"return f{i - 1}(x, v + {i}) + f{i - 1}(x, v)") for i in range(1, calls.bit_length())])


def diamond(calls: int) -> str:
    """The same, through two functions between each level and the next."""
    functions: list[tuple[str, str]] = []
    below = "f0"
    for i in range(1, calls.bit_length()):
        functions += [(f"l{i}", f"return {below}(x, v + {i})"), (f"r{i}", f"return {below}(x, v - {i})")]
        functions.append((f"f{i}", f"return l{i}(x, v) + r{i}(x, v)"))
        below = f"f{i}"
    return called(functions)


def deep(calls: int) -> str:
    """Each function calls the one below once."""
    return called([(f"f{i}", f"return f{i - 1}(x, v + {i})") for i in range(1, calls + 1)])


def in_a_row(calls: int) -> str:
    """One function calls the lowest so often."""
    return called([("f1", "\n    ".join([*(f"v = f0(x, v + {i})" for i in range(calls)), "return v"]))])


def import_time() -> float:
    """Seconds of `import snap` in a fresh interpreter."""
    command = [sys.executable, "-c", "import time; t = time.perf_counter(); import snap; print(time.perf_counter() - t)"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    runs = [float(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout) for _ in range(7)]
    return statistics.median(runs)


def main() -> None:
    figures = {path.stem: measure(path.read_text(), path.stem, SPECIAL.get(path.stem))
               for path in sorted(EXAMPLES.glob("*.py")) if not path.stem.startswith("_") and path.stem != "demo"}
    slowest = max(figures, key=lambda name: figures[name]["median_s"])
    growth = {steps: measure(chain(steps), f"chain_{steps}") for steps in (25, 50, 100, 200)}
    per_step = {steps: figure["median_s"] / steps for steps, figure in growth.items()}
    shapes = {"chain": deep, "tree": tree, "diamond": diamond, "in a row": in_a_row}
    calls = {what: {n: measure(make(n), f"{make.__name__}_{n}", repeats=5) for n in (32, 64, 128, 256)} for what, make in shapes.items()}
    most = max(sizes[256]["median_s"] for sizes in calls.values())
    per_call = max(sizes[256]["median_s"] / sizes[32]["median_s"] / 8 for sizes in calls.values())
    result = {
        **surroundings(), "benchmark": "compile", "examples": figures, "slowest": slowest,
        "growth": {str(steps): figure for steps, figure in growth.items()},
        "calls": {what: {str(n): figure for n, figure in sizes.items()} for what, sizes in calls.items()},
        "import_s": import_time(),
    }
    result["targets"] = [
        {"figure6_s": figures["figure6"]["median_s"], "target": 0.05, "met": figures["figure6"]["median_s"] < 0.05},
        {"slowest_s": figures[slowest]["median_s"], "target": 0.15, "met": figures[slowest]["median_s"] < 0.15},
        {"time_per_step_200_over_25": per_step[200] / per_step[25], "target": 2.0, "met": per_step[200] < 2 * per_step[25]},
        {"256_nested_calls_s": most, "target": 2.0, "met": most < 2},
        {"time_per_call_256_over_32": per_call, "target": 2.0, "met": per_call < 2},
        {"import_s": result["import_s"], "target": 0.2, "met": result["import_s"] < 0.2},
    ]
    chains = {f"chain of {steps}": figure for steps, figure in growth.items()}
    called_so = {f"{n} calls, {what}": figure for what, sizes in calls.items() for n, figure in sizes.items()}
    for name, figure in {**figures, **chains, **called_so}.items():
        print(f"{name:20} {figure['lines']:5} lines {figure['median_s'] * 1e3:8.2f} ms")
    for line in result["targets"]:
        print(line)
    print(write("compile", result))


if __name__ == "__main__":
    main()
