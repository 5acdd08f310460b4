"""Give memory programs their meaning: B[[.]] of conditions (4.4.2), O[[.]] of operations (4.4.3), and the rules of ->Op
(4.4.4).

A micro step is what `micro_step` does: statements, until the program yields or ends.  Nothing else happens meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from snap.ptx.environment import lines, memories
from snap.ptx.environment.language import And, Ask, Condition, Do, End, If, Nop, Not, Or, Sequence, Yield
from snap.ptx.environment.lines import CacheLines, Stuck
from snap.ptx.environment.memories import MemEnv
from snap.ptx.environment.states import Atomic, Device, Reg, Shared, State
from snap.ptx.environment.words import Word, part, taken, whole

CONTINUE, YIELD, END = "continue", "yield", "end"  # yield actions
Result: TypeAlias = tuple[MemEnv, State, str]
Cached: TypeAlias = Device | Atomic


def cached(state: State) -> Cached:
    """Test whether a program may ask caches: it has a cache operator, or is an atomic on global memory (erratum 3)."""
    if isinstance(state, Device) and state.cop is not None:
        return state
    if isinstance(state, Atomic) and state.space == "global":
        return state
    raise Stuck("a cache operation of a program that is not cached")


# ---- B[[.]] ----------------------------------------------------------------------------------------------------------


def holds(condition: Condition, env: MemEnv, state: State) -> bool:
    match condition:
        case Ask("isCachedL1"):
            return lines.is_cached(env.processors[cached(state).pid].l1, cached(state).address)
        case Ask("isCachedL2"):
            return lines.is_cached(env.l2, cached(state).address)
        case Ask(name):
            return name == "true"
        case Not(inner):
            return not holds(inner, env, state)
        case And(left, right):
            return holds(left, env, state) and holds(right, env, state)
        case Or(left, right):
            return holds(left, env, state) or holds(right, env, state)


# ---- O[[.]]: memory and registers ------------------------------------------------------------------------------------


def read_mem(env: MemEnv, state: State) -> Result:
    match state:
        case Atomic(space="global"):
            new: State = state._replace(out=memories.read_device(env, "global", state.address, env.line))
        case Atomic():
            (value,) = memories.read_shared(env, state.pid, (state.address,), (state.size,))
            new = state._replace(out=whole(value, state.size))
        case Shared():
            new = state._replace(values=memories.read_shared(env, state.pid, state.addresses, state.sizes))
        case Device():
            new = state._replace(value=memories.read_device(env, state.space, state.address, env.line))
        case _:
            raise Stuck("a register operation reads no memory")
    return env, new, CONTINUE


def write_mem(env: MemEnv, state: State) -> Result:
    match state:
        case Atomic(space="global"):
            env = memories.write_device(env, "global", state.address, brought(state))
        case Atomic():
            env = memories.write_shared(env, state.pid, (state.address,), (state.size,), (state.first,))
        case Shared():
            env = memories.write_shared(env, state.pid, state.addresses, state.sizes, state.values)
        case Device():
            env = memories.write_device(env, state.space, state.address, brought(state))
        case Reg():
            raise Stuck("a register operation writes no memory")
    return env, state, CONTINUE


def brought(state: Cached) -> Word:
    """Return what a program has to write: for an atomic, the first operand, in its place in the line."""
    if isinstance(state, Atomic):
        if state.out is None:
            raise Stuck("an atomic that has read nothing")
        return part(state.first, state.at, state.size, state.out.size)
    if state.value is None:
        raise Stuck("a write of nothing")
    return state.value


def atom_op(env: MemEnv, state: State) -> Result:
    if not isinstance(state, Atomic) or state.out is None:
        raise Stuck("atomOp before a value was read, or of no atomic")
    old = taken(state.out, state.at, state.size)
    return env, state._replace(first=state.op(old, state.first, state.second)), CONTINUE


def release_regs(env: MemEnv, state: State) -> Result:
    freed = env.processors[state.pid].registers.release(state.registers)
    return env.processor(state.pid, registers=freed), state, CONTINUE


def write_to_regs(env: MemEnv, state: State) -> Result:
    if state.decompose is None:
        raise Stuck("a program that was asked for nothing writes no register")
    written = state.decompose(env.processors[state.pid].registers, state)
    return env.processor(state.pid, registers=written), state, CONTINUE


def _banks(state: State) -> frozenset[int]:
    if not isinstance(state, Atomic) or state.space != "shared":
        raise Stuck("only atomics on shared memory lock banks")
    return memories.banks(state.address, state.size)


def lock(env: MemEnv, state: State) -> Result:
    wanted, shared = _banks(state), env.processors[state.pid].shared
    if wanted & shared.locks:
        return env, state, YIELD
    return env.processor(state.pid, shared=shared._replace(locks=shared.locks | wanted)), state, CONTINUE


def unlock(env: MemEnv, state: State) -> Result:
    wanted, shared = _banks(state), env.processors[state.pid].shared
    return env.processor(state.pid, shared=shared._replace(locks=shared.locks - wanted)), state, CONTINUE


# ---- O[[.]]: caches --------------------------------------------------------------------------------------------------

CacheFunc: TypeAlias = Callable[[CacheLines, Cached, int], tuple[Cached, CacheLines, str]]


def read_cache(all: CacheLines, state: Cached, ec: int) -> tuple[Cached, CacheLines, str]:
    left, word = lines.read(all, state.address, state.mid)
    if word is None:
        return state, left, YIELD
    return (state._replace(out=word) if isinstance(state, Atomic) else state._replace(value=word)), left, CONTINUE


def _or_wait(state: Cached, before: CacheLines, after: CacheLines | None) -> tuple[Cached, CacheLines, str]:
    return (state, before, YIELD) if after is None else (state, after, CONTINUE)


def write_cache(all: CacheLines, state: Cached, ec: int) -> tuple[Cached, CacheLines, str]:
    return _or_wait(state, all, lines.write(all, state.address, brought(state)))


def reserve(all: CacheLines, state: Cached, ec: int) -> tuple[Cached, CacheLines, str]:
    reserved = lines.reserve(all, state.address, state.mid)
    return _or_wait(state, all, None if reserved is None else reserved[1])


def update(all: CacheLines, state: Cached, ec: int) -> tuple[Cached, CacheLines, str]:
    fetched = state.out if isinstance(state, Atomic) else state.value
    if fetched is None:
        raise Stuck("an update with nothing")
    return state, lines.update(all, state.address, fetched), CONTINUE


def evict(all: CacheLines, state: Cached, ec: int) -> tuple[Cached, CacheLines, str]:
    return _or_wait(state, all, lines.evict(all, state.address))


def discard(all: CacheLines, state: Cached, ec: int) -> tuple[Cached, CacheLines, str]:
    return _or_wait(state, all, lines.discard(all, state.address))


def classify(all: CacheLines, state: Cached, ec: int) -> tuple[Cached, CacheLines, str]:
    return state, lines.classify(all, state.address, ec), CONTINUE


def on_l1(env: MemEnv, state: State, function: CacheFunc, ec: int) -> Result:
    """L1op: the cache of the program's processor."""
    one = cached(state)
    new, left, action = function(env.processors[one.pid].l1, one, ec)
    return env.processor(one.pid, l1=left), new, action


def on_l2(env: MemEnv, state: State, function: CacheFunc, ec: int) -> Result:
    new, left, action = function(env.l2, cached(state), ec)
    return env._replace(l2=left), new, action


_MEMORY: dict[str, Callable[[MemEnv, State], Result]] = {
    "readMem": read_mem,
    "writeMem": write_mem,
    "atomOp": atom_op,
    "releaseRegs": release_regs,
    "writeToRegs": write_to_regs,
    "lock": lock,
    "unlock": unlock,
}
_CACHE: dict[str, tuple[CacheFunc, int]] = {
    "read": (read_cache, 0),
    "write": (write_cache, 0),
    "reserve": (reserve, 0),
    "update": (update, 0),
    "evict": (evict, 0),
    "discard": (discard, 0),
    "classifyFirst": (classify, lines.FIRST),
    "classifyNormal": (classify, lines.NORMAL),
}


def operate(name: str, env: MemEnv, state: State) -> Result:
    """O[[name]]."""
    found = _MEMORY.get(name)
    if found is not None:
        return found(env, state)
    function, ec = _CACHE[name[:-2]]
    return (on_l1 if name.endswith("L1") else on_l2)(env, state, function, ec)


# ---- ->Op ------------------------------------------------------------------------------------------------------------


def micro_step(program: Sequence, env: MemEnv, state: State) -> tuple[str, Sequence, MemEnv, State]:
    """Until the program yields or ends: (how it stopped, what is left of it, environment, state)."""
    while program:
        statement, rest = program[0], program[1:]
        match statement:
            case Nop():  # (nop), (seq3)
                program = rest
            case Yield():  # (yield), (seq1)
                return YIELD, rest, env, state
            case End():  # (end), (seq2)
                return END, (), env, state
            case If(condition, then, otherwise):  # (if_tt), (if_ff)
                program = (then if holds(condition, env, state) else otherwise) + rest
            case Do(operation):
                env, state, action = operate(operation, env, state)
                if action == YIELD:  # (op2), (seq1): it is tried again
                    return YIELD, program, env, state
                program = rest  # (op1), (seq3)
    raise Stuck("a program that does not end")
