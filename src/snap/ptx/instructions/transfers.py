"""Copy boxes by TMA, and arrive at the mbarriers that count their bytes.

Copies are done when they are issued, which is one of the orders that are allowed.  Tensor maps are our own: 128 bytes
that say which entry of the launch's table is meant.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from snap.machine.lanes.numbers import bf16_bits as bits_of_bf16
from snap.machine.lanes.numbers import from_bf16_bits, loaded_as_tf32, round_bf16
from snap.ptx.errors import PtxFaultKind
from snap.ptx.instructions import bulks
from snap.ptx.instructions.elements import REDUCTIONS, loaded
from snap.ptx.instructions.matrices import swizzled
from snap.ptx.instructions.mbarriers import barrier_at, keys
from snap.ptx.machine.lanes import Lanes, Step
from snap.ptx.machine.memory import Fault
from snap.ptx.program.resolve import Address, Instruction, Operand, listed
from snap.ptx.text.types import BITS

if TYPE_CHECKING:
    from snap.ptx.machine.threads import Machine

MAGIC = 0x70616D2D70616E73  # "snap-map"


@dataclass(slots=True)
class TensorMap:
    """Describe a tensor as cuTensorMapEncodeTiled is told, innermost dimension first; width: bytes per element; kind:
    'tf32', or the type that a reduction adds.
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


# ---- boxes ----------------------------------------------------------------------------------------------------------


def bulk(m: Machine, one: Instruction, pc: int) -> Step | None:
    words = one.parts
    if "commit_group" in words or "wait_group" in words:
        return lambda lanes: None
    if "tensor" not in words:
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
    """Compute, for each element of a box in the order of shared memory: its address, whether it is inside, its byte."""
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
        there, counted = keys(m, to(lanes), lanes), keys(m, at(lanes), lanes)
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
                full = barrier_at(m, (counted[k][0] if chosen is None else block, counted[k][1]), k)
                full.bytes -= len(byte) * t.width
                m.tell("counted", (counted[k][0] if chosen is None else block, counted[k][1]), full, None)
                full.settle()

    return step


def _store_boxes(m: Machine, one: Instruction, op: str | None) -> Step:
    target, source = one.operands[:2]
    at = m.addresses(source, one.function, "shared")
    maps = _map_of(m, target, one)

    def step(lanes: Lanes) -> None:
        here = keys(m, at(lanes), lanes)
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


def _combined(old: np.ndarray, new: np.ndarray, op: str, kind: str) -> np.ndarray:
    function = REDUCTIONS[op]
    with np.errstate(all="ignore"):
        if kind == "bf16":
            return bits_of_bf16(round_bf16(function(from_bf16_bits(old), from_bf16_bits(new))))
        return function(old.view(kind), new.view(kind)).view(old.dtype)
