"""mbarriers, and copies of boxes by TMA, which arrive at them.

Copies are done when they are issued, which is one of the orders that are allowed.  An mbarrier counts arrivals and
bytes that are still to come; when both are none its phase ends, and the next begins (PTX ISA, "mbarrier").  Tensor maps
are our own: 128 bytes that say which entry of the launch's table is meant.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from snap.machine.lanes.numbers import bf16_bits as bits_of_bf16
from snap.machine.lanes.numbers import from_bf16_bits, loaded_as_tf32, round_bf16
from snap.ptx.errors import PtxFaultKind
from snap.ptx.instructions.matrices import swizzled
from snap.ptx.machine.memory import BLOCK_BITS, Fault
from snap.ptx.program.resolve import Address, Instruction, Operand, Sink, listed
from snap.ptx.text.types import BITS

if TYPE_CHECKING:
    from snap.ptx.machine.threads import Lanes, Machine, Step

COUNT_BITS = 20  # of a state that `arrive` gives: the pending arrivals; above them the phase
MAGIC = 0x70616D2D70616E73  # "snap-map"


@dataclass(slots=True)
class TensorMap:
    """As cuTensorMapEncodeTiled is told, innermost dimension first; width: bytes of an element; kind: 'tf32', or as
    what a reduction adds.
    """

    address: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    width: int
    kind: str


def handle(number: int) -> bytes:
    """The 128 bytes that stand for a map."""
    return struct.pack("<QQ112x", MAGIC, number)


@dataclass(slots=True)
class Mbarrier:
    count: int
    pending: int
    bytes: int = 0
    phase: int = 0

    def settle(self) -> None:
        if self.pending == 0 and self.bytes == 0:
            self.phase += 1
            self.pending = self.count


# ---- mbarriers ------------------------------------------------------------------------------------------------------


def _where(m: Machine, address: np.ndarray, lanes: Lanes) -> list[tuple[int, int]]:
    """(block, byte) of each lane's shared address, generic ones included."""
    at = address & np.uint64((1 << 40) - 1)
    block = lanes // m.width
    rank = (at >> np.uint64(BLOCK_BITS)).astype(np.int64)
    there = np.where(rank == 0, block, block // m.shape.cluster * m.shape.cluster + rank - 1)
    inside = at & np.uint64((1 << BLOCK_BITS) - 1)
    return list(zip(there.tolist(), inside.astype(np.int64).tolist()))


def place(m: Machine, one: Instruction, lanes: Lanes) -> list[tuple[int, int]]:
    """(block, byte) of the mbarrier that each lane's instruction names."""
    space = "shared" if {"shared", "shared::cta", "shared::cluster"} & set(one.parts) else ""
    address = next(o for o in one.operands if isinstance(o, Address))
    return _where(m, m.addresses(address, one.function, space)(lanes), lanes)


def _found(m: Machine, key: tuple[int, int], lane: int) -> Mbarrier:
    found = m.mbarriers.get(key)
    if found is None:
        raise Fault(
            PtxFaultKind.OUT_OF_BOUNDS,
            f"no mbarrier was initialised at byte {key[1]} of shared memory of block {key[0]}",
            lane,
        )
    return found


def _arrive(m: Machine, one: Instruction, action: str, at, amount) -> Step:
    """Arrivals, and bytes that are expected or have come; a result is the state before: phase and pending arrivals."""
    words = set(one.parts[2:])
    expects = "expect_tx" in words or action == "expect_tx"
    first = one.operands[0]
    give = None if isinstance(first, (Address, Sink)) else m.writer(first, one.function)

    def arrive(lanes: Lanes) -> None:
        states = np.zeros(len(lanes), np.uint64)
        for k, (key, n) in enumerate(zip(_where(m, at(lanes), lanes), amount(lanes))):
            barrier = _found(m, key, k)
            states[k] = barrier.phase << COUNT_BITS | barrier.pending
            if action == "complete_tx":
                barrier.bytes -= n
            elif expects:
                barrier.bytes += n
            if action in ("arrive", "arrive_drop"):
                arriving = 1 if expects else n
                if arriving > barrier.pending:
                    raise Fault(
                        PtxFaultKind.BARRIER_MISMATCH, f"more arrivals than the {barrier.count} of this phase", k
                    )
                barrier.pending -= arriving
                barrier.count -= arriving if action == "arrive_drop" else 0
                if "noComplete" in words and barrier.pending == 0 and barrier.bytes == 0:
                    raise Fault(PtxFaultKind.BARRIER_MISMATCH, f"{one.name} would end the phase", k)
            m.tell("counted", key, barrier, int(lanes[k]))
            barrier.settle()
        if give is not None:
            give(lanes, states)

    return arrive


def mbarrier(m: Machine, one: Instruction, pc: int) -> Step | None:
    if one.parts[:2] == ("mbarrier", "pending_count"):
        read, write = m.reader(one.operands[1], "u64", one.function), m.writer(one.operands[0], one.function)
        return lambda lanes: write(lanes, (read(lanes) & np.uint64((1 << COUNT_BITS) - 1)).astype(np.uint32))
    if one.parts[:2] == ("cp", "async") and "noinc" not in one.parts:  # counted up, and down: the copies are over
        return lambda lanes: None
    action = "arrive" if one.parts[0] == "cp" else one.parts[1]
    words = set(one.parts[2:])
    space = "" if not words & {"shared", "shared::cta", "shared::cluster"} else "shared"
    address = next((o for o in one.operands if isinstance(o, Address)), None)
    if address is None:
        return None
    at = m.addresses(address, one.function, space)
    rest = one.operands[one.operands.index(address) + 1 :]
    numbers = [m.reader(o, "u32", one.function) for o in rest[:1]]
    amount = lambda lanes: np.broadcast_to(numbers[0](lanes), lanes.shape).tolist() if numbers else [1] * len(lanes)  # noqa: E731

    if action == "init":

        def init(lanes: Lanes) -> None:
            m.liveness.stir()
            for key, n in zip(_where(m, at(lanes), lanes), amount(lanes)):
                m.mbarriers[key] = Mbarrier(n, n)

        return init
    if action == "inval":

        def inval(lanes: Lanes) -> None:
            m.liveness.stir()
            for key in _where(m, at(lanes), lanes):
                m.mbarriers.pop(key, None)

        return inval
    if action in ("arrive", "expect_tx", "complete_tx", "arrive_drop"):
        return _arrive(m, one, action, at, amount)
    if action in ("try_wait", "test_wait"):
        write = m.writer(one.operands[0], one.function)
        parity = "parity" in words
        said = m.reader(rest[0], "u32" if parity else "u64", one.function)

        def wait(lanes: Lanes) -> None:
            """By parity: the phase before, or the one now; by a state: the phase in which it was taken."""
            phases = np.broadcast_to(said(lanes), lanes.shape).tolist()
            keys = _where(m, at(lanes), lanes)
            now = [_found(m, key, k).phase for k, key in enumerate(keys)]
            over = [n & 1 != p & 1 if parity else n != p >> COUNT_BITS for n, p in zip(now, phases)]
            write(lanes, np.array(over))
            m.awaited |= {lane: (key, pc) for lane, key, done in zip(lanes.tolist(), keys, over) if not done}
            for key, lane in [(key, lane) for key, lane, done in zip(keys, lanes.tolist(), over) if done]:
                m.tell("passed", key, m.mbarriers[key], lane)

        return wait
    return None


# ---- boxes ----------------------------------------------------------------------------------------------------------


def bulk(m: Machine, one: Instruction, pc: int) -> Step | None:
    words = one.parts
    if "commit_group" in words or "wait_group" in words:
        return lambda lanes: None
    if "tensor" not in words:
        from snap.ptx.instructions import bulks

        return bulks.copy(m, one, pc)
    if any(w.startswith(("im2col", "tile::", "cta_group")) for w in words):
        return None
    if "prefetch" in words:
        return lambda lanes: None
    reduces = words[:2] == ("cp", "reduce")
    if "mbarrier::complete_tx::bytes" in words:
        return _load_boxes(m, one)
    op = next((w for w in words if w in ("add", "min", "max", "and", "or", "xor")), None) if reduces else None
    return _store_boxes(m, one, op)


def _map_of(m: Machine, o: Operand, one: Instruction):
    """A function of lanes: the map and the coordinates of each, innermost first."""
    if not isinstance(o, Address) or not o.more:
        raise Fault(PtxFaultKind.UNKNOWN, f"{one.name} without coordinates", 0)
    base = m.addresses(Address(o.base, o.offset), one.function, "")
    coordinates = [m.reader(c, "s32", one.function) for c in listed(o.more[0])]

    def found(lanes: Lanes) -> list[tuple[TensorMap, list[int]]]:
        from snap.ptx.instructions.accesses import loaded

        at = base(lanes)
        magic, number = (loaded(m, "", at + np.uint64(8 * k), lanes, 8) for k in range(2))
        if (magic != np.uint64(MAGIC)).any():
            raise Fault(
                PtxFaultKind.OUT_OF_BOUNDS, "no tensor map lies there", int(np.argmax(magic != np.uint64(MAGIC)))
            )
        where = [np.broadcast_to(c(lanes), lanes.shape).tolist() for c in coordinates]
        return [(m.maps[int(n)], [c[k] for c in where]) for k, n in enumerate(number)]

    return found


def _box(t: TensorMap, start: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each element of a box, in the order it lies in shared memory: its address, whether it is inside, its byte."""
    grids = np.meshgrid(*(np.arange(n) for n in reversed(t.box)), indexing="ij")
    index = [g.reshape(-1) + s for g, s in zip(reversed(grids), start)]
    inside = np.ones(index[0].shape, bool)
    address = np.full(index[0].shape, t.address, np.int64)
    for i, extent, stride in zip(index, t.extents, (t.width, *t.strides)):
        inside &= (i >= 0) & (i < extent)
        address += i * stride
    return address, inside, np.arange(len(address)) * t.width


def _load_boxes(m: Machine, one: Instruction) -> Step:
    target, source, barrier, *more = one.operands
    to, at = m.addresses(target, one.function, "shared"), m.addresses(barrier, one.function, "shared")
    maps = _map_of(m, source, one)
    masks = m.reader(more[0], "u16", one.function) if "multicast::cluster" in one.parts else None

    def step(lanes: Lanes) -> None:
        chosen = None if masks is None else np.broadcast_to(masks(lanes), lanes.shape).tolist()
        there, counted = _where(m, to(lanes), lanes), _where(m, at(lanes), lanes)
        for k, (t, start) in enumerate(maps(lanes)):
            m.acts_for(lanes[k])
            address, inside, byte = _box(t, start)
            bits = np.zeros(len(address), BITS[t.width])
            lane = np.full(int(inside.sum()), lanes[k])
            bits[inside] = m.memory.read("global", address[inside].astype(np.uint64), lane, t.width)
            if t.kind == "tf32":
                bits = loaded_as_tf32(bits.view(np.float32)).view(np.uint32)
            first = there[k][0] // m.shape.cluster * m.shape.cluster
            blocks = (
                [there[k][0]] if chosen is None else [first + b for b in range(m.shape.cluster) if chosen[k] >> b & 1]
            )
            for block in blocks:
                where = swizzled((there[k][1] + byte).astype(np.uint64), t.swizzle)
                m.memory.write("shared", where, np.full(len(where), block * m.width), bits)
                full = _found(m, (counted[k][0] if chosen is None else block, counted[k][1]), k)
                full.bytes -= len(byte) * t.width
                m.tell("counted", (counted[k][0] if chosen is None else block, counted[k][1]), full, None)
                full.settle()

    return step


def _store_boxes(m: Machine, one: Instruction, op: str | None) -> Step:
    target, source = one.operands[:2]
    at = m.addresses(source, one.function, "shared")
    maps = _map_of(m, target, one)

    def step(lanes: Lanes) -> None:
        here = _where(m, at(lanes), lanes)
        for k, (t, start) in enumerate(maps(lanes)):
            m.acts_for(lanes[k])
            address, inside, byte = _box(t, start)
            where = swizzled((here[k][1] + byte).astype(np.uint64), t.swizzle)
            bits = m.memory.read("shared", where, np.full(len(where), here[k][0] * m.width), t.width)[inside]
            to, lane = address[inside].astype(np.uint64), np.full(int(inside.sum()), lanes[k])
            if op is not None:
                bits = _combined(m.memory.read("global", to, lane, t.width), bits, op, t.kind)
            m.memory.write("global", to, lane, bits)

    return step


REDUCTIONS: dict[str, Callable] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def _combined(old: np.ndarray, new: np.ndarray, op: str, kind: str) -> np.ndarray:
    function = REDUCTIONS[op]
    with np.errstate(all="ignore"):
        if kind == "bf16":
            return bits_of_bf16(round_bf16(function(from_bf16_bits(old), from_bf16_bits(new))))
        return function(old.view(kind), new.view(kind)).view(old.dtype)
