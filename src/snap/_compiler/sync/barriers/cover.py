"""The fewest barriers that order every edge.

Input: edges with candidate gaps.  Output: marks, the gaps chosen and what each is for.  Larger groups come first, since
their barriers serve smaller ones too; among the edges of one group the smallest set of gaps that hits all of them is
chosen, at equal number the one in the fewest loops, then in the fewest calls, then the latest gaps.  But two barriers
beside a loop are better than one in it, which every iteration would wait at.  Invariant: no mark can be left out.
SNAP020 where an edge has no gap that its whole group reaches.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from operator import attrgetter

from snap._compiler.analysis.linear.overlap import undecided
from snap._compiler.ir import synced
from snap._compiler.ir.engines import Engine
from snap._compiler.ir.hardware import WARP
from snap._compiler.ir.synced import MAYBE, PointKind
from snap._compiler.ir.types import BLOCK1, THREAD1, Level, Place, Privilege
from snap._compiler.ir.walk import callees, statements
from snap._compiler.sync.barriers.primitive import participants_in_words, primitive
from snap._compiler.sync.conflicts.tokens import Edge, Gap, GapKey, Said, Token
from snap.diag.error import Diagnostic, Label, SnapError
from snap.diag.span import Span, lines
from snap.record import record

ATOMICS = "changed by atomics"
_INSTRUCTIONS = {Engine.COPIES: "cp.async", Engine.BOXES: "TMA", Engine.PRODUCTS: "wgmma"}
SAID = (Said.WAITED, Said.RELEASED, Said.ACQUIRED)
EXACT = 14  # up to so many different edges the smallest set is found by search, beyond by taking the best gap each time


class Class(IntEnum):
    """Collect what is waited for together, in the order in which gaps are chosen."""

    BOXES_WRITE = 1
    BOXES_READ = 2
    PRODUCTS = 3  # by the threads that multiply, for themselves
    PRODUCTS_WRITE = 4
    PRODUCTS_READ = 5
    ALL = 6  # whatever a barrier is enough for
    COPIES_ENDED = 7  # by the end of the block: outside of loops, so that no wait in a loop waits for more than it must


@record
class Mark:
    """A barrier at a gap, as `SyncPoint` and `Sync` say it.

    pair    marks of one number other than 0 are parts of one point
    only    where not all threads of the place run it: those from .. to, counted from the first
    at      where a point that stands in two places is waited for
    """

    participants: Privilege
    kind: PointKind
    object: str
    reason: str
    place: Place
    first: Span
    second: Span
    part: synced.SyncHalf = synced.SyncHalf.BOTH
    pair: int = 0
    only: tuple[tuple[int, int], ...] = ()
    number: int = 0
    threads: int = 0
    arrivals: str = ""
    waiters: str = ""
    at: Span | None = None


def cover(edges: list[Edge], gaps: dict[GapKey, Gap], function: synced.Function) -> dict[GapKey, list[Mark]]:
    marks: dict[GapKey, list[Mark]] = {}
    if not edges:
        return marks
    chosen: list[tuple[Gap, Privilege]] = []
    products = 0  # the gaps at which these are waited for, as a set of bits
    groups: dict[tuple[Privilege, Class, int], list[Edge]] = {}
    for edge in edges:
        groups.setdefault((edge.participants, *_alone(edge)), []).append(edge)
    legality = _Legality(gaps, function)
    # Of one group's edges, those that wait for asynchronous work come first: their barriers serve the others, too.
    for p, kind, younger in sorted(groups, key=lambda g: (-g[0].level, -g[0].n, *g[1:])):
        served = {
            Class.PRODUCTS: products,
            Class.ALL: mask_of(gap.number for gap, q in chosen if q.at_least(p)),
            Class.COPIES_ENDED: mask_of(gap.number for gap, _ in chosen if not gap.depth),
        }.get(kind, 0)
        reached, legal = legality.of(p)
        mask = mask_of(legal)
        wanted: list[tuple[Edge, int]] = []
        for edge in groups[p, kind, younger]:
            if edge.candidates & served:
                continue
            if not edge.candidates & mask:
                raise _impossible(edge, reached, function)
            wanted.append((edge, _in_time(edge, mask) if kind is Class.PRODUCTS else edge.candidates & mask))
        if not wanted:
            continue
        early = _earliness([edge for edge, _ in wanted], len(gaps))
        found = _smallest([candidates for _, candidates in wanted], legal, p, early)
        taken = mask_of(gap.number for gap in found)
        if kind is Class.PRODUCTS:
            products |= taken
        served_at: dict[int, list[tuple[Edge, int]]] = {gap.number: [] for gap in found}
        for edge, candidates in wanted:
            for n in bits(candidates & taken):
                served_at[n].append((edge, candidates))
        for gap in found:
            # what a barrier is for is what no other one does
            here = served_at[gap.number]
            alone = [edge for edge, candidates in here if candidates & taken == 1 << gap.number]
            mark = _mark(alone or [edge for edge, _ in here], gap, p, function)
            marks.setdefault(gap.key, []).append(mark)
            chosen.append((gap, p))
    return marks


class _Legality:
    """At which gaps a group can meet: those that all of it reaches, and of these, where there is a barrier for it."""

    def __init__(self, gaps: dict[GapKey, Gap], function: synced.Function):
        self.at: dict[Place, list[Gap]] = {}  # many gaps share one
        for gap in gaps.values():
            self.at.setdefault(gap.place, []).append(gap)
        self.function = function

    def of(self, p: Privilege) -> tuple[dict[int, Gap], dict[int, Gap]]:
        holding = [place for place in self.at if place.privilege.at_least(p) and place.holds(p)]
        able = [place for place in holding if primitive(p, place, self.function)[0] is not None]
        reached, legal = (_in_order(gap for place in places for gap in self.at[place]) for places in (holding, able))
        return reached, {n: gap for n, gap in legal.items() if not (gap.parted and self._of_cluster(gap, p))}

    def _of_cluster(self, gap: Gap, p: Privilege) -> bool:
        """Tell whether only the cluster's barrier would do: where it is parted, one part of it has been passed."""
        return primitive(p, gap.place, self.function)[0] is PointKind.CLUSTER


def _in_order(gaps: Iterable[Gap]) -> dict[int, Gap]:
    """Sort gaps by number, in the order in which they are first met."""
    return {gap.number: gap for gap in sorted(gaps, key=attrgetter("number"))}


def _mark(edges: list[Edge], gap: Gap, p: Privilege, function: synced.Function) -> Mark:
    kind, _ = primitive(p, gap.place, function)
    assert kind is not None  # the gap is one of those at which the group can wait
    first, text = reason(edges, "", _others(p), function)
    everyone = participants_in_words(p, kind, function)
    a, b = first.first.span, first.second.span
    # For want of a barrier that 48 of 96 threads have, the block's: all of it takes part, not every 48.
    if kind == PointKind.BLOCK and gap.place.top >= Level.BLOCK:
        p = BLOCK1
    return Mark(p, kind, first.object, text, gap.place, a, b, arrivals=everyone, waiters=everyone)


def reason(edges: list[Edge], before: str, after: str, function: synced.Function) -> tuple[Edge, str]:
    """Why these edges need a barrier: the first of them, and what it says; `before` and `after` name who makes the two
    uses.
    """
    overwrites = lambda t: t.in_flight and t.changes  # noqa: E731
    weakness = lambda e: (  # noqa: E731
        e.first.site[2] is Said.WAITED,
        e.second.site[2] is Said.ENDED,
        overwrites(e.first) and overwrites(e.second),
    )
    ordered = sorted(edges, key=lambda e: (*weakness(e), e.first.span.line, e.second.span.line))
    first = ordered[0]
    a, b = first.first, first.second
    certain = not a.names or a.site[2] in SAID or b.site[2] in SAID  # registers have no names, and are one's own
    maybe = MAYBE if not certain and undecided(a.footprint, b.footprint) else ""
    here = function.span.filename
    text = f"{word_of(a)} at {lines(here, a.span)}{before and ' by '}{before}, "
    if b.site[2] is Said.ENDED:
        text += f"and {Said.ENDED.value}"
    else:
        text += f"{word_of(b)} at {lines(here, b.span)} {maybe}by {after}"
    others = {e.object: e for e in reversed(ordered) if e.object != first.object}
    if others:
        text += "; also for " + ", ".join(
            f"{name} ({lines(here, e.first.span, e.second.span)})" for name, e in sorted(others.items())
        )
    return first, text


def word_of(t: Token) -> str:
    if t.site[2] in SAID:
        return t.site[2].value
    return _plain_word(t)


def _plain_word(t: Token) -> str:
    if t.by_atomics:
        return ATOMICS
    if t.in_flight and t.site[2] is not Said.REPLACED:
        changed = "accumulated into" if t.engine is Engine.PRODUCTS else "loaded" if t.loading else "written"
        changed = "reduced into" if t.atomic else changed
        return f"{changed if t.changes else 'read'} ({_INSTRUCTIONS[t.engine]})"
    return "written" if t.changes else "read"


def _impossible(edge: Edge, reached: dict[int, Gap], function: synced.Function) -> SnapError:
    gap = next((gap for n, gap in reached.items() if edge.candidates >> n & 1), None)
    why = (
        "no point between the two uses belongs to the whole group"
        if gap is None
        else primitive(edge.participants, gap.place, function)[1]
        or "a cluster has one barrier, and between `arrive` and `wait` it cannot meet at it for anything else"
    )
    if edge.narrow is not None:
        parts = ", whose threads are parts of several warps," if edge.narrow.level is Level.THREAD else ""
        why = (
            f"no barrier tells `{edge.narrow}`{parts} from its neighbors: all of `{edge.participants}` would wait, and"
            f" {why}"
        )
    a, b = edge.first, edge.second
    first, then = _plain_word(a), _plain_word(b)
    instruction = next((f for f in callees(function) if f.text and {a.site[1], b.site[1]} <= _numbers(f)), None)
    if instruction is not None:
        why = f"both belong to the instruction `{instruction.name}`, whose text is one piece"
    return SnapError(
        Diagnostic(
            "SNAP020",
            f"`{edge.object}` is {first}, then {then}, and nothing can order the two for `{edge.participants}`",
            b.span,
            f"{then} here",
            (Label(a.span, f"{first} here"),) if a.span != b.span else (),
            note=why,
            help="put `intrinsic.wait()` before this use"
            if gap is not None and gap.parted
            else _way_out(edge, function)
            if instruction is None
            else "let threads exchange registers, by shuffles; or make two instructions of it",
        )
    )


def _numbers(function: synced.AnyFunction) -> set[int]:
    return {s.number for s in statements(function.body)}


def _others(p: Privilege) -> str:
    """Say who makes the second use, seen from the first: why no smaller group would do."""
    if p.level is Level.THREAD:
        return (
            "the same thread"
            if p.n == 1
            else "another thread of the warp"
            if p.n == WARP
            else f"another of {p.n} threads"
        )
    return (
        {
            Level.BLOCK: "a thread of another warp",
            Level.CLUSTER: "another block of the cluster",
            Level.GRID: "another block",
        }[p.level]
        if p.n == 1
        else "another block"
    )


def _way_out(edge: Edge, function: synced.Function) -> str:
    need, words = edge.participants, {_plain_word(edge.first), _plain_word(edge.second)}
    atomic = next(
        (
            f"{does} it with `atomic.{name}(...)`, too: atomics do not conflict with atomics; or "
            for word, does, name in (("read", "read", "load"), ("written", "write", "store"))
            if words == {ATOMICS, word}
        ),
        "",
    )
    if edge.narrow is not None:
        return (
            f"{atomic}end the scope of `{edge.narrow}` after the first use, and open another one for the second: all of"
            f" `{need}` wait between the two"
        )
    if need.level is Level.GRID:
        meet = (
            f"move the two uses apart, so that `{need}` can meet at a barrier between them"
            if function.cooperative
            else "launch cooperatively (`@requires(..., cooperative=True)`)"
        )
        return (
            f"{atomic}{meet}, use two kernels, or make all uses through one partition, if no thread needs what another"
            " wrote"
        )
    if need.level is Level.BLOCK:
        return f"{atomic}require a cluster of these blocks, or use two kernels"
    return f"{atomic}move the two uses apart, so that `{need}` can meet at a barrier between them"


# Boxes and products are waited for where that is best: at a barrier that is there anyway a thread might wait for more,
# or more often. Products end in the order they were begun: a wait for the younger ones serves the older ones too, where
# it comes in time; else these are waited for on their own, and the younger ones stay in flight.
def _alone(edge: Edge) -> tuple[Class, int]:
    t = edge.first
    if t.engine is Engine.COPIES and edge.second.site[2] is Said.ENDED:
        return Class.COPIES_ENDED, 0
    if t.engine is Engine.PRODUCTS:
        if edge.participants == THREAD1:
            return Class.PRODUCTS, edge.younger
        return (Class.PRODUCTS_WRITE if t.changes else Class.PRODUCTS_READ), 0
    if t.waits_alone:
        return (Class.BOXES_WRITE if t.changes else Class.BOXES_READ), 0
    return Class.ALL, 0


# Two waits that leave a younger group in flight are better than one that leaves none.
def _in_time(edge: Edge, legal: int) -> int:
    """The gaps at which all younger groups have been begun; where no path has such a gap, all."""
    return edge.late & legal or edge.candidates & legal


def _earliness(edges: list[Edge], gaps: int) -> dict[int, int]:
    """Find how long before the second use each gap is passed at least, for uses of what is done asynchronously: late is
    better.  An element's copy over another is no use: what it overwrites was used, and waited for, before.
    """
    found: dict[int, int] = {}
    for e in edges:
        if e.first.in_flight and not e.first.engine is e.second.engine is Engine.COPIES:
            for n in bits(e.candidates):
                found[n] = max(found.get(n, 0), (e.last - n) % gaps)
    return found


def _smallest(sets: list[int], legal: dict[int, Gap], p: Privilege, early: dict[int, int]) -> list[Gap]:
    """The smallest set of gaps that meets every set of candidates, or a larger one that is in fewer loops."""
    order = sorted(legal)
    wide = lambda gap: p.n > 1 and gap.place.top > p.level  # noqa: E731

    def rank(n):
        return (
            legal[n].depth,
            legal[n].nested,
            len(legal[n].key[0]),
            wide(legal[n]),
            early.get(n, 0),
            -n,
        )

    distinct = list(dict.fromkeys(sets))
    numbers = {s: bits(s) for s in distinct}
    found = _fewest(distinct, numbers, order, rank)
    if any(legal[n].depth for n in found):
        inside = lambda chosen: sorted((legal[n].depth for n in chosen if legal[n].depth), reverse=True)  # noqa: E731
        outside = _least_inside(distinct, numbers, legal, order, rank)
        found = outside if inside(outside) < inside(found) else found
    return [legal[n] for n in sorted(found)]


def _least_inside(
    sets: list[int], numbers: dict[int, list[int]], legal: dict[int, Gap], order: list[int], rank
) -> list[int]:
    """Choose what must be ordered in a loop first, and nothing else there."""
    depth = {s: min(legal[n].depth for n in numbers[s]) for s in sets}
    chosen: list[int] = []
    taken = 0
    for most in sorted(set(depth.values()), reverse=True):
        shallow = {
            s: [n for n in numbers[s] if legal[n].depth <= most] for s in sets if depth[s] == most and not s & taken
        }
        new = _fewest(list(shallow), shallow, [n for n in order if legal[n].depth <= most], rank) if shallow else []
        chosen += new
        taken |= mask_of(new)
    return chosen


def _fewest(sets: list[int], numbers: dict[int, list[int]], order: list[int], rank) -> list[int]:
    """Straight text gives intervals, which a sweep solves; what loops give is searched, part by part."""
    where = {n: i for i, n in enumerate(order)}
    if all(where[found[-1]] - where[found[0]] == len(found) - 1 for found in numbers.values()):
        return _sweep([(found[0], found[-1]) for found in numbers.values()], order, where, rank)
    chosen: list[int] = []
    for part in _parts([numbers[s] for s in sets]):
        chosen += _hitting([mask_of(numbers[sets[i]]) for i in part], rank)
    return chosen


def _sweep(intervals: list[tuple[int, int]], order: list[int], where: dict[int, int], rank) -> list[int]:
    found: list[int] = []
    waiting: list[tuple[int, int]] = []
    for low, high in [*sorted(intervals, key=lambda i: i[1]), (order[-1] + 1, 0)]:
        if found and found[-1] >= low:
            continue
        if waiting and low > waiting[0][1]:
            end = waiting[0][1]
            start = max(w[0] for w in waiting)
            found.append(min(order[where[start] : where[end] + 1], key=rank))
            waiting = []
            if found[-1] >= low:
                continue
        waiting.append((low, high))
    return found


def _parts(numbers: list[list[int]]) -> list[list[int]]:
    """Sets that share no gap with others can be solved on their own."""
    parent = list(range(len(numbers)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = i = parent[parent[i]]
        return i

    owner: dict[int, int] = {}
    for i, bits in enumerate(numbers):
        for n in bits:
            parent[root(i)] = root(owner.setdefault(n, i))
    parts: dict[int, list[int]] = {}
    for i in range(len(numbers)):
        parts.setdefault(root(i), []).append(i)
    return list(parts.values())


def _hitting(sets: list[int], rank) -> list[int]:
    minimal: list[int] = []
    for s in sorted(sets, key=lambda s: s.bit_count()):
        if not any(m & s == m for m in minimal):
            minimal.append(s)
    useful = sorted({n for s in minimal for n in bits(s)})
    best: dict[frozenset, int] = {}
    for n in useful:  # of gaps that serve the same edges, one is enough
        hits = frozenset(i for i, s in enumerate(minimal) if s >> n & 1)
        if hits not in best or rank(n) < rank(best[hits]):
            best[hits] = n
    gaps = {n: h for h, n in best.items()}
    found = _greedy(gaps, len(minimal), rank)
    return _search(gaps, len(minimal), found, rank) if len(minimal) <= EXACT else found


def mask_of(numbers: Iterable[int]) -> int:
    """The set of these numbers, each a bit.  One that comes twice (a gap can hold the barriers of several groups) is
    still one bit.
    """
    found = 0
    for n in numbers:
        found |= 1 << n
    return found


def bits(s: int) -> list[int]:
    found = []
    while s:
        low = s & -s
        found.append(low.bit_length() - 1)
        s ^= low
    return found


def _greedy(gaps: dict[int, frozenset], count: int, rank) -> list[int]:
    left, found = set(range(count)), []
    while left:
        n = min(gaps, key=lambda n: (-len(gaps[n] & left), rank(n)))
        found.append(n)
        left -= gaps[n]
    for n in list(found):  # what later choices made superfluous
        rest = [m for m in found if m != n]
        if set().union(*(gaps[m] for m in rest)) == set(range(count)) if rest else count == 0:
            found = rest
    return found


def _search(gaps: dict[int, frozenset], count: int, start: list[int], rank) -> list[int]:
    return _extended([], frozenset(range(count)), start, gaps, rank)


def _extended(found: list[int], left: frozenset, best: list[int], gaps: dict[int, frozenset], rank) -> list[int]:
    """The best of what is known, and of all that this much can be extended to."""
    if not left:
        cost = lambda chosen: (len(chosen), sum(rank(n)[0] for n in chosen))  # noqa: E731
        return found if cost(found) < cost(best) else best
    if len(found) + 1 <= len(best):
        edge = min(left, key=lambda i: sum(i in h for h in gaps.values()))
        for n in sorted((n for n, h in gaps.items() if edge in h), key=lambda n: (-len(gaps[n] & left), rank(n))):
            best = _extended([*found, n], left - gaps[n], best, gaps, rank)
    return best
