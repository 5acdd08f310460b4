"""The questions that are left when the walk is over: do arrival and wait of each barrier match, and is everything over
that uses the shared memory of a block when the block ends?

Input: the states of all accesses at the end of the kernel, and what is known of its mbarriers.  Output: uses of shared
memory that may still go on (`Stuck`).  Invariant: nothing is said to be over that no thread of the block whose memory
it is has waited for.  Non-goals: global memory, which outlives the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator

from snap._compiler.analysis.linear import forms
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.synced import PointKind, SyncHalf
from snap._compiler.ir.types import Level, Space
from snap._compiler.ir.walk import statements
from snap.prove.order.meetings import Meetings, Stuck
from snap.prove.order.reach import CLUSTER, State
from snap.prove.order.rules import Rules
from snap.prove.order.sites import OrderSite
from snap.prove.order.timelines import COPY, LOAD, PRODUCT, STORE_READ
from snap.prove.order.tokens import Tokens
from snap.prove.order.walk import OrderWalk


def at_the_end(walk: OrderWalk, rules: Rules, tokens: Tokens) -> Iterator[Stuck]:
    threads, barriers = walk.here.threads, walk.mbarriers.barriers
    together = threads.cluster > 1 and (
        any(b.everywhere for b in barriers.values()) or any(map(_in_copies, walk.here.functions))
    )  # then the generated code ends with a barrier of the cluster
    everyone = (1 << threads.units) - 1
    seen = frozenset(uid for uid in barriers if rules.all_seen(uid))
    for (site, _), state in tokens.items():
        if site.register or site.space is not Space.SHARED:
            continue
        after = state.widened(CLUSTER, site.made, everyone) if together else state
        what = _goes_on(site, after, seen)
        if what:
            yield Stuck(site.span, site.name, what)
    for e in rules.events.loads:
        if e.barrier.uid not in seen:
            what = "the block may exit while this is loaded: it is not shown to be waited for"
            yield Stuck(e.span, e.barrier.name, what)


def parts_match(meetings: Meetings) -> None:
    """Where arrival and wait are two statements, both are in the same loops and branches, and executed by as many
    threads as take part.
    """
    for found in meetings.parted.values():
        s, _, around = next(iter(found.values()))
        point = s.point
        if any(other != around for _, _, other in found.values()):
            meetings.hang(s, point.object, "some arrive at this barrier more often than others wait for it")
        threads = [0, 0]
        for one, active, _ in found.values():
            threads[one.part is SyncHalf.WAIT] |= active
        if point.kind is PointKind.NAMED and point.threads and point.participants.level is not Level.THREAD:
            if threads[0] & threads[1] or sum(t.bit_count() for t in threads) != point.threads:
                meetings.hang(s, point.object, f"not as many as {point.threads} threads take part in this barrier")
        if 0 in threads:
            meetings.hang(s, point.object, "no thread arrives at this barrier, or no thread waits for it")


def _in_copies(f) -> bool:
    return any(
        isinstance(s, ir.BoxCopy) and s.tile.access.view.obj.spread is ir.Spread.COPIES for s in statements(f.body)
    )


def _goes_on(site: OrderSite, state: State, seen: frozenset[int]) -> str:
    """Return what is wrong; seen: mbarriers of which some thread has waited for every phase."""
    if site.line is COPY and state.lands & seen:
        return ""
    if site.line in (COPY, STORE_READ, PRODUCT) and site.made & ~state.over.told():
        return f"the block may exit while this is in flight ({site.line.name})"
    if site.rank is not None and site.rank != forms.unknown((forms.BLOCK,)) and site.line is not LOAD:
        if state.over.wide < CLUSTER:
            return "the block whose memory this is may have exited"
    return ""
