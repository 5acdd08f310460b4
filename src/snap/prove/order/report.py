"""Report what the check of order found, as obligations that people read.

Input: an `Order`.  Output: `Findings` of the property *order*: one obligation for each pair of places that nothing
orders, for each barrier or wait that may not be passed, and one for all that was shown.  Invariant: what is not shown
is *unknown*; to refute needs a launch, which the CPU machine shows.  Non-goals: deciding anything.
"""

from __future__ import annotations

from typing import Any

from snap._compiler.ir.walk import callees
from snap.diag.error import Label
from snap.prove.order.goal import Order, asked_of, order
from snap.prove.order.kinds import HANDED, PROXY, REGISTERS, START
from snap.prove.order.meetings import Stuck
from snap.prove.order.outline import endless
from snap.prove.order.pairs import Open
from snap.prove.order.reach import LOAD, PRODUCT
from snap.prove.order.sites import LoopAges
from snap.prove.verdict import Findings, Obligation, Property, Resting, Verdict
from snap.record import replace


def orders(task: Any) -> Findings:
    """The property *order* of a `Task`."""
    kernel = task.synced()
    asked = asked_of(task) if kernel.apart else None  # all barriers that are inferred order whatever the launch is
    found = findings(order(kernel, asked), kernel.span)
    lines = sorted({s.span.line for f in callees(kernel) for s in endless(f)})
    return replace(found, assumed=(*found.assumed, *(ENDS.format(line) for line in lines)))


def findings(found: Order, span: Any) -> Findings:
    made: dict[tuple, Obligation] = {}
    for pair in found.open:
        made.setdefault((pair.first.span, pair.second.span, pair.why), _pair(pair))
    for stuck in found.stuck:
        made.setdefault((stuck.span, stuck.why), _stuck(stuck))
    for why in found.unknown:
        what = f"every hand-over of `{found.kernel}` is ordered"
        made[why,] = Obligation(Property.ORDER, Verdict.UNKNOWN, what, span, why)
    if not made:
        what = f"every hand-over of `{found.kernel}` is ordered, and every wait ends"
        made[()] = Obligation(
            Property.ORDER, Verdict.PROVED, what, span, f"{found.pairs} pairs, {found.questions} questions"
        )
    rests = [Resting(text, (Property.RACES,)) for text in found.rests]
    return Findings(tuple(made.values()), (), (*rests, Resting(ARITHMETIC, (Property.OVERFLOW,))))


ENDS = "the `while` in line {} ends (what it waits for is in memory, or no one counts it)"
ARITHMETIC = "signed arithmetic that feeds indices stays in its type (overflow)"


def _pair(pair: Open) -> Obligation:
    a, b = pair.first, pair.second
    verbs = [_verb(site) for site in (a, b)]
    who = pair.meeting.who if pair.meeting is not None else "two threads"
    name = a.name if a.name == b.name else f"{a.name}` and `{b.name}"
    what = f"`{name}`: what {verbs[0]} at line {a.span.line} comes before what {verbs[1]} at line {b.span.line}"
    unsure = "" if pair.meeting is None or pair.meeting.decided else ", as far as the index tells"
    label = f"{verbs[1]} it{_when(pair.ages)}, maybe before that is over: {who}{_threads(pair)}{unsure}"
    first = Label(a.span, f"{verbs[0]} it ({a.line.name})")
    return Obligation(Property.ORDER, Verdict.UNKNOWN, what, b.span, label, label, (first,), _help(pair))


def _verb(site: Any) -> str:
    if site.line.name.startswith("TMA"):
        return "loads" if site.line is LOAD else "stores"
    if site.line is PRODUCT:
        return "multiplies"
    return "writes" if site.writes else "reads"


def _when(ages: LoopAges) -> str:
    carried = [(d, exact) for loop, d, exact in ages if loop[0] != START and (d or not exact)]
    if not carried:
        return ""
    d, exact = carried[0]
    count = "the next iteration" if d == 1 and exact else f"{d} iterations later" + ("" if exact else " or more")
    return f" in {count}" if d == 1 and exact else f", {count}"


def _threads(pair: Open) -> str:
    shown = dict(pair.meeting.model) if pair.meeting is not None else {}
    if "thread1" not in shown or "thread2" not in shown:
        return ""
    return f" (thread {shown['thread1']}, then thread {shown['thread2']})"


def _help(pair: Open) -> str:
    line, end = pair.first.line, "on every path between the two"
    if pair.why in HELP:
        return HELP[pair.why]
    if line.waits:
        return f"a wait for the {line.name} and then a barrier of all who meet, {end}"
    return f"a barrier of all who meet, or a phase of an mbarrier, {end}"


HELP = {
    PROXY: "a proxy fence (fence.proxy.async) by whoever touched it, before the barrier or arrival between the two",
    REGISTERS: "a wait for the wgmma (wgmma.wait_group), or a wgmma.fence, between the two",
    HANDED: "a barrier of the group for which one thread releases or acquires, on every path between the two",
}


def _stuck(stuck: Stuck) -> Obligation:
    what = f"`{stuck.name}`: whoever waits here goes on"
    return Obligation(Property.ORDER, Verdict.UNKNOWN, what, stuck.span, stuck.why)
