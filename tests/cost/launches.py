"""Launches that run twice or three times: on the CPU machine, on lanes that count, and as the PTX that NVRTC makes of the kernel.

`watched(monkeypatch, ptx)` makes every launch on the CPU machine do so, and gives a list of what was counted: `Twice`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from snap.cost.measured import Count, sums
from snap.cost.metrics import METRICS
from snap.host.arguments.arrays import as_numpy
from snap.host.launch import Launcher, cpu_args
from snap.machine.counting import run_counting
from snap.ptx.machine import launch as ptx_launch
from snap.ptx.watch.counters import Counters


@dataclass
class Twice:
    """Hold what was counted of one launch."""

    kernel: str
    text: dict[str, Count]
    ptx: Counters | None


def watched(monkeypatch, ptx: bool = False) -> list[Twice]:
    found: list[Twice] = []
    run, run_as_ptx = Launcher._run_on_cpu, ptx_launch.run
    counted: list[Counters] = []

    def counting(*args, **options):
        counted.append(run_as_ptx(*args, **options, count_memory=True))

    monkeypatch.setattr(ptx_launch, "run", counting)

    def both(self, bound, blocks, *others):
        if not blocks:
            return run(self, bound, blocks, *others)
        arrays = [as_numpy(arg) for arg in bound.args if hasattr(arg, "pointer")]
        before = [one.copy() for one in arrays]
        copies = [arg.copy() if hasattr(arg, "copy") else arg for arg in cpu_args(bound)]
        run(self, bound, blocks, *others)
        text = sums(METRICS, run_counting(self.compiled.in_one_text, copies, blocks)).total
        for now, measured in zip(arrays, [one for one in copies if isinstance(one, np.ndarray)]):
            np.testing.assert_array_equal(now, measured)  # what is counted is what is run
        if ptx:
            after = [one.copy() for one in arrays]
            _put(arrays, before)
            self._run_ptx(bound, blocks, None, None, None, {})
            _put(arrays, after)
        found.append(Twice(self.signature.kernel, text, counted.pop() if ptx else None))

    monkeypatch.setattr(Launcher, "_run_on_cpu", both)
    return found


def _put(arrays: list[np.ndarray], values: list[np.ndarray]) -> None:
    for array, old in zip(arrays, values):
        if array.flags.writeable:
            array[...] = old
