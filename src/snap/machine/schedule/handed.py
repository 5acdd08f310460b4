"""Track what the atomics on one element hand on from thread to thread, and how far.

Input: writes, with what each releases itself, as they happen.  Output: what an acquire that reads there learns.
Invariant: groups are those of a scope, so that a release and an acquire meet only where the scopes of both include the
other's thread.  Non-goals: what a thread knows (clocks.py); accesses that are not atomic.

Rules (PTX ISA, "Release and Acquire Patterns", "Observation Order"):

- a write hands on what its thread releases by it, or has released by an earlier write to this element;
- one that reads as well also hands on what the write before it did; a store does not, so that what other threads have
  released there is over;
- an acquire learns what the write that it reads hands on: the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from snap.machine.schedule.clocks import Released

ReachedGroup = tuple[int, int]  # a scope (0 block, 1 cluster, 2 all), and which one of these
ReleasedTo = dict[ReachedGroup, Released]  # what was released, for each group that may acquire it


def groups_of(block: int, cluster: int, scope: int) -> list[ReachedGroup]:
    """List the groups within a scope that a thread of a block belongs to."""
    return [(0, block), (1, cluster), (2, 0)][: scope + 1]


def add(into: ReleasedTo, more: ReleasedTo) -> None:
    made: dict[tuple[int, int], Released] = {}  # groups share what they know
    for group, known in more.items():
        have = into.get(group)
        if have is not None and have is not known:
            pair = id(have), id(known)
            known = made[pair] if pair in made else made.setdefault(pair, both(have, known))
        into[group] = known


def both(a: Released, b: Released) -> Released:
    """Join them into a new one: what was handed on is never changed."""
    if not b.blocks and not b.done and not b.spoken:
        return a
    out = Released(a.blocks, a.done, a.spoken)
    out.add(b)
    return out


def known_to(known: ReleasedTo, groups: Sequence[ReachedGroup]) -> list[Released]:
    """Collect what any of the groups may acquire, each once."""
    found: list[Released] = []
    for one in (known[group] for group in groups if group in known):
        if all(one is not other for other in found):
            found.append(one)
    return found


@dataclass(slots=True, eq=False)
class HandedOn:
    """Hold what the last write to an element hands on, and by thread what it has released here."""

    last: ReleasedTo = field(default_factory=dict)
    released: dict[int, ReleasedTo] = field(default_factory=dict)

    def write(self, thread: int, released: ReleasedTo, store: bool) -> None:
        if released:
            add(self.released.setdefault(thread, {}), released)
        mine = self.released.get(thread, {})
        if store or mine:
            self.last = {} if store else dict(self.last)
            add(self.last, mine)
