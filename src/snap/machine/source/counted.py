"""Write calls that count what is executed, where a program is made for that (`Writing.counted`).

Input: statements, as they are written.  Output: lines that call the lanes' `did`, `tested` and `parted`
(machine/counting.py); none in a program that does not count.  Non-goals: accesses, which the lanes are told of anyway
(`StorageView.record`).
"""

from __future__ import annotations

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.costs import CostEvents, of_step, of_test
from snap.machine.source.writing import Writing
from snap.record import record


@record
class CountedPlace:
    """Name what is counted: a place in the source, and what one execution of it counts."""

    file: str
    line: int
    events: CostEvents


def executed(w: Writing, s: ir.Stmt, events: CostEvents) -> None:
    """Count a statement; TMA is issued by one thread for its group."""
    if events.nothing:
        return
    mask = w.mask
    if isinstance(s, (ir.BoxCopy, ir.BoxPrefetch)):
        mask = w.issuer(s.place, every_block=isinstance(s, ir.BoxCopy) and s.shared_out)
    w.emit(f"C.did({_place(w, s, events)}, {mask})")


def tested(w: Writing, s: ir.If | ir.While | ir.For, asked: str, passed: str, again: bool = False) -> None:
    """Count a test of the lanes `asked`, of which `passed` go on; again: those are asked next."""
    if w.counted:
        w.emit(f"C.tested({_place(w, s, of_test(s))}, {asked}, {passed})")
        if again:
            w.emit(f"{asked} = {passed}")


def stepped(w: Writing, s: ir.For, end: str, asked: str) -> None:
    """Count the step of the lanes that reach the end of an iteration, and are asked next."""
    if w.counted:
        w.emit(f"C.did({_place(w, s, of_step(s))}, {end})")
        w.emit(f"{asked} = {end}")


def parted(w: Writing, s: ir.Split, members: list[str]) -> None:
    """Count where lanes of a warp are in different cases, or only some of them in one."""
    if w.counted:
        w.emit(f"C.parted({_place(w, s, CostEvents())}, {w.mask}, ({', '.join(members)},))")


def _place(w: Writing, s: ir.Stmt, events: CostEvents) -> str:
    span = s.point.span if isinstance(s, (synced.Sync, synced.MBarrierWait)) else s.span
    counter = CountedPlace(span.filename, span.line, events)
    return w.intern(counter, ("counter", counter), "N")
