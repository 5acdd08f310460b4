"""The stack mode of the PTX machine: warps with one program counter, masks and a stack of tokens, as before Volta.

Input: a program with control instructions (inject.py), and the memory of a launch.  Output: what memory holds when
every warp has completed.  An instruction is executed by the active threads of all warps that stand at it, over all
blocks at once; at a control instruction each warp's state changes by the rules of branching.py.  Beside it every thread
keeps the program counter that it would have alone.

Invariant: an active thread stands where it would stand alone (the report's safety, 6.4), and the control instructions
are consistent with the stack (6.2); what breaks it is a fault, `inconsistent`.  A barrier of a block takes warps,
whoever of them is active (5.5.1).  Threads that wait within their warp for each other never go on: a deadlock, reported
when the machine comes to a state that it was in before.  Non-goals: time.
"""

from __future__ import annotations

import numpy as np

from snap.ptx.errors import PtxFault, PtxFaultKind
from snap.ptx.instructions.barriers import Barriers
from snap.ptx.instructions.control import target
from snap.ptx.machine import branching, reports
from snap.ptx.machine.lanes import AT_BARRIER, GONE, WARP, WITH_WARP, Lanes, Shape, Step
from snap.ptx.machine.livelock import Livelock
from snap.ptx.machine.memory import Fault, Memory
from snap.ptx.machine.states import WarpState, beginning, lanes_of
from snap.ptx.machine.threads import CONTROL, TOGETHER, Machine, portions
from snap.ptx.program.resolve import Code, Function, Instruction, Outside, Program
from snap.ptx.watch import consistency
from snap.ptx.watch.observer import Watched

PUSH = {"ssy": branching.ssy, "preBrk": branching.pre_brk, "preRet": branching.pre_ret}
LEAVE = {"break": branching.brk, "ret": branching.ret, "exit": branching.exit}
JUMP = {"bra": branching.bra, "brx": branching.bra, "call": branching.call}
FLOW = frozenset(("sync", *PUSH, *LEAVE, *JUMP))
ENDS = FLOW | CONTROL
_LANE = np.arange(WARP, dtype=np.uint32)


class StackMachine(Machine):
    """choose: of an indirect branch's targets the one that goes first.  verify: the report's invariant and inactive
    consistency are looked at after every control instruction, too.
    """

    def __init__(
        self,
        program: Program,
        entry: Function,
        shape: Shape,
        memory: Memory | Watched,
        limit: int | None = None,
        *,
        choose: branching.Choose = branching.first_thread,
        verify: bool = False,
    ):
        super().__init__(program, entry, shape, memory, limit)
        self.choose, self.verify = choose, verify
        warps = len(self.since)
        self.warp_pc = np.full(warps, entry.start, np.int32)
        self.active = self._masks(np.flatnonzero(self.state != GONE))
        self.held = [beginning(entry.start, int(n).bit_count()) for n in self.active]
        self.barriers: WarpBarriers = WarpBarriers(self, len(self.lane))
        self.livelock = Livelock(self)

    def warp_state(self, warp: int) -> WarpState:
        """Return what a warp is now."""
        s = self.held[warp]
        return WarpState(int(self.warp_pc[warp]), int(self.active[warp]), s.broken, s.returned, s.exited, s.tokens)

    # ---- the loop ---------------------------------------------------------------------------------------------------

    def run(self) -> None:
        while True:
            pc, warps = self._next_warps()
            if warps is None:
                self.tell("ended")
                return
            self.waiting.turn()
            if self.drawn is None or np.count_nonzero(self.active) == 1:
                self.livelock.look(pc)
            self._go_warps(pc, warps)

    def _next_warps(self) -> tuple[int, np.ndarray | None]:
        """Choose who goes on, and where: of the warps that can, the one that has waited longest, and all that are
        there.
        """
        here = self._bits(self.active)
        state = self.state.reshape(-1, WARP)
        together = ((state == WITH_WARP) & here).any(axis=1)
        waits = ((state == AT_BARRIER) & here).any(axis=1) | together
        ready = (self.active != 0) & ~waits
        if not ready.any():
            if not self.active.any():
                return 0, None
            raise reports.stuck(self)
        if self.drawn is not None:
            pc, mine = self.drawn.next_warps(self, ready)
            return pc, np.flatnonzero((ready & mine | together) & (self.warp_pc == pc))
        warp = int(np.argmin(np.where(ready, self.since, np.iinfo(np.int64).max)))
        pc = int(self.warp_pc[warp])
        return pc, np.flatnonzero((ready | together) & (self.warp_pc == pc))

    def _go_warps(self, pc: int, warps: np.ndarray) -> None:
        """From there to the next control instruction, or to where somebody has to wait."""
        lanes = self._lanes(warps)
        self.since[warps] = self.ran[lanes] = self.clock
        instructions, end = self.program.instructions, pc
        last = None if self.drawn is None else pc + self.drawn.reach()
        while instructions[end].parts[0] not in ENDS and end != last:
            end += 1
        if end > pc:
            self._straight(pc, end, warps, lanes)
            self.warp_pc[warps] = self.pc[lanes] = end
            if instructions[end].parts[0] in TOGETHER or end == last:  # other warps may wait there already
                return
        name = instructions[end].parts[0]
        if name not in FLOW or name == "call" and any(isinstance(o, Outside) for o in instructions[end].operands):
            self._waiting(end, warps, lanes)
        else:
            self._flow(end, warps, lanes)
        self._told(end, warps)

    def _straight(self, pc: int, end: int, warps: np.ndarray, lanes: Lanes) -> None:
        for portion in portions(lanes) if not self.watchers else [lanes]:
            for at in range(pc, end):
                self._one(at, portion)
                if self.watchers:
                    self.warp_pc[warps] = self.pc[lanes] = at + 1
                    self._told(at, warps)

    def _told(self, pc: int, warps: np.ndarray) -> None:
        if self.watchers:
            self.tell("stepped", pc, warps)

    def _waiting(self, pc: int, warps: np.ndarray, lanes: Lanes) -> None:
        """Execute an instruction that is not a control instruction of the report, and may make threads wait."""
        self._one(pc, lanes)
        waits = self.state[lanes] == WITH_WARP
        late = np.unique(lanes[waits] // WARP)
        mine = np.isin(lanes // WARP, late)
        if not waits[mine].all():  # a part of a warp cannot go on without the rest
            alone = int(np.argmax(mine & ~waits))
            self.at = self.program.instructions[pc]
            raise self._fault(
                Fault(
                    PtxFaultKind.DEADLOCK,
                    f"{self.at.name} waits for threads that do not run before this one does",
                    alone,
                ),
                lanes,
            )
        self.pc[lanes[mine]] = pc
        self.warp_pc[warps] = np.where(np.isin(warps, late), pc, pc + 1)

    # ---- control instructions ---------------------------------------------------------------------------------------

    def _flow(self, pc: int, warps: np.ndarray, lanes: Lanes) -> None:
        """One control instruction: what the warps do, what their threads do alone, and whether that is the same."""
        one = self.at = self.program.instructions[pc]
        goes = self._acting(one, lanes)
        mask = self._masks(goes)[warps]
        uniform = (mask == self.active[warps]) & (one.parts[0] == "bra")
        after: dict[int, WarpState] = {}
        back: list[np.ndarray] = []  # who comes back to this instruction, and does not execute it now
        try:
            for k in np.flatnonzero((mask != 0) & ~uniform).tolist():
                warp = int(warps[k])
                after[warp], again = self._rule(one, warp, int(mask[k]))
                if again:
                    back.append(warp * WARP + np.array(lanes_of(again)))
        except branching.Inconsistent as broken:
            raise self._inconsistent(str(broken), lanes) from None
        except Fault as fault:
            raise self._fault(fault, goes) from None
        comes_back = np.concatenate(back) if back else lanes[:0]
        moving = lanes[~np.isin(lanes, comes_back)] if len(comes_back) else lanes
        self.pc[lanes] = pc
        self.pc[moving] = pc + 1
        self._one(pc, moving)
        self.warp_pc[warps] = pc + 1
        self.warp_pc[warps[uniform]] = one.operands[0].address if uniform.any() else 0  # type: ignore[union-attr]
        for warp, state in after.items():
            self.held[warp], self.warp_pc[warp], self.active[warp] = state, state.pc, state.active
        self._safe(warps, lanes)

    def _rule(self, one: Instruction, warp: int, goes: int) -> tuple[WarpState, int]:
        """The state after, and the mask of those whose turn at this instruction comes later.  goes: who executes it."""
        name, s = one.parts[0], self.warp_state(warp)
        broken = consistency.stack_cons(name, s)
        if broken is not None:
            raise branching.Inconsistent(f"the stack is not consistent with the program: {broken}")
        if name == "sync":
            return branching.sync(s), 0
        if name in PUSH:
            return PUSH[name](s, _address(one)), 0
        if name in LEAVE:
            return LEAVE[name](s, goes), 0
        targets: dict[int, int] = {}
        if name == "bra":
            targets[_address(one)] = goes
        else:
            lanes = lanes_of(goes)
            at = np.broadcast_to(target(self, one)(warp * WARP + np.array(lanes)), len(lanes))
            for lane, pc in zip(lanes, at.tolist()):
                targets[pc] = targets.get(pc, 0) | 1 << lane
        after = JUMP[name](s, targets, self.choose if self.drawn is None else self.drawn.choose)
        return after, s.active & ~after.active if len(targets) > 1 else 0

    def _acting(self, one: Instruction, lanes: Lanes) -> Lanes:
        """Return the lanes whose guard holds."""
        if one.guard is None:
            return lanes
        return lanes[self.registers[one.function][one.guard.index][lanes] != one.negated]

    def _safe(self, warps: np.ndarray, lanes: Lanes) -> None:
        """Rule (6.4): the warp and each of its threads agree on where they are."""
        here = self._lanes(warps)
        wrong = self.pc[here] != self.warp_pc[here // WARP]
        if wrong.any():
            lane = int(here[np.argmax(wrong)])
            alone, at = int(self.pc[lane]), int(self.warp_pc[lane // WARP])
            raise self._inconsistent(f"the warp goes on at {at}, and the thread alone would at {alone}", lanes)
        for warp in warps.tolist() if self.verify else ():
            s = self.warp_state(warp)
            own = self.pc[warp * WARP : (warp + 1) * WARP].tolist()
            broken = consistency.invariant(s) or consistency.inact_cons(s, own)
            if broken is not None:
                raise self._inconsistent(broken, lanes)

    def _inconsistent(self, message: str, lanes: Lanes) -> PtxFault:
        return self._fault(Fault(PtxFaultKind.INCONSISTENT, message, 0), lanes)

    def _made(self, one: Instruction, pc: int) -> Step:
        """For a thread alone, control instructions that were put in do nothing, but `break`, which branches."""
        name = one.parts[0]
        if name == "sync" or name in PUSH:
            return lambda lanes: None
        if name == "break":
            address = _address(one)

            def step(lanes: Lanes) -> None:
                self.pc[lanes] = address

            return step
        return super()._made(one, pc)

    # ---- masks ------------------------------------------------------------------------------------------------------

    def _masks(self, lanes: Lanes) -> np.ndarray:
        """Make, for each warp, the mask of those of its lanes that are given."""
        here = np.zeros(len(self.lane), bool)
        here[lanes] = True
        return np.packbits(here, bitorder="little").view(np.uint32)

    def _bits(self, masks: np.ndarray) -> np.ndarray:
        """A row of 32 for each mask."""
        return (masks[:, None] >> _LANE & 1).astype(bool)

    def _lanes(self, warps: np.ndarray) -> Lanes:
        """Active lanes of some warps, in order."""
        return (warps[:, None] * WARP + _LANE)[self._bits(self.active[warps])]


def _address(one: Instruction) -> int:
    """Return what a control instruction names."""
    if not one.operands or not isinstance(one.operands[0], Code):
        raise Fault(PtxFaultKind.UNKNOWN, f"{one.name} without a label", 0)
    return one.operands[0].address


class WarpBarriers(Barriers):
    """Rule (5.5.1, updArrCnt): whoever of a warp comes to a barrier, all of it has come.  What is reduced is what those
    give who executed the instruction.
    """

    def __init__(self, machine: StackMachine, count: int):
        super().__init__(machine, count)
        self.executed = np.zeros(count, bool)

    def arrive(self, lanes: np.ndarray, number: np.ndarray, count: np.ndarray | None, wait: bool, pc: int) -> None:
        number = np.broadcast_to(number, lanes.shape)
        asked = None if count is None else np.broadcast_to(count, lanes.shape)
        first = np.flatnonzero(np.append(True, np.diff(lanes // WARP) != 0))
        sizes = np.diff(np.append(first, len(lanes)))
        odd = number != np.repeat(number[first], sizes)
        if odd.any():
            raise Fault(
                PtxFaultKind.BARRIER_MISMATCH, "threads of one warp come to different barriers", int(np.argmax(odd))
            )
        self.executed[lanes] = wait
        warps = lanes[first] // WARP
        everyone = (warps[:, None] * WARP + np.arange(WARP))[self.machine.state.reshape(-1, WARP)[warps] != GONE]
        which = np.searchsorted(warps, everyone // WARP)
        given = None if asked is None else asked[first][which]
        super().arrive(everyone, number[first][which], given, wait, pc)

    def _add(self, lanes: np.ndarray, block: np.ndarray, number: np.ndarray) -> None:
        first = np.flatnonzero(np.append(True, np.diff(lanes // WARP) != 0))
        np.add.at(self.come, (block[first], number[first]), WARP)

    def _present(self) -> np.ndarray:
        alive = (self.machine.state != GONE).reshape(self.machine.shape.blocks, -1, WARP)
        return WARP * alive.any(axis=2).sum(axis=1)

    def _reduce(self, free: np.ndarray) -> None:
        super()._reduce(free[self.executed[free]])
        self.executed[free] = False
