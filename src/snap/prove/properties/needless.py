"""Pairs of places by which no two threads touch one element, ever: what `sync/` need not order.

Input: a `Task`, and pairs of places (spans of accesses) between which the inference would put barriers.  Output: those
of them that are shown to be apart, or why none can be.  Invariant: of a pair that is named, in every launch that keeps
`where=`, no two threads of one block, and for global memory no two threads at all, touch one element by an access at
the first place and one at the second, in whichever iterations, calls and entries of scopes, unless both read.  That
rests on *bounds* (indices are inside, arithmetic stays in its type): where they are not proved, nothing is said.
Non-goals: which barriers that spares (sync/barriers/cover.py); what one thread must wait for itself.

A barrier is left out if two walks say so, of which neither knows what the other has found: `needless` looks at the
typed program (evaluate.py) and names pairs; and the check of order (order.py) looks at the program without their
barriers, with values, a reader of `where=`, and questions to isl and z3 of its own, and shows that all is ordered.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable

from snap._compiler.analysis.exact.conditions import equal, negated
from snap._compiler.analysis.exact.ladder import NO, Ladder
from snap._compiler.analysis.exact.logic import Cond
from snap._compiler.analysis.exact.renaming import Renaming
from snap._compiler.ir.effects import Extent
from snap._compiler.ir.synced import Function as Synced
from snap._compiler.ir.types import BLOCK1, GRID1, Privilege
from snap._compiler.walk.sites import Site
from snap.diag.span import Span
from snap.prove import MISSING, Task, kept, prove
from snap.prove.order.goal import asked_of, order
from snap.prove.properties.context import ProofContext, context
from snap.prove.properties.disjoint import meeting, other_team, sides_of
from snap.prove.verdict import Verdict

PlacePair = tuple[Span, Span]
STEPS = 500_000  # of z3, for one question: those of the corpus that it answers take half as many


def left_out(
    task: Task, wanted: Iterable[PlacePair], without: Callable[[frozenset[PlacePair]], Synced]
) -> tuple[frozenset[PlacePair], str]:
    """The pairs whose barriers are left out; and where there are none, why.  without: the synchronized program in which
    nothing orders such pairs.
    """
    shown, why = needless(task, wanted)
    if not shown:
        return shown, why
    store = task.store() if task.store is not None and kept.decided(task) else None
    pairs = sorted(shown, key=repr)
    key = kept.key_of(task, ("left out", repr(pairs)))
    known = None if store is None else store.get(key)
    if known is None:
        agreed = _agreed(task, shown, without)
        known = bytes(pair in agreed for pair in pairs)
        if store is not None:
            store.put(key, known)
    found = frozenset(pair for pair, yes in zip(pairs, known) if yes)
    return found, "" if found else "without them the order of all accesses was not shown again, by another walk"


def _agreed(
    task: Task, shown: frozenset[PlacePair], without: Callable[[frozenset[PlacePair]], Synced]
) -> frozenset[PlacePair]:
    """Return those without whose barriers all is ordered: pairs that this leaves open get theirs back."""
    while shown:
        found = order(without(shown), asked_of(task))
        if found.verdict == "ordered":
            break
        wrong = shown & {ordered(pair.first.span, pair.second.span) for pair in found.open}
        if not wrong:  # something else is open, or may hang, or is not followed
            return frozenset()
        shown -= wrong
    return shown


def needless(task: Task, wanted: Iterable[PlacePair]) -> tuple[frozenset[PlacePair], str]:
    """Return those of the pairs that are apart; and where there are none, why, in words for the user."""
    pairs = sorted({ordered(*pair) for pair in wanted}, key=repr)
    if not pairs:
        return frozenset(), "the inference has no barriers for accesses of threads"
    proof = prove(task, ("bounds",), seconds=None)  # which barriers there are depends on no clock
    if proof.verdict is not Verdict.PROVED:
        missing = next((o.reason for o in proof.open if MISSING in o.reason), None)
        return frozenset(), missing or "that indices are inside, and arithmetic stays in its type, is not proved"
    store = task.store() if task.store is not None and kept.decided(task) else None
    key = kept.key_of(task, ("needless", repr(pairs)))
    known = None if store is None else store.get(key)
    if known is None:
        known = bytes(_all(task, pairs))
        if store is not None:
            store.put(key, known)
    shown = frozenset(pair for pair, apart in zip(pairs, known) if apart)
    return shown, "" if shown else "no pair of accesses was shown to be apart"


def _all(task: Task, pairs: list[PlacePair]) -> list[bool]:
    """Return for each pair whether its accesses are apart."""
    c = context(task)
    ladder = Ladder(c.terms, (STEPS, STEPS))  # most pairs do meet: that must not take long to find
    places: dict[Span, list[Site]] = {}
    for site in c.found.sites:
        places.setdefault(site.span, []).append(site)
    return [_apart(c, ladder, *(places.get(span, []) for span in pair)) for pair in pairs]


def ordered(a: Span, b: Span) -> PlacePair:
    """Pairs have no first and second."""
    return (a, b) if repr(a) <= repr(b) else (b, a)


def _apart(c: ProofContext, ladder: Ladder, first: list[Site], second: list[Site]) -> bool:
    """All that is done at both places is done to one array, which no other takes the bytes of in between."""
    if not first or not second or len({id(site.root) for site in (*first, *second)}) > 1:
        return False
    if not all(_plain(site) for site in (*first, *second)):
        return False
    reach = [BLOCK1, GRID1] if first[0].root.is_global else [BLOCK1]
    return all(
        not (a.kind.writes or b.kind.writes) or ladder.solve(_question(c, a, b, unit)) is NO
        for a, b in itertools.product(first, second)
        for unit in reach
    )


def _plain(s: Site) -> bool:
    """An element that a thread itself touches, of memory that a block has for itself, or that all have."""
    return s.extent not in (Extent.ANYWHERE, Extent.ROWS, Extent.FRAGMENT, Extent.BOX) and not s.root.obj.spread


def _question(c: ProofContext, a: Site, b: Site, unit: Privilege) -> list[Cond]:
    """Two threads of one block, or of two blocks, meet, each whenever it comes there: one value for both is only what
    the block, or the grid, agrees on and settles once.
    """
    sides = [
        (s, Renaming(c.terms, n, lambda atom: atom.depth == 0 and atom.per.at_least(unit))) for n, s in ((1, a), (2, b))
    ]
    facts, met = meeting(c, sides)
    threads = sides_of(c, c.walk.thread)
    apart = negated(equal(*threads)) if unit == BLOCK1 else other_team(c, BLOCK1)
    return [*facts, apart, *met]
