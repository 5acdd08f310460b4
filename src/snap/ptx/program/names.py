"""Name memory in reports: arguments, variables of the module, variables in shared memory."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

import numpy as np

from snap.ptx.program.resolve import Address, Operand, Place, Several

if TYPE_CHECKING:
    from snap.ptx.machine.threads import Machine
    from snap.ptx.program.resolve import Program


class Names:
    def __init__(self, machine: Machine):
        self.memory = machine.memory
        shared = sorted(_shared(machine.program).items(), key=lambda item: item[1])
        self.starts = [start for _, start in shared] or [0]
        self.named = [name for name, _ in shared] or ["shared memory"]

    def pieces(self, space: str, at: np.ndarray) -> np.ndarray:
        """A number for each access: that of the array it lies in."""
        if space == "global":
            return np.searchsorted(np.array(self.memory.globals.starts), at, "right")
        return at // self.memory.shared.stride

    def piece(self, space: str, at: int) -> tuple[int, str]:
        """Find the array that holds this byte: where it begins, and its name."""
        if space == "global":
            k = max(bisect_right(self.memory.globals.starts, at) - 1, 0)
            return self.memory.globals.starts[k], self.memory.globals.names[k]
        inside = at % self.memory.shared.stride
        k = max(bisect_right(self.starts, inside) - 1, 0)
        return self.starts[k], self.named[k]


def _shared(program: Program) -> dict[str, int]:
    """Variables in shared memory, as the text uses them, and where they begin."""
    found: dict[str, int] = {}

    def look(o: Operand) -> None:
        match o:
            case Place("shared", _, name, start):
                found[name] = start
            case Several(items):
                for item in items:
                    look(item)
            case Address(base):
                look(base)

    for one in program.instructions:
        for o in one.operands:
            look(o)
    return found
