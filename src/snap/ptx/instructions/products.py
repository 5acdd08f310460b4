"""Registers of wgmma in flight, which nothing else may touch.

Input: a program with wgmma, as the machine runs it.  Output: the machine's steps, which report a register that is
touched while a wgmma in flight uses it.  The machine itself computes a wgmma when it is issued; what a program that is
right sees is the same.

Rule (PTX ISA, `wgmma.mma_async`): from the instruction until `wgmma.wait_group` has settled its group, its accumulators
are neither read nor written, and its A fragments are not written, but by wgmma with the same accumulators and of the
same shape.  For a thread with c groups committed and d settled, where g(w) is the group of its last execution of w:

    w                           g(w) := c
    wgmma.commit_group          c := c + 1
    wgmma.wait_group n          d := max(d, c - n)
    w is in flight      iff     g(w) >= d

Non-goals: what `wgmma.fence` orders; accesses of the async proxy to memory (order.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from snap.diag.error import Label
from snap.ptx.errors import PtxFault, PtxFaultKind
from snap.ptx.machine.lanes import WITH_WARP, Lanes, Step
from snap.ptx.program.operands import Constant, Register, Several, listed
from snap.ptx.watch.undefined import reading
from snap.record import record

if TYPE_CHECKING:
    from snap.ptx.machine.threads import Machine
    from snap.ptx.program.resolve import Instruction

NEVER = -1


@record
class Product:
    """A wgmma: where it stands, and which registers of its function it uses."""

    pc: int
    function: int
    accumulators: tuple[int, ...]
    fragments: frozenset[int]
    shape: tuple[str, ...]

    def same(self, other: Product) -> bool:
        return (self.accumulators, self.shape) == (other.accumulators, other.shape)


def _product(one: Instruction, pc: int) -> Product | None:
    if one.parts[0] != "wgmma" or "mma_async" not in one.parts or len(one.operands) < 2:
        return None
    numbers = lambda o: tuple(r.index for r in listed(o) if isinstance(r, Register))  # noqa: E731
    fragments = numbers(one.operands[1]) if isinstance(one.operands[1], Several) else ()
    return Product(pc, one.function, numbers(one.operands[0]), frozenset(fragments), one.parts[4:6])


class ProductsInFlight:
    """Track, for every thread, how many groups of wgmma it has committed and settled, and the group of each wgmma it
    issued.
    """

    def __init__(self, machine: Machine):
        self.machine = machine
        made = (_product(one, pc) for pc, one in enumerate(machine.program.instructions))
        self.products = {p.pc: p for p in made if p is not None}
        if self.products:
            count = len(machine.lane)
            self.committed, self.settled = np.zeros(count, np.int32), np.zeros(count, np.int32)
            self.group = {pc: np.full(count, NEVER, np.int32) for pc in self.products}

    def watched(self, step: Step, one: Instruction, pc: int) -> Step:
        """The step, with a look at the registers that it touches."""
        if not self.products:
            return step
        if one.parts[0] == "wgmma":
            return self._of_wgmma(step, one, pc)
        touched = self._touched(one)
        if not touched:
            return step

        def looked_at(lanes: Lanes) -> None:
            self._look(one, lanes, touched)
            step(lanes)

        return looked_at

    def _touched(self, one: Instruction) -> dict[int, str]:
        """The wgmma, by place, whose registers an instruction that is none may not touch while they are in flight."""
        plan = reading(one)
        written = {r.index for r in plan.given}
        read = {r.index for r in (*plan.used, *plan.taken, *([one.guard] if one.guard is not None else ()))}
        found = {}
        for p in self.products.values():
            if p.function == one.function:
                if not written.isdisjoint(p.accumulators):
                    found[p.pc] = "an accumulator is written"
                elif not read.isdisjoint(p.accumulators):
                    found[p.pc] = "an accumulator is read"
                elif not written.isdisjoint(p.fragments):
                    found[p.pc] = "a fragment of A is written"
        return found

    def _clashing(self, mine: Product) -> dict[int, str]:
        found = {}
        for p in self.products.values():
            if p.function != mine.function:
                continue
            if not p.fragments.isdisjoint(mine.accumulators):
                found[p.pc] = "a fragment of A is accumulated into"
            elif not mine.fragments.isdisjoint(p.accumulators):
                found[p.pc] = "an accumulator is read as A"
            elif not mine.same(p) and not set(mine.accumulators).isdisjoint(p.accumulators):
                found[p.pc] = "an accumulator is accumulated into in another shape"
        return found

    def _of_wgmma(self, step: Step, one: Instruction, pc: int) -> Step:
        """Leave out the lanes that wait for others of their warp: they have not executed it yet."""

        m, mine = self.machine, self.products.get(pc)
        left = one.operands[0].value if one.operands and isinstance(one.operands[0], Constant) else None
        clashing = {} if mine is None else self._clashing(mine)

        def counted(lanes: Lanes) -> None:
            self._look(one, lanes, clashing)
            step(lanes)
            here = lanes[m.state[lanes] != WITH_WARP]
            if mine is not None:
                self.group[pc][here] = self.committed[here]
            elif "commit_group" in one.parts:
                self.committed[here] += 1
            elif "wait_group" in one.parts and left is not None:
                self.settled[here] = np.maximum(self.settled[here], self.committed[here] - left)

        return counted

    def _look(self, one: Instruction, lanes: Lanes, touched: dict[int, str]) -> None:
        for pc, how in touched.items():
            flying = self.group[pc][lanes] >= self.settled[lanes]
            if flying.any():
                m = self.machine
                block, thread = m.where(int(lanes[int(np.argmax(flying))]))
                raise PtxFault(
                    PtxFaultKind.IN_FLIGHT,
                    f"{how} while its wgmma is in flight",
                    one,
                    m.program.files,
                    block,
                    thread,
                    secondary=(Label(m.program.instructions[pc].span, "the wgmma"),),
                    help="settle its group before: `wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;`",
                )
