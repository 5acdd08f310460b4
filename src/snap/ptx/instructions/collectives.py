"""Instructions that threads of a warp execute together: shuffles, votes, matches, reductions, barriers of warps.

Rule: the members that a mask names, of those that have not left, execute it together; who comes early waits.  A warp's
lanes are a row of 32 here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from snap.ptx.errors import PtxFaultKind
from snap.ptx.instructions.operations import lookup
from snap.ptx.machine.lanes import GONE, WITH_WARP, Lanes, Step
from snap.ptx.machine.memory import Fault
from snap.ptx.program.resolve import Both, Instruction, both
from snap.ptx.text.types import DTYPE

if TYPE_CHECKING:
    from snap.ptx.machine.threads import Machine

WARP = 32


def together(m: Machine, lanes: Lanes, mask: np.ndarray, pc: int) -> Lanes:
    """Return the lanes whose members have all come; the others wait at this instruction."""

    mask = np.broadcast_to(mask, lanes.shape).astype(np.uint64)
    warps = len(m.since)
    bit = (mask[:, None] >> np.arange(WARP, dtype=np.uint64)[None, :] & np.uint64(1)).astype(bool)
    here = np.zeros((warps, WARP), bool)
    here.reshape(-1)[lanes] = True
    alive = (m.state != GONE).reshape(warps, WARP)
    _named(mask, bit, lanes, here)
    missing = (bit & alive[lanes // WARP] & ~here[lanes // WARP]).any(axis=1)
    if missing.any():
        early = lanes[missing]
        m.pc[early] = pc
        m.state[early] = WITH_WARP
        return lanes[~missing]
    return lanes


def _named(mask: np.ndarray, bit: np.ndarray, lanes: Lanes, here: np.ndarray) -> None:
    """Rule (PTX ISA, "membermask"): a mask names who executes the instruction, and members give the same mask."""
    own = bit[np.arange(len(lanes)), lanes % WARP]
    if not own.all():
        k = int(np.argmin(own))
        raise Fault(PtxFaultKind.BARRIER_MISMATCH, f"the mask {int(mask[k]):#010x} does not name this thread", k)
    if (mask == mask[0]).all():
        return
    masks = np.zeros(here.shape, np.uint64)
    masks.reshape(-1)[lanes] = mask
    differ = (bit & here[lanes // WARP] & (masks[lanes // WARP] != mask[:, None])).any(axis=1)
    if differ.any():
        k = int(np.argmax(differ))
        raise Fault(
            PtxFaultKind.BARRIER_MISMATCH, f"a member of the mask {int(mask[k]):#010x} gives another mask here", k
        )


def _rows(m: Machine, lanes: Lanes, value: np.ndarray) -> np.ndarray:
    """Put each lane's value into the rows of all warps; other lanes have nothing."""
    out = np.zeros(len(m.lane), value.dtype)
    out[lanes] = value
    return out.reshape(-1, WARP)


def _members(mask: np.ndarray, lanes: Lanes) -> np.ndarray:
    """For each lane, which lanes of its warp its mask names."""
    mask = np.broadcast_to(mask, lanes.shape).astype(np.uint64)
    return (mask[:, None] >> np.arange(WARP, dtype=np.uint64)[None, :] & np.uint64(1)).astype(bool)


def shuffle(m: Machine, one: Instruction, pc: int) -> Step | None:
    """Rule (PTX ISA, "shfl.sync"): d(t) = a(src(t)) if src(t) lies in t's segment, which c gives, else a(t).  A lane
    src(t) that does not execute the shuffle has no value; here it is 0 (`checks="shuffles"`, absent.py).
    """
    mode = one.parts[2]
    if one.parts[1] != "sync" or mode not in ("up", "down", "bfly", "idx") or one.parts[-1] != "b32":
        return None
    result = one.operands[0]
    writers = [
        m.writer(o, one.function) for o in ((result.first, result.second) if isinstance(result, Both) else (result,))
    ]
    a, b, c, members = (m.reader(o, "b32", one.function) for o in one.operands[1:5])

    def step(lanes: Lanes) -> None:
        lanes = together(m, lanes, members(lanes), pc)
        if not len(lanes):
            return
        lane = (lanes % WARP).astype(np.int64)
        by, clamp = (np.broadcast_to(r(lanes), lanes.shape).astype(np.int64) for r in (b, c))
        by, limit, segment = by & 31, clamp & 31, clamp >> 8 & 31
        least, most = lane & segment, lane & segment | limit & ~segment
        source = {"up": lane - by, "down": lane + by, "bfly": lane ^ by, "idx": least | by & ~segment}[mode]
        valid = source >= most if mode == "up" else source <= most
        source = np.where(valid, source, lane)
        if m.watchers:
            given = np.broadcast_to(members(lanes), lanes.shape)
            m.tell("shuffled", lanes[valid], (lanes - lane + source)[valid], given[valid], lanes)
        everything = _rows(m, lanes, np.broadcast_to(a(lanes), lanes.shape))
        writers[0](lanes, everything[lanes // WARP, source])
        if len(writers) > 1:
            writers[1](lanes, valid)

    return step


def vote(m: Machine, one: Instruction, pc: int) -> Step | None:
    if one.parts[1] != "sync" or one.parts[2] not in ("all", "any", "uni", "ballot"):
        return None
    write = m.writer(one.operands[0], one.function)
    said, members = m.reader(one.operands[1], "pred", one.function), m.reader(one.operands[2], "b32", one.function)

    def step(lanes: Lanes) -> None:
        lanes = together(m, lanes, members(lanes), pc)
        if not len(lanes):
            return
        mine = _members(members(lanes), lanes) & _rows(m, lanes, np.ones(lanes.shape, bool))[lanes // WARP]
        votes = _rows(m, lanes, np.broadcast_to(said(lanes), lanes.shape))[lanes // WARP]
        yes, no = (mine & votes).any(axis=1), (mine & ~votes).any(axis=1)
        match one.parts[2]:
            case "all":
                write(lanes, ~no)
            case "any":
                write(lanes, yes)
            case "uni":
                write(lanes, ~(yes & no))
            case _:
                write(lanes, _bits(mine & votes))

    return step


def _bits(rows: np.ndarray) -> np.ndarray:
    return (rows.astype(np.uint64) << np.arange(WARP, dtype=np.uint64)).sum(axis=1).astype(np.uint32)


def match(m: Machine, one: Instruction, pc: int) -> Step | None:
    kind, type = one.parts[1], one.parts[-1]
    result = one.operands[0]
    writers = [
        m.writer(o, one.function) for o in ((result.first, result.second) if isinstance(result, Both) else (result,))
    ]
    a, members = m.reader(one.operands[1], type, one.function), m.reader(one.operands[2], "b32", one.function)

    def step(lanes: Lanes) -> None:
        lanes = together(m, lanes, members(lanes), pc)
        if not len(lanes):
            return
        mine = _members(members(lanes), lanes) & _rows(m, lanes, np.ones(lanes.shape, bool))[lanes // WARP]
        value = np.broadcast_to(a(lanes), lanes.shape)
        same = mine & (_rows(m, lanes, value)[lanes // WARP] == value[:, None])
        if kind == "any":
            writers[0](lanes, _bits(same))
            return
        agree = (same == mine).all(axis=1)
        writers[0](lanes, np.where(agree, _bits(mine), np.uint32(0)))
        if len(writers) > 1:
            writers[1](lanes, agree)

    return step


_REDUCE: dict[str, tuple[Callable, Callable[[np.dtype], int]]] = {
    "add": (np.add.reduce, lambda t: 0),
    "min": (np.minimum.reduce, lambda t: int(np.iinfo(t).max)),
    "max": (np.maximum.reduce, lambda t: int(np.iinfo(t).min)),
    "and": (np.bitwise_and.reduce, lambda t: (1 << 8 * t.itemsize) - 1),
    "or": (np.bitwise_or.reduce, lambda t: 0),
    "xor": (np.bitwise_xor.reduce, lambda t: 0),
}


def reduce(m: Machine, one: Instruction, pc: int) -> Step | None:
    if one.parts[1] == "sync" and one.parts[-1] == "f32":
        return _reduce_floats(m, one, pc)
    if one.parts[1] != "sync" or one.parts[2] not in _REDUCE or one.parts[-1] not in ("s32", "u32", "b32"):
        return None
    combine, neutral = _REDUCE[one.parts[2]]
    type = DTYPE[one.parts[-1]]
    write = m.writer(one.operands[0], one.function)
    a, members = m.reader(one.operands[1], one.parts[-1], one.function), m.reader(one.operands[2], "b32", one.function)

    def step(lanes: Lanes) -> None:
        lanes = together(m, lanes, members(lanes), pc)
        if not len(lanes):
            return
        mine = _members(members(lanes), lanes) & _rows(m, lanes, np.ones(lanes.shape, bool))[lanes // WARP]
        value = _rows(m, lanes, np.broadcast_to(a(lanes), lanes.shape))[lanes // WARP]
        nothing = np.array(neutral(type)).astype(type)
        write(lanes, combine(np.where(mine, value, nothing), axis=1, dtype=type))

    return step


def _reduce_floats(m: Machine, one: Instruction, pc: int) -> Step | None:
    """`redux.sync.min.abs.NaN.f32`, from sm_100 on."""
    op, *mods = one.parts[2:-1]
    if op not in ("min", "max") or not set(mods) <= {"abs", "NaN"}:
        return None
    two = lookup((op, *(w for w in mods if w == "NaN"), "f32"))
    write = m.writer(one.operands[0], one.function)
    a, members = m.reader(one.operands[1], "f32", one.function), m.reader(one.operands[2], "b32", one.function)

    def step(lanes: Lanes) -> None:
        lanes = together(m, lanes, members(lanes), pc)
        if not len(lanes) or two is None:
            return
        mine = _members(members(lanes), lanes) & _rows(m, lanes, np.ones(lanes.shape, bool))[lanes // WARP]
        value = np.broadcast_to(a(lanes), lanes.shape)
        rows = _rows(m, lanes, np.abs(value) if "abs" in mods else value)[lanes // WARP]
        found = rows[np.arange(len(lanes)), np.argmax(mine, axis=1)]
        for k in range(WARP):
            found = np.where(mine[:, k], two.compute(found, rows[:, k]), found)
        write(lanes, found.astype(np.float32))

    return step


def active(m: Machine, one: Instruction, pc: int) -> Step:
    """Return who executes this now."""
    write = m.writer(one.operands[0], one.function)

    def step(lanes: Lanes) -> None:
        write(lanes, _bits(_rows(m, lanes, np.ones(lanes.shape, bool))[lanes // WARP]))

    return step


def elect(m: Machine, one: Instruction, pc: int) -> Step | None:
    """One of the members is told so: here, the first."""
    if one.parts[1:] != ("sync",):
        return None
    writers = [m.writer(o, one.function) for o in both(one.operands[0])]
    members = m.reader(one.operands[1], "b32", one.function)

    def step(lanes: Lanes) -> None:
        lanes = together(m, lanes, members(lanes), pc)
        if not len(lanes):
            return
        mine = _members(members(lanes), lanes) & _rows(m, lanes, np.ones(lanes.shape, bool))[lanes // WARP]
        leader = np.argmax(mine, axis=1)
        for value, write in zip((leader.astype(np.uint32), leader == lanes % WARP), writers):
            write(lanes, value)

    return step


def warp_barrier(m: Machine, one: Instruction, pc: int) -> Step:
    members = m.reader(one.operands[0], "b32", one.function)

    def step(lanes: Lanes) -> None:
        together(m, lanes, members(lanes), pc)

    return step
