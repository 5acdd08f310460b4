"""Tensor cores: `ldmatrix`, `stmatrix`, `mma.sync`, `wgmma`.

Layouts as the PTX ISA draws them ("Matrix Fragments for mma", "Register Fragments and Shared Memory Matrix Layouts").
How products are added is in sums.py; `wgmma` is done when it is issued, which is one of the orders that are allowed.
A warp's lane l has g = l / 4 and t = l % 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from snap.machine.lanes.numbers import BYTES, from_bf16_bits
from snap.ptx.errors import PtxFaultKind
from snap.ptx.instructions.collectives import together
from snap.ptx.instructions.rounding import one_nan
from snap.ptx.instructions.sums import added, rule
from snap.ptx.machine.lanes import WITH_WARP, Lanes, Step
from snap.ptx.machine.memory import WINDOW, WINDOW_BITS, Fault
from snap.ptx.program.resolve import Constant, Instruction, Operand, Several, listed
from snap.ptx.text.types import DTYPE

if TYPE_CHECKING:
    from snap.ptx.machine.threads import Machine

WARP, GROUP = 32, 128
FULL = np.array([0xFFFFFFFF], np.uint32)
_L = np.arange(WARP)
_G, _T = _L // 4, _L % 4


def whole(m: Machine, lanes: Lanes, size: int, one: Instruction) -> np.ndarray:
    """The lanes as rows of whole warps, or warpgroups."""
    if len(lanes) % size == 0:
        rows = lanes.reshape(-1, size)
        if (rows[:, 0] % size == 0).all() and (rows[:, -1] - rows[:, 0] == size - 1).all():
            return rows
    raise Fault(PtxFaultKind.BARRIER_MISMATCH, f"not all of {size} threads execute {one.name} together", 0)


def _rows(m: Machine, o: Operand, one: Instruction, count: int):
    """Find where rows of matrices lie in shared memory, as the first 8 lanes of each matrix say. Without a space,
    addresses are generic.
    """
    generic = not {"shared", "shared::cta"} & set(one.parts)
    at, window = m.addresses(o, one.function, "" if generic else "shared"), np.uint64(WINDOW["shared"])

    def found(lanes: Lanes) -> np.ndarray:
        address = at(lanes).reshape(-1, WARP)[:, : 8 * count].reshape(-1)
        if not generic:
            return address
        away = address >> np.uint64(WINDOW_BITS) != window >> np.uint64(WINDOW_BITS)
        if away.any():
            raise Fault(PtxFaultKind.OUT_OF_BOUNDS, f"{one.name} of memory that is not shared", 0)
        return address - window

    return found


# ---- ldmatrix, stmatrix ---------------------------------------------------------------------------------------------


def _form(one: Instruction) -> tuple[int, bool] | None:
    words = one.parts[1:]
    count = next((int(w[1:]) for w in words if w in ("x1", "x2", "x4")), None)
    return (count, "trans" in words) if count and "m8n8" in words and words[-1] == "b16" else None


def load_matrix(m: Machine, one: Instruction, pc: int) -> Step | None:
    form = _form(one)
    if form is None:
        return None
    count, trans = form
    targets = listed(one.operands[0])
    writers = [m.writer(o, one.function) for o in targets]
    at = _rows(m, one.operands[1], one, count)

    def step(lanes: Lanes) -> None:
        lanes = together(m, lanes, FULL, pc)
        if not len(lanes):
            return
        warps = whole(m, lanes, WARP, one)
        rows = warps[:, : 8 * count].reshape(-1)
        address = at(lanes)
        words = [m.memory.read("shared", address + np.uint64(4 * k), rows, 4) for k in range(4)]
        halves = np.stack(words, axis=1).view(np.uint16).reshape(len(warps), count, 8, 8)
        for k, write in enumerate(writers):
            matrix = halves[:, k]
            low, high = (matrix[:, 2 * _T + j, _G] if trans else matrix[:, _G, 2 * _T + j] for j in range(2))
            write(lanes, (low.astype(np.uint32) | high.astype(np.uint32) << np.uint32(16)).reshape(-1))

    return step


def store_matrix(m: Machine, one: Instruction, pc: int) -> Step | None:
    form = _form(one)
    if form is None:
        return None
    count, trans = form
    sources = listed(one.operands[1])
    readers = [m.reader(o, "b32", one.function) for o in sources]
    at = _rows(m, one.operands[0], one, count)

    def step(lanes: Lanes) -> None:
        lanes = together(m, lanes, FULL, pc)
        if not len(lanes):
            return
        warps = whole(m, lanes, WARP, one)
        halves = np.zeros((len(warps), count, 8, 8), np.uint16)
        for k, read in enumerate(readers):
            word = np.broadcast_to(read(lanes), lanes.shape).reshape(-1, WARP)
            for j in range(2):
                part = (word >> np.uint32(16 * j)).astype(np.uint16)
                if trans:
                    halves[:, k, 2 * _T + j, _G] = part
                else:
                    halves[:, k, _G, 2 * _T + j] = part
        words = np.ascontiguousarray(halves).reshape(-1, 8).view(np.uint32)
        rows = warps[:, : 8 * count].reshape(-1)
        address = at(lanes)
        for k in range(4):
            m.memory.write("shared", address + np.uint64(4 * k), rows, np.ascontiguousarray(words[:, k]))

    return step


def transposed(m: Machine, one: Instruction, pc: int) -> Step | None:
    """`movmatrix`: a matrix that a warp holds, with rows and columns exchanged."""
    if one.parts[1:] != ("sync", "aligned", "m8n8", "trans", "b16"):
        return None
    read, write = m.reader(one.operands[1], "b32", one.function), m.writer(one.operands[0], one.function)

    def step(lanes: Lanes) -> None:
        lanes = together(m, lanes, FULL, pc)
        if not len(lanes):
            return
        warps = len(whole(m, lanes, WARP, one))
        halves = np.ascontiguousarray(np.broadcast_to(read(lanes), lanes.shape)).view(np.uint16).reshape(warps, 8, 8)
        turned = np.ascontiguousarray(halves.swapaxes(1, 2))
        write(lanes, turned.reshape(-1).view(np.uint32))

    return step


# ---- mma ------------------------------------------------------------------------------------------------------------

BITS_OF = {"bf16": 16, "f16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "f64": 64}
WIDTH = {type: bits // 8 for type, bits in BITS_OF.items() if bits >= 8}
EXACT = {"f16": np.float64, "f32": np.float64, "f64": np.float64, "s32": np.int64}  # what sums are taken in


def decoded(bits: np.ndarray, type: str) -> np.ndarray:
    """Elements as they lie in memory -> f64, or whole numbers."""
    match type:
        case "bf16":
            return from_bf16_bits(bits.view(np.uint16)).astype(np.float64)
        case "f16":
            return bits.view(np.float16).astype(np.float64)
        case "tf32":
            return (bits.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
        case "e4m3" | "e5m2":
            return BYTES[type][bits.view(np.uint8)].astype(np.float64)
        case "f64":
            return bits.view(np.float64)
        case "s8" | "u8":
            return bits.view(np.int8 if type == "s8" else np.uint8).astype(np.int64)
    raise Fault(PtxFaultKind.UNKNOWN, f"tensor cores that multiply {type}", 0)


def _fragment(words: list[np.ndarray], type: str, warps: int) -> np.ndarray:
    """(warps, lanes, elements): those that each lane's registers hold, lowest first."""
    stacked = np.ascontiguousarray(np.stack([w.reshape(warps, WARP) for w in words], axis=2))
    if BITS_OF[type] >= 8:
        return decoded(stacked.view(f"u{WIDTH[type]}"), type)
    nibbles = stacked[..., None] >> np.arange(0, 32, 4, dtype=np.uint32) & np.uint32(15)
    flat = nibbles.reshape(warps, WARP, -1).astype(np.int64)
    return flat - (flat >> 3 << 4) if type == "s4" else flat


def placed(parts: np.ndarray, per: int, rows: int, inner: int) -> np.ndarray:
    """(warps, rows, inner) of what lanes hold of A: two registers side by side are eight rows apart."""
    out = np.zeros((len(parts), rows, inner), parts.dtype)
    high = rows // 8
    for e in range(parts.shape[2]):
        register, part = divmod(e, per)
        out[:, _G + 8 * (register % high), _T * per + part + 4 * per * (register // high)] = parts[:, :, e]
    return out


def _mma_types(words: tuple[str, ...]) -> tuple[int, int, tuple[str, str, str], bool] | None:
    """Rows, depth, the types of the sums, A and B, and whether sums saturate."""
    saturated = "satfinite" in words
    words = tuple(w for w in words if w not in ("satfinite", "kind::f8f6f4"))
    if len(words) != 9 or words[:2] != ("sync", "aligned") or words[3:5] != ("row", "col"):
        return None
    d, a, b, c = words[5:]
    rows, rest = words[2][1:].split("n")
    if d != c or d not in EXACT or a not in BITS_OF or b not in BITS_OF or BITS_OF[a] != BITS_OF[b]:
        return None
    return int(rows), int(rest.partition("k")[2]), (d, a, b), saturated


class Sums:
    """Describe what a lane holds of the sums: one element per register, or two of f16."""

    def __init__(self, m: Machine, registers: tuple[Operand, ...], type: str, function: int, target: bool):
        self.type, self.per = type, 2 if type == "f16" else 1
        self.count = self.per * len(registers)
        word = "b32" if type == "f16" else type
        self.ways = [m.writer(o, function) if target else m.reader(o, word, function) for o in registers]

    def read(self, lanes: Lanes) -> list[np.ndarray]:
        words = [np.broadcast_to(way(lanes), lanes.shape) for way in self.ways]  # type: ignore[call-arg]
        if self.per == 1:
            return [w.astype(EXACT[self.type]) for w in words]
        halves = [np.ascontiguousarray(w).view(np.float16).reshape(-1, 2) for w in words]
        return [h[:, k].astype(np.float64) for h in halves for k in range(2)]

    def write(self, lanes: Lanes, values: list[np.ndarray], saturated: bool) -> None:
        if self.type == "s32" and saturated:
            values = [np.clip(v, -(1 << 31), (1 << 31) - 1) for v in values]
        made = [one_nan(v.reshape(-1).astype(DTYPE[self.type])) for v in values]
        for k, way in enumerate(self.ways):
            pair = made[self.per * k : self.per * (k + 1)]
            way(lanes, pair[0] if self.per == 1 else np.stack(pair, axis=1).view(np.uint32).reshape(-1))  # type: ignore[call-arg]


def mma(m: Machine, one: Instruction, pc: int) -> Step | None:
    found = _mma_types(one.parts[1:])
    if found is None:
        return None
    rows, inner, (sum_type, a, b), saturated = found
    size = max(BITS_OF[a], 32)
    per = size // BITS_OF[a]  # elements of a register
    many_a, many_b, many_c = rows * inner // (WARP * per), 8 * inner // (WARP * per), rows * 8 // WARP
    operands = [listed(o) for o in one.operands]
    many_c //= 2 if sum_type == "f16" else 1
    if [len(o) for o in operands] != [many_c, many_a, many_b, many_c]:
        return None
    read_a, read_b = ([m.reader(o, f"b{size}", one.function) for o in items] for items in operands[1:3])
    before = Sums(m, operands[3], sum_type, one.function, False)
    after = Sums(m, operands[0], sum_type, one.function, True)
    exact, how = EXACT[sum_type], rule(a, b, False)

    @np.errstate(all="ignore")
    def step(lanes: Lanes) -> None:
        lanes = together(m, lanes, FULL, pc)
        if not len(lanes):
            return
        warps = len(whole(m, lanes, WARP, one))
        everyone = lambda reads: [np.broadcast_to(r(lanes), lanes.shape) for r in reads]  # noqa: E731
        first = placed(_fragment(everyone(read_a), a, warps), per, rows, inner).astype(exact)
        right = _fragment(everyone(read_b), b, warps)
        second = np.zeros((warps, inner, 8), exact)
        for e in range(many_b * per):
            register, part = divmod(e, per)
            second[:, _T * per + part + 4 * per * register, _G] = right[:, :, e]
        places = [(slice(None), _G + 8 * (k // 2), 2 * _T + k % 2) for k in range(before.count)]
        start = np.zeros((warps, rows, 8), exact)
        for place, x in zip(places, before.read(lanes)):
            start[place] = x.reshape(warps, WARP)
        total = added(first, second, start, sum_type, how)
        after.write(lanes, [total[place] for place in places], saturated)

    return step


# ---- wgmma ----------------------------------------------------------------------------------------------------------

SWIZZLES = {0: 0, 1: 128, 2: 64, 3: 32}


def swizzled(address: np.ndarray, width: int) -> np.ndarray:
    """Compute where a byte goes: 16-byte pieces of a row are exchanged by the row's number."""
    if not width:
        return address
    pieces = np.uint64(width // 16 - 1)
    return address ^ ((address >> np.uint64(7) & pieces) << np.uint64(4))


def _tile(
    m: Machine, descriptor: np.ndarray, lane: np.ndarray, rows: int, inner: int, type: str, trans: bool
) -> np.ndarray:
    """(groups, rows, inner): what a descriptor names; PTX ISA, "Matrix Descriptor Format"."""
    width = WIDTH[type]
    field = lambda low: (descriptor >> np.uint64(low) & np.uint64(0x3FFF)) << np.uint64(4)  # noqa: E731
    start, leading, stride = field(0), field(16), field(32)
    modes = np.unique(descriptor >> np.uint64(62))
    if len(modes) > 1:
        raise Fault(PtxFaultKind.UNKNOWN, "one wgmma with several swizzles", 0)
    swizzle = SWIZZLES[int(modes[0])]
    r, k = np.meshgrid(np.arange(rows), np.arange(inner), indexing="ij")
    if trans:  # rows lie side by side, k goes down
        run = (swizzle or 16) // width
        inside = (k % 8) * (swizzle or 16) + r % run * width
        by_leading, by_stride = r // run, k // 8
    else:
        byte = k * width
        row = swizzle or 16
        inside = (r % 8) * row + (byte if swizzle else byte % 16)
        by_leading, by_stride = (np.zeros_like(r) if swizzle else byte // 16), r // 8
    flat = lambda x: x.reshape(1, -1).astype(np.uint64)  # noqa: E731
    address = start[:, None] + flat(inside) + leading[:, None] * flat(by_leading) + stride[:, None] * flat(by_stride)
    address = swizzled(address, swizzle)
    lanes = np.repeat(lane, rows * inner)
    bits = m.memory.read("shared", address.reshape(-1), lanes, width)
    return decoded(bits, type).reshape(len(descriptor), rows, inner)


# The four warps multiply together: who knows that a product has ended knows that all of them have come to it, and
# releases the tiles for all of them.
def _all_warps(m: Machine, lanes: Lanes, pc: int) -> Lanes:
    """Return the lanes of warpgroups of which all warps have come; the others wait."""

    group = lanes // GROUP
    come = np.bincount(group, minlength=len(m.lane) // GROUP + 1)[group] == GROUP
    early = lanes[~come]
    m.pc[early] = pc
    m.state[early] = WITH_WARP
    return lanes[come]


def _multiplied(sums: str, a: str, b: str) -> bool:
    """List the types that wgmma takes together."""
    if sums == "s32":
        return a in ("s8", "u8") and b in ("s8", "u8")
    small = a in ("e4m3", "e5m2") and b in ("e4m3", "e5m2")
    return sums in ("f32", "f16") and (small or a == b == "f16" or sums == "f32" and a == b and a in ("bf16", "tf32"))


def wgmma(m: Machine, one: Instruction, pc: int) -> Step | None:
    words = one.parts[1:]
    if words[0] in ("fence", "commit_group", "wait_group"):
        return lambda lanes: None
    saturated = words[-1] == "satfinite"
    words = words[:-1] if saturated else words
    if words[:3] != ("mma_async", "sync", "aligned") or len(words) != 7 or not _multiplied(*words[4:]):
        return None
    sum_type, type, second = words[4:]
    rows, columns, inner = 64, int(words[3].split("n")[1].split("k")[0]), int(words[3].split("k")[1])
    accumulators = listed(one.operands[0])
    from_registers = isinstance(one.operands[1], Several)
    keep = m.reader(one.operands[3], "pred", one.function)
    flags = [o.value for o in one.operands[4:] if isinstance(o, Constant)]
    signs, flips = flags[:2], flags[2:]
    if len(flags) != len(one.operands) - 4 or any(s not in (1, -1) for s in signs):
        return None
    flip_a, flip_b = (False, flips[0] if flips else 0) if from_registers else (flips or [0, 0])[:2]
    signs = signs or [1, 1]
    old, new = (Sums(m, accumulators, sum_type, one.function, target) for target in (False, True))
    if old.count != columns // 2:
        return None
    read_b, how = m.reader(one.operands[2], "u64", one.function), rule(type, second, True)
    if from_registers:
        read_a = [m.reader(o, "b32", one.function) for o in listed(one.operands[1])]
    else:
        read_a = [m.reader(one.operands[1], "u64", one.function)]

    @np.errstate(all="ignore")
    def step(lanes: Lanes) -> None:
        lanes = _all_warps(m, together(m, lanes, FULL, pc), pc)
        if not len(lanes):
            return
        groups = whole(m, lanes, GROUP, one)
        first = groups[:, 0]
        of_first = lambda r: np.broadcast_to(r(lanes), lanes.shape).reshape(-1, GROUP)[:, 0]  # noqa: E731
        if from_registers:
            warps = len(lanes) // WARP
            parts = _fragment([np.broadcast_to(r(lanes), lanes.shape) for r in read_a], type, warps)
            a = placed(parts, 4 // WIDTH[type], 16, inner)
            a = a.reshape(len(groups), rows, inner)
        else:
            a = _tile(m, of_first(read_a[0]), first, rows, inner, type, bool(flip_a))
        b = _tile(m, of_first(read_b), first, columns, inner, second, bool(flip_b))
        thread = np.arange(GROUP)
        row, column = thread // WARP * 16 + thread % WARP // 4, 2 * (thread % 4)
        going_on = np.broadcast_to(keep(lanes), lanes.shape).reshape(-1, GROUP)
        places = [(slice(None), row + 8 * (k // 2 % 2), column + 8 * (k // 4) + k % 2) for k in range(old.count)]
        start = np.zeros((len(groups), rows, columns), EXACT[sum_type])
        for place, x in zip(places, old.read(lanes)):
            start[place] = np.where(going_on, x.reshape(-1, GROUP), x.dtype.type(0))
        total = added(signs[0] * a, signs[1] * b.swapaxes(1, 2), start, sum_type, how)
        new.write(lanes, [total[place] for place in places], saturated)

    return step
