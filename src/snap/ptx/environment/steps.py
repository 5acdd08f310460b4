"""Section 4.6: the rules of ->M.  A step of the memory environment is a micro step of some operation in flight, or one
of the silent rules: an eviction, a write-back, the flush of an L1 cache.

A priority is the set of operations that come before (`Op.after`): those of its own thread that keep their order
(manager.py).  The report compares priorities by a quasi-order and asks that an operation's be above all others', which
two operations that cannot be compared would never be; here none may be above it (erratum 5).
"""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from snap.ptx.environment import lines, memories
from snap.ptx.environment.language import Sequence
from snap.ptx.environment.lines import INIT, CacheLines
from snap.ptx.environment.meaning import END, micro_step
from snap.ptx.environment.memories import MemEnv
from snap.ptx.environment.states import State


class Op(NamedTuple):
    """A memory operation in flight: what is left of its program, its state, its priority."""

    program: Sequence
    state: State
    after: frozenset[int] = frozenset()


def highest(op: Op, in_flight: Container[int]) -> bool:
    """highestPrio: nothing that comes before is in flight."""
    return not any(mid in in_flight for mid in op.after)


def step(env: MemEnv, op: Op) -> tuple[MemEnv, Op | None]:
    """(step), (end): None when the program has ended."""
    action, program, env, state = micro_step(op.program, env, op.state)
    return env, None if action == END else Op(program, state, op.after)


def _evicted(cache: CacheLines, address: int) -> CacheLines | None:
    k = lines.found(cache, address)
    return lines.evict(cache, address) if k >= 0 and lines.can_evict(cache, cache[k]) else None


def evict_l1(env: MemEnv, pid: int, address: int) -> MemEnv | None:
    """(evict_L1); None where the rule does not apply, as below."""
    left = _evicted(env.processors[pid].l1, address)
    return None if left is None else env.processor(pid, l1=left)


def evict_l2(env: MemEnv, address: int) -> MemEnv | None:
    left = _evicted(env.l2, address)
    return None if left is None else env._replace(l2=left)


def write_back_l1(env: MemEnv, pid: int, address: int) -> MemEnv | None:
    """(wb_L1): if L2 takes it at once.  A line of which bytes are missing gives those it has."""
    l1 = env.processors[pid].l1
    k = lines.found(l1, address)
    word = l1[k].word if k >= 0 and l1[k].dirty else None
    l2 = None if word is None else lines.write(env.l2, address, word)
    if l2 is None:
        return None
    return env._replace(l2=l2).processor(pid, l1=lines.put(l1, k, l1[k]._replace(dirty=False)))


def write_back_l2(env: MemEnv, address: int) -> MemEnv | None:
    """(wb_L2)."""
    k = lines.found(env.l2, address)
    word = env.l2[k].word if k >= 0 and env.l2[k].dirty else None
    if word is None:
        return None
    env = memories.write_device(env, memories.space_of(env, address), address, word)
    return env._replace(l2=lines.put(env.l2, k, env.l2[k]._replace(dirty=False)))


def flush(env: MemEnv, pid: int) -> MemEnv | None:
    """(flush): an L1 cache forgets all global lines, if none is dirty; and none pinned, which the report forgets, as it
    does the unused lines (erratum 4)."""
    l1 = env.processors[pid].l1
    globals = [k for k, line in enumerate(l1) if line.address is not None and env.globals.holds(line.address, 1)]
    if any(l1[k].dirty or l1[k].pins for k in globals):
        return None
    for k in globals:
        l1 = lines.put(l1, k, INIT)
    return env.processor(pid, l1=l1)
