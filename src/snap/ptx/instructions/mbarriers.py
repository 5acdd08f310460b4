"""Execute mbarrier instructions.

An mbarrier counts arrivals and bytes that are still to come; when both are none its phase ends, and the next begins
(PTX ISA, "mbarrier").

Input: a machine and an instruction.  Output: a function of the lanes that execute it.  Non-goals: the copies that
arrive at mbarriers (bulks.py, transfers.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from snap.ptx.errors import PtxFaultKind
from snap.ptx.machine.lanes import Lanes, Step
from snap.ptx.machine.memory import BLOCK_BITS, Fault
from snap.ptx.program.resolve import Address, Instruction, Sink

if TYPE_CHECKING:
    from snap.ptx.machine.threads import Machine

COUNT_BITS = 20  # of a state that `arrive` gives: the pending arrivals; above them the phase


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


def keys(m: Machine, address: np.ndarray, lanes: Lanes) -> list[tuple[int, int]]:
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
    return keys(m, m.addresses(address, one.function, space)(lanes), lanes)


def barrier_at(m: Machine, key: tuple[int, int], lane: int) -> Mbarrier:
    barrier = m.mbarriers.get(key)
    if barrier is None:
        raise Fault(
            PtxFaultKind.OUT_OF_BOUNDS,
            f"no mbarrier was initialized at byte {key[1]} of shared memory of block {key[0]}",
            lane,
        )
    return barrier


def _arrive(m: Machine, one: Instruction, action: str, at, amount) -> Step:
    """Arrivals, and bytes that are expected or have come; a result is the state before: phase and pending arrivals."""
    words = set(one.parts[2:])
    expects = "expect_tx" in words or action == "expect_tx"
    first = one.operands[0]
    give = None if isinstance(first, (Address, Sink)) else m.writer(first, one.function)

    def arrive(lanes: Lanes) -> None:
        states = np.zeros(len(lanes), np.uint64)
        for k, (key, n) in enumerate(zip(keys(m, at(lanes), lanes), amount(lanes))):
            barrier = barrier_at(m, key, k)
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
            for key, n in zip(keys(m, at(lanes), lanes), amount(lanes)):
                m.mbarriers[key] = Mbarrier(n, n)

        return init
    if action == "inval":

        def inval(lanes: Lanes) -> None:
            m.liveness.stir()
            for key in keys(m, at(lanes), lanes):
                m.mbarriers.pop(key, None)

        return inval
    if action in ("arrive", "expect_tx", "complete_tx", "arrive_drop"):
        return _arrive(m, one, action, at, amount)
    if action in ("try_wait", "test_wait"):
        write = m.writer(one.operands[0], one.function)
        parity = "parity" in words
        said = m.reader(rest[0], "u32" if parity else "u64", one.function)

        def wait(lanes: Lanes) -> None:
            """Test a phase: by parity, the one before or the one now; by a state, the phase in which it was taken."""
            phases = np.broadcast_to(said(lanes), lanes.shape).tolist()
            named = keys(m, at(lanes), lanes)
            now = [barrier_at(m, key, k).phase for k, key in enumerate(named)]
            over = [n & 1 != p & 1 if parity else n != p >> COUNT_BITS for n, p in zip(now, phases)]
            write(lanes, np.array(over))
            m.awaited |= {lane: (key, pc) for lane, key, done in zip(lanes.tolist(), named, over) if not done}
            for key, lane in [(key, lane) for key, lane, done in zip(named, lanes.tolist(), over) if done]:
                m.tell("passed", key, m.mbarriers[key], lane)

        return wait
    return None
