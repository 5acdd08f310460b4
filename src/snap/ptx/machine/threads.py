"""The PTX machine: threads with their own program counters, as GPUs since Volta have them.

Input: a program, and the memory of a launch.  Output: what memory holds when every thread has left.  The threads that
stand at the same instruction run it together, over all warps and blocks at once (NumPy over lanes).  Of a warp, those
whose next instruction stands first in the text go on (so branches meet again where compilers put their ends); who has
waited long is preferred, so that threads that wait for each other in a loop get on.

Invariant: an instruction that a group of lanes executes together (`.sync` with a mask of members) runs when all of
these have come.  What nobody can continue is reported with where everybody waits; who waits in loops, too
(liveness.py).  Non-goals: here, time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from snap.machine import watching
from snap.ptx.errors import PtxFault, PtxFaultKind
from snap.ptx.instructions.barriers import Barriers
from snap.ptx.instructions.dispatch import made
from snap.ptx.instructions.products import ProductsInFlight
from snap.ptx.machine import reports
from snap.ptx.machine.drawn import Drawn
from snap.ptx.machine.lanes import GONE, READY, WARP, WITH_WARP, Lanes, Shape, Step
from snap.ptx.machine.liveness import Liveness
from snap.ptx.machine.memory import BLOCK_BITS, GLOBAL, WINDOW, Fault, Memory
from snap.ptx.machine.waiting import Waiting
from snap.ptx.program.resolve import (
    Address,
    Both,
    Code,
    Constant,
    Function,
    Instruction,
    Operand,
    Place,
    Program,
    Register,
    Several,
    Sink,
    Special,
)
from snap.ptx.program.resolve import Negated as Inverted
from snap.ptx.program.special import RESERVED
from snap.ptx.text.types import DTYPE, constant, kept, seen, storage
from snap.ptx.watch import bounds
from snap.ptx.watch.counters import Counters
from snap.ptx.watch.observer import Watch, Watched

if TYPE_CHECKING:
    from snap.ptx.instructions.mbarriers import Mbarrier
    from snap.ptx.instructions.transfers import TensorMap

PATIENCE = 12  # every so many turns the thread that has waited longest is preferred
PORTION = 8192  # lanes that go together through a stretch without branches: their registers stay in a core's cache


def _targets(program: Program) -> frozenset[int]:
    """Find where branches lead."""
    jumps = (one for one in program.instructions if one.parts[0] == "bra")
    return frozenset(o.address for one in jumps for o in one.operands if isinstance(o, Code))


class Machine:
    def __init__(
        self, program: Program, entry: Function, shape: Shape, memory: Memory | Watched, limit: int | None = None
    ):
        self.program, self.entry, self.shape, self.memory = program, entry, shape, memory
        self.limit = limit
        self.counters = Counters()
        self.ticking = watching.current()
        watching.at(lambda: f"{self.counters.thread_instructions} instructions of threads")
        self.printed: list[str] = []
        self.width = -(-shape.threads // WARP) * WARP  # lanes of a block
        count = shape.blocks * self.width
        self.lane = np.arange(count)
        self.whole: Lanes | None = None  # lanes that follow each other without a gap act now: these,
        self.window = slice(0)  # and here they are in a register
        self.pc = np.full(count, entry.start, np.int32)
        self.state = np.zeros(count, np.uint8)
        self.state[self.lane % self.width >= shape.threads] = GONE
        self.since = np.zeros(count // WARP, np.int64)  # when each warp ran last
        self.registers = {
            f.number: [np.zeros(count, storage(t)) for t in f.registers] for f in program.functions.values()
        }
        self.carry = np.zeros(count, bool)  # of each thread, for sums over several words
        self.frames: list[np.ndarray] = []  # by depth: where each thread goes back to
        self.depth = np.zeros(count, np.int32)
        self.base = np.zeros(count, np.int64)  # of functions that call themselves: where the frame begins,
        self.top = np.full(count, program.stack_at, np.int64)  # where the next one would,
        self.aside: dict[tuple[int, int], list[np.ndarray]] = {}  # and, by depth and function, what it had before
        self.barriers = Barriers(self, count)
        self.mbarriers: dict[tuple[int, int], Mbarrier] = {}  # by block and byte
        self.maps: list[TensorMap] = []
        self.awaited: dict[
            int, tuple[tuple[int, int], int]
        ] = {}  # by thread: an mbarrier whose phase is not over; where
        self.special = _Special(self)
        self.origins: dict[int, dict[int, bounds.Origin]] = {}  # by function and register: of which variable
        self.ran = np.zeros(count, np.int64)  # and each thread
        self.clock = self.turns = 0
        self.steps: list[Step | None] = [None] * len(program.instructions)
        self.joins = _targets(program)
        self.watchers: list[Watch] = []
        self.drawn: Drawn | None = None  # a schedule from a seed
        self.at: Instruction = program.instructions[entry.start]
        self.liveness, self.waiting = Liveness(self), Waiting(self)
        self.products = ProductsInFlight(self)

    # ---- the loop ---------------------------------------------------------------------------------------------------

    def run(self) -> None:
        while True:
            pc, lanes = self._next()
            if lanes is None:
                self.tell("ended")
                return
            self.liveness.look(lanes)
            self._go(pc, lanes)

    def _next(self) -> tuple[int, Lanes | None]:
        """Choose who goes on, and where: all threads at one instruction whose warps have no thread before it."""
        ready = self.state == READY
        if not ready.any():
            if (self.state == GONE).all():
                return 0, None
            raise reports.stuck(self)
        self.turns += 1
        if self.drawn is not None:
            return self.drawn.next(self, ready)
        never = np.iinfo(np.int64).max
        at = np.where(ready, self.pc, np.iinfo(np.int32).max).reshape(-1, WARP)
        chosen = at.min(axis=1)
        if self.turns % PATIENCE:
            warp = int(np.argmin(np.where(ready.reshape(-1, WARP).any(axis=1), self.since, never)))
            pc = int(chosen[warp])
        else:  # whoever has waited longest, wherever the others of its warp are
            first = int(np.argmin(np.where(ready, self.ran, never)))
            pc = int(self.pc[first])
            chosen[first // WARP] = pc
        here = self.pc == pc
        mine = here & ready & np.repeat(chosen == pc, WARP) | here & (self.state == WITH_WARP)
        return pc, self.lane if mine.all() else self.lane[mine]

    def _go(self, pc: int, lanes: Lanes) -> None:
        """From there to the next branch, or to where somebody has to wait."""
        self.since[lanes // WARP] = self.ran[lanes] = self.clock
        instructions, end = self.program.instructions, pc
        last = None if self.drawn is None else pc + self.drawn.reach()
        met = False
        while instructions[end].parts[0] not in CONTROL and end != last and not met:
            end += 1
            met = end in self.joins and self.drawn is None and self._somebody_at(end)
        if end > pc:
            for portion in portions(lanes):
                for at in range(pc, end):
                    self._one(at, portion)
            if instructions[end].parts[0] in TOGETHER or end == last or met:  # others may wait there already
                self.pc[lanes] = end
                return
        self._one(end, lanes)

    def _somebody_at(self, pc: int) -> bool:
        """Test whether a thread is ready there: threads that jumped over code wait at its end for the others, and go on
        together.
        """
        return bool(((self.pc == pc) & (self.state == READY)).any())

    def _one(self, pc: int, lanes: Lanes) -> None:
        """One instruction; everything but a branch, a wait or an end leaves program counters alone."""
        one = self.at = self.program.instructions[pc]
        acting = self._follow(lanes)
        if one.guard is not None:
            bits = self.registers[one.function][one.guard.index]
            holds = (bits[self.window] if lanes is self.whole else bits[lanes]) != one.negated
            acting = lanes if holds.all() else lanes[holds]
            if len(acting) != len(lanes) and one.aligned and one.parts[0] not in ("bar", "barrier"):
                self._whole_warps(one, acting, lanes)
        if one.parts[0] in CONTROL:
            self.pc[lanes] = pc + 1
            self.state[lanes] = READY
        try:
            act = self.steps[pc]
            if act is None:
                act = self.steps[pc] = self._made(one, pc)
            if len(acting):
                act(acting)
        except Fault as fault:
            raise self._fault(fault, acting) from None
        except _NOT_UNDERSTOOD as error:  # operands that do not fit each other
            wrong = Fault(PtxFaultKind.UNKNOWN, f"{one.name} does not take these operands ({error})", 0)
            raise self._fault(wrong, acting) from error
        self._count(one, acting, lanes)
        if self.watchers:
            self._tell_executed(one, lanes, acting, pc)

    def _whole_warps(self, one: Instruction, acting: Lanes, lanes: Lanes) -> None:
        """Rule (PTX ISA, `.aligned`): all threads of a warp execute it, or none.  Barriers look themselves."""
        here, act = (np.bincount(some // WARP, minlength=len(self.since)) for some in (lanes, acting))
        parted = (act > 0) & (act < here)
        if parted.any():
            k = int(np.argmax(parted[acting // WARP]))
            message = f"{one.name} is executed by whole warps, and its guard holds for {act[acting[k] // WARP]} threads"
            raise self._fault(
                Fault(PtxFaultKind.BARRIER_MISMATCH, f"{message} of {here[acting[k] // WARP]}", k), acting
            )

    def _follow(self, lanes: Lanes) -> Lanes:
        """Lanes without a gap are read and written as a part of a register, without a copy."""
        if lanes is not self.whole:
            first, last = int(lanes[0]), int(lanes[-1])
            if last - first == len(lanes) - 1:
                self.whole, self.window = lanes, slice(first, last + 1)
        return lanes

    def _count(self, one: Instruction, acting: Lanes, lanes: Lanes) -> None:
        """Count an instruction. Lanes that wait for others of their warp have not executed it yet."""
        self.clock += 1
        if one.parts[0] in TOGETHER:
            lanes = lanes[self.state[lanes] != WITH_WARP]
            if not len(lanes):
                return
        counters = self.counters
        counters.thread_instructions += len(lanes)
        if lanes is self.whole:
            counters.warp_instructions += (self.window.stop - 1) // WARP - self.window.start // WARP + 1
        else:
            counters.warp_instructions += int(np.count_nonzero(np.diff(lanes // WARP))) + 1
        if one.guard is not None and one.parts[0] == "bra" and 0 < len(acting) < len(lanes):
            here, taken = (np.bincount(some // WARP, minlength=len(self.since)) for some in (lanes, acting))
            counters.divergent_branches += int(((taken > 0) & (taken < here)).sum())
        if self.limit is not None and counters.thread_instructions > self.limit:
            raise reports.too_long(self, f"more than {self.limit} instructions of threads")
        if self.ticking is not None:
            try:
                self.ticking.tick()
            except watching.OutOfTime:
                raise reports.too_long(self, f"time ran out: {self.ticking.told()}", "seconds") from None

    # ---- who looks on -----------------------------------------------------------------------------------------------

    def tell(self, name: str, *what: object) -> None:
        for watcher in self.watchers:
            getattr(watcher, name)(*what)

    def acts_for(self, lane: int) -> None:
        """Attribute what is touched until the instruction is over to this thread: TMA or a tensor core acts for it."""
        if isinstance(self.memory, Watched):
            self.memory.unit = int(lane)

    def _tell_executed(self, one: Instruction, lanes: Lanes, acting: Lanes, pc: int) -> None:
        touches = self.memory.taken() if isinstance(self.memory, Watched) else []
        if one.parts[0] in TOGETHER:
            acting = acting[self.state[acting] != WITH_WARP]
        self.tell("issued", one, lanes, acting, pc)
        if len(acting):
            self.tell("executed", one, acting, pc, touches)

    # ---- reports ----------------------------------------------------------------------------------------------------

    def where(self, lane: int) -> tuple[int, int]:
        """Block and thread."""
        return int(lane) // self.width, int(lane) % self.width

    def _fault(self, fault: Fault, lanes: Lanes) -> PtxFault:
        lane = int(lanes[min(fault.lane, len(lanes) - 1)]) if len(lanes) else None
        block, thread = (None, None) if lane is None else self.where(lane)
        at = self.at if lane is None else self.called(self.at, lane)
        return PtxFault(fault.kind, fault.message, at, self.program.files, block, thread)

    def called(self, one: Instruction, lane: int) -> Instruction:
        """An instruction with its source line: in a function that has none of its own, that of the thread's call."""
        for depth in range(int(self.depth[lane]) - 1, -1, -1):
            if one.line is not None:
                break
            one = replace(one, line=self.program.instructions[int(self.frames[depth][lane])].line)
        return one

    # ---- operands ---------------------------------------------------------------------------------------------------

    def reader(self, o: Operand, type: str, function: int) -> Callable[[Lanes], np.ndarray]:
        """Read an operand for some lanes: one value for all, or one each. Where lanes follow each other it is a slice
        of the register itself, which is read before anything is written.
        """
        match o:
            case Register():
                bits = self._held(o, type, function)
                if seen(bits[:1], type).dtype == bits.dtype:
                    return lambda lanes: bits[self.window] if lanes is self.whole else bits[lanes]
                return lambda lanes: seen(bits[self.window] if lanes is self.whole else bits[lanes], type)
            case Constant(value, kind):
                one = constant(value, kind, type)
                return lambda lanes: one
            case Special(name):
                return self.special.reader(name, type)
            case Place("frame", offset):
                return lambda lanes: (self.base[lanes] + offset).astype(DTYPE[type])
            case Place(space, offset):
                one = np.array([self.address(space, offset) & ((1 << 8 * DTYPE[type].itemsize) - 1)], np.uint64).astype(
                    DTYPE[type]
                )
                return lambda lanes: one
            case Inverted(inner):
                read = self.reader(inner, type, function)
                return lambda lanes: ~read(lanes)
            case Code(address):
                one = np.array([address]).astype(DTYPE[type])
                return lambda lanes: one
        raise Fault(PtxFaultKind.UNKNOWN, f"an operand that {self.at.name} does not take", 0)

    def _held(self, o: Register, type: str, function: int) -> np.ndarray:
        bits = self.registers[function][o.index]
        if (bits.dtype.kind == "c") != (type == "b128"):
            raise Fault(PtxFaultKind.UNKNOWN, f"a register of .{o.type} in {self.at.name}", 0)
        return bits

    def address(self, space: str, offset: int) -> int:
        """Return the address of a variable, in its own space."""
        return self.globals_at + offset if space in ("global", "const") else offset

    globals_at = GLOBAL

    def writer(self, o: Operand, function: int) -> Callable[[Lanes, np.ndarray], None]:
        match o:
            case Register(index):
                bits = self.registers[function][index]
                into, long = bits.dtype, bits.dtype.kind == "c"

                def write(lanes: Lanes, value: np.ndarray) -> None:
                    if long != (value.dtype.kind == "c"):
                        raise Fault(PtxFaultKind.UNKNOWN, f"a result of another size than {self.at.name} has", 0)
                    bits[self.window if lanes is self.whole else lanes] = kept(value, into)

                return write
            case Sink():
                return lambda lanes, value: None
        raise Fault(PtxFaultKind.UNKNOWN, f"a result that {self.at.name} cannot have", 0)

    def addresses(self, o: Operand, function: int, space: str, width: int = 0) -> Callable[[Lanes], np.ndarray]:
        """Compute the address of every lane, in 64 bits. width: this many bytes lie in the variable that it derives
        from, if it does.
        """
        if not isinstance(o, Address):
            raise Fault(PtxFaultKind.UNKNOWN, f"{self.at.name} without an address", 0)
        return bounds.within(self, o, function, space, width, self._addresses(o, function, space))

    def _addresses(self, o: Address, function: int, space: str) -> Callable[[Lanes], np.ndarray]:
        if isinstance(o.base, Place) and o.base.space == "frame":
            start = np.uint64(o.base.offset + o.offset + (WINDOW["local"] if space == "" else 0))
            return lambda lanes: self.base[lanes].astype(np.uint64) + start
        if isinstance(o.base, Place):
            base = o.base
            one = np.array([self.address(base.space, base.offset + o.offset)], np.uint64)
            if space == "":
                one = one + np.uint64(WINDOW.get(base.space, 0))
            return lambda lanes: np.broadcast_to(one, lanes.shape)
        narrow = isinstance(o.base, Register) and storage(o.base.type).itemsize == 4
        read = self.reader(o.base, "u32" if narrow else "u64", function)
        offset = np.uint64(o.offset & 0xFFFF_FFFF_FFFF_FFFF)

        def found(lanes: Lanes) -> np.ndarray:
            at = np.broadcast_to(read(lanes), lanes.shape)
            return (at + np.uint32(o.offset & 0xFFFF_FFFF)).astype(np.uint64) if narrow else at + offset

        return found

    # ---- instructions -----------------------------------------------------------------------------------------------

    def _made(self, one: Instruction, pc: int) -> Step:
        """A form that exists with operands that it cannot have (too few, an address for a number) is refused, too."""
        try:
            return self.waiting.watched(self.products.watched(made(self, one, pc), one, pc), one)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            raise Fault(PtxFaultKind.UNKNOWN, f"operands that {one.name} does not take", 0) from None


def portions(lanes: Lanes) -> list[Lanes]:
    """Parts of a good size, with whole warps."""
    if len(lanes) <= PORTION + WARP:
        return [lanes]
    cuts, at = [0], PORTION
    while at < len(lanes):
        while at < len(lanes) and lanes[at] // WARP == lanes[at - 1] // WARP:
            at += 1
        cuts.append(at)
        at += PORTION
    return [lanes[a:b] for a, b in zip(cuts, [*cuts[1:], len(lanes)]) if a < b]


class _Special:
    """Special registers: of every lane, made when first asked for."""

    def __init__(self, machine: Machine):
        self.machine = machine
        self.known: dict[str, np.ndarray] = {}

    def reader(self, name: str, type: str) -> Callable[[Lanes], np.ndarray]:
        if name in ("%clock", "%clock64", "%globaltimer", "%globaltimer_lo"):
            return lambda lanes: np.array([self.machine.clock]).astype(DTYPE[type])
        if name not in self.known:
            self.known[name] = np.broadcast_to(self._of(name), self.machine.lane.shape).astype(np.uint64)
        value, machine = self.known[name].astype(DTYPE[type]), self.machine
        return lambda lanes: value[machine.window] if lanes is machine.whole else value[lanes]

    def _of(self, name: str) -> np.ndarray | int:
        m = self.machine
        shape, thread, block = m.shape, m.lane % m.width, m.lane // m.width
        name, _, axis = name.partition(".")
        k = "xyz".index(axis) if axis in ("x", "y", "z") else 0
        below = lambda n, dims: n // int(np.prod(dims[:k], dtype=int)) % dims[k]  # noqa: E731
        lane = (thread % WARP).astype(np.uint64)
        one, full = np.uint64(1), np.uint64(0xFFFFFFFF)
        rank = block % shape.cluster
        answers: dict[str, Callable[[], np.ndarray | int]] = {
            "%tid": lambda: below(thread, shape.block),
            "%ntid": lambda: shape.block[k],
            "%ctaid": lambda: below(block, shape.grid),
            "%nctaid": lambda: shape.grid[k],
            "%laneid": lambda: lane,
            "%warpid": lambda: thread // WARP,
            "%nwarpid": lambda: m.width // WARP,
            "%smid": lambda: block % 132,
            "%nsmid": lambda: 132,
            "%gridid": lambda: 0,
            "%lanemask_eq": lambda: one << lane,
            "%lanemask_lt": lambda: (one << lane) - one,
            "%lanemask_le": lambda: (one << lane << one) - one,
            "%lanemask_gt": lambda: full ^ ((one << lane << one) - one),
            "%lanemask_ge": lambda: full ^ ((one << lane) - one),
            "%cluster_ctarank": lambda: rank,
            "%cluster_nctarank": lambda: shape.cluster,
            "%cluster_ctaid": lambda: rank if k == 0 else 0,
            "%cluster_nctaid": lambda: shape.cluster if k == 0 else 1,
            "%clusterid": lambda: block // shape.cluster if k == 0 else 0,
            "%nclusterid": lambda: shape.blocks // shape.cluster if k == 0 else 1,
            "%clock_hi": lambda: 0,
            "%globaltimer_hi": lambda: 0,
            "%is_explicit_cluster": lambda: int(shape.cluster > 1),
            "%aggr_smem_size": lambda: m.memory.shared.size * shape.cluster,
            "%current_graph_exec": lambda: 0,
            "%dynamic_smem_size": lambda: shape.dynamic,
            "%total_smem_size": lambda: m.memory.shared.size,
        }
        if name in RESERVED or name.startswith("%envreg") or name.startswith("%pm"):
            return 0  # what the system keeps for itself; what the driver, or a profiler, leaves there
        if name not in answers:
            raise Fault(PtxFaultKind.UNKNOWN, f"there is no special register {name} here", 0)
        return answers[name]()


_NOT_UNDERSTOOD = (KeyError, ValueError, IndexError, TypeError, AttributeError, OverflowError)
TOGETHER = frozenset(  # by threads of a warp
    (
        *("bar", "barrier", "shfl", "vote", "match", "redux", "activemask", "elect"),
        *("ldmatrix", "stmatrix", "movmatrix", "mma", "wgmma", "wmma", "setmaxnreg"),
    )
)
CONTROL = TOGETHER | {"bra", "brx", "exit", "ret", "call", "trap"}  # after which not all go on with the next one
__all__ = ["BLOCK_BITS", "Both", "Counters", "Machine", "Several", "Shape"]
