"""The PTX machine's speed: instructions of threads a second, on one core.

`python benchmarks/ptx/bench.py`.  Two kernels, compiled by NVRTC to PTX as any CUDA is (compute_90a) and run by `snap.ptx.run`:
saxpy of 65,536 elements in 256 blocks of 256 threads, and a matmul of 256 x 256 x 256 with tiles of 16 x 16 in shared memory.  What
is counted is what the machine counts: each instruction once for each thread that executes it, guarded-off ones included, as a GPU's
issue slots have it.  The clock runs for the launch of a loaded program: placing arguments, running, and giving the arrays back;
not for compiling and reading the text, whose times are told apart.  It is the process' time on its core, so that others that run
beside it count less; the time on the wall is written down, too.  Every result is compared with NumPy's before it counts.
Target: 20 million a second for both.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import numpy as np  # noqa: E402
from report import surroundings, write  # noqa: E402

from snap import ptx  # noqa: E402
from snap.host.compile.nvrtc import compile_ptx  # noqa: E402

TARGET = 20e6
N = 256

SAXPY = """
extern "C" __global__ void saxpy(float a, const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
"""

MATMUL = """
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int n) {
    __shared__ float left[16][16], right[16][16];
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < n; k += 16) {
        left[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
        __syncthreads();
        for (int j = 0; j < 16; j++) sum += left[threadIdx.y][j] * right[j][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
"""


def clocks() -> np.ndarray:
    """The process' seconds on its core, and those on the wall."""
    return np.array([time.process_time(), time.perf_counter()])


def saxpy(program) -> tuple:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(N * 256, dtype=np.float32) for _ in range(2))
    right = np.float64(2.5) * x + y
    started = clocks()
    counters = ptx.run(program, "saxpy", 256, 256, [2.5, x, y, N * 256])
    took = clocks() - started
    np.testing.assert_allclose(y, right, rtol=1e-6, atol=1e-6)
    return counters, took


def matmul(program) -> tuple:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((N, N), dtype=np.float32) for _ in range(2))
    c = np.zeros((N, N), np.float32)
    started = clocks()
    counters = ptx.run(program, "matmul", (16, 16), (16, 16), [a, b, c, N])
    took = clocks() - started
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-3)
    return counters, took


def measured(run, text: str, repeats: int) -> dict:
    started = time.perf_counter()
    compiled = compile_ptx(text, "sm_90a")
    compiling = time.perf_counter() - started
    started = time.perf_counter()
    program = ptx.load(ptx.parse(compiled))
    reading = time.perf_counter() - started
    first, (first_s, _) = run(program)
    both = [run(program)[1].tolist() for _ in range(repeats)]
    times, walls = [t for t, _ in both], [t for _, t in both]
    rates = [first.thread_instructions / t for t in times]
    return {
        "thread_instructions": first.thread_instructions,
        "warp_instructions": first.warp_instructions,
        "compile_s": compiling,
        "read_s": reading,
        "first_s": first_s,
        "times_s": times,
        "wall_s": walls,
        "median_per_s": statistics.median(rates),
        "best_per_s": max(rates),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--dry", action="store_true", help="print, and write no file")
    arguments = parser.parse_args()
    figures = {"saxpy": measured(saxpy, SAXPY, arguments.repeats), "matmul": measured(matmul, MATMUL, arguments.repeats)}
    targets = []
    for name, found in figures.items():
        met = found["median_per_s"] >= TARGET
        targets.append({"kernel": name, "per_s": found["median_per_s"], "target": TARGET, "met": met})
        print(
            f"{name:8} {found['thread_instructions']:>10} thread instructions, {statistics.median(found['times_s']) * 1e3:8.1f} ms, "
            f"{found['median_per_s'] / 1e6:6.1f} M/s (best {found['best_per_s'] / 1e6:.1f}){'' if met else ', below the target'}"
        )
    if not arguments.dry:
        print(write("ptx", {**surroundings(), "benchmark": "ptx", "kernels": figures, "targets": targets}))


if __name__ == "__main__":
    main()
