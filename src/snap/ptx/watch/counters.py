"""Count what a run costs, as Nsight Compute counts it.

Input: accesses as they happen.  Output: `Counters`.  Rules:

- A *request* is one instruction of one warp of which a thread acts.
- What a request costs is said in machine/requests.py: sectors (`l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum` and
  `_st.sum`), wavefronts, and bank conflicts (`l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum`, `_st.sum`).

Registers are no part of PTX, which has as many as it likes: ptxas chooses them.  Non-goals: time, hits and misses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from snap.machine import requests as rules
from snap.ptx.machine.lanes import Lanes, Shape
from snap.ptx.program.resolve import Constant
from snap.ptx.watch.observer import Touch, Watch, joined

if TYPE_CHECKING:
    from snap.ptx.program.resolve import Function, Instruction, Program

WARP = 32


@dataclass(slots=True)
class Requests:
    """Count one kind of access. sectors: of global memory; wavefronts and conflicts: of shared memory."""

    requests: int = 0
    sectors: int = 0
    wavefronts: int = 0
    conflicts: int = 0


@dataclass(slots=True)
class Resources:
    """Hold what decides how many blocks an SM takes; None: PTX does not say."""

    threads: int
    warps: int
    shared_bytes: int
    barriers: int
    registers: int | None = None


@dataclass(slots=True)
class Counters:
    """instructions: of threads, and of warps; branches at which a warp's threads parted.  accesses: by kind, such as
    'global load' or 'shared store'; empty where they were not counted.
    """

    thread_instructions: int = 0
    warp_instructions: int = 0
    divergent_branches: int = 0
    accesses: dict[str, Requests] = field(default_factory=dict)
    resources: Resources | None = None

    def of(self, kind: str) -> Requests:
        return self.accesses.get(kind, Requests())

    def metrics(self) -> dict[str, int]:
        """Return the counts by the names that Nsight Compute has for them."""
        named = {}
        for op, word in (("load", "ld"), ("store", "st")):
            on_global, on_shared = self.of(f"global {op}"), self.of(f"shared {op}")
            named[f"l1tex__t_requests_pipe_lsu_mem_global_op_{word}.sum"] = on_global.requests
            named[f"l1tex__t_sectors_pipe_lsu_mem_global_op_{word}.sum"] = on_global.sectors
            named[f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{word}.sum"] = on_shared.wavefronts
            named[f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{word}.sum"] = on_shared.conflicts
        return named


KINDS = {
    "ld": "load",
    "ldu": "load",
    "st": "store",
    "atom": "atomic",
    "red": "reduction",
    "ldmatrix": "load",
    "stmatrix": "store",
    "cp": "copy",
}


class Counting(Watch):
    """Fills the accesses of the machine's counters."""

    def executed(self, one: Instruction, lanes: Lanes, pc: int, touches: list[Touch]) -> None:
        word = KINDS.get(one.parts[0])
        if word is None:  # tensor cores do not go through these units
            return
        atomic, copy = word in ("atomic", "reduction"), word == "copy"
        for space in ("global", "shared"):
            # An atomic is one request, although it is done as a read and a write.
            mine = [
                t for t in touches if t.space == space and t.unit is None and len(t.at) and not (atomic and t.write)
            ]
            if not mine:
                continue
            kind = self.machine.counters.accesses.setdefault(f"{space} {word}", Requests())
            # So is a copy, of which each thread reads as much as it says.
            for t in [_all(mine)] if atomic or copy and space == "global" else joined(mine):
                if space == "global":
                    _sectors(kind, t)
                else:
                    _conflicts(kind, t, word == "load" and one.parts[0] != "ldmatrix")


def _all(touches: list[Touch]) -> Touch:
    """One lane after the other, or several elements: as one access."""
    first = touches[0]
    at, lanes = np.concatenate([t.at for t in touches]), np.concatenate([t.lanes for t in touches])
    return Touch(first.space, at, lanes, first.width, False)


def _sectors(kind: Requests, t: Touch) -> None:
    kind.requests += rules.requests(t.lanes).total
    kind.sectors += rules.sectors(t.at, t.lanes, t.width).total


def _conflicts(kind: Requests, t: Touch, joins: bool) -> None:
    kind.requests += rules.requests(t.lanes).total
    fronts, conflicts = rules.wavefronts(t.at, t.lanes, t.width, joins)
    kind.wavefronts += fronts.total
    kind.conflicts += conflicts.total


def resources(program: Program, entry: Function, shape: Shape, shared: int) -> Resources:
    """barriers: as many as the text numbers, all 16 where a number is computed."""
    used = 0
    for one in program.instructions:
        if one.parts[0] in ("bar", "barrier") and not {"warp", "cluster"} & set(one.parts):
            number = one.operands[1 if "red" in one.parts else 0] if one.operands else None
            used = max(used, number.value + 1 if isinstance(number, Constant) else 16)
    return Resources(shape.threads, -(-shape.threads // WARP), shared, used)
