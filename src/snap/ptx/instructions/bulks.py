"""Copies and reductions of bytes by the copy engine, and stores that arrive at mbarriers.

`cp.async.bulk` and `cp.reduce.async.bulk` without a tensor map, `st.async`, `red.async`: done when they are issued,
which is one of the orders that are allowed (PTX ISA, "Data Movement and Conversion Instructions: Asynchronous copy").
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from snap.ptx.errors import PtxFaultKind
from snap.ptx.instructions.elements import combining
from snap.ptx.instructions.mbarriers import barrier_at, keys
from snap.ptx.machine.lanes import Lanes, Step
from snap.ptx.machine.memory import Fault
from snap.ptx.program.resolve import Instruction, listed
from snap.ptx.text.types import BITS, DTYPE

if TYPE_CHECKING:
    from snap.ptx.machine.threads import Machine

_SPACES = ("global", "shared::cta", "shared::cluster")
_HINTS = ("L2::cache_hint", "noftz", "relaxed", "cluster", "weak", "gpu", "sys", "release", "scope")
PIECE = 16  # bytes: sizes and addresses are multiples of it


def completed(m: Machine, key: tuple[int, int], size: int, lane: int) -> None:
    """Bytes have come, and the mbarrier that counts them is told."""
    barrier = barrier_at(m, key, lane)
    barrier.bytes -= size
    m.tell("counted", key, barrier, None)
    barrier.settle()


def copy(m: Machine, one: Instruction, pc: int) -> Step | None:
    """`cp.async.bulk.to.from.how`, and with an operation and a type behind for reductions."""
    words = [w for w in one.parts[1:] if w not in _HINTS]
    reduces = words[:1] == ["reduce"]
    words = words[1:] if reduces else words
    match words:
        case ["async", "bulk", "prefetch", "L2", "global"]:
            return lambda lanes: None
        case ["async", "bulk", to, source, how, *more] if to in _SPACES and source in _SPACES:
            pass
        case _:
            return None
    multicast = more[:1] == ["multicast::cluster"]
    rest = more[1:] if multicast else more
    if how not in ("mbarrier::complete_tx::bytes", "bulk_group") or len(rest) != (2 if reduces else 0):
        return None
    if {to, source} == {"global"} or how == "bulk_group" and to != "global":
        return None
    combine, type = _combining(rest) if reduces else (None, "b128")
    target, origin, size = one.operands[:3]
    write_at = m.addresses(target, one.function, to.partition("::")[0])
    read_at = m.addresses(origin, one.function, source.partition("::")[0])
    count = m.reader(size, "u32", one.function)
    barrier = m.addresses(one.operands[3], one.function, "shared") if how != "bulk_group" else None
    masks = m.reader(one.operands[4], "u16", one.function) if multicast else None
    width = DTYPE[type].itemsize

    def step(lanes: Lanes) -> None:
        there, here = write_at(lanes), read_at(lanes)
        sizes = np.broadcast_to(count(lanes), lanes.shape)
        _even((there | here | sizes.astype(np.uint64)), one)
        counted = [] if barrier is None else keys(m, barrier(lanes), lanes)
        for k, lane in enumerate(lanes.tolist()):
            m.acts_for(lane)
            offsets = np.arange(0, int(sizes[k]), width, dtype=np.uint64)
            same = np.full(len(offsets), lane)
            bits = m.memory.read(source, here[k] + offsets, same, width)
            for block in _blocks(m, masks, lanes, k):
                by = same if block is None else np.full(len(offsets), block * m.width)
                if combine is not None:
                    old = m.memory.read(to, there[k] + offsets, by, width)
                    bits = combine(old.view(DTYPE[type]), bits.view(DTYPE[type])).astype(DTYPE[type]).view(BITS[width])
                m.memory.write(to, there[k] + offsets, by, bits)
                if counted:
                    completed(m, counted[k] if block is None else (block, counted[k][1]), int(sizes[k]), k)

    return step


def _blocks(m: Machine, masks, lanes: Lanes, k: int) -> list[int | None]:
    """Find whose memory a copy goes to: all blocks of the cluster that a mask names, or the one that the
    address names.
    """
    if masks is None:
        return [None]
    mask = int(np.broadcast_to(masks(lanes), lanes.shape)[k])
    first = int(lanes[k]) // m.width // m.shape.cluster * m.shape.cluster
    return [first + b for b in range(m.shape.cluster) if mask >> b & 1]


def _even(bits: np.ndarray, one: Instruction) -> None:
    odd = bits & np.uint64(PIECE - 1) != 0
    if odd.any():
        raise Fault(
            PtxFaultKind.MISALIGNED,
            f"{one.name} takes addresses and sizes that are multiples of 16",
            int(np.argmax(odd)),
        )


def _combining(words: list[str]):
    op, type = words
    found = combining(op, type) if type in DTYPE else None
    if found is None or op in ("exch", "cas"):
        raise Fault(PtxFaultKind.UNKNOWN, f"a bulk reduction by {op} of {type}", 0)
    return found, type


def store(m: Machine, one: Instruction, pc: int) -> Step | None:
    """`st.async`, `red.async`: into another block's shared memory, whose mbarrier counts the bytes."""
    words = [w for w in one.parts if w not in _HINTS]
    if words[2:4] != ["shared::cluster", "mbarrier::complete_tx::bytes"]:
        return None
    *more, type = words[4:]
    reduces = words[0] == "red"
    if type not in DTYPE or (len(more) != 1 if reduces else more not in ([], ["v2"], ["v4"])):
        return None
    combine = _combining([more[0], type])[0] if reduces else None
    target, value, barrier = one.operands
    at, counted = (m.addresses(o, one.function, "shared") for o in (target, barrier))
    readers = [m.reader(o, type, one.function) for o in listed(value)]
    width = DTYPE[type].itemsize

    def step(lanes: Lanes) -> None:
        start = at(lanes)
        for k, read in enumerate(readers):
            address = start + np.uint64(k * width)
            new = np.array(np.broadcast_to(read(lanes), lanes.shape))
            if combine is None:
                m.memory.write("shared", address, lanes, new.view(BITS[width]))
                continue
            for j in range(len(lanes)):  # one after the other: several may meet
                old = m.memory.read("shared", address[j : j + 1], lanes[j : j + 1], width).view(DTYPE[type])
                found = combine(old, new[j : j + 1]).astype(DTYPE[type])
                m.memory.write("shared", address[j : j + 1], lanes[j : j + 1], found.view(BITS[width]))
        for k, key in enumerate(keys(m, counted(lanes), lanes)):
            completed(m, key, width * len(readers), k)

    return step
