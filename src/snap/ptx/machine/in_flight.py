"""Memory operations in flight, of a launch on the PTX machine with caches (memory="caches").

Input: requests of warps, each about bytes of one line of global memory.  Output: what they do to memory and registers,
some time later: `advance` takes one step of the memory environment (environment/), drawn from a seed: a micro step of
some operation, or a silent rule of a cache.  Some operations are drawn to be slow, so that others overtake them.

Invariant: every operation ends, if it is waited for: steps need nothing from threads.  Orders that a thread relies on,
and fences, are those of environment/manager.py, with a warp for a thread: its lanes go together.  Non-goals: shared and
local memory and parameters, which are flat; time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any

import numpy as np

from snap.ptx.environment import lines, steps
from snap.ptx.environment.lines import INIT
from snap.ptx.environment.manager import Access, fenced, ordered
from snap.ptx.environment.memories import MemEnv, MemoryRegion, ProcMem, SharedMem
from snap.ptx.environment.programs import program
from snap.ptx.environment.states import Atomic, AtomicOp, Decompose, Device
from snap.ptx.environment.steps import Op
from snap.ptx.environment.words import Word
from snap.ptx.machine.memory import Memory

LINE = 128  # bytes
L1_LINES, L2_LINES = 16, 64
MANY, FEWER = 96, 64  # operations in flight: so many at most, then they go on to so many
SLOW = (0.1, 0.3, 0.6)  # of the operations are slow: one of these by the seed
LAZY = 0.97  # the chance that a slow operation that was drawn does nothing yet
SILENT, FLUSH = 1 / 24, 1 / 16  # of the steps are silent rules, and of these flushes

RegisterKey = tuple[int, int]  # of a register: its function, and its number
AccessOrder = tuple[bool, bool]  # whether an access is strong, and volatile
WEAK: AccessOrder = (False, False)


class DeviceBytes:
    """Global memory, changed in place; its addresses begin at 0."""

    def __init__(self, data: np.ndarray):
        self.data = data

    def holds(self, address: int, size: int) -> bool:
        return 0 <= address and address + size <= len(self.data)

    def read(self, address: int, size: int) -> int:
        return int.from_bytes(self.data[address : address + size].tobytes(), "little")

    def write(self, address: int, word: Word) -> DeviceBytes:
        new = self.read(address, word.size) & ~word.there | word.bits
        self.data[address : address + word.size] = np.frombuffer(new.to_bytes(word.size, "little"), np.uint8)
        return self


class Blocked:
    """Registers that operations in flight will write, by lane.  A register file that stands for itself: decomposition
    functions write the machine's own registers."""

    def __init__(self, count: int):
        self.count = count
        self.lanes: dict[RegisterKey, np.ndarray] = {}
        self.pending: dict[RegisterKey, int] = {}

    def block(self, key: RegisterKey, lanes: np.ndarray) -> None:
        if key not in self.lanes:
            self.lanes[key], self.pending[key] = np.zeros(self.count, bool), 0
        self.lanes[key][lanes] = True
        self.pending[key] += 1

    def release(self, registers: Iterable[tuple[RegisterKey, np.ndarray]]) -> Blocked:
        for key, lanes in registers:
            self.lanes[key][lanes] = False
            self.pending[key] -= 1
            if not self.pending[key]:
                del self.lanes[key], self.pending[key]
        return self

    def put(self, register: Any, value: int) -> Blocked:
        raise NotImplementedError("registers of lanes are written by decomposition functions")

    def any(self, keys: Iterable[RegisterKey], lanes: np.ndarray) -> bool:
        return any(key in self.lanes and bool(self.lanes[key][lanes].any()) for key in keys)


def by_line(warps: np.ndarray, at: np.ndarray) -> Iterator[tuple[int, int, np.ndarray]]:
    """The accesses of each warp to each line: (warp, first byte of the line, which of the lanes)."""
    if not len(at):
        return
    line = at // LINE
    order = np.lexsort((line, warps))
    cut = np.flatnonzero((np.diff(line[order]) != 0) | (np.diff(warps[order]) != 0)) + 1
    for some in np.split(order, cut):
        yield int(warps[some[0]]), int(line[some[0]]) * LINE, some


class Flight:
    def __init__(self, memory: Memory, processors: int, count: int, seed: int):
        self.random = Random(seed)
        self.slowness = self.random.choice(SLOW)
        self.registers = Blocked(count)
        nothing = MemoryRegion(0, b"")
        one = ProcMem(SharedMem(nothing), (INIT,) * L1_LINES, self.registers)
        device = DeviceBytes(memory.globals.data)
        self.env = MemEnv(device, nothing, nothing, (INIT,) * L2_LINES, (one,) * processors, LINE)
        self.ops: dict[int, Op] = {}
        self.asked: dict[int, tuple[int, Access]] = {}  # of each: the warp, and what it touches
        self.of_warp: dict[int, set[int]] = {}
        self.slow: set[int] = set()
        self.number = 0

    # ---- requests (memOp, 5.8.1) ------------------------------------------------------------------------------------

    def load(
        self,
        warp: int,
        pid: int,
        address: int,
        there: int,
        cop: str,
        how: AccessOrder,
        decompose: Decompose,
        registers: Any,
    ) -> int:
        state = Device(address, "global", cop, pid, None, decompose, registers, self._next())
        return self._begin(warp, Op(program("ld", "global", cop), state), Access("global", address, there, False, *how))

    def store(self, warp: int, pid: int, address: int, word: Word, cop: str, how: AccessOrder) -> int:
        state = Device(address, "global", cop, pid, word, None, (), self._next())
        access = Access("global", address, word.there, True, *how)
        return self._begin(warp, Op(program("st", "global", cop), state), access)

    def atomic(
        self,
        warp: int,
        pid: int,
        at: int,
        size: int,
        op: AtomicOp,
        given: tuple[int, int],
        decompose: Decompose,
        registers: Any,
    ) -> int:
        address, inside = at // LINE * LINE, at % LINE
        state = Atomic(address, inside, size, pid, "global", op, None, *given, decompose, registers, self._next())
        there = (1 << 8 * size) - 1 << 8 * inside
        access = Access("global", address, there, True, True)
        return self._begin(warp, Op(program("atom", "global", None), state), access)

    def _next(self) -> int:
        self.number += 1
        return self.number

    def _begin(self, warp: int, op: Op, access: Access) -> int:
        mid, mine = op.state.mid, self.of_warp.setdefault(warp, set())
        after = frozenset(m for m in mine if ordered(self.asked[m][1], access))
        self.ops[mid] = op._replace(after=after)
        self.asked[mid] = warp, access
        mine.add(mid)
        if self.random.random() < self.slowness:
            self.slow.add(mid)
        return mid

    # ---- steps ------------------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """One step of the memory environment."""
        if self.random.random() < SILENT or not self.ops:
            self._silently()
            return
        flying = list(self.ops)
        mid = self.random.choice(flying)
        if mid in self.slow and self.random.random() < LAZY:
            return
        while not steps.highest(op := self.ops[mid], self.ops):
            mid = next(m for m in op.after if m in self.ops)
        self.env, left = steps.step(self.env, op)
        if left is None:
            self._ended(mid)
            return
        self.ops[mid] = left
        if left.program is op.program:
            self._relieve(op)

    def _relieve(self, op: Op) -> None:
        """Apply a silent rule at once for a wait on L2 lines that must be written back, or on this line."""
        dirty = [line.address for line in self.env.l2 if line.dirty and line.address is not None]
        address = op.state.address if isinstance(op.state, (Atomic, Device)) else None
        if address in dirty:
            self.env = steps.write_back_l2(self.env, address) or self.env
        elif dirty and lines.all_used(self.env.l2):
            self.env = steps.write_back_l2(self.env, self.random.choice(dirty)) or self.env

    def _ended(self, mid: int) -> None:
        del self.ops[mid]
        warp, _ = self.asked.pop(mid)
        self.of_warp[warp].discard(mid)
        self.slow.discard(mid)

    def _silently(self) -> None:
        """A rule for some line of some cache: written back, if it is dirty, or else evicted; seldom a whole L1."""
        pid = self.random.randrange(len(self.env.processors))
        l1 = self.env.processors[pid].l1
        if self.random.random() < FLUSH:
            self.env = steps.flush(self.env, pid) or self.env
            return
        cache = self.random.choice((l1, self.env.l2))
        line = self.random.choice(cache)
        if line.address is None:
            return
        if cache is l1:
            new = steps.evict_l1(self.env, pid, line.address)
        else:
            new = (steps.write_back_l2 if line.dirty else steps.evict_l2)(self.env, line.address)
        self.env = new or self.env

    def until(self, over: Callable[[], bool]) -> None:
        while not over():
            self.advance()

    def ended(self, mids: Iterable[int]) -> None:
        """Wait for operations."""
        self.until(lambda: not any(mid in self.ops for mid in mids))

    def fence(self, warps: Iterable[int], processor: Callable[[int], int], level: str) -> None:
        """Until the barriers of these warps are over."""
        for warp in warps:
            self.ended(tuple(self.of_warp.get(warp, ())))
            pid = processor(warp)
            while (new := fenced(self.env, pid, level)) is None:
                self.advance()
            self.env = new

    def drain(self) -> None:
        """The end of a grid: everything has ended, and device memory has what was written."""
        self.until(lambda: not self.ops)
        for line in self.env.l2:
            if line.address is not None and line.dirty:
                self.env = steps.write_back_l2(self.env, line.address) or self.env
