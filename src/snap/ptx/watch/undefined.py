"""Two checks that a run may be asked for: registers, and local memory, that are used before anybody wrote them.

`registers`: a register, or CC, that nobody has written is *undefined*, and so is what is computed of one.  Compilers
copy such registers where the source's variable has no value yet, so that a copy is no mistake; a use is: as an address,
as what is stored, as a guard, as what decides where a thread goes or which barrier it comes to.  Rule, with u(r) for "r
is undefined" and e for what an instruction reads:

    d := op(e1, ..., en)      u(d) = u(e1) or ... or u(en)
    d := selp(a, b, p)        u(d) = u(p) or (u(a) if p else u(b))
    d := ld, atom, shfl, vote, match, redux, ldmatrix, wgmma, call ...    u(d) = no

It errs towards silence in the last line.  It does not know of the bits of a register: what is half written, and of
which only that half is used, is reported.
`local`: bytes of a thread's local memory are written before they are read.  Arguments of calls are copied whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from snap.diag.error import Label
from snap.ptx.errors import PtxFault, PtxFaultKind
from snap.ptx.instructions import carries
from snap.ptx.machine.lanes import Lanes
from snap.ptx.program.layout import leaves
from snap.ptx.program.operands import Address, Operand, Register, Several, both, listed
from snap.ptx.watch.bounds import LOADS
from snap.ptx.watch.observer import Touch, Watch
from snap.record import record

if TYPE_CHECKING:
    from snap.ptx.machine.threads import Machine
    from snap.ptx.program.resolve import Instruction

UNWRITTEN, DEFINED = -1, 0  # else one more than the address of the instruction that read a register that nobody wrote
# Instructions whose first operand is no result; all that they read is used.
USES = frozenset(
    "st red bar barrier bra brx call cp nanosleep setmaxnreg pmevent stmatrix prefetch prefetchu discard".split()
)
GIVEN = LOADS | {"vote", "match", "redux", "wgmma", "activemask", "elect", "mbarrier", "createpolicy"}


@record
class Reading:
    """used: registers that an instruction uses, taken: those of which it computes, given: those that it writes."""

    used: tuple[Register, ...]
    taken: tuple[Register, ...]
    given: tuple[Register, ...]


def _registers(operands: tuple[Operand, ...]) -> tuple[Register, ...]:
    return tuple(leaf for o in operands for leaf in leaves(o) if isinstance(leaf, Register))


def reading(one: Instruction) -> Reading:
    name, operands = one.parts[0], one.operands
    gives = name not in USES or name in ("bar", "barrier") and "red" in one.parts
    if name == "call" and operands and isinstance(operands[0], Several) and len(operands) > 1:
        gives = not isinstance(operands[1], Several)  # `call (result), f, (argument)`
    first = operands[0] if operands else None
    gives = gives and first is not None and not isinstance(first, Address)
    given = tuple(o for part in listed(first) for o in both(part) if isinstance(o, Register)) if gives and first else ()
    rest = operands[1:] if gives else operands
    addresses = tuple(o for o in rest if isinstance(o, Address))
    plain = tuple(o for o in rest if not isinstance(o, Address))
    if name in USES or name == "atom":
        return Reading(_registers(rest), (), given)
    return Reading(_registers(addresses), () if name in GIVEN else _registers(plain), given)


class UnwrittenRegisters(Watch):
    """Track, by function and register, whether each thread has defined it; else where it came from."""

    def __init__(self, machine: Machine):
        super().__init__(machine)
        self.known: dict[tuple[int, int], np.ndarray] = {}
        self.readings: dict[int, Reading] = {}
        self.carry = np.full(len(machine.lane), UNWRITTEN, np.int32)
        self.parameters = {
            f.number: sum(v.space == "reg" for v, _ in (*f.results, *f.parameters))
            for f in machine.program.functions.values()
        }

    def _of(self, function: int, register: Register) -> np.ndarray:
        key = function, register.index
        if key not in self.known:
            begins = DEFINED if register.index < self.parameters[function] else UNWRITTEN
            self.known[key] = np.full(len(self.machine.lane), begins, np.int32)
        return self.known[key]

    def issued(self, one: Instruction, lanes: Lanes, acting: Lanes, pc: int) -> None:
        if one.guard is not None:
            self._use(one, self._of(one.function, one.guard), lanes, "its guard is")

    def executed(self, one: Instruction, lanes: Lanes, pc: int, touches: list[Touch]) -> None:
        if pc not in self.readings:
            self.readings[pc] = reading(one)
        plan = self.readings[pc]
        for register in plan.used:
            self._use(one, self._of(one.function, register), lanes, "it uses")
        if not plan.given:
            return
        sources = [self._of(one.function, r)[lanes] for r in plan.taken]
        if one.parts[0] == "selp" and len(plan.taken) > 0:
            sources = self._selected(one, lanes)
        if carries.takes(one):
            sources.append(self.carry[lanes])
        found = np.zeros(len(lanes), np.int32)
        for source in sources:
            found = np.where(found != DEFINED, found, np.where(source == UNWRITTEN, pc + 1, source))
        for register in plan.given:
            self._of(one.function, register)[lanes] = found
        if carries.gives(one):
            self.carry[lanes] = found

    def _selected(self, one: Instruction, lanes: Lanes) -> list[np.ndarray]:
        """Take, of the two that are chosen from, only the one that is."""
        a, b, p = one.operands[1:4]
        holds = np.broadcast_to(self.machine.reader(p, "pred", one.function)(lanes), lanes.shape)
        nothing = np.zeros(len(lanes), np.int32)
        of = lambda o: self._of(one.function, o)[lanes] if isinstance(o, Register) else nothing  # noqa: E731
        chooses = [of(r) for r in _registers((p,))]
        return [np.where(holds, of(a), of(b)), *chooses]

    def _use(self, one: Instruction, known: np.ndarray, lanes: Lanes, how: str) -> None:
        bad = known[lanes] != DEFINED
        if not bad.any():
            return
        m, k = self.machine, int(np.argmax(bad))
        origin = int(known[lanes[k]])
        block, thread = m.where(int(lanes[k]))
        before = None if origin == UNWRITTEN else m.program.instructions[origin - 1]
        made = "a register" if before is None else "a value made of a register"
        raise PtxFault(
            PtxFaultKind.UNINITIALISED,
            f"{how} {made} that was never written",
            one,
            m.program.files,
            block,
            thread,
            secondary=() if before is None or before is one else (Label(before.span, "which is read here"),),
            help="give the variable a value on every path that leads here",
        )


class UnwrittenLocal(Watch):
    """Track, for each byte of local memory, whether its thread has written it."""

    def __init__(self, machine: Machine):
        super().__init__(machine)
        self.written = np.zeros(len(machine.memory.local.data), bool)

    def executed(self, one: Instruction, lanes: Lanes, pc: int, touches: list[Touch]) -> None:
        for t in touches:
            if t.space != "local":
                continue
            cells = t.at[:, None] + np.arange(t.width)
            if t.write:
                self.written[cells] = True
            elif one.parts[0] not in ("call", "ret"):
                missing = ~self.written[cells].all(axis=1)
                if missing.any():
                    self._report(one, t, int(np.argmax(missing)))

    def _report(self, one: Instruction, t: Touch, k: int) -> None:
        m = self.machine
        block, thread = m.where(int(t.lanes[k]))
        inside = int(t.at[k]) % m.memory.local.stride
        raise PtxFault(
            PtxFaultKind.UNINITIALISED,
            f"{t.width} bytes at byte {inside} of the thread's local memory are read before it wrote them",
            one,
            m.program.files,
            block,
            thread,
            help="local memory begins with anything: give the variable, or every element of the array, a value first",
        )
