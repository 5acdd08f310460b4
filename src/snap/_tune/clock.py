"""Time runs on the GPU: events around each run, with a cold L2 cache.

Input:      a function that launches
Output:     seconds of each run
Invariant:  the cost of a run on the GPU, not of its launch in Python: runs are queued after a wait for the
            memory that is written between them
Non-goals:  averages (rounds.py); timing of code on the CPU
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import byref, c_float, c_int, c_size_t, c_uint, c_void_p

from snap.host.device.contexts import OnDevice, on_device
from snap.host.device.driver import driver

_L2_BYTES = 38  # CUdevice_attribute
_FLUSHES = 2  # of the L2's size, written between runs
_AHEAD = 4  # times that are written before the first run, while Python queues what follows


class GpuClock:
    """Time by `clock(run, runs, before)`: `before` is queued ahead of each run and not timed."""

    def __init__(self, number: int, stream: int):
        self.driver: OnDevice = on_device(driver(), driver().device(number))
        self.stream = c_void_p(stream)
        self.scratch = c_void_p()
        self.size = max(32 << 20, _FLUSHES * self._l2(number))
        self.driver.call("cuMemAlloc_v2", byref(self.scratch), c_size_t(self.size))

    def _l2(self, number: int) -> int:
        value, handle = c_int(), c_int()
        self.driver.call("cuDeviceGet", byref(handle), number)
        self.driver.call("cuDeviceGetAttribute", byref(value), _L2_BYTES, handle)
        return value.value

    def __call__(self, run: Callable[[], None], runs: int, before: Callable[[], None] | None = None) -> list[float]:
        events = [(self._event(), self._event()) for _ in range(runs)]
        try:
            for _ in range(_AHEAD):
                self._flush()
            for start, stop in events:
                if before is not None:
                    before()
                self._flush()
                self.driver.call("cuEventRecord", start, self.stream)
                run()
                self.driver.call("cuEventRecord", stop, self.stream)
            self.driver.call("cuStreamSynchronize", self.stream)
            return [self._between(start, stop) for start, stop in events]
        finally:
            for event in (event for pair in events for event in pair):
                self.driver.call("cuEventDestroy_v2", event)

    def close(self) -> None:
        self.driver.call("cuMemFree_v2", self.scratch)

    def _flush(self) -> None:
        self.driver.call("cuMemsetD32Async", self.scratch, c_uint(0), c_size_t(self.size // 4), self.stream)

    def _event(self) -> c_void_p:
        event = c_void_p()
        self.driver.call("cuEventCreate", byref(event), c_uint(0))
        return event

    def _between(self, start: c_void_p, stop: c_void_p) -> float:
        milliseconds = c_float()
        later = "cuEventElapsedTime_v2"
        elapsed = later if self.driver.driver.has(later) else "cuEventElapsedTime"
        self.driver.call(elapsed, byref(milliseconds), start, stop)
        return milliseconds.value / 1e3
