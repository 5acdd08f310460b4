"""Loads, stores, atomics, copies of elements, and addresses.

Orders and caches have no effect: there is one memory, and everybody sees it.  Copies are done when they are issued.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from snap.ptx.errors import PtxFaultKind
from snap.ptx.instructions import bulks, mbarriers, transfers
from snap.ptx.instructions.elements import combining, loaded, stored
from snap.ptx.machine.lanes import Lanes, Step
from snap.ptx.machine.memory import BLOCK_BITS, WINDOW, WINDOW_BITS, Fault
from snap.ptx.program.resolve import Address, Constant, Instruction, Operand, Place, Register, Sink, listed
from snap.ptx.text.types import BITS, DTYPE
from snap.record import record

if TYPE_CHECKING:
    from snap.ptx.machine.threads import Machine

SPACES = (
    "global",
    "shared",
    "shared::cta",
    "shared::cluster",
    "local",
    "const",
    "param",
    "param::entry",
    "param::func",
)
VECTORS = {"v2": 2, "v4": 4, "v8": 8}
# What says how an access is ordered or cached: one memory that everybody sees has no use for it.
ORDERS = ("weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "cta", "cluster", "gpu", "sys", "nc", "mmio")
CACHES = ("ca", "cg", "cs", "lu", "cv", "wb", "wt", "unified")


# ---- addresses ------------------------------------------------------------------------------------------------------


def convert_address(m: Machine, one: Instruction, pc: int) -> Step | None:
    words = one.parts[1:]
    to_space = words[0] == "to"
    space = next((w for w in words if w in SPACES), None)
    if space is None:
        return None
    window = np.uint64(WINDOW.get(space.partition("::")[0], 0))
    type = words[-1]
    read, write = m.reader(one.operands[1], type, one.function), m.writer(one.operands[0], one.function)

    def step(lanes: Lanes) -> None:
        at = np.broadcast_to(read(lanes), lanes.shape)
        write(lanes, at - window if to_space else at + window)

    return step


def map_address(m: Machine, one: Instruction, pc: int) -> Step | None:
    """The address of the same byte in another block of the cluster."""
    generic = "shared::cluster" not in one.parts
    type = one.parts[-1]
    read, rank = m.reader(one.operands[1], type, one.function), m.reader(one.operands[2], "u32", one.function)
    write = m.writer(one.operands[0], one.function)
    inside = (1 << BLOCK_BITS) - 1

    def step(lanes: Lanes) -> None:
        at = np.broadcast_to(read(lanes), lanes.shape)
        kind = at.dtype.type
        base = kind(WINDOW["shared"]) if generic and at.dtype.itemsize == 8 else kind(0)
        block = np.broadcast_to(rank(lanes), lanes.shape)
        if (block >= m.shape.cluster).any():
            raise Fault(
                PtxFaultKind.OUT_OF_BOUNDS,
                f"a cluster has {m.shape.cluster} blocks",
                int(np.argmax(block >= m.shape.cluster)),
            )
        write(lanes, base + (at & kind(inside)) + ((block + np.uint32(1)).astype(at.dtype) << kind(BLOCK_BITS)))

    return step


def inside_space(m: Machine, one: Instruction, pc: int) -> Step | None:
    """`isspacep`: whether a generic address lies in a space; constants lie in global memory here."""
    space = one.parts[-1]
    if space not in SPACES or len(one.operands) != 2:
        return None
    read, write = m.reader(one.operands[1], "u64", one.function), m.writer(one.operands[0], one.function)
    window = WINDOW.get(space.partition("::")[0], 0) >> WINDOW_BITS
    others = [np.uint64(w >> WINDOW_BITS) for w in WINDOW.values()]

    def step(lanes: Lanes) -> None:
        at = np.broadcast_to(read(lanes), lanes.shape)
        upper = at >> np.uint64(WINDOW_BITS)
        if space == "global":
            write(lanes, ~np.isin(upper, others))
        elif space == "shared::cta":
            rank = at >> np.uint64(BLOCK_BITS) & np.uint64((1 << WINDOW_BITS - BLOCK_BITS) - 1)
            own = (lanes // m.width % m.shape.cluster + 1).astype(np.uint64)
            write(lanes, (upper == np.uint64(window)) & ((rank == 0) | (rank == own)))
        else:
            write(lanes, (upper == np.uint64(window)) & (space != "const"))

    return step


def rank_of_address(m: Machine, one: Instruction, pc: int) -> Step | None:
    """`getctarank`: which block of the cluster a shared address lies in."""
    type = one.parts[-1]
    read, write = m.reader(one.operands[1], type, one.function), m.writer(one.operands[0], one.function)

    def step(lanes: Lanes) -> None:
        at = np.broadcast_to(read(lanes), lanes.shape).astype(np.uint64)
        rank = at >> np.uint64(BLOCK_BITS) & np.uint64((1 << WINDOW_BITS - BLOCK_BITS) - 1)
        own = lanes // m.width % m.shape.cluster
        write(lanes, np.where(rank == 0, own, rank.astype(np.int64) - 1).astype(np.uint32))

    return step


# ---- memory ---------------------------------------------------------------------------------------------------------


def form(words: tuple[str, ...]) -> tuple[str, int, str] | None:
    """Space ('' is generic), how many elements, of which type; None where a word is unknown."""
    space, count = "", 1
    for word in words[:-1]:
        if word in SPACES:
            space = "param" if word.startswith("param") else word
        elif word in VECTORS:
            count = VECTORS[word]
        elif word not in ORDERS and word not in CACHES and not word.startswith(("L1::", "L2::")):
            return None
    return (space, count, words[-1]) if words[-1] in DTYPE else None


def _local_param(o: Operand) -> bool:
    """Test whether a parameter is that of a call, which lies in the caller's frame."""
    return isinstance(o, Address) and isinstance(o.base, Place) and o.base.space in ("local", "frame")


def load(m: Machine, one: Instruction, pc: int) -> Step | None:
    found = form(one.parts[1:])
    if found is None:
        return None
    space, count, type = found
    target, source = one.operands[:2]  # behind them a cache policy may stand
    if space == "param" and _local_param(source):
        space = "local"
    width = DTYPE[type].itemsize
    at = m.addresses(source, one.function, space, width * count)
    targets = listed(target)
    writers = [m.writer(o, one.function) for o in targets]
    if len(writers) != count:
        return None

    def step(lanes: Lanes) -> None:
        address = at(lanes)
        aligned(address, width * count, one)
        for k, write in enumerate(writers):
            value = loaded(m, space, address + np.uint64(k * width), lanes, width)
            write(lanes, value.view(DTYPE[type]))

    return step


def store(m: Machine, one: Instruction, pc: int) -> Step | None:
    if "async" in one.parts:
        return bulks.store(m, one, pc)
    found = form(one.parts[1:])
    if found is None:
        return None
    space, count, type = found
    target, source = one.operands[:2]
    if space == "param" and _local_param(target):
        space = "local"
    width = DTYPE[type].itemsize
    at = m.addresses(target, one.function, space, width * count)
    sources = listed(source)
    readers = [m.reader(o, type, one.function) for o in sources]
    if len(readers) != count:
        return None

    def step(lanes: Lanes) -> None:
        address = at(lanes)
        aligned(address, width * count, one)
        for k, read in enumerate(readers):
            value = np.broadcast_to(read(lanes), lanes.shape).view(BITS[width])
            stored(m, space, address + np.uint64(k * width), lanes, value)

    return step


def aligned(address: np.ndarray, width: int, one: Instruction) -> None:
    if width > 1 and int(np.bitwise_or.reduce(address)) & (width - 1):
        lane = int(np.argmax(address % np.uint64(width) != 0))
        raise Fault(PtxFaultKind.MISALIGNED, f"{width} bytes at address {int(address[lane]):#x} by {one.name}", lane)


def copy(m: Machine, one: Instruction, pc: int) -> Step | None:
    """`cp.async` of elements: done at once, which is one of the orders that are allowed."""
    match one.parts[1:]:
        case ("async", "commit_group") | ("async", "wait_group") | ("async", "wait_all"):
            return lambda lanes: None
        case ("async", "ca" | "cg", "shared" | "shared::cta", "global", *more) if all(
            w.startswith("L2::") for w in more
        ):
            pass
        case ("async", "mbarrier", "arrive", *_):  # the copies before it are over
            return mbarriers.mbarrier(m, one, pc)
        case ("async" | "reduce", *_):
            return transfers.bulk(m, one, pc)
        case _:
            return None
    if not isinstance(one.operands[2], Constant):
        return None
    size = one.operands[2].value
    to = m.addresses(one.operands[0], one.function, "shared", size)
    source = m.addresses(one.operands[1], one.function, "global")
    rest = one.operands[3 : len(one.operands) - ("L2::cache_hint" in one.parts)]
    ignored = bool(rest) and isinstance(rest[0], Register) and rest[0].type == "pred"
    given = m.reader(rest[0], "pred" if ignored else "u32", one.function) if rest else None

    def step(lanes: Lanes) -> None:
        there, here = to(lanes), source(lanes)
        many = np.full(lanes.shape, size)
        if given is not None:  # so many bytes are copied, the rest are zeros; or none, if that is said
            said = np.broadcast_to(given(lanes), lanes.shape)
            many = np.where(said, 0, size) if ignored else np.minimum(said, size)
        for k in range(0, size, 4):
            part = np.zeros(lanes.shape, np.uint32)
            read = np.flatnonzero(many >= k + 4)
            if len(read):
                part[read] = m.memory.read("global", here[read] + np.uint64(k), lanes[read], 4)
            for byte in range(3):  # of a word that is not read as a whole
                read = np.flatnonzero((many > k + byte) & (many < k + 4))
                if len(read):
                    one_byte = m.memory.read("global", here[read] + np.uint64(k + byte), lanes[read], 1)
                    part[read] |= one_byte.astype(np.uint32) << np.uint32(8 * byte)
            m.memory.write("shared", there + np.uint64(k), lanes, part)

    return step


@record
class AtomicForm:
    """combine: None compares and puts.  count: how many elements, each with a target and the values it is given."""

    space: str
    combine: Callable | None
    type: str
    address: Operand
    targets: tuple[Operand, ...]
    values: tuple[Operand, ...]
    count: int


def atomic_form(one: Instruction) -> AtomicForm | None:
    words = tuple(w for w in one.parts[1:] if w not in ORDERS and w != "noftz" and not w.startswith("L2::"))
    space = words[0] if words[0] in SPACES else ""
    op, *vector, type = words[1:] if space else words
    combine = combining(op, type)
    if (combine is None and op != "cas") or any(w not in VECTORS for w in vector):
        return None
    targets, address, *values = one.operands if one.parts[0] == "atom" else (Sink(), *one.operands)
    count = len(listed(values[0]))
    results = listed(targets) if count > 1 and not isinstance(targets, Sink) else (targets,) * count
    return AtomicForm(space, combine, type, address, results, tuple(values), count)


def atomic(m: Machine, one: Instruction, pc: int) -> Step | None:
    """One lane after the other, where several meet; of vectors, each element by itself."""
    if "async" in one.parts:
        return bulks.store(m, one, pc)
    f = atomic_form(one)
    if f is None:
        return None
    at = m.addresses(f.address, one.function, f.space, DTYPE[f.type].itemsize * f.count)
    writers = [m.writer(o, one.function) for o in f.targets]
    readers = [[m.reader(listed(v)[k], f.type, one.function) for v in f.values] for k in range(f.count)]
    width = DTYPE[f.type].itemsize

    def step(lanes: Lanes) -> None:
        start = at(lanes)
        for k, (reads, write) in enumerate(zip(readers, writers)):
            given = [np.broadcast_to(r(lanes), lanes.shape) for r in reads]
            write(lanes, _one_by_one(m, f.space, start + np.uint64(k * width), lanes, f.type, f.combine, given))

    return step


def _one_by_one(
    m: Machine,
    space: str,
    address: np.ndarray,
    lanes: Lanes,
    type: str,
    combine: Callable | None,
    given: list[np.ndarray],
) -> np.ndarray:
    """Apply an atomic lane by lane, and return what each found. Without a way to combine, the first value is compared
    and the second is put.
    """
    before = np.empty(lanes.shape, DTYPE[type])
    left = np.arange(len(lanes))
    own = space in ("shared", "shared::cta")
    where = address + (lanes // m.width << 48).astype(np.uint64) if own else address
    with np.errstate(all="ignore"):
        while len(left):
            _, first = np.unique(where[left], return_index=True)
            now = left[first]
            old = loaded(m, space, address[now], lanes[now], DTYPE[type].itemsize).view(DTYPE[type])
            if combine is None:
                new = np.where(alike(old, given[0][now]), given[1][now], old)
            else:
                new = combine(old, given[0][now])
            stored(m, space, address[now], lanes[now], new.astype(DTYPE[type]).view(BITS[DTYPE[type].itemsize]))
            before[now] = old
            left = np.delete(left, first)
    return before


def alike(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Bit for bit."""
    whole = np.uint64 if a.dtype.itemsize == 16 else BITS[a.dtype.itemsize]
    same = np.ascontiguousarray(a).view(whole) == np.ascontiguousarray(b).view(whole)
    return same.reshape(len(a), -1).all(axis=1)


def policy(m: Machine, one: Instruction, pc: int) -> Step:
    """Accept a cache policy, which has no effect on what is read."""
    write = m.writer(one.operands[0], one.function)
    return lambda lanes: write(lanes, np.zeros(lanes.shape, np.uint64))
