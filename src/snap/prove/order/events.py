"""Record what threads do at mbarriers, and what each of them knows of the others then.

Input: arrivals, loads and waits, as `order/mbarriers.py` has come to them.  Output: an `Events`: by kind of arrival,
who knows that how many of another kind have been made.  Invariant: what is said holds of every thread that does it, in
every iteration.  Non-goals: the rules (`order/rules.py`).

`told[x][y] = d`: who arrives for index i of x (or, of an mbarrier, who has waited for it) knows that y has arrived for
i + d (of an mbarrier: that the phase of that index is complete).  Paths of such steps add up.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from snap._compiler.analysis.linear.forms import Form
from snap._compiler.ir import synced
from snap.diag.span import Span
from snap.prove.order.counts import CounterKey
from snap.prove.order.kinds import ARRIVE, LOAD, PHASE, WAIT, EventKind

NEVER = 1 << 20
PhaseCounts = dict[tuple, dict[tuple, int]]


@dataclass
class Event:
    """An arrival, a load or a wait.  index: its form; knows, needs: by mbarrier, what the thread has waited for, less
    the index: at least, and at most; units: how many arrive at once; tops: of each loop around, counters that only
    grow, as they were at the top of the iteration.
    """

    key: tuple
    kind: EventKind
    barrier: synced.MBarrier
    index: Form | None
    cls: tuple
    units: int
    knows: dict[int, int]
    needs: dict[int, int]
    facts: tuple
    span: Span
    in_turn: bool
    in_role: bool
    counters: dict[CounterKey, Form] = field(default_factory=dict)
    tops: dict[tuple, dict[CounterKey, Form]] = field(default_factory=dict)


class Events:
    """arrivals: by kind; of: by mbarrier, the kinds of arrivals at it; told, before: as above, `before` of what has
    happened, whether or not who knows of it sees its memory: an arrival that copies make comes after what its thread
    did, and says nothing of that.  unheard: mbarriers whose phases tell nothing; alone: whether the block is its
    cluster.
    """

    def __init__(self, found: list[Event], barriers: dict[int, synced.MBarrier], unheard: set[int], alone: bool):
        self.barriers, self.unheard, self.alone = barriers, unheard, alone
        self.arrivals: dict[tuple, list[Event]] = {}
        for e in found:
            if e.kind is ARRIVE:
                self.arrivals.setdefault(e.cls, []).append(e)
        self.loads = [e for e in found if e.kind is LOAD]
        self.waits = [e for e in found if e.kind is WAIT]
        self.of = {uid: [c for c in self.arrivals if c[1] == uid] for uid in barriers}
        self.told = self.closed(False)
        self.before = self.closed(True)

    def closed(self, in_time: bool) -> PhaseCounts:
        """Return all paths of steps; in_time: `before`."""
        told: PhaseCounts = {}
        for uid, classes in self.of.items():
            heard = () if uid in self.unheard else classes
            told[PHASE, uid] = {(PHASE, uid): 0, **dict.fromkeys(heard, 0)}
        for cls, found in self.arrivals.items():
            told[cls] = {cls: -1} if found[0].units == 1 and self.alone else {}
            if cls[3] and not in_time:
                continue
            for uid in self.barriers:
                d = min(e.knows[uid] for e in found)
                if abs(d) < NEVER:
                    told[cls][PHASE, uid] = d
        for k in told:
            for i in told:
                if k in told[i]:
                    for j, d in told[k].items():
                        if told[i].get(j, -NEVER) < told[i][k] + d:
                            told[i][j] = told[i][k] + d
        return told

    def at(self, uid: int) -> list[Event]:
        """Return the arrivals at an mbarrier."""
        return [e for c in self.of[uid] for e in self.arrivals[c]]

    def waits_for(self, uid: int) -> list[Event]:
        return [e for e in self.waits if e.barrier.uid == uid]

    def knows(self, e: Event, of: tuple) -> int:
        """Return how far behind its index is what the thread knows of this."""
        return max((d + self.before[PHASE, uid].get(of, -NEVER) for uid, d in e.knows.items()), default=-NEVER)
