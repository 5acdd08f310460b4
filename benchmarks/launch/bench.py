"""What a launch costs: the first one without and with the cache on disk, and each one of a long loop, beside CuPy's RawKernel and Triton.

    python benchmarks/launch/bench.py [--warm] [--json FILE]

Needs a GPU and torch; CuPy and Triton are measured where they are installed, in the same run.  Every result is checked.  Two floors:

driver alone      the same foreign call with everything prepared beforehand: what a launch could cost at the least
driver, by hand   what a caller of the driver who has tensors must do, and no check: ask each for its address and torch for its stream, pack, call

Snap launches by its native part (src/snap/host/plan/c/); `Python's path` is Snap without it (SNAP_NATIVE=0), in processes that take turns with the others.

Repeated launches are timed in fresh processes, and medians over these are reported, of ratios too: where the code of a process lies differs from run to
run, and with it what a launch costs.

First calls are made in fresh processes, in which torch has started the GPU and Python finds compiled bytecode, as it does for an installed package.
`first call` is the launch until its result is there; `from import to result` is all that a program does with Snap until then: import it, define and
check the kernel, launch it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "src"))

LOOP = 5_000
ROUNDS = 8
N = 1024
BLOCKS = N // 256
PROCESSES = 3
OF_CUPY = 6.0 / 5.8  # what is promised: 6 us where CuPy needs 5.8
OF_DRIVER = 1.2
TARGETS = {"import snap (s)": 0.2, "first call, no cache (s)": 1.0, "first call, cached (s)": 0.15, "from import to result, cached (s)": 0.15}


def first_call() -> None:
    """In a process of its own: torch and its context are up, Snap is not."""
    import torch

    x, y = torch.ones(N, device="cuda"), torch.zeros(N, device="cuda")
    torch.cuda.synchronize()
    start = time.perf_counter()
    import snap  # noqa: F401

    imported = time.perf_counter()
    from saxpy import saxpy

    defined = time.perf_counter()
    saxpy[N // 256](2.0, x, y, N)
    torch.cuda.synchronize()
    done = time.perf_counter()
    assert (y == 2).all()
    print(json.dumps({"import": imported - start, "define": defined - imported, "first": done - defined, "whole": done - start}))


def in_a_process(what: str, cache: str | None = None, native: bool = True) -> dict:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if cache is not None:
        environment["SNAP_CACHE_DIR"] = cache
    if not native:
        environment["SNAP_NATIVE"] = "0"
    done = subprocess.run([sys.executable, __file__, what], check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


def first_calls() -> dict[str, float]:
    """Seconds, medians over processes."""
    with tempfile.TemporaryDirectory() as folder:
        in_a_process("--first-call", os.path.join(folder, "unused"))  # writes the bytecode
        cold = [in_a_process("--first-call", os.path.join(folder, f"cache{number}")) for number in range(PROCESSES)]
        cached = [in_a_process("--first-call", os.path.join(folder, "cache0")) for _ in range(PROCESSES)]

    def median(runs: list[dict[str, float]], what: str) -> float:
        return statistics.median(run[what] for run in runs)

    return {
        "import snap (s)": median(cached, "import"), "define and check (s)": median(cached, "define"),
        "first call, no cache (s)": median(cold, "first"), "from import to result, no cache (s)": median(cold, "whole"),
        "first call, cached (s)": median(cached, "first"), "from import to result, cached (s)": median(cached, "whole"),
    }


# ---- repeated launches -------------------------------------------------------------------------------------------------------------------


def prepared(kernel, constexprs: dict, values: tuple):
    """The kernel as it lies on the GPU, and memory that is packed for these arguments: addresses stand for tensors."""
    from snap.host.device.gpu import STREAM_AT
    from snap.host.launch import launcher

    found = launcher(kernel._specialized(constexprs))._kernels[0]
    buffer, arguments, *attributes = found.slot(BLOCKS)
    found.layout.pack.pack_into(buffer, STREAM_AT, 0, *attributes, *(one.data_ptr() if hasattr(one, "data_ptr") else one for one in values))
    return found, buffer, arguments


def driver_alone(kernel, constexprs: dict, values: tuple):
    found, buffer, arguments = prepared(kernel, constexprs, values)
    launch = found.driver.launch

    def call():
        launch(*arguments)

    call.keep = buffer
    return call


def driver_by_hand(kernel, constexprs: dict, values: tuple):
    """Written out, as one would by hand: no loop over the arguments."""
    import torch

    from snap.host.device.gpu import STREAM_AT

    found, buffer, arguments = prepared(kernel, constexprs, values)
    names = {"launch": found.driver.launch, "pack": found.layout.pack.pack_into, "stream": torch._C._cuda_getCurrentRawStream, "buffer": buffer,
             "arguments": arguments, **{f"v{k}": one for k, one in enumerate(values)}}
    packed = ", ".join(f"v{k}.data_ptr()" if hasattr(one, "data_ptr") else f"v{k}" for k, one in enumerate(values))
    text = f"def made({', '.join(names)}):\n    def call():\n        pack(buffer, {STREAM_AT}, stream(0), {packed})\n        launch(*arguments)\n    return call\n"
    space: dict = {}
    exec(text, space)
    return space["made"](**names)


def snap_launch(kernel, constexprs: dict, values: tuple):
    """Written out, as in a program: `k[blocks](x, y, n)`."""
    names = {"kernel": kernel, "blocks": BLOCKS, **{f"v{k}": one for k, one in enumerate(values)}, **constexprs}
    given = ", ".join([*(f"v{k}" for k in range(len(values))), *(f"{name}={name}" for name in constexprs)])
    space: dict = {}
    exec(f"def made({', '.join(names)}):\n    def call():\n        kernel[blocks]({given})\n    return call\n", space)
    return space["made"](**names)


def cupy_launch(x, y):
    import cupy

    kernel = cupy.RawKernel('extern "C" __global__ void saxpy(float a, const float* x, float* y, int n) '
                            "{ int i = blockIdx.x * 256 + threadIdx.x; if (i < n) y[i] = a * x[i] + y[i]; }", "saxpy")
    a, n, cx, cy = cupy.float32(2.0), cupy.int32(N), cupy.asarray(x), cupy.asarray(y)
    return lambda: kernel((BLOCKS,), (256,), (a, cx, cy, n))


def triton_launch(x, y):
    from triton_saxpy import saxpy_triton

    return lambda: saxpy_triton[(BLOCKS,)](2.0, x, y, N, BLOCK=256)


OTHERS = {"CuPy RawKernel (us)": cupy_launch, "Triton (us)": triton_launch}


def timed(torch, contenders: dict) -> dict[str, float]:
    """Microseconds a call, the median of rounds in which the contenders take turns, each first once: the processor's clock changes over time."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(ROUNDS):
        order = list(contenders.items())
        for name, call in order[turn % len(order):] + order[:turn % len(order)]:
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(LOOP):
                call()
            times[name].append((time.perf_counter() - start) / LOOP * 1e6)
    torch.cuda.synchronize()
    return {name: statistics.median(found) for name, found in times.items()}


def right(torch, name: str, call, y, each: float) -> None:
    y.zero_()
    for _ in range(100):
        call()
    torch.cuda.synchronize()
    assert (y == 100 * each).all(), f"{name} is wrong"


def warm() -> dict[str, float]:
    """In a process of its own: saxpy beside the others, then kernels of more and of fewer arrays."""
    import kernels
    import torch
    from saxpy import saxpy

    from snap.host.plan import launches

    print(f"native part: {launches.reason() or 'yes'}", file=sys.stderr)

    def ones() -> list:
        return [torch.ones(N, device="cuda") for _ in range(7)]

    figures: dict[str, float] = {}
    given = {"saxpy": (saxpy, {}, 2), "one array": (kernels.one, {}, 1), "two arrays": (kernels.two, {}, 2), "three arrays": (kernels.three, {}, 3),
             "eight arrays": (kernels.eight, {}, 8), "generic, two arrays": (kernels.generic, {"T": 256}, 2)}
    for name, (kernel, constexprs, count) in given.items():
        x, y = ones(), torch.zeros(N, device="cuda")
        values = (*((2.0,) if kernel is saxpy else ()), *x[:count - 1], y, N)
        contenders = {"Snap": snap_launch(kernel, constexprs, values)}
        contenders["Snap"]()  # compiled and loaded
        contenders = {"driver alone": driver_alone(kernel, constexprs, values), "driver, by hand": driver_by_hand(kernel, constexprs, values), **contenders}
        for who, call in contenders.items():
            right(torch, f"{name}: {who}", call, y, 2.0 if kernel is saxpy else 1.0)
        for who, prepare in OTHERS.items() if kernel is saxpy else ():
            try:
                contenders[who] = prepare(x[0], y)
            except ImportError as missing:
                print(f"{who}: left out, {missing}", file=sys.stderr)
                continue
            right(torch, who, contenders[who], y, 2.0)
        found = timed(torch, contenders)
        if kernel is saxpy:
            figures |= {who if who in OTHERS else f"{who} (us)": value for who, value in found.items()}
            figures["Snap above the driver (us)"] = found["Snap"] - found["driver alone"]
        prefix = "Snap, of the driver" if kernel is saxpy else f"{name}: of the driver"
        figures[f"{prefix} alone"] = found["Snap"] / found["driver alone"]
        figures[f"{prefix}, by hand"] = found["Snap"] / found["driver, by hand"]
    return figures


def warm_ones(processes: int) -> dict[str, float]:
    runs = []
    for number in range(processes):
        found = in_a_process("--warm-once")
        without = in_a_process("--warm-once", native=False)
        runs.append(found | {f"Python's path: {name}": value for name, value in without.items() if "Snap" in name or "arra" in name})
        print(f"process {number + 1}: " + ", ".join(f"{name} {value:.3f}" for name, value in runs[-1].items()), flush=True)
    figures = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    for name in figures:
        if "of the driver alone" in name and not name.startswith("Python's path"):
            TARGETS[name] = OF_DRIVER
    if "CuPy RawKernel (us)" in figures:
        TARGETS["Snap (us)"] = OF_CUPY * figures["CuPy RawKernel (us)"]
    return figures


def measured(only_warm: bool = False, processes: int = PROCESSES) -> dict:
    figures = {**({} if only_warm else first_calls()), **warm_ones(processes)}
    for name, value in figures.items():
        limit = TARGETS.get(name)
        verdict = "" if limit is None else f"   at most {limit:.3g}: {'yes' if value <= limit else 'NO'}"
        print(f"{name:<44}{value:>8.3f}{verdict}")
    return {"kind": "launches", "benchmark": "launch", "loop": LOOP, "rounds": ROUNDS, "processes": processes, "figures": figures}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--json", type=Path, metavar="FILE", help="where to write the figures; else benchmarks/results/")
    arguments.add_argument("--warm", action="store_true", help="only launches in a loop")
    arguments.add_argument("--first-call", action="store_true", help=argparse.SUPPRESS)
    arguments.add_argument("--warm-once", action="store_true", help=argparse.SUPPRESS)
    chosen = arguments.parse_args()
    sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "benchmarks"), str(ROOT / "benchmarks" / "launch")]
    if chosen.first_call or chosen.warm_once:
        if chosen.first_call:
            first_call()
        else:
            print(json.dumps(warm()))
        return
    import torch
    from report import surroundings, write

    found = measured(chosen.warm)
    record = {**surroundings(("torch", "cupy-cuda13x", "triton")), "gpu": torch.cuda.get_device_name(), **found}
    if chosen.json:
        chosen.json.write_text(json.dumps(record, indent=2) + "\n")
    else:
        print(f"written to {write('launch', record)}")


if __name__ == "__main__":
    main()
