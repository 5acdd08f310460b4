"""Why no thread can go on, and where everybody is.

Input: a machine that stands still, or was stopped.  Output: a `PtxFault` with the place of every group of threads that
waits.  A barrier to which too few can come is a *barrier mismatch*: the report says how many came, who left, and who
waits elsewhere; everything else is a *deadlock*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from snap.diag.error import Label
from snap.ptx.errors import PtxFault, PtxFaultKind, from_line
from snap.ptx.machine.lanes import AT_BARRIER, CLUSTER, EVERYONE, GONE, READY, WITH_WARP

if TYPE_CHECKING:
    from snap.ptx.machine.threads import Machine
    from snap.ptx.program.resolve import Instruction

MOST = 5  # places shown


@dataclass(slots=True)
class WaitingThreads:
    """Threads of one block that wait, or run, at one instruction.  number: of their barrier, or -1; awaits: block and
    byte of the mbarrier that they look at in a loop.
    """

    block: int
    one: Instruction
    state: int
    number: int
    threads: list[int]
    awaits: tuple[int, int] | None = None


def places(m: Machine, awaited: dict[int, tuple[tuple[int, int], int]] | None = None) -> list[WaitingThreads]:
    """List where each thread is that has not left, block after block. awaited: who looks at which mbarrier,
    and where.
    """

    found: dict[tuple[int, int, int, int, tuple[int, int] | None], WaitingThreads] = {}
    lanes = np.flatnonzero(m.state != GONE)
    for lane in lanes[: 64 * 1024].tolist():
        block, thread = m.where(lane)
        state = int(m.state[lane])
        waits = state == AT_BARRIER
        pc = max(int(m.pc[lane]) - waits, 0)  # who waits at a barrier goes on behind it
        number = int(m.barriers.waits_at[lane]) if waits else -1
        awaits, pc = awaited[lane] if awaited and state == READY and lane in awaited else (None, pc)
        key = (block, pc, state, number, awaits)
        if key not in found:
            found[key] = WaitingThreads(block, m.called(m.program.instructions[pc], lane), state, number, [], awaits)
        found[key].threads.append(thread)
    return list(found.values())


def ranges(threads: list[int]) -> str:
    """`threads 0-31, 40`."""
    parts: list[str] = []
    start = last = threads[0]
    for t in [*threads[1:], -2]:
        if t != last + 1:
            parts.append(str(start) if start == last else f"{start}-{last}")
            start = t
        last = t
    shown = ", ".join(parts[:4]) + (", ..." if len(parts) > 4 else "")
    return f"thread{'s' * (len(threads) > 1)} {shown}"


def _said(m: Machine, p: WaitingThreads) -> str:

    who = f"block {p.block}, {ranges(p.threads)}"
    plural = "" if len(p.threads) > 1 else "s"
    if p.state == AT_BARRIER and p.number == CLUSTER:
        return f"{who} wait{plural} for the blocks of the cluster"
    if p.state == AT_BARRIER:
        return f"{who} wait{plural} at barrier {p.number}"
    if p.state == WITH_WARP:
        return f"{who} wait{plural} for other threads of the warp"
    if p.awaits is not None:
        return f"{who} wait{plural} for {_mbarrier(m, p.block, p.awaits)}"
    return f"{who} run{plural} here" if p.state == READY else who


def stuck(m: Machine) -> PtxFault:
    """Nobody can go on."""
    everyone = places(m)
    first = everyone[0]
    kind, message, help = _why(m, first, [p for p in everyone if p.block == first.block])
    return _report(m, kind, message, first, everyone, help)


def _mbarrier(m: Machine, block: int, key: tuple[int, int]) -> str:
    """Name the mbarrier, and what its phase lacks."""
    where = f"the mbarrier at byte {key[1]} of shared memory" + (f" of block {key[0]}" if key[0] != block else "")
    b = m.mbarriers.get(key)
    if b is None:
        return where
    lacks = [f"lacks {b.pending} of {b.count} arrivals"] if b.pending else []
    lacks += [f"lacks {b.bytes} bytes"] if b.bytes > 0 else []
    lacks += [f"has got {-b.bytes} bytes more than it expects"] if b.bytes < 0 else []
    return f"{where}, whose phase {b.phase} {' and '.join(lacks)}"


def dead(m: Machine) -> PtxFault:
    """Everybody waits, some in loops in which nothing changes."""

    everyone = places(m, m.awaited)
    running = [p for p in everyone if p.state == READY]
    first = next((p for p in running if p.awaits is not None), running[0])
    waiting = sum(len(p.threads) for p in everyone)
    ways = "an mbarrier's phase ends when as many threads have arrived as `mbarrier.init` says, and all bytes have come"
    return _report(
        m,
        PtxFaultKind.DEADLOCK,
        f"{waiting} {'threads wait' if waiting > 1 else 'thread waits'}, and no thread can go on: memory does not"
        " change"
        " any more",
        first,
        [first, *(p for p in everyone if p is not first)],
        ways if first.awaits is not None else "let a thread that still runs write what the loop waits for",
    )


def waited(m: Machine, instructions: int) -> PtxFault:
    """A bound for waiting is reached: who looks at the clock, or counts, while nothing changes."""
    everyone = places(m, m.awaited)
    running = [p for p in everyone if p.state == 0]
    first = next((p for p in running if p.awaits is not None), running[0])
    waiting = sum(len(p.threads) for p in everyone)
    return _report(
        m,
        PtxFaultKind.TOO_LONG,
        f"{waiting} {'threads wait' if waiting > 1 else 'thread waits'}, and for {instructions:,} instructions nothing"
        " has changed but clocks and registers",
        first,
        [first, *(p for p in everyone if p is not first)],
        "let a thread that still runs write what the loop waits for; if the loop ends by itself, raise `limit=`,"
        " on the command line `--limit`",
    )


def too_long(m: Machine, message: str, option: str = "limit") -> PtxFault:
    """A limit, of instructions or of time, is reached: where the threads are then."""
    everyone = places(m)
    running = next((p for p in everyone if p.state == 0), everyone[0])
    here = [p for p in everyone if p is not running]
    return _report(
        m,
        PtxFaultKind.TOO_LONG,
        message,
        running,
        [running, *here],
        f"an endless loop, or a limit that is too small: raise it with `{option}=`, on the command line `--{option}`",
    )


def parted(m: Machine, lanes: np.ndarray) -> PtxFault:
    """Threads of a warp that execute different barrier instructions, or of which some do not come; lanes: who came."""

    at = m.barriers.since_pc
    block = m.where(lanes[0])[0]
    by_place: dict[int, list[int]] = {}
    for lane in lanes.tolist():
        by_place.setdefault(int(at[lane]), []).append(m.where(lane)[1])
    found = [
        WaitingThreads(block, m.program.instructions[pc], 1, int(m.barriers.waits_at[lanes[0]]), threads)
        for pc, threads in by_place.items()
    ]
    warp = np.arange(32) + lanes[0] // 32 * 32
    away = [m.where(k)[1] for k in warp.tolist() if m.state[k] != GONE and k not in lanes]
    where = f", and {ranges(away)} of it {'is' if len(away) == 1 else 'are'} elsewhere" if away else ""
    ways = "at different places" if len(found) > 1 else "without all of its threads"
    return _report(
        m,
        PtxFaultKind.BARRIER_MISMATCH,
        f"a warp comes to barrier {found[0].number} {ways}{where}: {found[0].one.name} is executed by whole warps",
        found[0],
        found,
        "move the barrier out of the branch, or use `barrier.sync` without `.aligned`",
    )


def _report(
    m: Machine, kind: PtxFaultKind, message: str, first: WaitingThreads, everyone: list[WaitingThreads], help: str
) -> PtxFault:
    others = list({p.one.span: Label(p.one.span, _said(m, p)) for p in reversed(everyone) if p is not first}.values())
    others = [label for label in reversed(others) if label.span != first.one.span]
    lines = [from_line(p.one, m.program.files) for p in everyone[: MOST + 1]]
    note = "; ".join(dict.fromkeys(line for line in lines if line))
    if len(others) > MOST:
        note += f"; and {len(others) - MOST} more places"
    return PtxFault(
        kind,
        message,
        first.one,
        m.program.files,
        first.block,
        first.threads[0],
        label=_said(m, first),
        secondary=tuple(others[:MOST]),
        note=note,
        help=help,
    )


def _why(m: Machine, first: WaitingThreads, block: list[WaitingThreads]) -> tuple[PtxFaultKind, str, str]:
    """Kind, message and a way out, from the threads of the first block that waits."""

    left = int((m.state.reshape(m.shape.blocks, -1)[first.block] == GONE)[: m.shape.threads].sum())
    gone = f", and {left} of the block have left" if left else ""
    waiting = sum(len(p.threads) for p in block)
    at_block = {p.number for p in block if p.state == AT_BARRIER and p.number != CLUSTER}
    if first.state == AT_BARRIER and first.number != CLUSTER:
        asked = int(m.barriers.asked[first.block, first.number])
        come = int(m.barriers.come[first.block, first.number])
        if len(at_block) > 1:
            numbers = ", ".join(map(str, sorted(at_block)))
            return (
                PtxFaultKind.BARRIER_MISMATCH,
                f"threads of one block wait at different barriers ({numbers}), and no thread can go on",
                "let all of them come to one barrier, or give each barrier the number of threads that come to it",
            )
        if asked != EVERYONE and waiting < asked:
            return (
                PtxFaultKind.BARRIER_MISMATCH,
                f"barrier {first.number} waits for {asked} threads, and {come} have come{gone}",
                "the number of a barrier's threads is that of all who come to it, whole warps",
            )
        if any(p.state == WITH_WARP for p in block):
            return (
                PtxFaultKind.DEADLOCK,
                f"{waiting} threads wait, and no thread can go on: some at barrier {first.number}, others for"
                " their warp",
                "threads of one warp that wait for each other must all come to that instruction",
            )
    if first.state == WITH_WARP and first.one.aligned:
        return (
            PtxFaultKind.BARRIER_MISMATCH,
            f"{first.one.name} is executed by whole warps, and some threads of the warp are elsewhere{gone}",
            "move it out of the branch",
        )
    if first.state == WITH_WARP:
        return (
            PtxFaultKind.DEADLOCK,
            f"{waiting} threads wait, and no thread can go on; {first.one.name} waits for threads that do not arrive"
            + gone,
            "a mask names the threads that arrive: those that take another branch are not in it",
        )
    return PtxFaultKind.DEADLOCK, f"{waiting} threads wait, and no thread can go on{gone}", ""
