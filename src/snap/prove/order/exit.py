"""What is asked when the walk is over: of barriers whose arrival and wait stand apart, and of the end of a block: its
shared memory is gone then, whoever still uses it.

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
from snap.prove.order.acts import Acts, Stuck
from snap.prove.order.phases import Phases
from snap.prove.order.reach import CLUSTER, State
from snap.prove.order.rings import Rings
from snap.prove.order.sites import OrderSite
from snap.prove.order.timelines import COPY, LOAD, PRODUCT, STORE_READ
from snap.prove.order.tokens import Tokens


def at_the_end(rings: Rings, phases: Phases | None, tokens: Tokens) -> Iterator[Stuck]:
    together = rings.cluster > 1 and (
        any(b.everywhere for b in rings.barriers.values()) or any(map(_in_copies, rings.functions))
    )  # then the generated code ends with a barrier of the cluster
    everyone = (1 << rings.units) - 1
    seen = frozenset(uid for uid in rings.barriers if phases is not None and _all_seen(rings, phases, uid))
    for (site, _), state in tokens.items():
        if site.register or site.space is not Space.SHARED:
            continue
        after = state.widened(CLUSTER, site.made, everyone) if together else state
        what = _goes_on(site, after, seen)
        if what:
            yield Stuck(site.span, site.name, what)
    if phases is not None:
        yield from _loads(rings, phases)


def parts_match(acts: Acts) -> None:
    """Where arrival and wait stand apart: both in the same loops and branches, by as many threads as take part."""
    for found in acts.parted.values():
        s, _, around = next(iter(found.values()))
        point = s.point
        if any(other != around for _, _, other in found.values()):
            acts.hang(s, point.object, "some arrive at this barrier more often than others wait for it")
        threads = [0, 0]
        for one, active, _ in found.values():
            threads[one.part is SyncHalf.WAIT] |= active
        if point.kind is PointKind.NAMED and point.threads and point.participants.level is not Level.THREAD:
            if threads[0] & threads[1] or sum(t.bit_count() for t in threads) != point.threads:
                acts.hang(s, point.object, f"not as many as {point.threads} threads take part in this barrier")
        if 0 in threads:
            acts.hang(s, point.object, "no thread arrives at this barrier, or no thread waits for it")


def _in_copies(f) -> bool:
    return any(
        isinstance(s, ir.BoxCopy) and s.tile.access.view.obj.spread is ir.Spread.COPIES for s in statements(f.body)
    )


def _goes_on(site: OrderSite, state: State, seen: frozenset[int]) -> str:
    """seen: mbarriers of which somebody has waited for every phase."""
    if site.line is COPY and state.lands & seen:
        return ""
    if site.line in (COPY, STORE_READ, PRODUCT) and site.made & ~state.over.told():
        return f"the block may exit while this is in flight ({site.line.name})"
    if site.rank is not None and site.rank != forms.unknown((forms.BLOCK,)) and site.line is not LOAD:
        if state.over.wide < CLUSTER:
            return "the block whose memory this is may have exited"
    return ""


def _loads(rings: Rings, phases: Phases) -> Iterator[Stuck]:
    """Whatever is loaded, somebody waits for."""
    for e in phases.loads:
        if not _all_seen(rings, phases, e.barrier.uid):
            yield Stuck(
                e.span, e.barrier.name, "the block may exit while this is loaded: it is not shown to be waited for"
            )


def _all_seen(rings: Rings, phases: Phases, uid: int) -> bool:
    """Whether somebody has waited for all that arrived at an mbarrier."""
    used = [x for c in phases.of[uid] for x in phases.arrivals[c]]
    waited = [x for x in phases.waits if x.barrier.uid == uid]
    ends = phases.ends_of(uid, [*used, *waited])
    counts = [((), c[:-1]) for c in phases.of[uid]]
    return all(any(rings.waited_for(uid, count, end, ends) for end in ends) for count in counts)
