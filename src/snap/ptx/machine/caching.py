"""The PTX machine with caches: global loads, stores and atomics are memory programs in flight (flight.py).

Input: as machine.py, and a seed.  Output: what memory holds when every thread has left and every operation has ended.
Blocks are placed on processors, each with an L1 cache.  The seed draws who goes on, how far, and what memory does
meanwhile.  A load blocks the registers it will write; an instruction that needs one waits for it (section 4.4.1).

Rules, where an instruction orders memory: `membar` and `fence` wait by their level (environment/manager.py); barriers
of a block, and of a warp, are fences of the block for who arrives, which the report has for bar.sync and bar.red (5.3),
and PTX for bar.arrive too; mbarriers by their scope; barriers of a cluster are fences of the device for who arrives and
who has waited.  `.acquire` is a fence after, `.release` one before.  `.nc` is `.ca`.

Invariant: a program without races computes what it does on the flat machine.  Non-goals: shared and local memory and
registers stay flat; cp.async and TMA read and write at L2, when they are issued.
"""

from __future__ import annotations

import numpy as np

from snap.ptx.environment.manager import LEVEL
from snap.ptx.environment.memories import RegFile
from snap.ptx.environment.states import Atomic, Device, State
from snap.ptx.environment.words import Word
from snap.ptx.instructions import accesses
from snap.ptx.machine.drawn import Drawn
from snap.ptx.machine.in_flight import FEWER, LINE, MANY, WEAK, Flight, RegisterKey, by_line
from snap.ptx.machine.lanes import WARP, Lanes, Shape, Step
from snap.ptx.machine.memory import WINDOW, WINDOW_BITS, Memory
from snap.ptx.machine.threads import CONTROL, TOGETHER, Machine
from snap.ptx.program.resolve import (
    Address,
    Both,
    Function,
    Instruction,
    Negated,
    Operand,
    Program,
    Register,
    Several,
    listed,
)
from snap.ptx.text.types import BITS, DTYPE

PROCESSORS = 4
FENCES = frozenset(("membar", "fence", "bar", "barrier", "mbarrier"))
ACQUIRE = frozenset(("acquire", "release", "acq_rel"))
STRONG = frozenset(("volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"))
# By the seed: how many instructions a group executes before others may, and the chance that memory takes (another) step
# after one.  ALONE: the chance that who has to wait for memory does not let others go on meanwhile.
ALONE = 0.1
TURN, PACE = (1, 4, 24), (0.1, 0.4, 0.7)


class Caching(Machine):
    def __init__(self, program: Program, entry: Function, shape: Shape, memory: Memory, limit: int | None, seed: int):
        super().__init__(program, entry, shape, memory, limit)
        self.flight = Flight(memory, PROCESSORS, len(self.lane), seed)
        self.random = self.flight.random
        self.drawn = Drawn(seed)  # who goes on
        self.turn, self.pace = self.random.choice(TURN), self.random.choice(PACE)
        self.processor = np.array([self.random.randrange(PROCESSORS) for _ in range(shape.blocks)])
        self.special.known["%smid"] = self.processor[self.lane // self.width].astype(np.uint64)
        self.special.known["%nsmid"] = np.full(self.lane.shape, PROCESSORS, np.uint64)
        self.flat = memory
        self.liveness.memory = None  # what is in flight, or lies in a cache, may still change what is read
        self.memory = AtL2(memory, self)
        self.needs: dict[int, tuple[RegisterKey, ...]] = {}  # by instruction: the registers it reads or writes
        self.owes = np.zeros(len(self.lane), bool)  # who has waited for its cluster

    def pid(self, warp: int) -> int:
        return int(self.processor[warp * WARP // self.width])

    def fence(self, lanes: Lanes, level: str) -> None:
        self.flight.fence(np.unique(lanes // WARP).tolist(), self.pid, level)

    # ---- who goes on -------------------------------------------------------------------------------------------------

    def run(self) -> None:
        super().run()
        self.flight.drain()

    def _go(self, pc: int, lanes: Lanes) -> None:
        """Some instructions; memory goes on in between."""
        left = self.random.randint(1, self.turn)
        first, instructions = pc, self.program.instructions
        while True:
            name = instructions[pc].parts[0]
            if name in TOGETHER and pc != first or not left or self._waits(pc, lanes):  # others may wait there already
                self.pc[lanes] = pc
                return
            self._one(pc, lanes)
            if name in CONTROL:
                return
            pc, left = pc + 1, left - 1

    def _waits(self, pc: int, lanes: Lanes) -> bool:
        """Let others go first, while memory does what these threads wait for; at last they wait alone."""
        one = self.program.instructions[pc]
        fence = one.parts[0] in FENCES or not ACQUIRE.isdisjoint(one.parts)
        busy = fence and any(self.flight.of_warp.get(w) for w in np.unique(lanes // WARP).tolist())
        if not (busy or self.flight.registers.any(self._keys(pc), lanes)) or self.random.random() < ALONE:
            return False
        self.flight.advance()
        return True

    def _keys(self, pc: int) -> tuple[RegisterKey, ...]:
        if self.program.instructions[pc].parts[0] in ("call", "ret"):  # which may set aside all registers of a function
            return tuple(self.flight.registers.lanes)
        keys = self.needs.get(pc)
        if keys is None:
            one = self.program.instructions[pc]
            keys = self.needs[pc] = tuple((one.function, r) for r in sorted(_registers(one)))
        return keys

    def _one(self, pc: int, lanes: Lanes) -> None:
        keys = self._keys(pc)
        if self.flight.registers.any(keys, lanes):
            self.flight.until(lambda: not self.flight.registers.any(keys, lanes))
        if self.owes[lanes].any():
            self.fence(lanes[self.owes[lanes]], "gl")
            self.owes[lanes] = False
        super()._one(pc, lanes)
        while self.random.random() < self.pace:
            self.flight.advance()
        if len(self.flight.ops) > MANY:
            self.flight.until(lambda: len(self.flight.ops) <= FEWER)

    # ---- what instructions do ----------------------------------------------------------------------------------------

    def _made(self, one: Instruction, pc: int) -> Step:
        plain = super()._made(one, pc)  # refuses what is unknown
        words = one.parts[1:]
        level = next((LEVEL[w] for w in reversed(words) if w in LEVEL), "cta")
        match one.parts[0]:
            case "st" | "red" if "async" in words:
                return self._fenced(plain, "cta")
            case "membar" | "fence":
                return lambda lanes: self.fence(lanes, level)
            case "ld" | "ldu" if _global(words):
                return self._around(words, level, _load(self, one, plain))
            case "st" if _global(words):
                return self._around(words, level, _store(self, one, plain))
            case "atom" | "red" if _global(words):
                return self._around(words, level, _atomic(self, one, plain))
            case "bar" | "barrier" if words[:1] == ("cluster",):
                return self._cluster(words, plain)
            case "bar" | "barrier":
                return self._fenced(plain, "cta")
            case "mbarrier":
                return self._fenced(plain, level, after="wait" in words[0])
            case "cp" if "reduce" in words:  # reads and writes: nobody in between
                return self._alone(plain)
            case "cp":
                return self._fenced(plain, "cta")
        return plain

    def _fenced(self, step: Step, level: str, after: bool = False) -> Step:
        def fenced(lanes: Lanes) -> None:
            if not after:
                self.fence(lanes, level)
            step(lanes)
            if after and level != "cta":
                self.fence(lanes, level)

        return fenced

    def _around(self, words: tuple[str, ...], level: str, step: Step) -> Step:
        """`.release`: what was before is done before; `.acquire`: what comes after finds what was published."""
        before = "release" in words or "acq_rel" in words
        after = "acquire" in words or "acq_rel" in words

        def around(lanes: Lanes) -> None:
            if before:
                self.fence(lanes, level)
            step(lanes)
            if after:
                self.fence(lanes, level)

        return around if before or after else step

    def _cluster(self, words: tuple[str, ...], step: Step) -> Step:
        def arrive(lanes: Lanes) -> None:
            self.fence(lanes, "gl")
            step(lanes)

        def wait(lanes: Lanes) -> None:
            self.owes[lanes] = True
            step(lanes)

        return arrive if "arrive" in words else wait

    def _alone(self, step: Step) -> Step:
        def alone(lanes: Lanes) -> None:
            self.flight.until(lambda: not self.flight.ops)
            step(lanes)

        return alone

    def divided(self, space: str, address: np.ndarray, lanes: Lanes) -> np.ndarray | None:
        """Return the lanes that mean global memory; None: all."""
        if space:
            return None
        upper = address >> np.uint64(WINDOW_BITS)
        mine = ~np.isin(upper, [np.uint64(w >> WINDOW_BITS) for w in WINDOW.values()])
        return None if mine.all() else mine


def _global(words: tuple[str, ...]) -> bool:
    return not any(w.partition("::")[0] in ("shared", "local", "const", "param") for w in words)


def _registers(one: Instruction) -> set[int]:
    """The numbers of all registers that an instruction names."""
    found: set[int] = set() if one.guard is None else {one.guard.index}
    todo: list[Operand] = list(one.operands)
    while todo:
        match todo.pop():
            case Register(index):
                found.add(index)
            case Several(items):
                todo.extend(items)
            case Both(first, second):
                todo += [first, second]
            case Negated(operand):
                todo.append(operand)
            case Address(base, _, more):
                todo += [base, *more]
    return found


def _operator(words: tuple[str, ...], usual: str, known: tuple[str, ...]) -> str:
    """The cache operator; hints of newer PTX ask L1 not to keep the line."""
    if "L1::no_allocate" in words or "L1::evict_first" in words:
        return "cs"
    return next((w for w in words if w in known), usual)


# ---- accesses of lanes ----------------------------------------------------------------------------------------------


def bytes_of(offset: np.ndarray, width: int) -> np.ndarray:
    """For each access: where its bytes are in the line."""
    return offset[:, None] + np.arange(width)


def mask_of(offset: np.ndarray, width: int) -> int:
    there = np.zeros(LINE, np.uint8)
    there[bytes_of(offset, width)] = 0xFF
    return int.from_bytes(there.tobytes(), "little")


def word_of(offset: np.ndarray, raw: np.ndarray) -> Word:
    """Join what lanes write to a line: where several meet, the last one's bytes."""
    line = np.zeros(LINE, np.uint8)
    line[bytes_of(offset, raw.shape[1])] = raw
    return Word(int.from_bytes(line.tobytes(), "little"), mask_of(offset, raw.shape[1]), LINE)


def read_of(word: Word | None, offset: np.ndarray, width: int) -> np.ndarray:
    """The elements that lanes asked for."""
    assert word is not None
    line = np.frombuffer(word.bits.to_bytes(LINE, "little"), np.uint8)
    return np.ascontiguousarray(line[bytes_of(offset, width)]).view(BITS[width])[:, 0]


def _load(m: Caching, one: Instruction, plain: Step) -> Step:
    words = one.parts[1:]
    form = accesses.form(words)
    assert form is not None  # the plain step was made of it
    space, count, type = form
    width = DTYPE[type].itemsize
    how = bool(STRONG & set(words)), "volatile" in words
    cop = "volatile" if how[0] else _operator(words, "ca", ("ca", "cg", "cs", "lu", "cv"))
    at = m.addresses(one.operands[1], one.function, space, width * count)
    targets = listed(one.operands[0])
    writers = [m.writer(o, one.function) for o in targets]
    keys = [(one.function, o.index) for o in targets if isinstance(o, Register)]
    wait = "acquire" in words

    def step(lanes: Lanes) -> None:
        address = at(lanes)
        mine = m.divided(space, address, lanes)
        if mine is not None:
            plain(lanes[~mine])
            lanes, address = lanes[mine], address[mine]
        accesses.aligned(address, width * count, one)
        places = m.flat.located("global", address, lanes, width)[1]
        m.flat.globals.check(places, width * count)
        mids = []
        for warp, line, some in by_line(lanes // WARP, places):
            these, offset = lanes[some], places[some] - line
            for key in keys:
                m.flight.registers.block(key, these)

            def decompose(registers: RegFile, state: State, these=these, offset=offset) -> RegFile:
                assert isinstance(state, Device)
                for k, write in enumerate(writers):
                    write(these, read_of(state.value, offset + k * width, width).view(DTYPE[type]))
                return registers

            there, tokens = mask_of(offset, width * count), tuple((key, these) for key in keys)
            mids.append(m.flight.load(warp, m.pid(warp), line, there, cop, how, decompose, tokens))
        if wait:
            m.flight.ended(mids)

    return step


def _store(m: Caching, one: Instruction, plain: Step) -> Step:
    words = one.parts[1:]
    form = accesses.form(words)
    assert form is not None
    space, count, type = form
    width = DTYPE[type].itemsize
    how = bool(STRONG & set(words)), "volatile" in words
    cop = "wb" if how[0] else _operator(words, "wb", ("wb", "cg", "cs", "wt"))
    at = m.addresses(one.operands[0], one.function, space, width * count)
    readers = [m.reader(o, type, one.function) for o in listed(one.operands[1])]

    def step(lanes: Lanes) -> None:
        address = at(lanes)
        values = [np.broadcast_to(read(lanes), lanes.shape).view(BITS[width]) for read in readers]
        raw = np.stack(values, axis=1).view(np.uint8).reshape(len(lanes), width * count)
        mine = m.divided(space, address, lanes)
        if mine is not None:
            plain(lanes[~mine])
            lanes, address, raw = lanes[mine], address[mine], raw[mine]
        accesses.aligned(address, width * count, one)
        places = m.flat.located("global", address, lanes, width)[1]
        m.flat.globals.check(places, width * count)
        for warp, line, some in by_line(lanes // WARP, places):
            word = word_of(places[some] - line, raw[some])
            m.flight.store(warp, m.pid(warp), line, word, cop, how)

    return step


def _atomic(m: Caching, one: Instruction, plain: Step) -> Step:
    """A memory program for each lane; of vectors, for each element."""
    form = accesses.atomic_form(one)
    assert form is not None
    space, op, type = form.space, form.combine, form.type
    width, kind = DTYPE[type].itemsize, DTYPE[type]
    if width > 8:
        return m._alone(plain)
    at = m.addresses(form.address, one.function, space, width * form.count)
    writers = [m.writer(o, one.function) for o in form.targets]
    readers = [[m.reader(listed(v)[k], type, one.function) for v in form.values] for k in range(form.count)]

    def combined(old: int, first: int, second: int) -> int:
        was, a, b = (np.array([x], BITS[width]).view(kind) for x in (old, first, second))
        with np.errstate(all="ignore"):
            new = np.where(accesses.alike(was, a), b, was) if op is None else op(was, a)
        return int(new.astype(kind).view(BITS[width])[0])

    def step(lanes: Lanes) -> None:
        start = at(lanes)
        mine = m.divided(space, start, lanes)
        if mine is not None:
            plain(lanes[~mine])
            lanes, start = lanes[mine], start[mine]
        for k, (reads, target) in enumerate(zip(readers, form.targets)):
            given = [np.broadcast_to(r(lanes), lanes.shape).view(BITS[width]).tolist() for r in reads]
            places = m.flat.located("global", start + np.uint64(k * width), lanes, width)[1]
            for j, (lane, place) in enumerate(zip(lanes, places.tolist())):
                these, operands = np.array([lane]), (given[0][j], given[1][j] if len(given) > 1 else 0)
                tokens: tuple[tuple[RegisterKey, Lanes], ...] = ()
                if isinstance(target, Register):
                    tokens = (((one.function, target.index), these),)
                    m.flight.registers.block(*tokens[0])

                def decompose(registers: RegFile, state: State, these=these, write=writers[k]) -> RegFile:
                    assert isinstance(state, Atomic)
                    write(these, read_of(state.out, np.array([state.at]), width).view(kind))
                    return registers

                warp = int(lane) // WARP
                m.flight.atomic(warp, m.pid(warp), place, width, combined, operands, decompose, tokens)

    return step


class AtL2(Memory):
    """For what has no memory programs of its own: global memory is read and written at L2, at once.  All else is the
    flat memory, whose parts it shares."""

    def __init__(self, memory: Memory, machine: Caching):
        self.__dict__.update(memory.__dict__)
        self.flat, self.machine = memory, machine

    def read(self, space: str, address: np.ndarray, thread: np.ndarray, width: int) -> np.ndarray:
        if space != "global":
            return self.flat.read(space, address, thread, width)
        m, out = self.machine, np.empty(address.shape, BITS[width])
        mids = []
        places = self.flat.located("global", address, thread, width)[1]
        for warp, line, some in by_line(thread // WARP, places):

            def decompose(registers: RegFile, state: State, some=some, offset=places[some] - line) -> RegFile:
                assert isinstance(state, Device)
                out[some] = read_of(state.value, offset, width)
                return registers

            there = mask_of(places[some] - line, width)
            mids.append(m.flight.load(warp, m.pid(warp), line, there, "cg", WEAK, decompose, ()))
        m.flight.ended(mids)
        return out

    def write(self, space: str, address: np.ndarray, thread: np.ndarray, value: np.ndarray) -> None:
        if space != "global":
            self.flat.write(space, address, thread, value)
            return
        m, width = self.machine, value.dtype.itemsize
        places = self.flat.located("global", address, thread, width)[1]
        raw = np.ascontiguousarray(value).view(np.uint8).reshape(len(value), width)
        mids = []
        for warp, line, some in by_line(thread // WARP, places):
            word = word_of(places[some] - line, raw[some])
            mids.append(m.flight.store(warp, m.pid(warp), line, word, "wb", WEAK))
        m.flight.ended(mids)
