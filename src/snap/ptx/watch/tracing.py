"""Trace a run step by step: for each warp and instruction who came, who executed it, and where they are.

Input: a machine that tells.  Output: `Step` records, in the order of the machine, which runs many warps together: a
warp's own steps are in its own order.  In the stack mode a step has the warp's disable mask and token stack after it.
Invariant: at most `most` steps are kept; `total` counts all that were asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from snap.diag.source import source_line
from snap.ptx.machine.lanes import Lanes
from snap.ptx.program.resolve import Code
from snap.ptx.watch.observer import Touch, Watch
from snap.ptx.watch.values import MEMORY, MemoryValues, RegisterValues, Values, shown_memory, shown_registers, watched

if TYPE_CHECKING:
    from snap.ptx.machine.threads import Machine
    from snap.ptx.program.resolve import Instruction

WARP = 32
INSERTED = ("ssy", "sync", "preBrk", "break", "preRet")  # control instructions that no text has


@dataclass(slots=True)
class Step:
    """came: the mask of lanes that stood there; acted: of those that executed it, its guard and waiting aside.  source:
    (file, line) where the PTX says it.  disabled, tokens: of the stack mode, after the step.  registers, memory: what
    is watched, after the step.
    """

    number: int
    block: int
    warp: int
    pc: int
    line: int
    text: str
    came: int
    acted: int
    source: tuple[str, int] | None
    disabled: str | None = None
    tokens: list[tuple[str, int, int]] | None = None
    registers: list[RegisterValues] = field(default_factory=list)
    memory: list[MemoryValues] = field(default_factory=list)

    def as_json(self) -> dict:
        return {
            "step": self.number,
            "block": self.block,
            "warp": self.warp,
            "pc": self.pc,
            "line": self.line,
            "instruction": self.text,
            "came": f"{self.came:08x}",
            "acted": f"{self.acted:08x}",
            "source": None if self.source is None else {"file": self.source[0], "line": self.source[1]},
            "disabled": self.disabled,
            "tokens": None
            if self.tokens is None
            else [{"kind": kind, "active": f"{active:08x}", "pc": pc} for kind, active, pc in self.tokens],
        } | self._watched()

    def _watched(self) -> dict:
        """Return what is watched, where there is something."""
        found: dict[str, object] = {"registers": {r.name: r.values for r in self.registers}} if self.registers else {}
        return found | ({"memory": [asdict(row) for row in self.memory]} if self.memory else {})


class Tracing(Watch):
    """watch: registers whose values are shown, and `memory`."""

    def __init__(
        self,
        machine: Machine,
        warps: frozenset[tuple[int, int]] | None = None,
        most: int = 1 << 62,
        watch: Sequence[str] = (),
    ):
        super().__init__(machine)
        self.warps, self.most = warps, most
        registers = watched(machine.program, machine.entry, watch)
        self.values = Values(machine, registers, MEMORY in watch) if watch else None
        self.steps: list[Step] = []
        self.total = 0
        self.last: dict[int, Step] = {}  # by warp, in this turn of the machine

    def issued(self, one: Instruction, lanes: Lanes, acting: Lanes, pc: int) -> None:
        came, acted = self._masks(lanes), self._masks(acting)
        self.last = {}
        for w in np.unique(lanes // WARP).tolist():
            block, warp = divmod(w * WARP, self.machine.width)
            if self.warps is not None and (block, warp // WARP) not in self.warps:
                continue
            self.total += 1
            if len(self.steps) >= self.most:
                continue
            line = None if one.line is None else (self.machine.program.files.get(one.line[0], "?"), one.line[1])
            step = Step(
                self.total,
                block,
                warp // WARP,
                pc,
                one.span.line,
                text_of(one),
                int(came[w]),
                int(acted[w]),
                line,
            )
            self.steps.append(step)
            self.last[w] = step
            if self.values is not None:
                step.registers = self.values.of_registers(one, lanes[lanes // WARP == w])

    def executed(self, one: Instruction, lanes: Lanes, pc: int, touches: list[Touch]) -> None:
        if self.values is not None:
            for w, rows in self.values.of_memory(one, touches).items():
                if w in self.last:
                    self.last[w].memory = rows

    def stepped(self, pc: int, warps: np.ndarray) -> None:
        for w in warps.tolist():
            step = self.last.get(w)
            if step is not None and step.pc == pc:
                state = self.machine.warp_state(w)  # type: ignore[attr-defined]
                step.disabled = state.disable_mask()
                step.tokens = [(t.kind, t.active, t.pc) for t in state.tokens]

    def _masks(self, lanes: Lanes) -> np.ndarray:
        here = np.zeros(len(self.machine.lane), bool)
        here[lanes] = True
        return np.packbits(here, bitorder="little").view("<u4")


def text_of(one: Instruction) -> str:
    """Write the instruction as the text has it, in one line."""
    if one.parts[0] in INSERTED:
        labels = " ".join(f"@{o.address}" for o in one.operands if isinstance(o, Code))
        return f"{one.name} {labels}".rstrip()
    span = one.span
    if span.end_line == span.line:
        found = source_line(span.filename, span.line)[span.column : span.end_column]
    else:
        found = source_line(span.filename, span.line)[span.column :] + " ..."
    return " ".join(found.split()) or one.name


def shown(steps: list[Step]) -> list[str]:
    """Print the trace as a table."""
    stack = any(step.tokens is not None for step in steps)
    rows = [
        (
            "step",
            "warp",
            "pc",
            "came",
            "acted",
            "line",
            "instruction",
            "source",
            *(("disabled", "stack") if stack else ()),
        )
    ]
    for s in steps:
        source = "" if s.source is None else f"{s.source[0].replace(chr(92), '/').rsplit('/', 1)[-1]}:{s.source[1]}"
        row = (str(s.number), f"{s.block}.{s.warp}", str(s.pc), f"{s.came:08x}", f"{s.acted:08x}", str(s.line))
        more = (s.disabled or "", " :: ".join(f"({k}, {a:08x}, {pc})" for k, a, pc in s.tokens or ()) or "empty")
        rows.append((*row, s.text, source, *(more if stack else ())))
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    out = table[:1]
    for s, line in zip(steps, table[1:]):
        out.append(line)
        values = (*map(shown_registers, s.registers), *map(shown_memory, s.memory))
        out += [" " * (sum(widths[:6]) + 12) + "| " + value for value in values]
    return out
