"""Section 5.8.1, what it leaves abstract: the priorities that `memOp` gives, and `updMemBar`, which says when a memory
barrier is over.

Rule of order: operations of one thread are processed in any order, but for these two, which are as they were issued:
  - volatile ones, as the report has it.
  - those that touch the same bytes, if one writes or the earlier is strong (volatile, relaxed, atomic).  The report
    does not want to rely on it; without it a program of one thread does not compute what it says, and PTX promises it.
    Two weak loads of the same bytes may pass each other.

Rule of fences: a barrier of a thread is over when all its earlier operations have ended.  Then
  .cta        all threads of the block see its writes: they are in L2, and out of its processor's L1.
  .gl         as well, its processor's L1 holds no global line from before: global data is coherent at L2, and what
              others have published there is what later loads find.
  .sys        as well, what L2 holds is written back: the host reads memory.
`fence.*` by scope: .cta is .cta; .cluster (whose blocks lie on several processors) and .gpu are .gl; .sys is .sys.
"""

from __future__ import annotations

from typing import NamedTuple

from snap.ptx.environment import steps
from snap.ptx.environment.memories import MemEnv

LEVEL = {"cta": "cta", "cluster": "gl", "gpu": "gl", "gl": "gl", "sys": "sys"}


class Access(NamedTuple):
    """Describe what an operation touches: lines with 0xFF for each byte, in one memory."""

    memory: str
    address: int
    there: int
    writes: bool
    strong: bool
    volatile: bool = False


def ordered(earlier: Access, later: Access) -> bool:
    """Test whether the later of two accesses of one thread has to wait for the earlier."""
    if earlier.volatile and later.volatile:
        return True
    meet = earlier.memory == later.memory and earlier.address == later.address and (earlier.there & later.there) != 0
    return meet and (earlier.writes or later.writes or earlier.strong)


def fenced(env: MemEnv, pid: int, level: str) -> MemEnv | None:
    """The end of a barrier, of a thread whose operations have all ended; None: not yet."""
    if level == "cta":
        return env
    new = steps.flush(env, pid)
    if new is None or level == "gl":
        return new
    for line in new.l2:
        if line.dirty and line.address is not None:
            new = steps.write_back_l2(new, line.address) or new
    return new
