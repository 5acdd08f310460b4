"""Lines that kernels print on the CPU machine.

Input: the values of a `Print` over lanes, and who takes part.  Output: text on standard output, one line for each
group, blocks and threads in order.  Lines come in the order in which statements are executed: without a seed all
threads take each statement together, so that is the order of the text.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.printed import FORMATS, UnitNumber, who
from snap._compiler.ir.types import Level
from snap.machine import watching

Say = Callable[[list[str]], object]  # what is done with lines


def say(lines: list[str]) -> None:
    """To where Python prints: whoever captures that captures this."""
    watching.clear()
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def silent(lines: list[str]) -> None:
    pass


class Postponed:
    """Lines of a launch that may begin again: they are shown when it is known that they count."""

    def __init__(self, wanted: bool, say: Say):
        self.lines: list[str] = []
        self._say, self.say = say, self.lines.extend if wanted else say

    def forget(self) -> None:
        """It begins again, and for the last time."""
        self.lines.clear()
        self.say = self._say

    def show(self) -> None:
        if self.lines:
            self._say(self.lines)


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """Describe what a `Print` shows: a format, whose first numbers say who prints."""

    format: str
    numbers: tuple[UnitNumber, ...]
    level: Level
    units: int

    @staticmethod
    def of(s: ir.Print) -> Line:
        head, numbers = who(s.privilege)
        holes = (text.replace("%", "%%") + FORMATS[arg.type].replace("ll", "") for text, arg in zip(s.texts, s.args))
        said = "".join((*holes, s.texts[-1].replace("%", "%%")))
        return Line(f"{head}: {said}" if said else f"{head}:", numbers, s.privilege.level, s.privilege.shape.span)

    def show(self, lanes: Any, values: tuple, lead: object, m: object) -> None:
        shown = lanes.active(m) & lanes.full(lead)
        rows, columns = np.nonzero(shown)
        if not len(rows):
            return
        block, thread = lanes.block[rows, 0], lanes.thread[0, columns]
        first = {
            Level.THREAD: thread,
            Level.BLOCK: block,
            Level.CLUSTER: block // lanes.launch.blocks_per_cluster,
        }.get(self.level, block)
        of = {UnitNumber.BLOCK: block, UnitNumber.FIRST: first, UnitNumber.LAST: first + (self.units - 1)}
        said = [of[number].tolist() for number in self.numbers]
        said += [lanes.full(value)[rows, columns].tolist() for value in values]
        lanes.launch.say([self.format % line for line in zip(*said)] if said else [self.format % ()] * len(rows))
