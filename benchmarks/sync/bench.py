"""Synchronization: how many points are emitted where a careful programmer would put them by hand, and how long the inference takes.

`python benchmarks/sync/bench.py`.  Targets: as many points as by hand; under 100 ms for every kernel of the corpus, the examples and the library;
a chain of n partitions in no worse than n log n.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from report import ROOT, surroundings, write  # noqa: E402

sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests"), str(ROOT / "examples")]

from corpus import OK, Program  # noqa: E402

from snap._compiler.ir.points import points  # noqa: E402
from snap._compiler.sync import synchronize  # noqa: E402
from snap.api import SnapFunction  # noqa: E402
from snap.diag.source import register_source  # noqa: E402

REPEATS = 7
SPECIAL = {"TILE": 32, "ROWS": 8}  # generic examples need values before there is a kernel
# (program, kernel, points by hand, why those)
BY_HAND = [
    ("examples/reverse.py", "reverse", 1, "all have stored before anybody reads"),
    ("examples/histogram.py", "histogram", 2, "the bins are cleared, then counted; counted, then added up"),
    ("examples/transpose.py", "transpose", 1, "the tile is stored, then read across"),
    ("examples/matmul_tiled.py", "matmul_tiled", 2, "tiles are stored, then read; read, then stored again (the loop's back edge)"),
    ("tests/ok/lookback_scan.py", "scan", 5, "the tile's number, two exchanges within a warp, the warps' sums (three of them only arrive), prefixes"),
    ("examples/figure6.py", "mmaTF32NaiveKernel", 2, "as the paper marks it; a third one guards the way back to C, whose rows have a length that is "
     "only known at run time: `row * N + col` might meet for a small N.  With `disjoint=True` on the innermost partition of C there are two"),
    ("tests/ok/tree_reduce.py", "tree_reduce", 1, "at the loop's top: each step reads what the one before wrote"),
    ("tests/ok/sgemm_pipelined.py", "two_stages", 1, "one barrier a tile serves both directions, with a wait for all copies"),
    ("tests/ok/sgemm_pipelined.py", "three_stages", 1, "the same, leaving one group of copies in flight"),
    ("tests/ok/hgemm.py", "hgemm", 7, "full, empty, products before a slot is given back and before the accumulator is read, two barriers of a "
     "warpgroup in the staged epilogue, stores before the block ends"),
]
CHAIN = """
        with partition(s{i}, p=thread[1], offset=t) as mine:
            mine[0] = x[i + {i}] * {i}
        v += s{i}[255 - t]
"""


def kernels_of(namespace: dict) -> dict[str, SnapFunction]:
    found = {name: value for name, value in namespace.items() if isinstance(value, SnapFunction) and value.is_kernel}
    special = {name: kernel.specialize(**{n: SPECIAL[n] for n in kernel.generic}) for name, kernel in found.items()
               if kernel.generic and all(n in SPECIAL for n in kernel.generic)}
    return {**{name: kernel for name, kernel in found.items() if not kernel.generic}, **special}


def typed_of(kernel) -> object:
    return kernel._the_one({}).typed


def inference(typed) -> float:
    """Median seconds."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        synchronize(typed)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def library() -> dict[str, object]:
    """The largest kernels of the library, each with all that it can do."""
    from importlib import import_module

    from snap._compiler.ir.types import BF16, F32
    from snap.lib._gemm.body import Epilogue, Work
    from snap.lib._gemm.kernels import gemm_kernel
    from snap.lib._gemm.tf32 import tf32_kernel
    from snap.lib._parallel.scanning import scan_kernel

    sgemm = import_module("snap.lib._gemm.sgemm")
    return {
        "sgemm": sgemm.warp_tiled(*sgemm.LARGE, sgemm.STAGES, WIDTH=4),
        "gemm": gemm_kernel(BF16, BF16, True, True, epilogue=Epilogue(F32, "gelu"), work=Work.DIVIDED),
        "gemm, clusters": gemm_kernel(BF16, BF16, True, True, 64, 128, epilogue=Epilogue(F32, "gelu"), TEAM=2),
        "gemm_tf32, divided": tf32_kernel(False, 128, 256, 2, DIVIDED=True),
        "gemm_tf32, slices": tf32_kernel(False, 128, 256, 1, ADDED=True),
        "scan": scan_kernel(F32, F32, 4, "add", False, 0.0),
    }


def chain(n: int):
    """n partitions of one array, each read across before the next."""
    body = "".join(CHAIN.format(i=i).replace(f"partition(s{i},", "partition(s,").replace(f"+= s{i}[", "+= s[") for i in range(n))
    text = f"""from __future__ import annotations
from snap import *

@kernel
@requires(grid[1], block[1], thread[256])
def chain(x: ptr(const(float)) @ grid[1]):
    with group(block[1]):
        i: int @ thread[1] = id()
        t: int @ thread[1] = id()
        v: float @ thread[1] = 0.0
        s: shared(float[256])
{body}"""
    register_source(f"chain_{n}.py", text)
    namespace: dict = {"__name__": "benchmark"}
    exec(compile(text, f"chain_{n}.py", "exec"), namespace)
    return namespace["chain"]


def main() -> None:
    counts = []
    for path, name, hand, why in BY_HAND:
        kernel = kernels_of(Program(ROOT / path).execute())[name]
        found = points(kernel._the_one({}).synced)
        kinds = dict(Counter(p.kind for p in found))
        counts.append({"program": path, "kernel": name, "by_hand": hand, "emitted": len(found), "kinds": kinds, "why": why})
        print(f"{path:30} {name:20} by hand {hand}, emitted {len(found)}  {kinds}")
    times = {}
    programs = [*OK, *(Program(p) for p in sorted((ROOT / "examples").glob("[a-z]*.py")) if p.stem != "demo")]
    for program in programs:
        for name, kernel in kernels_of(program.execute()).items():
            times[f"{program.path.stem}: {name}"] = inference(typed_of(kernel))
    times.update({f"snap.lib: {name}": inference(typed_of(kernel)) for name, kernel in library().items()})
    slowest = sorted(times, key=times.get)[-5:]
    growth = {n: inference(typed_of(chain(n))) for n in (250, 500, 1000, 2000)}
    ratio = growth[2000] / growth[250] / (2000 * math.log(2000) / (250 * math.log(250)))
    for name in reversed(slowest):
        print(f"{name:40} {times[name] * 1e3:8.1f} ms")
    print({n: f"{t * 1e3:.0f} ms" for n, t in growth.items()}, f"{ratio:.2f} of n log n")
    result = {
        **surroundings(), "benchmark": "sync", "counts": counts, "inference_s": times, "chain_s": {str(n): t for n, t in growth.items()},
        "targets": [
            {"slowest": slowest[-1], "seconds": times[slowest[-1]], "target": 0.1, "met": times[slowest[-1]] < 0.1},
            {"chain_2000_over_n_log_n_from_250": ratio, "target": 1.25, "met": ratio < 1.25},
        ],
    }
    for line in result["targets"]:
        print(line)
    print(write("sync", result))


if __name__ == "__main__":
    main()
