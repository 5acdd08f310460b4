"""Initialize global and constant variables: numbers, and addresses of variables and functions.

Input: a loaded program, and where its variables will lie.  Output: their bytes.  PTX003 for names that are unknown.
"""

from __future__ import annotations

import numpy as np

from snap.ptx.errors import PtxError
from snap.ptx.machine.memory import WINDOW
from snap.ptx.program.resolve import BYTES, Program
from snap.ptx.text import tree


def statics(program: Program, at: int) -> bytes:
    data = bytearray(program.global_bytes)
    for v, offset in program.globals:
        if v.initial is not None:
            raw = b"".join(_Initial(program, at, v).of(v.initial))
            room = BYTES[v.type] if not v.dims else len(raw)
            data[offset : offset + min(room, len(raw))] = raw[:room]
    return bytes(data)


class _Initial:
    def __init__(self, program: Program, at: int, variable: tree.Variable):
        self.program, self.at, self.variable = program, at, variable

    def of(self, value: tree.Initial) -> list[bytes]:
        size = BYTES[self.variable.type]
        match value:
            case tree.Initials(items):
                return [part for item in items for part in self.of(item)]
            case tree.Number(number, kind):
                return [self._number(number, kind, size)]
            case tree.Name(name):
                return [self._bytes(self._address(name, value), size)]
            case tree.Sum(name, offset):
                return [self._bytes(self._address(name, value) + offset, size)]
            case tree.Masked(mask, of):
                inner = int.from_bytes(_Initial(self.program, self.at, _word(self.variable)).of(of)[0], "little")
                lowest = (mask & -mask).bit_length() - 1
                return [self._bytes((inner & mask) >> max(lowest, 0), size)]
        raise PtxError("PTX002", "an initial value is expected", value.span, "and this is none")

    def _bytes(self, number: int, size: int) -> bytes:
        return (number & ((1 << 8 * size) - 1)).to_bytes(size, "little")

    def _number(self, number: int, kind: str, size: int) -> bytes:
        if kind == "int":
            if self.variable.type in ("f32", "f64", "f16"):
                return np.array(float(number), f"f{size}").tobytes()
            return self._bytes(number, size)
        width = 4 if kind == "f32" else 8
        if self.variable.type in ("f32", "f64", "f16") and size != width:
            wide = np.frombuffer(number.to_bytes(width, "little"), f"f{width}")
            return wide.astype(f"f{size}").tobytes()
        return self._bytes(number, max(size, width) if size == width else size)

    def _address(self, name: str, value: tree.Initial) -> int:
        plain = name[len("generic(") : -1] if name.startswith("generic(") else name
        function = self.program.functions.get(plain)
        if function is not None:
            return function.start
        place = self.program.places.get(plain)
        if place is None:
            raise PtxError("PTX003", f"`{plain}` is not declared", value.span, "its address is taken here")
        return (
            self.at + place.offset if place.space in ("global", "const") else WINDOW.get(place.space, 0) + place.offset
        )


def _word(v: tree.Variable) -> tree.Variable:
    """An address has eight bytes, of which a mask takes some."""
    return tree.Variable(v.linking, v.space, v.align, "u64", v.name)
