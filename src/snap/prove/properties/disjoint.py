"""The property races: units to which memory is handed out do not meet.

Input: a `Task`.  Output: `Findings`: one obligation for each pair of places that touch one array, one of them writing,
not both atomically.  Invariant: where all are proved (and bounds are), then in every launch

  * two different units of p, of one unit of q, that a partition or claim from q to p gave memory to, touch no element
    in common while they are in one entry of its scope (with `disjoint=True`: in any entries), and
  * two blocks touch no element of global memory in common, whenever, unless the kernel is cooperative; of what came to
    both through one name of their cluster, two blocks of different clusters.

What one cluster or block does in different scopes is ordered by the barriers that `sync/` puts between them; that they
suffice is the property `order`.  So is, in cooperative kernels, what blocks do in different entries.  Non-goals: that.

What is known of both threads: values that were settled when the scope was entered, and on which units of q agree, are
one value for both; all others are two.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from snap._compiler.analysis.exact import kinds
from snap._compiler.analysis.exact.conditions import atoms_of, below, either, equal, from_memory, negated
from snap._compiler.analysis.exact.ladder import NO, NoModel, TermModel
from snap._compiler.analysis.exact.logic import FALSE, Cond
from snap._compiler.analysis.exact.renaming import Renaming
from snap._compiler.analysis.exact.terms import Atom, Poly
from snap._compiler.analysis.solvers.allowance import NotReached, check
from snap._compiler.ir.effects import Extent
from snap._compiler.ir.expressions import Spread
from snap._compiler.ir.hardware import WARP, WARPGROUP
from snap._compiler.ir.types import BLOCK1, CLUSTER1, THREAD1, Level, Privilege
from snap._compiler.walk.sites import Entry, Site
from snap.diag.error import Label
from snap.prove import Task
from snap.prove.properties import draws, pacts
from snap.prove.properties.context import ProofContext, context
from snap.prove.properties.extents import flat, hulls, inside, sizes
from snap.prove.properties.goals import shown
from snap.prove.replay import confirmed, example
from snap.prove.verdict import Findings, Obligation, Property, Resting, Verdict, not_reached

FEW_PAIRS = 6  # of one place, which are asked about one by one


@dataclass(slots=True)
class Pair:
    """Two sites that must be apart.  entry: in one entry of this scope; None: two blocks, whenever.  team: how far what
    is asked here reaches: units of different teams are asked about with no entry, those of one team with one.
    """

    first: Site
    second: Site
    entry: Entry | None
    who: str
    team: Privilege = BLOCK1


def races(task: Task) -> Findings:
    c = context(task)
    places: dict[tuple, list[Pair]] = {}
    for pair in pairs(c):
        vouched = pair.first.vouched if pair.second.vouched else ""
        places.setdefault((pair.first.root, frozenset((pair.first.span, pair.second.span)), vouched), []).append(pair)
    ordered = ["barriers order what a block does in different scopes (the property order)"]
    if task.typed.cooperative:
        ordered.append("barriers of the grid order what blocks do in different entries of a scope (the property order)")
    if any(pair.team != BLOCK1 for group in places.values() for pair in group):
        ordered.append("barriers of a cluster order what its blocks do in different scopes (the property order)")
    rests = tuple(Resting(text, (Property.ORDER,)) for text in ordered)
    found = tuple(replace(_obligation(c, group), vouched=key[-1]) for key, group in places.items())
    return Findings(found, (*c.assumed, *c.trusted), rests)


# ---- which pairs ----------------------------------------------------------------------------------------------------


def pairs(c: ProofContext) -> Iterator[Pair]:
    by_root: dict[int, list[Site]] = {}
    for site in _distinct(c.found.sites):
        by_root.setdefault(id(site.root), []).append(site)
    for sites in by_root.values():
        for a, b in itertools.combinations_with_replacement(sites, 2):
            if (a.kind.writes or b.kind.writes) and not (a.atomic and b.atomic):
                yield from _asked(c, a, b)


def _distinct(sites: list[Site]) -> list[Site]:
    kept: dict[tuple, Site] = {}
    for s in sites:
        shape = (s.elem, s.shape, s.index, s.extent, s.box, s.block)
        kept.setdefault((s.kind, bool(s.atomic), id(s.root), shape, s.path, s.chain, s.span, s.vouched), s)
    return list(kept.values())


def _asked(c: ProofContext, a: Site, b: Site) -> Iterator[Pair]:
    free = a.root.is_global and not c.task.typed.cooperative
    team = _team(a, b) if free else BLOCK1
    if free:
        yield Pair(a, b, None, f"{team.level.word}s", team)
    for one, other in zip(a.chain, b.chain):
        if one is not other:
            if one.disjoint and one.handle is other.handle:
                yield Pair(a, b, one, _units(one.inner), team)
            break
        if one.divides and not (free and one.inner.level >= team.level):
            yield Pair(a, b, one, _units(one.inner), team)


def _team(a: Site, b: Site) -> Privilege:
    """Blocks that the barriers of their scopes order, as far as global memory goes: those of a cluster, where both
    sites came through one name that clusters have; else each block for itself.
    """
    common = itertools.takewhile(lambda pair: pair[0] is pair[1], zip(a.chain, b.chain))
    return CLUSTER1 if any(one.inner == CLUSTER1 for one, _ in common) else BLOCK1


def _units(p: Privilege) -> str:
    if p.stride is not None:
        return f"groups `{p}`"
    if p.level is not Level.THREAD:
        return f"{p.level.word}s" if p.n == 1 else f"groups of {p.n} {p.level.word}s"
    return {1: "threads", WARP: "warps", WARPGROUP: "warpgroups"}.get(p.n, f"groups of {p.n} threads")


# ---- the question ---------------------------------------------------------------------------------------------------


def question(c: ProofContext, pair: Pair) -> list[Cond] | None:
    """Return what holds where the two meet; None where no one can say which thread does what."""
    a, b, entry = pair.first, pair.second, pair.entry
    if entry is not None and not all(_whole(s, entry.inner) for s in (a, b)):
        return None
    known = c.notes.setdefault(("asked", id(entry)), {})
    assert isinstance(known, dict)
    key = _contents(a), _contents(b)
    if key not in known:  # loops that are run out, and calls, ask the same again and again
        known[key] = _question(c, pair)
    return known[key]


def _contents(s: Site) -> tuple:
    return id(s.root), s.elem, s.shape, s.index, s.extent, s.box, s.block, s.path


def _question(c: ProofContext, pair: Pair) -> list[Cond]:
    a, b = pair.first, pair.second
    shared, told_apart = _shared(c, pair)
    sides: list[tuple[Site, Renaming]] = []
    for number_, site in ((1, a), (2, b)):
        side = c.notes.setdefault(("side", id(pair.entry), number_), None)
        if not isinstance(side, Renaming):
            side = c.notes["side", id(pair.entry), number_] = Renaming(c.terms, number_, shared)
        sides.append((site, side))
    facts, met = meeting(c, sides)
    return [*facts, *_learned(c, pair, sides), *told_apart(), *met]


def meeting(c: ProofContext, sides: list[tuple[Site, Renaming]]) -> tuple[list[Cond], list[Cond]]:
    """Return what is known of two threads, each where it makes an access; and what holds if they touch one element."""
    index, facts = [], []
    for number_, (site, side) in enumerate(sides, 1):
        place, there = _elements(c, site, number_)
        shape = None if site.shape is None else tuple(map(side.poly, site.shape))
        index.append((site, tuple(map(side.poly, place)), shape, _rank(c, site, side.poly)))
        facts += [side.cond(one) for one in (*c.facts, *site.path, *there)]
    return facts, _meet(index)


def _learned(c: ProofContext, pair: Pair, sides: list[tuple[Site, Renaming]]) -> list[Cond]:
    """Return what functions promise of two threads, and what is known of numbers that they have drawn."""
    entry = pair.entry
    if entry is None:
        return [*draws.loaded(c.found, sides), *draws.facts(c, None, sides), *pacts.facts(c, None, 0, 0, sides)]
    promised = pacts.facts(c, _outer(c, pair, entry), entry.stamp, 0 if entry.disjoint else -1, sides)
    return [*draws.loaded(c.found, sides), *draws.facts(c, entry.outer, sides), *promised]


def _outer(c: ProofContext, pair: Pair, entry: Entry) -> Privilege:
    """The units whose parts are compared."""
    outer = entry.outer
    if pair.first.root.is_global and not c.task.typed.cooperative and outer.level > pair.team.level:
        return pair.team  # of two teams, the other question is asked
    if pair.first.root.obj.spread is Spread.COPIES and outer.level > Level.BLOCK:
        return BLOCK1  # only TMA loads write it, and those of its blocks are one: a part of it for all
    return outer


def _whole(s: Site, p: Privilege) -> bool:
    """Return whether a unit of p does all of it, where the hardware decides which thread does what."""
    wide = {Extent.ROWS: WARP, Extent.FRAGMENT: WARPGROUP}.get(s.extent, 1)
    return p.level is not Level.THREAD or p.at_least(Privilege(Level.THREAD, wide))


def _rank(c: ProofContext, s: Site, side: Callable[[Poly], Poly]) -> Poly | None:
    if s.root.obj.spread is not Spread.ACROSS:
        return None
    return side(c.walk.block if s.block is None else s.block)


def _elements(c: ProofContext, s: Site, side: int) -> tuple[tuple[Poly, ...], list[Cond]]:
    """Any element that the access touches, which lies in the array."""
    counts = sizes(s)
    index = [
        i if n == 1 else i + c.terms.base(kinds.ANY, 0, n - 1, THREAD1, key=("element", s.extent, counts, side, k))
        for k, (i, n) in enumerate(zip(s.index, counts))
    ]
    return tuple(index), inside(tuple(index), s.shape)


def _meet(index: list) -> list[Cond]:
    (a, i, n, rank), (b, j, m, other) = index
    same = [equal(rank, other)] if rank is not None and other is not None else []
    if a.elem == b.elem and n == m:
        return [*same, *(equal(x, y) for x, y in zip(i, j))]
    start, end = flat(i, n) * a.elem.bytes, flat(j, m) * b.elem.bytes
    return [*same, below(start, end + b.elem.bytes), below(end, start + a.elem.bytes)]


def _shared(c: ProofContext, pair: Pair) -> tuple[Callable[[Atom], bool], Callable[[], list[Cond]]]:
    """Return which atoms are one for both, and what tells the two threads apart."""
    entry = pair.entry
    if entry is None:
        return (lambda atom: atom.per.level is Level.GRID and atom.depth == 0), lambda: [other_team(c, pair.team)]
    outer = _outer(c, pair, entry)
    anyone = entry.disjoint

    def shared(atom: Atom) -> bool:
        settled = atom.depth == 0 if anyone else atom.number < entry.stamp
        return settled and atom.number < entry.stamp and atom.per.at_least(outer)

    return shared, lambda: [*_same_unit(c, outer), _other_unit(c, outer, entry.inner)]


def sides_of(c: ProofContext, p: Poly) -> tuple[Poly, Poly]:
    """The two threads' own."""
    atom = next(iter(p.atoms)) if p.atoms else None
    return (p, p) if atom is None else (c.terms.of_side(1, atom), c.terms.of_side(2, atom))


def _same_unit(c: ProofContext, p: Privilege) -> list[Cond]:
    """Say that both are in one unit, as far as their names do not say so already."""
    t1, t2 = sides_of(c, c.walk.thread)
    if p.level is Level.THREAD:
        return [equal(_number(c, p, t1), _number(c, p, t2))]
    if p.level is Level.BLOCK and p.n > 1:
        b1, b2 = sides_of(c, c.walk.block)
        return [equal(_number(c, p, b1), _number(c, p, b2))]
    return []


def _number(c: ProofContext, p: Privilege, unit: Poly) -> Poly:
    """Return which group of p a unit of the level is in."""
    return p.shape.number(unit, c.terms.arithmetic)


def _other_unit(c: ProofContext, outer: Privilege, p: Privilege) -> Cond:
    """Different units of p, in one unit of `outer`."""
    apart: list[Cond] = []
    if p.level is Level.THREAD:
        t1, t2 = sides_of(c, c.walk.thread)
        apart.append(negated(equal(_number(c, p, t1), _number(c, p, t2))))
    if outer.level > Level.BLOCK or outer.level is Level.BLOCK and outer.n > 1:
        b1, b2 = sides_of(c, c.walk.block)
        of = p if p.level is Level.BLOCK else BLOCK1
        if p.level <= Level.BLOCK:
            apart.append(negated(equal(_number(c, of, b1), _number(c, of, b2))))
    if outer.level is Level.GRID and c.walk.cluster is not None:
        c1, c2 = sides_of(c, c.walk.cluster)
        apart.append(negated(equal(c1, c2)))
    return either(*apart) if apart else FALSE


def other_team(c: ProofContext, team: Privilege) -> Cond:
    b1, b2 = sides_of(c, c.walk.block)
    apart = [negated(equal(b1, b2))] if team == BLOCK1 else []
    if c.walk.cluster is not None:
        c1, c2 = sides_of(c, c.walk.cluster)
        apart.append(negated(equal(c1, c2)))
    return either(*apart)


# ---- answers --------------------------------------------------------------------------------------------------------


def _obligation(c: ProofContext, group: list[Pair]) -> Obligation:
    try:
        return _decided(c, group)
    except NotReached:
        what = f"no two {group[0].who} meet in an element of `{group[0].first.root.name}`"
        return not_reached(Property.RACES, what, group[0].first.span)


def _decided(c: ProofContext, group: list[Pair]) -> Obligation:
    check()
    first = group[0].first
    a, b = shown(first.span), shown(group[0].second.span)
    both_ = f"`{a}`" if a == b else f"`{a}` and `{b}`"
    needing: Obligation | None = None
    # Units of one block first: a launch of one block shows more than one of two.
    for pair in [] if _hulls_apart(c, group) else sorted(group, key=lambda pair: pair.entry is None):
        what = f"no two {pair.who} meet in an element of `{first.root.name}` by {both_}"
        if first.extent is Extent.ANYWHERE or pair.second.extent is Extent.ANYWHERE:
            return Obligation(Property.RACES, Verdict.UNKNOWN, what, first.span, "CUDA text is not looked into")
        asked = question(c, pair)
        answer: TermModel | NoModel | None = None if asked is None else c.ladder.solve(asked)
        if answer is not NO:
            one_block = asked is not None and _one_block(c, pair, asked)
            wrong = None if asked is None else _refuted(c, pair, asked, one_block)
            if wrong is not None:
                return wrong
            found = _open(pair, what, answer)
            if asked is not None:
                found = replace(found, example=example(c, asked, answer, _sides(c, pair)))
            if not one_block:
                return found
            needing = replace(found, needs=("blocks == 1",), reason="it holds where blocks == 1")
    if needing is not None:
        return needing
    who = " or ".join(dict.fromkeys(pair.who for pair in group))
    what = f"no two {who} meet in an element of `{first.root.name}` by {both_}"
    return Obligation(Property.RACES, Verdict.PROVED, what, first.span, "shown for every launch")


def _hulls_apart(c: ProofContext, group: list[Pair]) -> bool:
    """Return whether none of many pairs of one place meet, by few questions: of all unrolled iterations at once."""
    if len(group) < FEW_PAIRS or any(s.extent is Extent.ANYWHERE for p in group for s in (p.first, p.second)):
        return False
    alike: dict[tuple, list[Pair]] = {}
    for pair in group:
        alike.setdefault((_entered(c, pair), pair.who, pair.team), []).append(pair)
    for pairs_ in alike.values():
        for a, b in hulls((pair.first, pair.second) for pair in pairs_):
            asked = question(c, replace(pairs_[0], first=a, second=b))
            if asked is None or c.ladder.solve(asked) is not NO:
                return False
    return True


def _entered(c: ProofContext, pair: Pair) -> object:
    """Return what a question takes from the scope: who its units are, and which numbers they share."""
    entry = pair.entry
    if entry is None or c.found.pacts or c.found.draws:  # what is known of these depends on when it was entered
        return id(entry)
    shared, _ = _shared(c, pair)
    of: list[Atom] = []
    for s in (pair.first, pair.second):
        of += atoms_of((*c.facts, *s.path), (*s.index, *(s.shape or ()), *(() if s.block is None else (s.block,))))
    of += atoms_of([], [i for atom in of if atom in c.found.loads for i in c.found.loads[atom].index])
    return entry.outer, entry.inner, entry.disjoint, frozenset((atom, shared(atom)) for atom in of)


def _one_block(c: ProofContext, pair: Pair, asked: list[Cond]) -> bool:
    """Return whether all is well where there is one block."""
    alone = equal(c.walk.blocks, 1)
    return pair.entry is None and c.ladder.solve([*asked, alone]) is NO and c.ladder.solve([*c.facts, alone]) is not NO


def _refuted(c: ProofContext, pair: Pair, asked: list[Cond], one_block: bool) -> Obligation | None:
    """Only with a launch in which the CPU machine has seen it."""
    a, b = pair.first, pair.second
    where = [*asked, *c.needed]
    launch = confirmed(c, where, ("overlap", "race"), (a.span, b.span), (a.name, b.name, a.root.name), _sides(c, pair))
    if launch is None:
        return None
    verb = "write" if a.kind.writes and b.kind.writes else "touch"
    what = f"two {pair.who} {verb} one element of `{a.root.name}`"
    others = () if a.span == b.span else (Label(b.span, "and this"),)
    others = (*others, *_handed(pair))
    excluded = "exclude it: `where=lambda blocks: blocks == 1`" if one_block else "exclude such launches with `where=`"
    help = f"hand out parts that do not overlap with `offset=` or `f=`; or {excluded}"
    data = bool(launch.data) or from_memory((*a.path, *b.path), (*a.index, *b.index))
    return Obligation(Property.RACES, Verdict.REFUTED, what, a.span, launch.seen, "", others, help, launch, data=data)


def _sides(c: ProofContext, pair: Pair) -> tuple[Renaming, ...]:
    """Return the names that the two have in the question."""
    found = (c.notes.get(("side", id(pair.entry), n)) for n in (1, 2))
    return tuple(side for side in found if isinstance(side, Renaming))


def _handed(pair: Pair) -> list[Label]:
    """Point at the scope that gave the two units the memory in which they meet; of two blocks, by a name of both."""
    common = [one for one, other in zip(pair.first.chain, pair.second.chain) if one is other and one.divides]
    of_team = next((one for one in common if one.inner.level is pair.team.level), None)
    entry = pair.entry or of_team
    return [] if entry is None else [Label(entry.handle.span, f"handed to {pair.who} here")]


def _open(pair: Pair, what: str, answer: TermModel | NoModel | None) -> Obligation:
    if answer is None:
        reason = "which thread moves what is the hardware's matter here"
    elif isinstance(answer, NoModel):
        reason = "the solvers do not decide it"
    else:
        reason = "what is known of the indices does not tell them apart"
    others = []
    if pair.second.span != pair.first.span:
        others.append(Label(pair.second.span, "and this"))
    others += _handed(pair)
    help = (
        "say what is known of the arguments with `where=`, or hand out parts that do not overlap:"
        " `partition(..., offset=)`"
    )
    return Obligation(Property.RACES, Verdict.UNKNOWN, what, pair.first.span, reason, others=tuple(others), help=help)
