"""Benchmarks whose kernels are compiled by many processes at the same time, and timed one after the other.

Input:      benchmarks, how many processes
Output:     their records, as harness.run gives them
Invariant:  nothing is timed before all kernels have been compiled, nor while another process uses the GPU
Non-goals:  one process for a GPU of one's own (run.py)
"""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from collections.abc import Sequence
from queue import Empty

import harness


def run(benchmarks: Sequence[harness.Benchmark], processes: int, seconds: float, say=print) -> list[dict]:
    """The sizes that were timed in so many seconds; those that were promised come first."""
    until = time.time() + seconds
    work = [(at, size) for at, benchmark in enumerate(benchmarks) for size in range(len(benchmark.sizes))]
    work.sort(key=lambda entry: (entry[1] >= benchmarks[entry[0]].promised, entry[1]))
    context = multiprocessing.get_context("fork")
    lock, queue, ready = context.Lock(), context.Queue(), context.Barrier(processes)
    shares = [work[rank::processes] for rank in range(processes)]
    workers = [context.Process(target=_works, args=(benchmarks, share, lock, queue, ready, until, seconds), daemon=True) for share in shares]
    for worker in workers:
        worker.start()
    found: dict[tuple[int, int], dict] = {}
    left = len(work)
    while left and time.time() < until + 5:
        with contextlib.suppress(Empty):
            at, size, record = queue.get(timeout=0.5)
            left -= 1
            if record is None:
                say(f"{benchmarks[at].name} {benchmarks[at].label(benchmarks[at].sizes[size])}: no time")
                continue
            found[at, size] = record
            for entry in record["sizes"]:
                say(harness._line(benchmarks[at], entry))
            for problem in record["failed"]:
                say(f"FAILED {problem}")
    return [_joined([found[at, size] for size in range(len(benchmark.sizes)) if (at, size) in found]) for at, benchmark in enumerate(benchmarks)
            if any((at, size) in found for size in range(len(benchmark.sizes)))]


def _joined(records: list[dict]) -> dict:
    """Of the sizes of one benchmark; a kernel that several have is told once, as one process would."""
    kernels: dict[str, dict] = {}
    for record in records:
        for kernel in record["kernels"]:
            kernels.setdefault(repr({**kernel, "size": None}), kernel)
    return {**records[0], **{key: [entry for record in records for entry in record[key]] for key in ("sizes", "failed")}, "kernels": list(kernels.values())}


def _measured(benchmark: harness.Benchmark, size: object, device) -> dict:
    """What one size does wrong is told of that size: the others of this process go on."""
    try:
        return harness.run(benchmark, device, [size], say=lambda text: None)
    except Exception as problem:
        return {**harness.run(benchmark, device, []), "failed": [f"{benchmark.name} {benchmark.label(size)}: {problem}"]}


def _works(benchmarks, share, lock, queue, ready, until: float, seconds: float) -> None:
    device, loaded = harness.CudaDevice(), {}
    for at, size in share:
        with harness.kernels_loaded() as kernels, contextlib.suppress(Exception):  # what is wrong is told when it is measured
            inputs = benchmarks[at].inputs(benchmarks[at].sizes[size], device.random(1))
            for contender in benchmarks[at].ours.values():
                if not isinstance(contender, harness.Prepared):
                    contender(*inputs)
        loaded[at, size] = kernels
        inputs = None
        device.release()
    device.finish()
    with contextlib.suppress(Exception):
        ready.wait(seconds / 2)
    for at, size in share:
        record = None
        with lock:
            if time.time() < until:
                record = _measured(benchmarks[at], benchmarks[at].sizes[size], device)
                record["kernels"] += [{**harness.kernel_record(kernel), "size": benchmarks[at].label(benchmarks[at].sizes[size])} for kernel in loaded[at, size]]
        queue.put((at, size, record))
