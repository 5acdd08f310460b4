"""Values in a trace: what registers hold after a step, by lane, and what memory it touches.

Input: words such as `%r3`, `%r3:f32`, `v.x` and `memory`; a machine after an instruction.  Output: `RegisterValues` and
`MemoryValues`.  Rule: a register is shown after each instruction that names it, for the lanes that came; memory after
each that reads or writes it, with the bytes that are there then.  Non-goals: what a table of them looks like.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from snap.ptx.machine.lanes import Lanes
from snap.ptx.machine.reports import ranges
from snap.ptx.program.names import Names
from snap.ptx.program.operands import Address, Both, Negated, Operand, Register, Several
from snap.ptx.text.types import BITS, DTYPE, seen

if TYPE_CHECKING:
    from snap.ptx.machine.threads import Machine
    from snap.ptx.program.resolve import Function, Instruction, Program
    from snap.ptx.watch.observer import Touch

MEMORY = "memory"
FEW = 8  # values of a row that are shown


@dataclass(slots=True)
class RegisterValues:
    """values: by lane, of those that came."""

    name: str
    values: dict[int, object]


@dataclass(slots=True)
class MemoryValues:
    """Bytes of one array or variable that the lanes of a step touch, each with its place in it and what is there."""

    name: str
    write: bool
    width: int
    lanes: list[int]
    places: list[int]
    values: list[object]


@dataclass(slots=True)
class WatchedRegister:
    name: str
    type: str
    function: int
    index: int


def watched(program: Program, function: Function, words: Sequence[str]) -> list[WatchedRegister]:
    """The registers that are asked for, in this kernel or, if it has none of the name, in any function.  ValueError for
    what there is not.
    """
    found: list[WatchedRegister] = []
    for word in dict.fromkeys(words):
        if word == MEMORY:
            continue
        name, _, type = word.partition(":")
        if type and type not in DTYPE:
            raise ValueError(f"{word}: there is no type {type}; a register is shown as one of {', '.join(DTYPE)}")
        places = list(_named(function, name)) or [r for f in program.functions.values() for r in _named(f, name)]
        if not places:
            some = ", ".join(list(function.named)[:12])
            raise ValueError(
                f"{word}: {function.name} has no register of this name; it has {some or 'none'}, and memory"
            )
        found += [WatchedRegister(word, type or r.type, number, r.index) for number, r in places]
    return found


def _named(f: Function, name: str) -> Iterator[tuple[int, Register]]:
    base, _, element = name.rpartition(".")
    for whole in (*f.named.get(name, ()), *f.named.get(base, ())):
        if isinstance(whole, Register) and not base:
            yield f.number, whole
        elif isinstance(whole, Several):
            k = next((names.index(element) for names in ("xyzw", "rgba") if element and element in names), None)
            for j, item in enumerate(whole.items):
                if isinstance(item, Register) and (j == k if base else True):
                    yield f.number, item


def _registers(operands: Sequence[Operand]) -> Iterator[int]:
    for o in operands:
        match o:
            case Register(index):
                yield index
            case Several(items):
                yield from _registers(items)
            case Address(base, _, rest):
                yield from _registers((base, *rest))
            case Both(first, second):
                yield from _registers((first, second))
            case Negated(inner):
                yield from _registers((inner,))


class Values:
    """Trace the values that are asked for, step by step."""

    def __init__(self, machine: Machine, registers: Sequence[WatchedRegister], memory: bool):
        self.machine, self.registers, self.memory = machine, registers, memory
        self.names = Names(machine) if memory else None

    def of_registers(self, one: Instruction, lanes: Lanes) -> list[RegisterValues]:
        """lanes: of one warp."""
        touched = set(_registers(one.operands)) | ({one.guard.index} if one.guard is not None else set())
        found = []
        for r in self.registers:
            if r.function == one.function and r.index in touched:
                bits = seen(self.machine.registers[r.function][r.index][lanes], r.type)
                if bits.dtype.kind == "c":  # sixteen bytes
                    words = np.ascontiguousarray(bits).view(np.uint64).reshape(-1, 2)
                    shown: list[object] = [int(low) | int(high) << 64 for low, high in words]
                else:
                    shown = bits.tolist()
                found.append(RegisterValues(r.name, dict(zip((lanes % 32).tolist(), shown))))
        return found

    def of_memory(self, one: Instruction, touches: list[Touch]) -> dict[int, list[MemoryValues]]:
        """Describe the memory that each warp touches."""
        found: dict[int, list[MemoryValues]] = {}
        for t in touches if self.memory else ():
            if not len(t.at):
                continue
            memory = {"global": self.machine.memory.globals, "shared": self.machine.memory.shared}.get(t.space)
            memory = memory or (self.machine.memory.local if t.space == "local" else self.machine.memory.parameters)
            bits = memory.data[t.at[:, None] + np.arange(t.width)]
            values = _typed(bits, one, t.width)
            warps = t.lanes // 32 if t.unit is None else np.full(len(t.at), t.unit // 32)
            named = t.space in ("global", "shared") and self.names is not None
            pieces = self.names.pieces(t.space, t.at) if named else np.zeros(len(t.at), np.int64)  # type: ignore[union-attr]
            for w, piece in np.unique(np.stack([warps, pieces]), axis=1).T.tolist():
                mine = np.flatnonzero((warps == w) & (pieces == piece))
                start, name = self._piece(t.space, int(t.at[mine[0]]), memory.stride)
                lanes = (t.lanes[mine] % 32).tolist() if t.unit is None else [t.unit % 32] * len(mine)
                places = self._places(t.space, t.at[mine], start, memory.stride)
                row = MemoryValues(name, t.write, t.width, lanes, places, [values[k] for k in mine.tolist()])
                found.setdefault(w, []).append(row)
        return found

    def _piece(self, space: str, at: int, stride: int) -> tuple[int, str]:
        if space in ("global", "shared") and self.names is not None:
            return self.names.piece(space, at)
        return 0, f"{space} memory"

    def _places(self, space: str, at: np.ndarray, start: int, stride: int) -> list[int]:
        return ((at if space == "global" else at % stride) - start).tolist()


def _typed(bits: np.ndarray, one: Instruction, width: int) -> list[object]:
    """Read bits as the instruction's type has them, if that is of this width."""
    flat = np.ascontiguousarray(bits).reshape(-1)
    kind = DTYPE.get(one.parts[-1])
    if kind is not None and kind.itemsize == width and kind.kind in "fui":
        return flat.view(kind).tolist()
    if width in BITS and width < 16:
        return flat.view(BITS[width]).tolist()
    return ["0x" + bytes(row[::-1]).hex() for row in bits.tolist()]


# ---- as text --------------------------------------------------------------------------------------------------------


def shown_registers(r: RegisterValues) -> str:
    """`%r3 = 7 of all lanes that came`, or each value with the lanes that hold it."""
    by_value: dict[str, list[int]] = {}
    for lane, value in r.values.items():
        by_value.setdefault(_number(value), []).append(lane)
    if len(by_value) == 1:
        return f"{r.name} = {next(iter(by_value))}"
    if len(by_value) > FEW:  # nearly every lane has its own
        return f"{r.name} = {_lanes(list(r.values))}: {' '.join(map(_number, r.values.values()))}"
    return f"{r.name} = " + "; ".join(f"{_lanes(lanes)}: {value}" for value, lanes in by_value.items())


def shown_memory(v: MemoryValues) -> str:
    """`writes argument x, 4 bytes at 0 4 8 ...: 1 2 3 ... (lanes 0-31)`."""
    pairs = list(dict.fromkeys(zip(v.places, map(_number, v.values))))
    end = " ..." if len(pairs) > FEW else ""
    where, what = (" ".join(str(pair[k]) for pair in pairs[:FEW]) for k in range(2))
    lanes = _lanes(sorted(set(v.lanes)))
    verb = "writes" if v.write else "reads"
    return f"{verb} {v.name}, {v.width} byte{'s' * (v.width > 1)} at {where}{end}: {what}{end} ({lanes})"


def _number(value: object) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(int(value) if isinstance(value, bool) else value)


def _lanes(lanes: list[int]) -> str:
    return ranges(lanes).replace("thread", "lane", 1)
