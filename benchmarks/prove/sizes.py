"""Does the check of order take longer for larger products?  One GEMM kernel (tests/ok/hgemm.py), for all sizes, and with `where=` holding it to one.

python benchmarks/prove/sizes.py

Exo-GPU checks one concrete size at a time by running its abstract machine: its paper (section 5) names 2, 16 and 128 s for 1024, 2048 and 4096.
Seconds here are processor time of the property *order*.
"""

from __future__ import annotations

import importlib
import linecache
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks")]
os.environ["SNAP_CACHE_DIR"] = ""

from report import surroundings, write  # noqa: E402

from snap.prove.order.goal import order  # noqa: E402

EXO_GPU = {1024: 2, 2048: 16, 4096: 128}


def gemm(size: int | None):
    """The kernel; of one size, `where=` says so."""
    text = (ROOT / "tests" / "ok" / "hgemm.py").read_text()
    if size is not None:
        assert "M % 128 == 0" in text
        text = text.replace("M % 128 == 0", f"M == N == K == {size}")
    name = f"<hgemm of {size}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    names: dict = {"__name__": f"hgemm_{size}"}
    exec(compile(text, name, "exec"), names)
    return names["hgemm"]


def measured(size: int | None) -> dict:
    k = gemm(size)
    synced = k._the_one({}).synced
    began = time.process_time()
    found = order(synced)
    seconds = time.process_time() - began
    return {"size": size or "all", "order": found.verdict, "seconds": round(seconds, 2), "exo_gpu_s": EXO_GPU.get(size or 0)}


def main() -> None:
    importlib.import_module("z3"), importlib.import_module("islpy")
    found = [measured(size) for size in (None, *EXO_GPU)]
    for row in found:
        print(row)
    print(write("prove_sizes", {**surroundings(("z3-solver", "islpy")), "benchmark": "prove_sizes", "sizes": found}))


if __name__ == "__main__":
    main()
