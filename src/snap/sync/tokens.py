"""What the walk over a function carries: gaps, tokens, states; and what it finds, edges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter

from snap.analysis.linear import Form
from snap.analysis.overlap import Ages, Footprint, before
from snap.analysis.values import Frame
from snap.diag.span import Span
from snap.ir.types import Place, Privilege

ObjectKey = tuple[Frame, int]
BACKGROUND = ("bulk", "wgmma", "load")  # engines that come after what threads did only behind a fence
GapKey = tuple[Frame, str, int]  # calls, 'before' | 'after' | 'condition', id of the statement


@dataclass(frozen=True, slots=True)
class Gap:
    """A place between two statements.  `number` orders gaps as they are first met."""

    number: int
    key: GapKey
    place: Place
    depth: int  # of loops that may run more than once
    nested: int  # of all loops


@dataclass(eq=False)
class Token:
    """An access that happened.  `names` are the handles it was made through, lowest first; those of scopes that ended
    are dropped.

    It is never changed; `altered` makes another one of it.  (Walks make thousands of them, which is why it is no frozen
    dataclass, and has no slots: a dictionary is copied at once.)
    """

    site: tuple[Frame, int, str]
    kind: str
    names: tuple[tuple[Frame, int], ...]
    footprint: Footprint
    disjoint: tuple[tuple[Frame, int], ...]
    ordered: Privilege | None
    name: str
    span: Span
    crossed: int  # bits: gaps crossed until `since`
    since: int  # bits: gaps that the walk had crossed when `crossed` was last brought up to date
    # where it counts (`aging`): iterations since it was made, or since a loop began that it was made before
    ages: Ages = ()
    engine: str = ""  # of what is done in the background: 'copy', 'bulk', 'wgmma'
    fills: int = 0  # of a pipeline's memory: stages taken since, at most its depth
    issuer: Privilege | None = None  # of a box: the group for which one thread issues it
    role: tuple[int, int] | None = (
        None  # the case of a split of the block's threads it was made in: first thread, number
    )
    atomic: str = ""  # of a box that is combined with what is there, like an atomic: how
    fragment: tuple | None = (
        None  # of a part of an accumulator: which tile; in equal tiles each thread's part is its own
    )
    born: tuple[int, ...] = ()  # the loops it was made in
    aging: int = 0  # of a copy in flight, or of a pipeline's slot that is numbered: up to which age
    commits: int = -1  # groups committed since, its own not counted
    early: int = 0  # of products, bits: gaps crossed before the last of these
    waited: dict[int, int] = field(default_factory=dict)  # `commits` at each barrier's gap crossed since
    settled: str = (
        ""  # of boxes and products that were waited for, their engine: they are over, but only those who waited know
    )
    # an mbarrier has ordered it before every later use of the array, but not before what comes when the array is gone
    passed: bool = False

    def awaited(self, engine: str) -> bool:
        """Whether a wait of that name is one for this: the end of boxes, or only that their memory has been read."""
        return self.engine == "bulk" and self.kind == "S" if engine == "bulk read" else self.engine == engine

    @property
    def by_threads(self) -> bool:
        """Whether threads did it, element by element.  The units that copy boxes and multiply tiles reach memory by
        another way, where barriers have no effect: they see what was written, and do not overwrite what is still being
        read, only after a fence.
        """
        return not self.settled and (self.kind in "RWA" or self.engine == "copy")

    def __post_init__(self) -> None:
        self.key = _KEY(self)  # what tells tokens of an object apart


_KEYED = frozenset(("site", "kind", "names", "footprint", "ordered", "ages", "fills", "settled", "passed"))
_KEY = attrgetter(*sorted(_KEYED))


def altered(t: Token, **parts: object) -> Token:
    """The token with some parts changed."""
    new = Token.__new__(Token)
    new.__dict__ = {**t.__dict__, **parts}
    if not _KEYED.isdisjoint(parts):
        new.key = _KEY(new)
    return new


class Touched:
    """The accesses to an object in a region, each once however often its loops are walked."""

    def __init__(self) -> None:
        self.tokens: list[tuple[Token, tuple[Name, ...]]] = []  # each with the names it was made through
        self.keys: set[tuple] = set()
        self.told: dict[tuple, int] = {}  # by access, how many of the tokens it has been told

    def add(self, t: Token, chain: tuple[Name, ...]) -> None:
        if t.key not in self.keys:
            self.keys.add(t.key)
            self.tokens.append((t, chain))

    def before(self, b: Token) -> list[tuple[Token, tuple[Name, ...]]]:
        """Those that came before, less those that this access was told the last time."""
        first = self.told.get(b.key, 0)
        self.told[b.key] = len(self.tokens)
        return self.tokens[first:]


@dataclass(slots=True)
class Edge:
    first: Token
    second: Token
    participants: Privilege
    candidates: int
    object: str
    last: int = 0  # the last gap before the second use
    younger: int = 0  # of products: groups that have been begun since, at least
    late: int = 0  # of products: the candidates with all of these begun


# Tokens do not keep count of the gaps crossed: the state does, and a token notes what the state had crossed when it was
# made.  So where paths meet or a loop begins anew, the tokens that no path has touched stay what they are.  A gap is
# crossed once in an iteration of its innermost loop, and at the loop's end what has come around is told from the loop's
# top (`absorb`).
@dataclass(slots=True)
class State:
    """What has happened on the paths so far.  `own`: the objects whose tokens no other state shares; only these
    dictionaries may be changed. `alone`: nobody else has `known`, so that it may be changed, too.
    """

    tokens: dict[ObjectKey, dict[tuple, Token]]
    known: dict[tuple[Frame, int], Form]
    crossed: int = 0
    own: set[ObjectKey] = field(default_factory=set)
    alone: bool = False

    def shared(self) -> dict[tuple[Frame, int], Form]:
        """What is known, for others to keep."""
        self.alone = False
        return self.known

    def share(self, known: dict[tuple[Frame, int], Form]) -> None:
        """Know what others do."""
        self.known, self.alone = known, False

    def learn(self, news: dict[tuple[Frame, int], Form]) -> None:
        if not self.alone:
            self.known, self.alone = dict(self.known), True
        self.known.update(news)

    def copy(self) -> State:
        self.own = set()
        return State(dict(self.tokens), self.shared(), self.crossed)

    def held(self, obj: ObjectKey) -> dict[tuple, Token]:
        """The tokens of an object, to be changed."""
        if obj not in self.own:
            self.put(obj, dict(self.tokens.get(obj, ())))
        return self.tokens[obj]

    def put(self, obj: ObjectKey, held: dict[tuple, Token]) -> None:
        self.tokens[obj] = held
        self.own.add(obj)

    def hand_on(self, obj: ObjectKey, comes_back: bool, reused: bool) -> None:
        """An mbarrier orders all that was done to the array before what will be.  Products end in the order they were
        begun, and slots that come back do so behind a wait for theirs: who waits for the last ones, which are to come,
        need not wait for these. reused: whether other arrays take the same bytes; else only what is still in flight
        matters when the array is gone.
        """
        over = lambda t: comes_back if t.engine == "wgmma" else not reused and t.engine != "bulk"  # noqa: E731
        self.drop(obj, [key for key, t in self.tokens.get(obj, {}).items() if over(t)])
        if self.tokens.get(obj):
            self.regrouped(obj, lambda t: t if t.passed else altered(t, passed=True))

    def drop(self, obj: ObjectKey, keys: list[tuple]) -> None:
        if keys:
            held = self.held(obj)
            for key in keys:
                del held[key]

    def since(self, t: Token) -> int:
        """The gaps that every path has crossed since."""
        return t.crossed | (self.crossed & ~t.since)

    def both(self, a: Token, b: Token) -> Token:
        """Two tokens that have become one."""
        return merged(a, b, self.since(a) & self.since(b), self.crossed)

    def regrouped(self, obj: ObjectKey, change: Callable[[Token], Token]) -> None:
        """Change an object's tokens, in what tells them apart, too."""
        held = self.tokens[obj]
        found: dict[tuple, Token] = {}
        same = True
        for t in held.values():
            new = change(t)
            same = same and new is t
            have = found.get(new.key)
            found[new.key] = new if have is None else self.both(new, have)
        if not same:
            self.put(obj, found)

    def only(self, keep: Callable[[Token], bool]) -> None:
        for obj, held in self.tokens.items():
            if not all(keep(t) for t in held.values()):
                self.put(obj, {key: t for key, t in held.items() if keep(t)})

    def keep(self, others: list[State]) -> None:
        """Only the tokens that one of the others has."""
        for obj, held in list(self.tokens.items()):
            theirs = [other.tokens.get(obj, ()) for other in others]
            self.drop(obj, [key for key in held if not any(key in keys for keys in theirs)])

    def absorb(self, other: State, news: State | None = None) -> None:
        """Tokens of both; a token on two paths has crossed what both crossed.  `news` gets those that this one has not
        had.
        """
        self._meet(other)
        for obj, theirs in other.tokens.items():
            mine = self.tokens.get(obj)
            if mine is theirs:
                continue
            if mine is None:
                mine = self.held(obj)
            for key, t in theirs.items():
                have = mine.get(key)
                if have is t:
                    continue
                since = other.since(t)
                if have is None:
                    new = altered(t, crossed=since, since=self.crossed)
                else:
                    before = self.since(have)
                    both = before & since
                    if (
                        both == before
                        and t.commits >= have.commits
                        and not any(n < have.waited.get(gap, n + 1) for gap, n in t.waited.items() if both >> gap & 1)
                    ):
                        continue
                    new = merged(t, have, both, self.crossed)
                mine = self.held(obj)
                mine[key] = new
                if news is not None:
                    news.held(obj)[key] = new

    def _meet(self, other: State) -> None:
        """From here on the state has crossed what both have.  A token that both have, as it is, has too; the others
        keep their own.
        """
        crossed = self.crossed & other.crossed
        lost = self.crossed & ~crossed
        if not lost:
            return
        for obj, mine in self.tokens.items():
            theirs = other.tokens.get(obj, {})
            if mine is not theirs:
                kept = {
                    key: altered(t, crossed=self.since(t), since=crossed)
                    for key, t in mine.items()
                    if lost & ~t.since & ~t.crossed and theirs.get(key) is not t
                }
                if kept:
                    self.put(obj, {**mine, **kept})
        self.crossed = crossed

    def each_copy(self, change: Callable[[Token], Token], engine: str = "") -> None:
        for obj, held in self.tokens.items():
            found = {key: change(t) for key, t in held.items() if t.kind in "CS" and (not engine or t.engine == engine)}
            if found:
                self.put(obj, {**held, **found})

    def covered(self, engine: str, younger: int, role: tuple[int, int] | None) -> None:
        """A wait by a role, or by all: what has so many younger groups of its own, or more, has come to its end.  Those
        who waited know that; from here on it is for others what an access of theirs would be.  (Registers are one's
        own.)
        """
        over = lambda t: t.kind in "CS" and t.awaited(engine) and t.commits >= younger and role in (None, t.role)  # noqa: E731

        def ended(t: Token) -> Token:
            if not over(t):
                return t
            kind = "W" if t.kind == "C" else "R"
            return altered(
                t, kind=kind, engine="", settled="" if t.engine == "copy" else t.engine, crossed=0, since=self.crossed
            )

        for obj, held in list(self.tokens.items()):
            if obj[1] == "registers":
                self.drop(obj, [key for key, t in held.items() if over(t)])
            elif any(over(t) for t in held.values()):
                self.regrouped(obj, ended)

    def without_role(self, role: tuple[int, int]) -> None:
        self.only(lambda t: t.role != role)

    def next_fill(self, obj: ObjectKey, depth: int) -> None:
        """A stage of the pipeline is taken: what was done to it is one fill older."""
        if self.tokens.get(obj):
            self.regrouped(obj, lambda t: t if t.fills == depth else altered(t, fills=min(t.fills + 1, depth)))

    def recount(self, obj: ObjectKey, depth: int) -> None:
        """The pipeline is declared again, and its stages are counted from the first slot: any earlier fill may have
        been in the slot that comes.
        """
        if self.tokens.get(obj):
            self.regrouped(obj, lambda t: t if t.fills == depth else altered(t, fills=depth))

    def forget_ages(self, loop: int) -> None:
        """Outside of a loop it no longer counts how many of its iterations ago a copy was issued."""
        ended = (loop, before(loop))

        def later(t: Token) -> Token:
            kept = tuple(age for age in t.ages if age[0] not in ended)
            return t if len(kept) == len(t.ages) else altered(t, ages=kept)

        for obj, held in self.tokens.items():
            if any(t.ages for t in held.values()):
                self.regrouped(obj, later)

    def begin(self, loop: int) -> None:
        """From here on the loop's iterations are counted for the copies that are in flight."""
        begun = lambda t: t.engine == "copy" and t.aging and loop not in t.born  # noqa: E731
        for obj, held in self.tokens.items():
            if any(begun(t) for t in held.values()):
                self.regrouped(obj, lambda t: altered(t, ages=(*t.ages, (before(loop), 0))) if begun(t) else t)


@dataclass(frozen=True, slots=True)
class Plan:
    barriers: dict[int, list[Privilege]]
    commits: frozenset[tuple[Frame, int]]
    gaps: dict[GapKey, Gap]


@dataclass(frozen=True, slots=True)
class Name:
    """A handle as it is at run time: its privilege, and whether one unit of its base's has claimed it, rather than each
    unit having its part.
    """

    key: tuple[Frame, int]
    privilege: Privilege
    claimed: bool = False


def merged(a: Token, b: Token, crossed: int, since: int) -> Token:
    """One access on two paths.  What was committed at a barrier that only one of them has passed does not count."""
    waited = (
        {gap: min(n, b.waited.get(gap, n)) for gap, n in a.waited.items() if crossed >> gap & 1} if a.waited else {}
    )
    return altered(
        a, crossed=crossed, since=since, commits=min(a.commits, b.commits), early=a.early | b.early, waited=waited
    )
