"""Keep what has happened on the paths that lead to a place of the text: tokens, what variables are, gaps crossed.

Where paths meet, their tokens are put together, and a gap counts only if all of them have crossed it.  Input: the steps
of the walk (graph.py).  Invariant: what two objects share is copied before it is changed.  Non-goals: which tokens
conflict.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from operator import is_

from snap._compiler.analysis.linear.footprints import Footprint
from snap._compiler.analysis.linear.forms import Form, LinearAtom
from snap._compiler.analysis.linear.overlap import Memo, before, older
from snap._compiler.analysis.linear.values import Frame, Values
from snap._compiler.ir.engines import Engine, Wait
from snap._compiler.sync.conflicts.tokens import Here, ObjectKey, Role, Token, altered, are_registers, ends, merged

KnownForms = dict[tuple[Frame, int], Form]  # what variables are, by call and variable


# Tokens do not keep count of the gaps crossed: the state does, and a token notes what the state had crossed when it was
# made.  So where paths meet or a loop begins anew, the tokens that no path has touched stay what they are.  A gap is
# crossed once in an iteration of its innermost loop, and at the loop's end what has come around is told from the loop's
# top (`absorb`).
@dataclass(slots=True)
class Paths:
    """Keep what has happened on the paths so far.  `own`: the objects whose tokens no other state shares; only these
    dictionaries may be changed. `alone`: nobody else has `known`, so that it may be changed, too.
    """

    tokens: dict[ObjectKey, dict[tuple, Token]]
    known: KnownForms
    crossed: int = 0
    own: set[ObjectKey] = field(default_factory=set)
    alone: bool = False

    def shared(self) -> KnownForms:
        """Return what is known, for others to keep."""
        self.alone = False
        return self.known

    def share(self, known: KnownForms) -> None:
        """Know what others do."""
        self.known, self.alone = known, False

    def learn(self, news: KnownForms) -> None:
        if not self.alone:
            self.known, self.alone = dict(self.known), True
        self.known.update(news)

    def copy(self) -> Paths:
        self.own = set()
        return Paths(dict(self.tokens), self.shared(), self.crossed)

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
        need not wait for these. Copies have come: they are waited for before memory is handed on, or arrive at the
        mbarrier themselves. reused: whether other arrays take the same bytes; else only what is still in flight matters
        when the array is gone.
        """

        def over(t: Token) -> bool:
            return comes_back if t.engine is Engine.PRODUCTS else not reused and not t.waits_alone

        self.drop(obj, [key for key, t in self.tokens.get(obj, {}).items() if over(t)])
        if self.tokens.get(obj):
            come = lambda t: Engine.THREADS if t.engine is Engine.COPIES else t.engine  # noqa: E731
            self.regrouped(obj, lambda t: t if t.passed else altered(t, passed=True, engine=come(t)))

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
        new = [change(t) for t in held.values()]
        if all(map(is_, new, held.values())):
            return
        changed: dict[tuple, Token] = {}
        for t in new:
            have = changed.get(t.key)
            changed[t.key] = t if have is None else self.both(t, have)
        self.put(obj, changed)

    def only(self, keep: Callable[[Token], bool]) -> None:
        for obj, held in self.tokens.items():
            left = {key: t for key, t in held.items() if keep(t)}
            if len(left) < len(held):
                self.put(obj, left)

    def absorb(self, other: Paths, news: Paths | None = None) -> None:
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

    def _meet(self, other: Paths) -> None:
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

    def each_in_flight(self, change: Callable[[Token], Token], only: Wait | None = None) -> None:
        """Change what is in flight, in nothing that tells tokens apart."""
        for obj, held in self.tokens.items():
            changed = {key: change(t) for key, t in held.items() if (t.in_flight if only is None else ends(only, t))}
            if changed:
                self.put(obj, {**held, **changed})

    def waited(self, wait: Wait, younger: int, role: Role | None, here: Here) -> None:
        """A wait by a role, or by all: what has so many younger groups of its own, or more, has come to its end.  Those
        who waited know that; from here on it is for others what an access of theirs would be.  (Registers are one's
        own.)
        """

        def over(t: Token) -> bool:
            return ends(wait, t) and t.commits >= younger and role in (None, t.role)

        def ended(t: Token) -> Token:
            if not over(t):
                return t
            settled = None if t.engine is Engine.COPIES else t.engine
            t = altered(t, ordered=None, announced=frozenset())  # who met before did so before its end
            return altered(t, engine=Engine.THREADS, settled=settled, over=here, crossed=0, since=self.crossed)

        for obj, held in list(self.tokens.items()):
            if are_registers(obj):
                self.drop(obj, [key for key, t in held.items() if over(t)])
            elif any(over(t) for t in held.values()):
                self.regrouped(obj, ended)

    def without_role(self, role: Role) -> None:
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
        begun = lambda t: t.engine is Engine.COPIES and t.aging and loop not in t.born  # noqa: E731
        for obj, held in self.tokens.items():
            if any(begun(t) for t in held.values()):
                self.regrouped(obj, lambda t: altered(t, ages=(*t.ages, (before(loop), 0))) if begun(t) else t)


def together(ends: list[Paths], head: Paths) -> Paths:
    """Join what has happened on these ways, which began at `head`; where there is none, nothing has."""
    after = ends[0].copy() if ends else Paths({}, head.shared(), head.crossed)
    for end in ends[1:]:
        after.absorb(end)
    return after


def one_iteration_older(
    paths: Paths, loop: int, values: Values, memo: Memo, begun: bool = False, counted: bool = True
) -> None:
    """An iteration ends: what it computed is what it was in an earlier one.

    begun    iterations are counted for what was there before the loop, too
    counted  it matters how many iterations ago something was done
    """
    change = values.aged(loop)

    def later(t: Token) -> Token:
        # What was made outside knows nothing of this iteration: it comes here after the end of one of a loop around
        # both, which renamed that.
        footprint = _aged(t.footprint, loop, change, memo) if loop in t.born else t.footprint
        if footprint is not t.footprint:
            t = altered(t, footprint=footprint)
        if begun and t.ages:
            ages = tuple((at, older(n, t.aging) if at == before(loop) else n) for at, n in t.ages)
            t = t if ages == t.ages else altered(t, ages=ages)
        if counted and t.aging and loop in t.born and (t.engine is Engine.COPIES or loop == t.born[-1]):
            # Of an earlier iteration of a loop around this one: how often this one has turned since tells nothing
            # about its counter then.
            around = t.born[: t.born.index(loop)]
            if not any(at in around for at, _ in t.ages):
                ages = ((loop, older(dict(t.ages).get(loop, 0), t.aging)),)
                t = t if ages == t.ages else altered(t, ages=ages)
        return t

    for obj in paths.tokens:
        paths.regrouped(obj, later)


def _aged(f: Footprint, loop: int, change: Callable[[LinearAtom], LinearAtom | None], memo: Memo) -> Footprint:
    """Tokens share their footprints, and pass here again and again."""
    known = memo.aged.get((loop, f))
    if known is None:
        shape, index, facts = (memo.renaming(forms, change, (loop,)) for forms in (f.shape, f.index, f.facts))
        known = memo.aged[loop, f] = memo.footprint(f.elem, shape, index, facts or ())
    return known
