"""What the walk over a function carries: gaps, tokens, states; and what it finds, edges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from operator import attrgetter

from snap.diag.span import Span
from snap.ir.types import Place, Privilege
from snap.sync.linear import Form
from snap.sync.overlap import Ages, Footprint
from snap.sync.values import Frame

ObjectKey = tuple[Frame, int]
BACKGROUND = ("bulk", "wgmma", "load")  # engines that see what threads wrote only after a fence
GapKey = tuple[Frame, str, int]  # calls, 'before' | 'after' | 'condition', id of the statement


@dataclass(frozen=True, slots=True)
class Gap:
    """A place between two statements.  `number` orders gaps as they are first met."""

    number: int
    key: GapKey
    place: Place
    depth: int  # of loops


@dataclass(slots=True, eq=False)
class Token:
    """An access that happened.  `names` are the handles it was made through, lowest first; those of scopes that ended are dropped.

    It is never changed; `altered` makes another one of it.  (Walks make thousands of them, which is why it is no frozen dataclass.)"""

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
    ages: Ages = ()  # where it counts (`aging`): iterations since it was made
    engine: str = ""  # of what is done in the background: 'copy', 'bulk', 'wgmma'
    fills: int = 0  # of a pipeline's memory: stages taken since, at most its depth
    issuer: Privilege | None = None  # of a box: the group for which one thread issues it
    role: tuple[int, int] | None = None  # the case of a split of the block's threads it was made in: first thread, number
    atomic: bool = False  # of a box: combined with what is there, like an atomic
    fragment: tuple | None = None  # of a part of an accumulator: which tile; in equal tiles each thread's part is its own
    born: tuple[int, ...] = ()  # the loops it was made in
    aging: int = 0  # of a copy in flight, or of a pipeline's slot that is numbered: up to which age
    commits: int = -1  # groups committed since, its own not counted
    waited: dict[int, int] = field(default_factory=dict)  # `commits` at each barrier's gap crossed since

    def awaited(self, engine: str) -> bool:
        """Whether a wait of that name is one for this: the end of boxes, or only that their memory has been read."""
        return self.engine == "bulk" and self.kind == "S" if engine == "bulk read" else self.engine == engine

    @property
    def by_threads(self) -> bool:
        """Whether threads wrote, element by element: what the units that copy boxes and multiply tiles see only after a fence."""
        return self.kind in "WA" or self.kind == "C" and self.engine == "copy"

    @property
    def key(self) -> tuple:
        return (self.site, self.kind, self.names, self.footprint, self.ordered, self.ages, self.fills)


_PARTS = attrgetter(*(f.name for f in fields(Token)))


def altered(t: Token, **parts: object) -> Token:
    """The token with some parts changed."""
    new = Token(*_PARTS(t))
    for name, value in parts.items():
        setattr(new, name, value)
    return new


@dataclass(slots=True)
class Edge:
    first: Token
    second: Token
    participants: Privilege
    candidates: int
    object: str
    last: int = 0  # the last gap before the second use
    younger: int = 0  # of products: groups that have been begun since, at least


@dataclass(slots=True)
class State:
    tokens: dict[ObjectKey, dict[tuple, Token]]
    known: dict[tuple[Frame, int], Form]
    crossed: int = 0

    def copy(self) -> State:
        return State({obj: dict(held) for obj, held in self.tokens.items()}, dict(self.known), self.crossed)

    def settle(self) -> None:
        """Bring every token's gaps up to date, and start counting anew."""
        for held in self.tokens.values():
            for key, t in held.items():
                if t.since or self.crossed:
                    held[key] = altered(t, crossed=t.crossed | (self.crossed & ~t.since), since=0)
        self.crossed = 0

    def absorb(self, other: State) -> bool:
        """Tokens of both; a token on two paths has crossed what both crossed.  Whether this one changed."""
        changed = False
        for obj, held in other.tokens.items():
            mine = self.tokens.setdefault(obj, {})
            for key, t in held.items():
                have = mine.get(key)
                if have is None:
                    mine[key] = t
                    changed = True
                elif have.crossed & ~t.crossed or t.commits < have.commits or any(n < have.waited.get(gap, n + 1) for gap, n in t.waited.items()):
                    mine[key] = merge(t, have)
                    changed = True
        return changed

    def each_copy(self, change: Callable[[Token], Token], engine: str = "") -> None:
        for held in self.tokens.values():
            for key, t in held.items():
                if t.kind in "CS" and (not engine or t.engine == engine):
                    held[key] = change(t)

    def covered(self, engine: str, younger: int, role: tuple[int, int] | None) -> None:
        """A wait by a role, or by all: what has so many younger groups of its own, or more, has come to its end."""
        for obj, held in self.tokens.items():
            self.tokens[obj] = {key: t for key, t in held.items() if not t.awaited(engine) or t.commits < younger or role not in (None, t.role)}

    def without_role(self, role: tuple[int, int]) -> None:
        for obj, held in self.tokens.items():
            if any(t.role == role for t in held.values()):
                self.tokens[obj] = {key: t for key, t in held.items() if t.role != role}

    def next_fill(self, obj: ObjectKey, depth: int) -> None:
        """A stage of the pipeline is taken: what was done to it is one fill older."""
        held = self.tokens.get(obj)
        if not held:
            return
        older: dict[tuple, Token] = {}
        for t in held.values():
            t = altered(t, fills=min(t.fills + 1, depth))
            older[t.key] = t if t.key not in older else merge(
                *(altered(x, crossed=x.crossed | (self.crossed & ~x.since), since=self.crossed) for x in (t, older[t.key]))
            )
        self.tokens[obj] = older

    def forget_ages(self, loop: int) -> None:
        """Outside of a loop it no longer counts how many of its iterations ago a copy was issued."""
        for obj, held in self.tokens.items():
            if any(t.ages for t in held.values()):
                kept: dict[tuple, Token] = {}
                for t in held.values():
                    t = altered(t, ages=tuple((at, n) for at, n in t.ages if at != loop))
                    kept[t.key] = t if t.key not in kept else merge(t, kept[t.key])
                self.tokens[obj] = kept


@dataclass(frozen=True, slots=True)
class Plan:
    barriers: dict[int, list[Privilege]]
    commits: frozenset[tuple[Frame, int]]


@dataclass(frozen=True, slots=True)
class Name:
    """A handle as it is at run time: its privilege and what it was lowered from."""

    key: tuple[Frame, int]
    privilege: Privilege


def merge(a: Token, b: Token) -> Token:
    """One access on two paths."""
    waited = {**b.waited, **{gap: min(n, b.waited.get(gap, n)) for gap, n in a.waited.items()}}
    return altered(a, crossed=a.crossed & b.crossed, commits=min(a.commits, b.commits), waited=waited)
