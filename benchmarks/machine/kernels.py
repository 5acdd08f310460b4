"""The two kernels of the comparison, measured for one tool: `python kernels.py TOOL KERNEL REPEATS`.

Prints one JSON line: the times of the runs in seconds (the first one, which may compile, apart), how much memory a run takes, and the
tool's version.  Tools read their environment at import, hence a process for each.  Arrays are wrapped, without a copy, before the clock starts.
Every result is compared with NumPy's before it counts.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
import tracemalloc
from collections.abc import Callable

import numpy as np

N = 128  # matmul: N x N x N, one thread an element
LENGTH = 65_536  # vector add
THREADS = 256
BLOCKS = {"matmul": N * N // THREADS, "add": LENGTH // THREADS}
SIZE = {"matmul": N, "add": LENGTH}

Prepare = Callable[[np.ndarray, np.ndarray, np.ndarray], Callable[[], None]]  # three arrays -> one run of the kernel on them


def inputs(kernel: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    shape = (N, N) if kernel == "matmul" else (LENGTH,)
    a, b = (rng.standard_normal(shape, dtype=np.float32) for _ in range(2))
    return a, b, np.zeros(shape, np.float32)


def check(kernel: str, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    right = a.astype(np.float64) @ b if kernel == "matmul" else a + b
    np.testing.assert_allclose(c, right, rtol=1e-4, atol=1e-3)


def snap_tool(kernel: str) -> tuple[Prepare, str]:
    import snap_kernels

    from snap import __version__

    launch = getattr(snap_kernels, kernel)[BLOCKS[kernel]]
    return lambda a, b, c: lambda: launch(a, b, c, SIZE[kernel]), __version__


def numba_tool(kernel: str) -> tuple[Prepare, str]:
    os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
    import numba
    import numba_kernels

    launch = getattr(numba_kernels, kernel)[BLOCKS[kernel], THREADS]
    return lambda a, b, c: lambda: launch(a, b, c, SIZE[kernel]), numba.__version__


def triton_tool(kernel: str) -> tuple[Prepare, str]:
    os.environ["TRITON_INTERPRET"] = "1"
    import torch
    import triton
    import triton_kernels

    # Triton works on tiles: one of 32x32 elements a program suits it better than 256 in a row.
    programs, block = ((N // 32) ** 2, 32) if kernel == "matmul" else (BLOCKS[kernel], THREADS)
    launch = getattr(triton_kernels, kernel)[(programs,)]

    def prepare(*arrays):
        tensors = [torch.from_numpy(array) for array in arrays]
        return lambda: launch(*tensors, SIZE[kernel], BLOCK=block)

    return prepare, triton.__version__


def warp_tool(kernel: str) -> tuple[Prepare, str]:
    import warp
    import warp_kernels

    warp.config.quiet = True
    warp.init()

    def prepare(*arrays):
        wrapped = [warp.array(array, dtype=warp.float32, device="cpu", copy=False) for array in arrays]
        return lambda: warp.launch(getattr(warp_kernels, kernel), dim=arrays[2].size, inputs=[*wrapped, SIZE[kernel]], device="cpu")

    return prepare, warp.config.version


TOOLS = {"snap": snap_tool, "numba-simulator": numba_tool, "triton-interpreter": triton_tool, "warp-cpu": warp_tool}


def measure(tool: str, kernel: str, repeats: int) -> dict:
    prepare, version = TOOLS[tool](kernel)
    times = []
    for _ in range(repeats + 1):
        a, b, c = inputs(kernel)
        run = prepare(a, b, c)
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
        check(kernel, a, b, c)
    return {"version": version, "first_s": times[0], "times_s": times[1:], "array_bytes": a.nbytes * 3, "working_bytes": working_memory(run),
            "process_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


def working_memory(run: Callable[[], None]) -> int:
    """What a warm run allocates at its peak, as Python and NumPy account for it; what compiled code allocates for itself is not seen."""
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
