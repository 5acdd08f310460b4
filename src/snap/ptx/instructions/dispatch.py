"""Choose what executes an instruction: registers, memory, control, and threads together.

Input: a machine and an instruction.  Output: a function of the lanes that execute it, made once.  What is not here, and
not in operations.py, is refused by name when it is reached.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from snap.ptx.errors import PtxFaultKind
from snap.ptx.instructions import accesses, calls, carries, collectives, control, matrices, mbarriers, wmma
from snap.ptx.instructions.comparisons import COMBINE, comparison, half, split
from snap.ptx.instructions.integers import by_table
from snap.ptx.instructions.operations import lookup
from snap.ptx.machine.lanes import Lanes, Step
from snap.ptx.machine.memory import Fault
from snap.ptx.program import refused
from snap.ptx.program.resolve import Instruction, Several, both, listed
from snap.ptx.text.types import BITS, DTYPE

if TYPE_CHECKING:
    from snap.ptx.machine.threads import Machine

# Orders, hints and reservations.
NOTHING = (
    "membar",
    "fence",
    "prefetch",
    "prefetchu",
    "setmaxnreg",
    "nanosleep",
    "griddepcontrol",
    "discard",
    "applypriority",
    "pmevent",
    "brkpt",
)


def made(m: Machine, one: Instruction, pc: int) -> Step:
    name = one.parts[0]
    if one.aligned and (name in ("setmaxnreg", "wgmma") and "mma_async" not in one.parts or "cluster" in one.parts):
        return _by_whole_warps(m, one, pc)
    if name in NOTHING:
        return lambda lanes: None
    special = carries.carried if "cc" in one.parts else _SPECIAL.get(name)
    found = None if special is None else special(m, one, pc)
    if found is None and special is None:
        found = _computed(m, one)
    if found is None:
        raise Fault(PtxFaultKind.UNKNOWN, f"the PTX machine has no instruction {one.name}{refused.why(one.parts)}", 0)
    return found


# Rule (PTX ISA, `.aligned`): all threads of a warp execute the same instruction.  Who comes early waits for those that
# have not left; of a cluster's barrier, nobody waits for those that have.
def _by_whole_warps(m: Machine, one: Instruction, pc: int) -> Step:
    act = _bar(m, one, pc) if "cluster" in one.parts else lambda lanes: None

    def step(lanes: Lanes) -> None:
        lanes = collectives.together(m, lanes, matrices.FULL, pc)
        if "cluster" not in one.parts and len(lanes):
            matrices.whole(m, lanes, matrices.WARP, one)
        if act is not None and len(lanes):
            act(lanes)

    return step


# ---- what only computes ---------------------------------------------------------------------------------------------


def _computed(m: Machine, one: Instruction) -> Step | None:
    operation = lookup(one.parts, len(one.operands) - 1)
    if operation is None or len(one.operands) != len(operation.operands) + 1:
        return None
    read = [m.reader(o, type, one.function) for o, type in zip(one.operands[1:], operation.operands)]
    write, compute = m.writer(one.operands[0], one.function), operation.compute

    def step(lanes: Lanes) -> None:
        write(lanes, compute(*(r(lanes) for r in read)))

    return step


def _mov(m: Machine, one: Instruction, pc: int) -> Step | None:
    """Also between a word and its parts."""
    target, source = one.operands
    type = one.parts[-1]
    if type == "b128" and (isinstance(target, Several) or isinstance(source, Several)):
        return _mov128(m, one)
    if isinstance(target, Several):
        width = DTYPE[type].itemsize // len(target.items)
        read = m.reader(source, f"b{8 * width * len(target.items)}", one.function)
        writers = [m.writer(o, one.function) for o in target.items]

        def apart(lanes: Lanes) -> None:
            word = np.array(np.broadcast_to(read(lanes), lanes.shape))  # one of the targets may be the source
            for k, write in enumerate(writers):
                part = word >> word.dtype.type(8 * width * k)
                write(lanes, part.astype(BITS[width]))

        return apart
    if isinstance(source, Several):
        width = DTYPE[type].itemsize // len(source.items)
        readers = [m.reader(o, f"b{8 * width}", one.function) for o in source.items]
        write = m.writer(target, one.function)
        into = BITS[width * len(source.items)]

        def together(lanes: Lanes) -> None:
            word = np.zeros(lanes.shape, into)
            for k, read in enumerate(readers):
                word |= read(lanes).astype(into) << into.type(8 * width * k)
            write(lanes, word)

        return together
    return _computed(m, one)


def _mov128(m: Machine, one: Instruction) -> Step:
    """Between 128 bits and two words of 64."""
    target, source = one.operands
    if isinstance(target, Several):
        read = m.reader(source, "b128", one.function)
        writers = [m.writer(o, one.function) for o in target.items]

        def apart(lanes: Lanes) -> None:
            words = np.ascontiguousarray(np.broadcast_to(read(lanes), lanes.shape)).view(np.uint64).reshape(-1, 2)
            for k, write in enumerate(writers):
                write(lanes, words[:, k].copy())

        return apart
    readers = [m.reader(o, "b64", one.function) for o in listed(source)]
    write = m.writer(target, one.function)

    def together(lanes: Lanes) -> None:
        words = np.stack([np.broadcast_to(r(lanes), lanes.shape) for r in readers], axis=1)
        write(lanes, np.ascontiguousarray(words).view(np.complex128).reshape(-1))

    return together


def _setp(m: Machine, one: Instruction, pc: int) -> Step | None:
    """`setp.lt.and.s32 %p|%q, a, b, c`: the comparison, and its opposite, each together with c; of two halves, the
    comparison of the lower and that of the upper ones.
    """
    type = one.parts[-1]
    form = split(one.parts[1:-1]) if len(one.parts) > 2 else None
    pair = {"f16x2": "f16", "bf16x2": "bf16"}.get(type)
    holds = None if form is None else comparison(form[0], pair or type, form[2])
    if holds is None or form is None or len(one.operands) != 3 + (form[1] is not None):
        return None
    a, b = (m.reader(o, type, one.function) for o in one.operands[1:3])
    third = m.reader(one.operands[3], "pred", one.function) if form[1] else None
    results = one.operands[0]
    writers = [m.writer(o, one.function) for o in both(results)]

    def step(lanes: Lanes) -> None:
        x, y = a(lanes), b(lanes)
        if pair:
            found = [holds(half(x, k, pair), half(y, k, pair)) for k in range(2)]
        else:
            plain = np.broadcast_to(holds(x, y), lanes.shape)
            found = [plain, ~plain]
        also = None if third is None else np.array(third(lanes))  # a result may be the third operand's register
        for value, write in zip(found, writers):
            write(lanes, value if form[1] is None else COMBINE[form[1]](value, also))

    return step


def _lop3(m: Machine, one: Instruction, pc: int) -> Step | None:
    """With a predicate: whether the result has any bit, together with another predicate."""
    if one.parts == ("lop3", "b32"):
        return _computed(m, one)
    if one.parts not in (("lop3", "or", "b32"), ("lop3", "and", "b32")) or len(one.operands) != 6:
        return None
    reads = [m.reader(o, "b32", one.function) for o in one.operands[1:5]]
    also = m.reader(one.operands[5], "pred", one.function)
    writers = [m.writer(o, one.function) for o in both(one.operands[0])]

    def step(lanes: Lanes) -> None:
        found = by_table(*(r(lanes) for r in reads))
        holds = COMBINE[one.parts[1]](found != 0, also(lanes))
        for value, write in zip((found, holds), writers):
            write(lanes, value)

    return step


# ---- barriers -------------------------------------------------------------------------------------------------------


def _bar(m: Machine, one: Instruction, pc: int) -> Step | None:
    words = tuple(w for w in one.parts[1:] if w not in ("cta", "aligned"))
    if words[:1] == ("warp",):
        return collectives.warp_barrier(m, one, pc)
    if words[:1] == ("cluster",):
        if words[1] == "arrive":
            return m.barriers.arrive_cluster
        return m.barriers.wait_cluster
    reads = [
        m.reader(o, "pred" if words[0] == "red" and k == len(one.operands) - 1 else "u32", one.function)
        for k, o in enumerate(one.operands)
        if not (words[0] == "red" and k == 0)
    ]
    match words[0]:
        case "sync" | "arrive":
            wait = words[0] == "sync"

            def step(lanes: Lanes) -> None:
                count = reads[1](lanes) if len(reads) > 1 else None
                m.barriers.arrive(lanes, reads[0](lanes), count, wait, pc)

            return step
        case "red":
            give = m.writer(one.operands[0], one.function)
            m.barriers.reductions[pc] = (words[1], give)

            def reduce(lanes: Lanes) -> None:
                m.barriers.said[lanes] = reads[-1](lanes)
                count = reads[1](lanes) if len(reads) > 2 else None
                m.barriers.arrive(lanes, reads[0](lanes), count, True, pc)

            return reduce
    return None


_SPECIAL = {
    "createpolicy": accesses.policy,
    "mov": _mov,
    "setp": _setp,
    "lop3": _lop3,
    "addc": carries.carried,
    "subc": carries.carried,
    "madc": carries.carried,
    "cvta": accesses.convert_address,
    "mapa": accesses.map_address,
    "isspacep": accesses.inside_space,
    "getctarank": accesses.rank_of_address,
    "ld": accesses.load,
    "ldu": accesses.load,
    "st": accesses.store,
    "atom": accesses.atomic,
    "red": accesses.atomic,
    "cp": accesses.copy,
    "bra": control.bra,
    "brx": control.brx,
    "exit": control.leave,
    "ret": calls.ret,
    "call": calls.call,
    "trap": control.trap,
    "bar": _bar,
    "barrier": _bar,
    "shfl": collectives.shuffle,
    "vote": collectives.vote,
    "match": collectives.match,
    "redux": collectives.reduce,
    "activemask": collectives.active,
    "elect": collectives.elect,
    "movmatrix": matrices.transposed,
    "ldmatrix": matrices.load_matrix,
    "stmatrix": matrices.store_matrix,
    "mma": matrices.mma,
    "wgmma": matrices.wgmma,
    "wmma": wmma.step,
    "mbarrier": mbarriers.mbarrier,
}
