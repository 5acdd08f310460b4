"""What runs side by side: units of a group, and cases of a split.

Each goes its own way, so no gap in there orders what belongs to more than one of them.  Input: accesses, in the order
of the text, and the groups, calls and cases (regions) they stand in.  Output: pairs that units of one region make, with
who would have to meet: nothing can order these.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from snap.ir.types import BLOCK1, Place
from snap.sync.conflict import Conflict, beside
from snap.sync.context import Context
from snap.sync.tokens import ObjectKey, Token

ConflictingPair = tuple[Token, Token, Conflict]


class Touched:
    """The accesses to an object in a region, each once however often its loops are walked."""

    def __init__(self) -> None:
        self.tokens: list[Token] = []
        self.keys: set[tuple] = set()
        self.told: dict[tuple, int] = {}  # by access, how many of the tokens it has been told

    def add(self, t: Token) -> None:
        if t.key not in self.keys:
            self.keys.add(t.key)
            self.tokens.append(t)

    def before(self, b: Token) -> list[Token]:
        """Those that came before, less those that this access was told the last time."""
        first = self.told.get(b.key, 0)
        self.told[b.key] = len(self.tokens)
        return self.tokens[first:]


Region = tuple[Place, dict[ObjectKey, Touched]]


class Beside:
    def __init__(self, context: Context):
        self.context = context
        self.regions: list[Region] = []  # for each group, case or call we are in, what was touched in it
        self.siblings: list[Region] = []  # the same for earlier cases of the splits we are in

    @contextmanager
    def region(self, place: Place) -> Iterator[None]:
        """A group or a call.  One in another of the same privilege would add nothing, and many calls are in calls."""
        new = all(outer.privilege != place.privilege for outer, _ in self.regions)
        if new:
            self.regions.append((place, {}))
        yield
        if new:
            self.regions.pop()

    @contextmanager
    def case(self, place: Place) -> Iterator[None]:
        self.regions.append((place, {}))
        yield
        self.siblings.append(self.regions.pop())

    @contextmanager
    def split(self) -> Iterator[None]:
        before = len(self.siblings)
        yield
        del self.siblings[before:]

    def access(self, b: Token) -> Iterator[ConflictingPair]:
        for place, touched in [*(self.regions[k] for k in self._widest()), *self.siblings]:
            if b.obj in touched:
                yield from self._pairs(b, place, touched[b.obj])
        for _, touched in self.regions:
            touched.setdefault(b.obj, Touched()).add(b)

    def _widest(self) -> list[int]:
        """The regions we are in, of each privilege the outermost: what those inside of it would add, it has said."""
        first = {place.privilege: k for k, (place, _) in reversed(list(enumerate(self.regions)))}
        return sorted(first.values())

    def _pairs(self, b: Token, place: Place, touched: Touched) -> Iterator[ConflictingPair]:
        most = b.names[-1].privilege
        most = self.context.overlap.small or most if most == BLOCK1 else most
        if place.privilege.at_least(most):
            return
        for t in touched.before(b):
            found = beside(t, b, place.privilege, self.context) if t.site != b.site else None
            if found is not None:
                yield t, b, found

    def count(self) -> list[dict[ObjectKey, int]]:
        """How many accesses there have been, by region and object."""
        return [{obj: len(one.tokens) for obj, one in touched.items()} for _, touched in self.regions]

    def around(self, before: list[dict[ObjectKey, int]]) -> Iterator[ConflictingPair]:
        """A loop ends: what one iteration does comes before all that the next one does."""
        for k in self._widest():
            (place, touched), begun = self.regions[k], before[k]
            for obj, one in touched.items():
                for b in one.tokens[begun.get(obj, 0) :]:
                    yield from self._pairs(b, place, one)
