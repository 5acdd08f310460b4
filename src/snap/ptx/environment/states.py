"""Section 4.4.1: the implicit state of a memory program: what it is about, and what it has read so far.

mid     the number of the operation, never used twice
pid     the processor of the threads that asked
decompose   writes what was read to the registers it was asked for; None: nothing is wanted
registers   those that are blocked until the program releases them

Device and Atomic name the line they are about by its first byte, and hold a word of that line: a store only its own
bytes.  (The report leaves it to memOp to align addresses and sizes.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from snap.ptx.environment.memories import RegFile
from snap.ptx.environment.words import Word

Decompose: TypeAlias = Callable[[RegFile, "State"], RegFile]
AtomicOp: TypeAlias = Callable[[int, int, int], int]  # what was there, two operands -> what is put


class Atomic(NamedTuple):
    address: int  # in global memory of the line, in shared memory of the value
    at: int  # where the value begins in `out`
    size: int
    pid: int
    space: str  # global, shared
    op: AtomicOp
    out: Word | None  # what was there: a line, or the value in shared memory
    first: int  # the operand; after atomOp, what is to be put
    second: int
    decompose: Decompose | None
    registers: tuple[Any, ...]
    mid: int


class Device(NamedTuple):
    address: int
    space: str  # global, local, const
    cop: str | None  # the cache operator; None: not cached
    pid: int
    value: Word | None
    decompose: Decompose | None
    registers: tuple[Any, ...]
    mid: int


class Shared(NamedTuple):
    pid: int
    addresses: tuple[int, ...]
    sizes: tuple[int, ...]
    values: tuple[int, ...]
    decompose: Decompose | None
    registers: tuple[Any, ...]
    mid: int


class Reg(NamedTuple):
    pid: int
    decompose: Decompose | None
    registers: tuple[Any, ...]
    mid: int


State: TypeAlias = Atomic | Device | Shared | Reg
