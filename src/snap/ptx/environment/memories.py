"""Section 4.3: the memory environment.

Device memory (global, local and constant addresses, which do not meet) and L2 are there once; each processor has shared
memory with its bank locks, an L1 cache and a register file.  Memories and register files have one of two kinds:

    Region, Registers     values, for the exploration of all interleavings
    a machine's own       arrays that are changed in place, and stand for themselves (ptx/machine/caching.py)

so every function here returns the environment that holds from now on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

from snap.ptx.environment.lines import CacheLines, Stuck
from snap.ptx.environment.words import Word, whole

BANKS, BANK_BYTES = 32, 4


class RegionBytes(Protocol):
    def holds(self, address: int, size: int) -> bool: ...
    def read(self, address: int, size: int) -> int: ...
    def write(self, address: int, word: Word) -> RegionBytes: ...


class RegFile(Protocol):
    def put(self, register: Any, value: int) -> RegFile: ...
    def release(self, registers: Iterable[Any]) -> RegFile: ...


class MemoryRegion(NamedTuple):
    """Some bytes of device or shared memory."""

    start: int
    data: bytes

    def holds(self, address: int, size: int) -> bool:
        return self.start <= address and address + size <= self.start + len(self.data)

    def read(self, address: int, size: int) -> int:
        at = address - self.start
        return int.from_bytes(self.data[at : at + size], "little")

    def write(self, address: int, word: Word) -> MemoryRegion:
        old, at = self.read(address, word.size), address - self.start
        new = (old & ~word.there | word.bits).to_bytes(word.size, "little")
        return MemoryRegion(self.start, self.data[:at] + new + self.data[at + word.size :])


class Registers(NamedTuple):
    """(register, value, whether an operation in flight will write or still needs it)."""

    cells: tuple[tuple[Any, int, bool], ...] = ()

    def put(self, register: Any, value: int) -> Registers:
        blocked = self.blocked(register)
        rest = [c for c in self.cells if c[0] != register]
        return Registers(tuple(sorted([*rest, (register, value, blocked)])))

    def block(self, register: Any) -> Registers:
        rest = [c for c in self.cells if c[0] != register]
        return Registers(tuple(sorted([*rest, (register, self.value(register), True)])))

    def release(self, registers: Iterable[Any]) -> Registers:
        these = set(registers)
        return Registers(tuple((r, v, b and r not in these) for r, v, b in self.cells))

    def value(self, register: Any) -> int:
        return next((v for r, v, _ in self.cells if r == register), 0)

    def blocked(self, register: Any) -> bool:
        return any(b for r, _, b in self.cells if r == register)


class SharedMem(NamedTuple):
    bytes: RegionBytes
    locks: frozenset[int] = frozenset()  # banks that are locked


class ProcMem(NamedTuple):
    shared: SharedMem
    l1: CacheLines
    registers: RegFile


class MemEnv(NamedTuple):
    globals: RegionBytes
    constants: RegionBytes
    locals: RegionBytes
    l2: CacheLines
    processors: tuple[ProcMem, ...]
    line: int  # bytes of a cache line: MaxMemOpSize

    def processor(self, pid: int, **new: Any) -> MemEnv:
        """With something of a processor exchanged."""
        one = self.processors[pid]._replace(**new)
        return self._replace(processors=(*self.processors[:pid], one, *self.processors[pid + 1 :]))


def banks(address: int, size: int) -> frozenset[int]:
    """Successive words of 32 bits lie in successive banks.  Abstract in the report."""
    return frozenset(k % BANKS for k in range(address // BANK_BYTES, (address + size - 1) // BANK_BYTES + 1))


def _device(env: MemEnv, space: str) -> RegionBytes:
    match space:
        case "global":
            return env.globals
        case "local":
            return env.locals
        case "const":
            return env.constants
    raise Stuck(f".{space} is not in device memory")


def space_of(env: MemEnv, address: int) -> str:
    """Return the space of a line of device memory that was written."""
    return "global" if env.globals.holds(address, 1) else "local"


def read_device(env: MemEnv, space: str, address: int, size: int) -> Word:
    memory = _device(env, space)
    if not memory.holds(address, size):
        raise Stuck(f"{size} bytes at {address} are not .{space}")
    return whole(memory.read(address, size), size)


def write_device(env: MemEnv, space: str, address: int, word: Word) -> MemEnv:
    memory = _device(env, space)
    if space == "const" or not memory.holds(address, word.size):
        raise Stuck(f"{word.size} bytes at {address} are not .{space} memory that can be written")
    written = memory.write(address, word)
    return env._replace(globals=written) if space == "global" else env._replace(locals=written)


def read_shared(env: MemEnv, pid: int, addresses: Iterable[int], sizes: Iterable[int]) -> tuple[int, ...]:
    """Read shared memory, whether or not banks are locked: only atomics ask."""
    memory = env.processors[pid].shared.bytes
    values = []
    for address, size in zip(addresses, sizes):
        if not memory.holds(address, size):
            raise Stuck(f"{size} bytes at {address} are not shared memory")
        values.append(memory.read(address, size))
    return tuple(values)


def write_shared(
    env: MemEnv, pid: int, addresses: Iterable[int], sizes: Iterable[int], values: Iterable[int]
) -> MemEnv:
    shared = env.processors[pid].shared
    memory = shared.bytes
    for address, size, value in zip(addresses, sizes, values):
        if not memory.holds(address, size):
            raise Stuck(f"{size} bytes at {address} are not shared memory")
        memory = memory.write(address, whole(value & (1 << 8 * size) - 1, size))
    return env.processor(pid, shared=shared._replace(bytes=memory))
