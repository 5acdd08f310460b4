"""How library kernels are measured against their baselines.

Input:      a `Benchmark`: a short declaration in benchmarks/<op>/bench.py
Output:     a record for benchmarks/results/: times, rates and errors a size, and for each kernel that ran its resources and synchronization
Invariant:  a result is compared with a float64 or exact reference, before and after timing, and one above the tolerance is no result; baseline and
            ours take turns in one process on the same inputs, which change with every run and together are larger than the L2 cache
Non-goals:  the cost of a launch (benchmarks/launch), choosing parameters (snap.tune)
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

WARM_UPS = 5
LEAST_ROUNDS, MOST_ROUNDS = 20, 200
ROUNDS_SECONDS = 0.4  # of timed work a size, where that is more rounds than the least
L2_MULTIPLE = 3  # inputs rotated through hold at least so many times the L2
LEAST_SETS, MOST_SETS = 2, 24


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A contender that needs something made first: `make(size)` returns what is called with the inputs, or raises ImportError."""

    make: Callable


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """sizes       anything; `label` makes the text they are reported under
    inputs      (size, random) -> the tensors of one run; `random` is a torch.Generator of the GPU
    ours        name -> function of the inputs, or `Prepared`
    baselines   likewise; the first is the one that `must` and `aim` speak of
    unlike      baselines that do something else (a copy of the same bytes), so that their results are not compared
    reference   function of the inputs: the result in float64, or exactly; a tuple, where there are several results
    tolerance   the largest |result - reference| allowed, as a part of the largest |reference|; 0: equal
    bytes       size -> bytes that must be read and written; flops: size -> operations
    rate        "bytes" or "flops": what the op is limited by, and so reported in
    must, aim   what part of the baseline's rate is promised, and hoped for, at the first `promised` sizes
    """

    name: str
    sizes: Sequence[object]
    inputs: Callable
    ours: Mapping[str, object]
    baselines: Mapping[str, object]
    reference: Callable
    tolerance: float
    bytes: Callable
    flops: Callable | None = None
    rate: str = "bytes"
    must: float | None = None
    aim: float | None = None
    promised: int = 1
    unlike: Sequence[str] = ()
    label: Callable = str


class Mismatch(Exception):
    """A result that is not within the tolerance."""


# ---- results against references ----------------------------------------------------------------------------------------------------------


def error_of(result: object, reference: object) -> float:
    """max |result - reference| / max |reference|; NaN and infinity must stand where the reference has them.  Of several results the largest."""
    if isinstance(reference, tuple):
        if not isinstance(result, tuple | list) or len(result) != len(reference):
            raise Mismatch(f"there should be {len(reference)} results")
        return max(error_of(one, other) for one, other in zip(result, reference))
    if tuple(result.shape) != tuple(reference.shape):
        raise Mismatch(f"the result has the shape {tuple(result.shape)}, the reference {tuple(reference.shape)}")
    if math.prod(result.shape) == 0:
        return 0.0
    one, other = _double(result), _double(reference)
    same = (one == other) | ((one != one) & (other != other))
    off = abs(one - other)
    off[same] = 0.0
    largest = abs(other)
    largest[(largest != largest) | (largest == math.inf)] = 0.0
    worst, scale = float(off.max()), float(largest.max())
    if worst != worst or worst == math.inf:
        return math.inf
    return worst / scale if scale else (math.inf if worst else 0.0)


def check(result: object, reference: object, tolerance: float, who: str) -> float:
    if tolerance == 0 and not isinstance(reference, tuple) and tuple(result.shape) == tuple(reference.shape):
        if not bool((result == reference).all()):
            raise Mismatch(f"{who}: the result is not the reference's, and it must be equal")
        return 0.0
    error = error_of(result, reference)
    if not error <= tolerance:
        raise Mismatch(f"{who}: the error is {error:.3g} of the largest value, and {tolerance:.3g} is allowed")
    return error


def _double(array: object) -> object:
    """A new row of float64: torch's or NumPy's."""
    return (array.double().clone() if hasattr(array, "double") else array.astype("float64")).reshape(-1)


# ---- timing ------------------------------------------------------------------------------------------------------------------------------


def input_sets(size_of_one: int, l2: int) -> int:
    """How many sets of inputs to rotate through."""
    return max(LEAST_SETS, min(MOST_SETS, 1 + -(-L2_MULTIPLE * l2 // max(size_of_one, 1))))


def rounds_for(seconds: float) -> int:
    """How many rounds, when one takes so long."""
    return max(LEAST_ROUNDS, min(MOST_ROUNDS, int(ROUNDS_SECONDS / max(seconds, 1e-9))))


def timed(contenders: Mapping[str, Callable], sets: Sequence[tuple], device, rounds: int | None = None) -> dict[str, list[float]]:
    """Seconds of each run.  In every round each contender runs once, each round another one first, and every run has the next inputs."""
    names = list(contenders)
    for turn in range(WARM_UPS):
        for name in names:
            contenders[name](*sets[turn % len(sets)])
    if rounds is None:
        rounds = rounds_for(sum(_round(contenders, names, sets, device, turn) for turn in range(2)) / 2)
    times: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        first = turn % len(names)
        _round(contenders, names[first:] + names[:first], sets, device, turn, times)
    return times


def _round(contenders: Mapping[str, Callable], order: Sequence[str], sets: Sequence[tuple], device, turn: int,
           times: dict[str, list[float]] | None = None) -> float:
    """All runs are queued before the first begins, so that the time of a launch on the host is not in them.  Returns the sum of their times."""
    flush = len(sets) * device.bytes_of(sets[0]) < 2 * device.l2
    device.hold(len(order))
    marks = []
    for place, name in enumerate(order):
        given = sets[(turn * len(order) + place) % len(sets)]
        if flush:
            device.flush()
        start = device.mark()
        result = contenders[name](*given)
        marks.append((name, start, device.mark()))
        del result
    device.finish()
    found = [(name, device.seconds(start, stop)) for name, start, stop in marks]
    if times is not None:
        for name, seconds in found:
            times[name].append(seconds)
    return sum(seconds for _, seconds in found)


class CudaDevice:
    """torch's GPU."""

    def __init__(self) -> None:
        try:
            import torch
        except ImportError:
            raise SystemExit("benchmarks of kernels need torch, which is not installed: pip install snap-gpu[bench]") from None
        if not torch.cuda.is_available():
            raise SystemExit("benchmarks of kernels need a GPU; torch sees none here")
        self.torch = torch
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self.name, self.l2 = properties.name, properties.L2_cache_size
        self.scratch = torch.empty(2 * self.l2, dtype=torch.uint8, device="cuda")

    def random(self, seed: int):
        return self.torch.Generator(device="cuda").manual_seed(seed)

    def bytes_of(self, inputs: tuple) -> int:
        return sum(value.nbytes for value in inputs if isinstance(value, self.torch.Tensor))

    def hold(self, runs: int) -> None:
        """The GPU waits, about 0.1 ms a run, while the host queues them."""
        self.torch.cuda._sleep(200_000 * (runs + 1))

    def flush(self) -> None:
        self.scratch.zero_()

    def mark(self):
        event = self.torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def finish(self) -> None:
        self.torch.cuda.synchronize()

    def seconds(self, start, stop) -> float:
        return start.elapsed_time(stop) / 1e3

    def release(self) -> None:
        self.torch.cuda.empty_cache()

    def copy_speed(self) -> float:
        """Bytes read and written a second by a device-to-device copy: what memory-bound kernels can hope for."""
        sets = [tuple(self.torch.empty(1 << 30, dtype=self.torch.uint8, device="cuda").random_() for _ in range(2)) for _ in range(2)]
        times = timed({"copy": lambda one, other: one.copy_(other)}, sets, self)
        return 2 * (1 << 30) / statistics.median(times["copy"])


# ---- what ran ----------------------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def kernels_loaded() -> Iterator[list]:
    """The Snap kernels that are put on the GPU meanwhile, in order."""
    from snap.host.device.gpu import GpuKernel

    found: list = []
    original = GpuKernel.__init__

    def noted(self, *args, **keywords) -> None:
        original(self, *args, **keywords)
        found.append(self)

    GpuKernel.__init__ = noted
    try:
        yield found
    finally:
        GpuKernel.__init__ = original


_MOST_THREADS = 39  # CUdevice_attribute: threads a multiprocessor


def kernel_record(kernel) -> dict:
    """Registers, spills, shared memory, occupancy, and the points of synchronization that were inferred, of a kernel on the GPU."""
    import ctypes

    from snap.host.compile.nvrtc import resources

    compiled, module = kernel.compiled, kernel.compiled.module
    used = resources(module.text, kernel.device.target, module.kernel, module.dynamic_smem, compiled.typed.uses_unsafe)
    resident = kernel.driver.resident_blocks(kernel.function, module.threads, module.dynamic_smem)
    most, handle = ctypes.c_int(), ctypes.c_int()
    kernel.driver.call("cuDeviceGet", ctypes.byref(handle), kernel.device.number)
    kernel.driver.call("cuDeviceGetAttribute", ctypes.byref(most), _MOST_THREADS, handle)
    return {**static_record(compiled), "registers": used.registers, "spill_stores": used.spill_stores, "spill_loads": used.spill_loads,
            "smem": used.smem, "resident_blocks": resident, "occupancy": resident * module.threads / most.value}


def static_record(compiled) -> dict:
    """What is known of a kernel without a GPU."""
    from snap._compiler.ir.points import points

    return {"kernel": compiled.module.kernel, "constexprs": dict(compiled.constexprs), "threads": compiled.module.threads,
            "cluster": compiled.module.cluster, "syncs": dict(sorted(Counter(point.kind for point in points(compiled.synced)).items()))}


# ---- one benchmark -----------------------------------------------------------------------------------------------------------------------


def run(benchmark: Benchmark, device, sizes: Sequence[object] | None = None, rounds: int | None = None, say: Callable = print,
        keep: Callable[[dict], None] = lambda record: None) -> dict:
    """The record of one benchmark; `failed` holds what went wrong, empty when all is well.  `keep` is given what there is after each size."""
    entries, failed, kernels = [], [], []
    record = {"kind": "throughput", "benchmark": benchmark.name, "tolerance": benchmark.tolerance, "rate": benchmark.rate, "must": benchmark.must,
              "aim": benchmark.aim, "warm_ups": WARM_UPS, "sizes": entries, "kernels": kernels, "failed": failed}
    for size in benchmark.sizes if sizes is None else sizes:
        label = benchmark.label(size)
        try:
            with kernels_loaded() as loaded:
                entry = measure(benchmark, size, device, rounds)
        except Exception as problem:
            failed.append(f"{benchmark.name} {label}: {problem}")
            say(f"FAILED {failed[-1]}")
            if not isinstance(problem, (Mismatch, MemoryError)) and "out of memory" not in str(problem):
                raise
            continue
        finally:
            device.release()
        entries.append(entry)
        kernels += [{**kernel_record(kernel), "size": label} for kernel in loaded]
        say(_line(benchmark, entry))
        keep(record)
    return record


def measure(benchmark: Benchmark, size: object, device, rounds: int | None = None) -> dict:
    sets = [tuple(benchmark.inputs(size, device.random(1)))]
    sets += [tuple(benchmark.inputs(size, device.random(seed + 2))) for seed in range(input_sets(device.bytes_of(sets[0]), device.l2) - 1)]
    contenders, missing = _ready(benchmark, size)
    errors = _checked(benchmark, contenders, sets[0])
    times = timed(contenders, sets, device, rounds)
    _checked(benchmark, {name: contenders[name] for name in benchmark.ours}, sets[-1])
    work = {"bytes": benchmark.bytes(size), "flops": benchmark.flops(size) if benchmark.flops else None}
    found = {name: _figures(times[name], errors[name], work[benchmark.rate], name in benchmark.ours) for name in contenders}
    promised = size in list(benchmark.sizes)[:benchmark.promised]
    return {"size": benchmark.label(size), "promised": promised, **work, "input_sets": len(sets), "contenders": found, "missing": missing,
            "of_baseline": _of_baseline(benchmark, found)}


def _ready(benchmark: Benchmark, size: object) -> tuple[dict[str, Callable], dict[str, str]]:
    """Baselines that are not installed are left out and named; ours are not."""
    ready, missing = {}, {}
    for name, contender in {**benchmark.baselines, **benchmark.ours}.items():
        try:
            ready[name] = contender.make(size) if isinstance(contender, Prepared) else contender
        except ImportError as absent:
            if name in benchmark.ours:
                raise
            missing[name] = str(absent)
    return ready, missing


def _checked(benchmark: Benchmark, contenders: Mapping[str, Callable], inputs: tuple) -> dict[str, float]:
    """Ours must be within the tolerance; a baseline's error is noted, whatever it is."""
    reference = benchmark.reference(*inputs)
    errors = {}
    for name, contender in contenders.items():
        result = contender(*inputs)
        if name in benchmark.ours:
            errors[name] = check(result, reference, benchmark.tolerance, name)
        else:
            errors[name] = math.nan if name in benchmark.unlike else error_of(result, reference)
    return errors


def _figures(times: Sequence[float], error: float, work: float, ours: bool) -> dict:
    ordered = sorted(times)
    median = statistics.median(ordered)
    return {"ours": ours, "median_s": median, "low_s": ordered[len(ordered) // 10], "high_s": ordered[-1 - len(ordered) // 10], "runs": len(ordered),
            "error": error if math.isfinite(error) else None, "rate_per_s": work / median}


def _of_baseline(benchmark: Benchmark, found: Mapping[str, dict]) -> float | None:
    """Our best rate as a part of the first baseline's that ran."""
    baseline = next((found[name]["rate_per_s"] for name in benchmark.baselines if name in found), None)
    return max(found[name]["rate_per_s"] for name in benchmark.ours) / baseline if baseline else None


def _line(benchmark: Benchmark, entry: dict) -> str:
    unit = "TB/s" if benchmark.rate == "bytes" else "TFLOP/s"
    rates = "  ".join(f"{name} {figures['rate_per_s'] / 1e12:.3f}" for name, figures in entry["contenders"].items())
    part = entry["of_baseline"]
    judged = part is not None and benchmark.must is not None and entry["promised"]
    verdict = "" if not judged else f"  ({'ok' if part >= benchmark.must else 'BELOW'}, must {benchmark.must:.0%})"
    return f"{benchmark.name} {entry['size']}: {rates} {unit}" + ("" if part is None else f"  {part:.1%} of the baseline{verdict}")


