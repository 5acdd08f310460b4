"""mbarriers by which units take turns (`with turn():`): a slot is a unit's turn, so they are no rings.

Input: a kernel of the synchronized IR; then, of each thread, the slots that it waits for and arrives at.  Output: which
mbarriers these are, and whether everybody's turn comes.  Invariant: where `wrong` says nothing, and nobody waits in a
turn for what comes later (the rule of circles, order/phases.py), no wait of such an mbarrier hangs or sees the parity
of another phase.  What it orders is not asked: it counts for nothing.  Non-goals: that.

A unit waits for phase `c` of its slot, `c` being how many turns it has had; one that is the first waits for phase c - 1
(which, at first, was complete from the start).  Behind its turn it arrives at the slot of the next unit.  If

  once     there is one wait and one arrival, one after the other in one body, and `c` is counted there alone
  alike    all threads of a block run that body equally often
  round    the units' slots are joined by arrivals to circles, with one first unit in each
  counted  as many arrive at a slot as the mbarrier counts
  alone    in its turn a unit meets no threads of other units at a barrier

then turn j of a unit comes after turn j of the one before it, and that of the first after turn j - 1 of the last: by
induction over the turns every one comes; and phase j + 1 of a slot is complete only after the unit that has the slot
has passed its wait for phase j.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.forms import Form
from snap._compiler.analysis.uniform import differs
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.hardware import WARP
from snap._compiler.ir.operations import COLLECTIVES
from snap._compiler.ir.synced import PointKind
from snap._compiler.ir.types import BLOCK1, Level
from snap._compiler.ir.walk import bodies, statements
from snap.prove.order.outline import bits, given, increment, leaves, paths


@dataclass
class TurnBarrier:
    """An mbarrier of turns.  counter: how many turns a thread has had; first: the expression that is true of the first
    unit; slots: by thread, the slot that it waits for, the one that it arrives at, and whether it is the first.
    """

    barrier: synced.MBarrier
    wait: synced.MBarrierWait
    arrival: synced.MBarrierArrive
    counter: ir.Var
    unit: ir.Expr
    waits: dict[int, tuple[int, bool]] = field(default_factory=dict)
    arrives: dict[int, int] = field(default_factory=dict)
    arriving: int = 0
    unclear: bool = False

    def waited(self, threads: int, slot: Form, unit: Form) -> None:
        self._noted(threads, (slot, unit), lambda t, s, u: self.waits.setdefault(t, (s, u == 0)) == (s, u == 0))

    def arrived(self, threads: int, slot: Form, arriving: int) -> None:
        self.arriving |= arriving
        self._noted(threads, (slot,), lambda t, s: self.arrives.setdefault(t, s) == s)

    def _noted(self, threads: int, slots: tuple[Form, ...], note) -> None:
        if any(atom[0] != forms.THREAD for atom in forms.atoms(slots) if atom[0] not in forms.COMPOUND):
            self.unclear = True
            return
        for t in bits(threads):
            self.unclear = self.unclear or not note(t, *(forms.value(form, {(forms.THREAD,): t}) for form in slots))


def turns(kernel: synced.Function) -> dict[int, TurnBarrier]:
    """The mbarriers whose waits say `c - (unit == 0)`, by number."""
    found: dict[int, TurnBarrier] = {}
    for s in statements(kernel.body):
        match s:
            case synced.MBarrierWait(
                barrier,
                phase=ir.Binary("-", ir.Read(counter), ir.Cast(ir.Compare("==", unit, ir.Const(0)))),
            ):
                of = [x for x in statements(kernel.body) if getattr(x, "barrier", None) == barrier]
                arrivals = [x for x in of if isinstance(x, synced.MBarrierArrive)]
                if len(of) == 2 and len(arrivals) == 1:
                    found[barrier.uid] = TurnBarrier(barrier, s, arrivals[0], counter, unit)
    return found


def wrong(kernel: synced.Function, turn: TurnBarrier, ranges: dict) -> str:
    """Return what is not shown of it; nothing where every unit's turn comes."""
    inside = _once(kernel, turn)
    if inside is None:
        return "it is not shown that each turn is waited for once and passed on once"
    if not _alike(kernel, turn, ranges):
        return "it is not shown that all units take as many turns"
    if turn.unclear or set(turn.waits) != set(turn.arrives):
        return "it is not shown which unit's turn this is"
    if not _round(turn):
        return "turns are not passed on from each unit to the next, and from the last to the first"
    size = turn.barrier.count * WARP
    if any(_wide(s, size) for s in inside):
        return "in its turn a unit waits for others, whose turn has not come"
    return ""


def _once(kernel: synced.Function, turn: TurnBarrier) -> ir.Body | None:
    """The statements from the wait to the arrival, which one body has, with the only place that counts the turns."""
    holder = next((b for b in _bodies(kernel.body) if any(s is turn.wait for s in b)), ())
    at = {id(s): k for k, s in enumerate(holder)}
    begin, end = at[id(turn.wait)], at.get(id(turn.arrival), -1)
    counts = [s for s in statements(kernel.body) if given(s, turn.counter.uid) is not None]
    ups = [s for s in counts if isinstance(s, ir.Assign) and increment(s, turn.counter.uid) == 1]
    starts = [s for s in counts if isinstance(s, ir.Declare) and isinstance(s.init, ir.Const) and s.init.value == 0]
    declared = any(s is x for s in starts for x in kernel.body)  # once, before all loops
    if end < begin or len(counts) != 2 or len(ups) != 1 or not declared or at.get(id(ups[0]), -1) < begin:
        return None
    plain = not turn.arrival.bytes and not turn.arrival.copies and not turn.barrier.everywhere
    return holder[begin + 1 : end] if plain and not leaves(holder[begin : at[id(ups[0])]]) else None


def _bodies(body: ir.Body) -> Iterable[ir.Body]:
    yield body
    for s in body:
        for inner in bodies(s):
            yield from _bodies(inner)


def _alike(kernel: synced.Function, turn: TurnBarrier, ranges: dict) -> bool:
    around = next((path for path, s in paths(kernel.body) if s is turn.wait), None)
    if around is None or any(isinstance(s, ir.Return) for s in statements(kernel.body)):
        return False
    loops = [s for s in statements(kernel.body) if isinstance(s, (ir.For, ir.While))]
    loops = [s for s in loops if any(x is turn.wait for x in statements((s,)))]
    if any(isinstance(s, ir.While) or leaves(s.body) for s in loops):
        return False
    exprs = [e for step in around for e in step if not isinstance(e, (ir.Var, bool, str, int))]
    return differs(BLOCK1, ranges, *exprs) is None


def _round(turn: TurnBarrier) -> bool:
    """Each slot is one unit's, passed on to one other; of each circle one unit is the first; all who count arrive."""
    following: dict[int, tuple[int, bool]] = {}
    arriving: dict[int, int] = {}
    for t, (slot, first) in turn.waits.items():
        if following.setdefault(slot, (turn.arrives[t], first)) != (turn.arrives[t], first):
            return False
        arriving[slot] = arriving.get(slot, 0) + (turn.arriving >> t & 1)
    if any(n != turn.barrier.count for n in arriving.values()) or any(
        not 0 <= s < turn.barrier.slots for s in following
    ):
        return False
    left = dict(following)
    while left:
        start = slot = next(iter(left))
        firsts = 0
        while slot in left:
            slot, first = left.pop(slot)
            firsts += first
        if slot != start or firsts != 1:
            return False
    return True


def _wide(s: ir.Stmt, size: int) -> bool:
    """Return whether threads meet at a barrier in it that are more than the unit's."""
    for x in statements((s,)):
        match x:
            case synced.Sync(point):
                many = point.participants
                if point.kind is not PointKind.THREAD and (many.level is not Level.THREAD or many.shape.extent > size):
                    return True
            case ir.Collective() if COLLECTIVES[x.op].barrier:
                if x.requires.level is not Level.THREAD or x.requires.shape.extent > size:
                    return True
            case ir.Call() if any(_wide(inner, size) for inner in x.function.body):
                return True
    return False
