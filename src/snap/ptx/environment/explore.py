"""Every outcome of a litmus test: all interleavings of its threads, of the micro steps of their memory programs, and of
the silent rules of the caches.

Input: a litmus test.  Output: the registers that the threads can end with.  At the start memory is 0, and every line is
in L2 and in all L1 caches; since they may be evicted at any time, starts with empty caches are among those explored.

Two reductions leave the outcomes as they are (`reduced=False` does without, and a test compares):
  - a step that only touches an operation's own registers is taken at once: all others come to the same with or without;
  - a silent rule for a line is taken just before a step of an operation on that line, which alone can notice; for one
    of L1, if its program asks L1 for more than to discard the line.

Invariant: the graph of states is finite, since threads have no loops.  Non-goals: large tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from snap.ptx.environment import steps
from snap.ptx.environment.language import Do, If, Sequence
from snap.ptx.environment.lines import FIRST, INIT, CacheLines, Line, Stuck
from snap.ptx.environment.litmus import Litmus
from snap.ptx.environment.manager import fenced, ordered
from snap.ptx.environment.memories import MemEnv, MemoryRegion, ProcMem, RegFile, Registers, SharedMem
from snap.ptx.environment.programs import program
from snap.ptx.environment.states import Atomic, Decompose, Device, Shared, State
from snap.ptx.environment.steps import Op
from snap.ptx.environment.words import part, taken, whole

GLOBAL, LOCAL = 0x100, 0x800
EACH = 64  # numbers of operations for each thread
L1_RULES = frozenset({"evict_l1"})
ALL_RULES = frozenset({"evict_l1", "wb_l1", "evict_l2", "wb_l2", "flush"})


@cache
def given_to(register: tuple[int, str], at: int) -> Decompose:
    """A decomposition function: the register gets the byte it was asked for.  The same one each time, for states to be
    compared by."""

    def decompose(registers: RegFile, state: State) -> RegFile:
        match state:
            case Shared():
                return registers.put(register, state.values[0])
            case Atomic(out=word) | Device(value=word) if word is not None:
                return registers.put(register, taken(word, at, 1))
        raise Stuck("nothing was read")

    return decompose


@cache
def asks_l1(program: Sequence) -> bool:
    return any(
        asks_l1(s.then) or asks_l1(s.otherwise) or "isCachedL1" in str(s.condition)
        if isinstance(s, If)
        else isinstance(s, Do) and s.operation.endswith("L1") and s.operation != "discardL1"
        for s in program
    )


class Node(NamedTuple):
    env: MemEnv
    ops: tuple[Op, ...]
    at: tuple[int, ...]  # by thread: its next instruction


class Outcomes(NamedTuple):
    """registers: their names, as (thread, register); found: the values they can end with; stuck: how often a state was
    met that has no next step and is no end; states: how many there are."""

    registers: tuple[tuple[int, str], ...]
    found: frozenset[tuple[int, ...]]
    stuck: int
    states: int


def explore(
    test: Litmus,
    silent: frozenset[str] = L1_RULES,
    printed: bool = False,
    reduced: bool = True,
    memory: Iterable[str] = (),
) -> Outcomes:
    """`printed`: listings 4.1 and 4.4 as the report has them.  `memory`: locations whose last values are told, too."""
    return _Explorer(test, silent, printed, reduced, tuple(memory)).run()


class _Explorer:
    def __init__(self, test: Litmus, silent: frozenset[str], printed: bool, reduced: bool, memory: tuple[str, ...]):
        self.test, self.silent, self.printed, self.reduced = test, silent, printed, reduced
        self.memory = memory
        named = [(t, i.register) for t, thread in enumerate(test.threads) for i in thread.body if i.register]
        self.registers = tuple(dict.fromkeys(named))
        self.after = {
            self.mid(t, k): frozenset(
                self.mid(t, j)
                for j, earlier in enumerate(thread.body[:k])
                if earlier.location and one.location and ordered(test.access(earlier), test.access(one))
            )
            for t, thread in enumerate(test.threads)
            for k, one in enumerate(thread.body)
        }

    @staticmethod
    def mid(thread: int, k: int) -> int:
        return thread * EACH + k

    def start(self) -> Node:
        size, count = self.test.line_bytes, len(self.test.lines)
        cached = tuple(Line(GLOBAL + k * size, whole(0, size)) for k in range(count))
        room: CacheLines = cached + (INIT,) * count  # for local lines, too
        blank = bytes(size * count)
        one = ProcMem(SharedMem(MemoryRegion(0, blank)), room, Registers())
        processors = 1 + max(t.processor for t in self.test.threads)
        env = MemEnv(
            MemoryRegion(GLOBAL, blank),
            MemoryRegion(0, b""),
            MemoryRegion(LOCAL, blank),
            room,
            (one,) * processors,
            size,
        )
        return Node(env, (), (0,) * len(self.test.threads))

    def run(self) -> Outcomes:
        first = self.start()
        seen, todo = {first}, [first]
        found: set[tuple[int, ...]] = set()
        stuck = 0
        while todo:
            node = todo.pop()
            if not node.ops and all(k == len(t.body) for k, t in zip(node.at, self.test.threads)):
                found.add(self.outcome(node.env))
                continue
            goes_on = False
            for new in self.next(node):
                goes_on = True
                if new not in seen:
                    seen.add(new)
                    todo.append(new)
            stuck += not goes_on
        return Outcomes(self.registers, frozenset(found), stuck, len(seen))

    def outcome(self, env: MemEnv) -> tuple[int, ...]:
        values = []
        for t, name in self.registers:
            registers = env.processors[self.test.threads[t].processor].registers
            assert isinstance(registers, Registers)
            values.append(registers.value((t, name)))
        for location in self.memory:
            line, at = self.test.place(location)
            address = GLOBAL + line * env.line
            k = next((k for k, c in enumerate(env.l2) if c.address == address), -1)
            word = env.l2[k].word if k >= 0 else None
            old = env.globals.read(address + at, 1)
            there = word is not None and taken(word._replace(bits=word.there), at, 1)
            values.append(taken(word, at, 1) if word is not None and there else old)
        return tuple(values)

    # ---- what can happen next ----------------------------------------------------------------------------------------

    def next(self, node: Node) -> Iterator[Node]:
        for t in range(len(node.at)):
            new = self.issued(node, t)
            if new is not None:
                yield self.settled(new)
        flying = {op.state.mid for op in node.ops}
        for k, op in enumerate(node.ops):
            if not steps.highest(op, flying):
                continue
            for env in self.before(node.env, op) if self.reduced else (node.env,):
                try:
                    after, left = steps.step(env, op)
                except Stuck:
                    continue
                if after == env and left is not None and left.program == op.program:
                    continue  # it waits
                rest = node.ops[:k] + node.ops[k + 1 :] if left is None else (*node.ops[:k], left, *node.ops[k + 1 :])
                yield self.settled(Node(after, rest, node.at))
        if not self.reduced:
            for env in self.silently(node.env, range(len(node.env.processors)), self.addresses(node.env)):
                yield Node(env, node.ops, node.at)

    def settled(self, node: Node) -> Node:
        """With all steps taken that touch registers only."""
        while self.reduced:
            for k, op in enumerate(node.ops):
                first = op.program[0]
                if isinstance(first, Do) and first.operation in ("writeToRegs", "releaseRegs"):
                    env, left = steps.step(node.env, op)
                    rest = node.ops[:k] + (() if left is None else (left,)) + node.ops[k + 1 :]
                    node = Node(env, rest, node.at)
                    break
            else:
                break
        return node

    def before(self, env: MemEnv, op: Op) -> set[MemEnv]:
        """Apply the silent rules that the environment may have taken before this operation."""
        if not isinstance(op.state, (Device, Atomic)):
            return {env}
        pid, known, todo = op.state.pid, {env}, [env]
        pids = (pid,) if asks_l1(op.program) else ()
        while todo:
            now = todo.pop()
            # A line that goes first keeps others from going.
            first = any(line.ec == FIRST for line in (*now.processors[pid].l1, *now.l2))
            for new in self.silently(now, pids, self.addresses(now) if first else {op.state.address}):
                if new not in known:
                    known.add(new)
                    todo.append(new)
        return known

    @staticmethod
    def addresses(env: MemEnv) -> set[int]:
        caches = (env.l2, *(p.l1 for p in env.processors))
        return {line.address for cache in caches for line in cache if line.address is not None}

    def silently(self, env: MemEnv, pids: Iterable[int], addresses: Iterable[int]) -> Iterator[MemEnv]:
        made: list[MemEnv | None] = []
        addresses = sorted(addresses)
        for pid in pids:
            if "flush" in self.silent:
                made.append(steps.flush(env, pid))
            for address in addresses:
                if "evict_l1" in self.silent:
                    made.append(steps.evict_l1(env, pid, address))
                if "wb_l1" in self.silent:
                    made.append(steps.write_back_l1(env, pid, address))
        for address in addresses:
            if "evict_l2" in self.silent:
                made.append(steps.evict_l2(env, address))
            if "wb_l2" in self.silent:
                made.append(steps.write_back_l2(env, address))
        yield from (new for new in made if new is not None and new != env)

    # ---- threads -----------------------------------------------------------------------------------------------------

    def issued(self, node: Node, t: int) -> Node | None:
        """The thread's next instruction, if nothing that it needs is blocked."""
        thread, k = self.test.threads[t], node.at[t]
        if k == len(thread.body):
            return None
        one, pid = thread.body[k], thread.processor
        at = (*node.at[:t], k + 1, *node.at[t + 1 :])
        if one.name == "membar":
            if any(op.state.mid // EACH == t for op in node.ops):
                return None
            env = fenced(node.env, pid, one.level)
            return None if env is None else Node(env, node.ops, at)
        registers = node.env.processors[pid].registers
        assert isinstance(registers, Registers)
        needed = [x for x in (*one.operands, one.register) if isinstance(x, str)]
        if any(registers.blocked((t, r)) for r in needed):
            return None
        values = [registers.value((t, x)) if isinstance(x, str) else x for x in one.operands]
        env = node.env
        if one.register is not None:
            env = env.processor(pid, registers=registers.block((t, one.register)))
        text = program(one.name, one.space, one.cop, self.printed)
        op = Op(text, self.state(t, k, values), self.after[self.mid(t, k)])
        return Node(env, tuple(sorted((*node.ops, op), key=lambda o: o.state.mid)), at)

    def state(self, t: int, k: int, values: list[int]) -> State:
        one, mid, size = self.test.threads[t].body[k], self.mid(t, k), self.test.line_bytes
        line, at = self.test.place(one.location)
        pid = self.test.threads[t].processor
        wanted = ((t, one.register),) if one.register is not None else ()
        give = given_to((t, one.register), 0 if one.space == "shared" else at) if one.register is not None else None
        first, second = (*values, 0, 0)[:2]
        if one.op is not None:
            place = (line * size + at, 0) if one.space == "shared" else (GLOBAL + line * size, at)
            return Atomic(*place, 1, pid, one.space, one.op, None, first, second, give, wanted, mid)
        if one.space == "shared":
            return Shared(pid, (line * size + at,), (1,), (first,), give, wanted, mid)
        start = GLOBAL if one.space == "global" else LOCAL
        word = part(first, at, 1, size) if one.name == "st" else None
        return Device(start + line * size, one.space, one.cop, pid, word, give, wanted, mid)
