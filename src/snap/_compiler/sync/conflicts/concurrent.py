"""Find conflicts in what runs concurrently: units of a group, and cases of a split.

Each goes its own way, so no gap in there orders what belongs to more than one of them.  Input: accesses, in the order
of the text, and the groups, calls and cases (regions) they stand in.  Output: pairs that units of one region make, with
who would have to meet: nothing can order these.
"""

from __future__ import annotations

from collections.abc import Iterator

from snap._compiler.ir.types import BLOCK1, Place
from snap._compiler.sync.conflicts.conflict import Conflict, concurrent_conflict
from snap._compiler.sync.conflicts.context import Context
from snap._compiler.sync.conflicts.tokens import ObjectKey, Token

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
        """Return those that came before, less those that this access was told the last time."""
        first = self.told.get(b.key, 0)
        self.told[b.key] = len(self.tokens)
        return self.tokens[first:]


Region = tuple[Place, dict[ObjectKey, Touched]]
Counts = list[dict[ObjectKey, int]]


class Regions:
    """The steps of a walk through groups, calls and cases, for a visitor that asks nothing of them."""

    def enters(self, place: Place, case: bool) -> bool:
        """A group or a call, or a case of a split, begins.  The answer is for `leaves`."""
        return False

    def leaves(self, new: bool, case: bool) -> None:
        """It ends."""

    def cases(self) -> int:
        """A split begins.  The answer is for `behind_cases`, from where on its cases are over."""
        return 0

    def behind_cases(self, before: int) -> None:
        """It ends."""

    def count(self) -> Counts:
        """Count the accesses that there have been, by region and object."""
        return []


class Concurrent(Regions):
    """regions   for each group, case or call we are in, what was touched in it
    widest    of these, of each privilege the outermost: what those inside of it would add, it has said
    siblings  the same for earlier cases of the splits we are in
    """

    def __init__(self, context: Context):
        self.context = context
        self.regions: list[Region] = []
        self.widest: list[Region] = []
        self.siblings: list[Region] = []

    def enters(self, place: Place, case: bool) -> bool:
        """A group or call in another of the same privilege would add nothing, and many calls are in calls."""
        privilege = place.privilege
        new = all(outer.privilege != privilege for outer, _ in self.widest)
        if new or case:
            self.regions.append((place, {}))
            if new:
                self.widest.append(self.regions[-1])
        return new

    def leaves(self, new: bool, case: bool) -> None:
        if new:
            self.widest.pop()
        if new or case:
            left = self.regions.pop()
            if case:
                self.siblings.append(left)

    def cases(self) -> int:
        return len(self.siblings)

    def behind_cases(self, before: int) -> None:
        del self.siblings[before:]

    def access(self, b: Token) -> Iterator[ConflictingPair]:
        obj = b.obj
        for place, touched in (*self.widest, *self.siblings):
            if obj in touched:
                yield from self._pairs(b, place, touched[obj])
        for _, touched in self.regions:
            if obj not in touched:
                touched[obj] = Touched()
            touched[obj].add(b)

    def _pairs(self, b: Token, place: Place, touched: Touched) -> Iterator[ConflictingPair]:
        most = b.names[-1].privilege
        most = self.context.overlap.small or most if most == BLOCK1 else most
        if place.privilege.at_least(most):
            return
        for t in touched.before(b):
            found = concurrent_conflict(t, b, place.privilege, self.context) if t.site != b.site else None
            if found is not None:
                yield t, b, found

    def count(self) -> Counts:
        """Count the accesses to the widest regions."""
        return [{obj: len(one.tokens) for obj, one in touched.items()} for _, touched in self.widest]

    def around(self, before: Counts) -> Iterator[ConflictingPair]:
        """A loop ends: what one iteration does comes before all that the next one does."""
        for (place, touched), begun in zip(self.widest, before):
            for obj, one in touched.items():
                for b in one.tokens[begun.get(obj, 0) :]:
                    yield from self._pairs(b, place, one)
