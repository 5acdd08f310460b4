"""The words of device memory in which the blocks of a cooperative grid meet.

Input:      the stream of a launch
Output:     `Words.of(stream)`: the address of words that no other grid uses at the same time
Invariant:  launches on one stream follow each other and share their words; a launch that is captured in a graph has
            words of its own, since the graph may run on any stream, beside anything.  Words are zero before the first
            launch, and each launch leaves them fit for the next
Non-goals:  giving them back: nobody knows when a graph is gone
"""

from __future__ import annotations

import threading

from snap._compiler.ir.hardware import CACHE_LINE
from snap.host.device.contexts import OnDevice

_CHUNK = 1 << 14  # bytes that are allocated at a time
_LINE = CACHE_LINE  # no two sets of words share a line of the cache


class Words:
    def __init__(self, driver: OnDevice, count: int):
        self._driver = driver
        self._size = -(-4 * count // _LINE) * _LINE
        self._streams: dict[int, int] = {}
        self._free: list[int] = []
        self._lock = threading.Lock()

    def of(self, stream: int) -> int:
        if self._driver.capturing(stream):
            return self._taken()
        found = self._streams.get(stream)
        return self._streams.setdefault(stream, self._taken()) if found is None else found

    def _taken(self) -> int:
        with self._lock:
            if not self._free:
                start = self._driver.zeroed(_CHUNK)
                self._free = list(range(start, start + _CHUNK - self._size + 1, self._size))
            return self._free.pop()
