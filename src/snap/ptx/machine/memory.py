"""The flat memory of the PTX machine: every load sees the last store.

Spaces: global memory (constants lie there, too) is one array of bytes with a gap between what was given to it, so that
an access that leaves its array is seen; shared memory is a row of bytes for each block, local memory one for each
thread, parameters one for all.  A generic address says by its upper bits which space it means (PTX ISA, "Generic
Addressing"); a shared one of 32 bits says by its upper byte which block of the cluster, 0 for one's own.

Invariant: an access is aligned and within its array, or it is refused.  Non-goals: caches, and orders in which
accesses might become visible.
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from snap.ptx.errors import PtxFaultKind
from snap.ptx.text.types import BITS

GLOBAL = 0x7F00_0000_0000
WINDOW = {"param": 0x7C00_0000_0000, "local": 0x7D00_0000_0000, "shared": 0x7E00_0000_0000}
WINDOW_BITS = 40
BLOCK_BITS = 24  # of a shared address: what lies below says where in the block
GAP = 256


class Fault(Exception):
    """An access that has no meaning: why, and the first lane (of those that were asked for) it happened to."""

    def __init__(self, kind: PtxFaultKind, message: str, lane: int):
        super().__init__(message)
        self.kind, self.message, self.lane = kind, message, lane


class Bytes:
    """Rows of bytes, seen as elements of any width.  Each row has so many bytes that are there."""

    def __init__(self, rows: int, size: int, name: str):
        self.size, self.name = size, name
        self.stride = -(-max(size, 1) // 16) * 16
        self.data = np.zeros(rows * self.stride, np.uint8)
        self.views = {width: self.data.view(kind) for width, kind in BITS.items()}


class Global(Bytes):
    """Arrays, one behind the other, with gaps."""

    def __init__(self) -> None:
        super().__init__(1, 0, "global")
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.names: list[str] = []
        self.pieces: list[np.ndarray] = []
        self.end = GAP

    def place(self, data: bytes | np.ndarray, name: str) -> int:
        """The address that it gets.  All are placed before anything runs."""
        raw = np.frombuffer(data, np.uint8)
        start = self.end
        self.starts.append(start)
        self.ends.append(start + len(raw))
        self.names.append(name)
        self.pieces.append(raw)
        self.end = -(-(start + len(raw)) // GAP) * GAP + GAP
        return GLOBAL + start

    def fill(self) -> None:
        self.stride = self.size = self.end
        self.data = np.zeros(self.end, np.uint8)
        self.views = {width: self.data.view(kind) for width, kind in BITS.items()}
        for start, raw in zip(self.starts, self.pieces):
            self.data[start : start + len(raw)] = raw
        self._starts, self._ends = np.array(self.starts, np.int64), np.array(self.ends, np.int64)

    def back(self, k: int) -> np.ndarray:
        """Return what array number k holds now."""
        return self.data[self.starts[k] : self.ends[k]]

    def check(self, at: np.ndarray, width: int) -> None:
        if not len(self.starts):
            raise Fault(PtxFaultKind.OUT_OF_BOUNDS, "there is no global memory", 0)
        if len(at):
            # Most instructions stay in one array: then two comparisons do.
            k = bisect_right(self.starts, int(at.min())) - 1
            if k >= 0 and int(at.max()) + width <= self.ends[k]:
                return
        found = np.searchsorted(self._starts, at, "right") - 1
        bad = (found < 0) | (at + width > self._ends[np.maximum(found, 0)])
        if bad.any():
            lane = int(np.argmax(bad))
            k = max(int(found[lane]), 0)
            off = int(at[lane]) - self.starts[k]
            size = self.ends[k] - self.starts[k]
            raise Fault(
                PtxFaultKind.OUT_OF_BOUNDS,
                f"{width} bytes at byte {off} of {self.names[k]}, which has {size}",
                lane,
            )


class Memory:
    """All spaces of one launch.

    blocks, threads   of the grid, and of a block with whole warps
    """

    def __init__(self, blocks: int, lanes: int, shared: int, local: int, parameters: int, cluster: int):
        self.lanes = lanes  # of a block
        self.cluster = cluster
        self.globals = Global()
        self.shared = Bytes(blocks, shared, "shared")
        self.local = Bytes(blocks * lanes, local, "local")
        self.parameters = Bytes(1, parameters, "param")
        self.still = False  # since that was said, no byte of global or shared memory has changed
        self.rows = np.arange(blocks * lanes) // lanes * self.shared.stride  # by thread: where its block's begins

    def located(self, space: str, address: np.ndarray, thread: np.ndarray, width: int) -> tuple[Bytes, np.ndarray]:
        """Find which bytes an address means, and where in them. All lanes have one space: `split` sees to that."""
        match space:
            case "global" | "const":
                at = address.astype(np.int64) - GLOBAL
                self.globals.check(at, width)
                found: Bytes = self.globals
            case "shared" | "shared::cta" | "shared::cluster":
                if int(address.max()) + width <= self.shared.size:  # of one's own block, as most are
                    return self.shared, self._even(address.view(np.int64), width, space) + self.rows[thread]
                block = thread // self.lanes
                rank = (address >> np.uint64(BLOCK_BITS)).astype(np.int64)
                there = np.where(rank == 0, block, block // self.cluster * self.cluster + rank - 1)
                inside = (address & np.uint64((1 << BLOCK_BITS) - 1)).astype(np.int64)
                self._check(self.shared, inside, width, (rank < 0) | (rank > self.cluster))
                found, at = self.shared, there * self.shared.stride + inside
            case "local":
                inside = address.astype(np.int64)
                self._check(self.local, inside, width)
                found, at = self.local, thread * self.local.stride + inside
            case "param":
                at = address.astype(np.int64)
                self._check(self.parameters, at, width)
                found = self.parameters
            case _:
                raise Fault(PtxFaultKind.UNKNOWN, f"there is no state space .{space} here", 0)
        return found, self._even(at, width, space)

    def _even(self, at: np.ndarray, width: int, space: str) -> np.ndarray:
        if int(np.bitwise_or.reduce(at)) & (width - 1):
            lane = int(np.argmax(at % width != 0))
            raise Fault(PtxFaultKind.MISALIGNED, f"{width} bytes of .{space} at byte {int(at[lane])}", lane)
        return at

    def _check(self, memory: Bytes, inside: np.ndarray, width: int, wrong: np.ndarray | bool = False) -> None:
        bad = (inside < 0) | (inside + width > memory.size) | wrong
        if bad.any():
            lane = int(np.argmax(bad))
            raise Fault(
                PtxFaultKind.OUT_OF_BOUNDS,
                f"{width} bytes at byte {int(inside[lane])} of .{memory.name} memory, of {memory.size}",
                lane,
            )

    def split(self, address: np.ndarray) -> list[tuple[str, np.ndarray | None, np.ndarray]]:
        """Generic addresses by space: (space, which lanes or None for all, addresses in it)."""
        upper = address >> np.uint64(WINDOW_BITS)
        found: list[tuple[str, np.ndarray | None, np.ndarray]] = []
        for space, window in WINDOW.items():
            inside = upper == np.uint64(window >> WINDOW_BITS)
            if inside.all():
                return [(space, None, address - np.uint64(window))]
            if inside.any():
                found.append((space, np.flatnonzero(inside), address[inside] - np.uint64(window)))
        rest = ~np.isin(upper, [np.uint64(w >> WINDOW_BITS) for w in WINDOW.values()])
        if rest.all():
            return [("global", None, address)]
        if rest.any():
            found.append(("global", np.flatnonzero(rest), address[rest]))
        return found

    def read(self, space: str, address: np.ndarray, thread: np.ndarray, width: int) -> np.ndarray:
        found, at = self.located(space, address, thread, width)
        return found.views[width].take(at >> width.bit_length() - 1, mode="clip")

    def write(self, space: str, address: np.ndarray, thread: np.ndarray, value: np.ndarray) -> None:
        width = value.dtype.itemsize
        found, at = self.located(space, address, thread, width)
        view, which = found.views[width], at >> width.bit_length() - 1
        if self.still and found is not self.local and (view[which] != value).any():
            self.still = False
        view[which] = value  # of lanes that meet, the last one wins
