"""Counters of the program and of our own, side by side: by how much they differ, wherever the walk stands.

Input: the counters that are followed (`order/rings.py` says which), and the statements that change them.  Output:
bounds on their differences where paths meet, at the top of every iteration and behind loops; and which of them all
roles count alike.  Invariant: a bound holds in every iteration because it holds at first and each iteration keeps it.
Non-goals: what the differences are good for.
"""

from __future__ import annotations

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.forms import Form
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.effects import Effect
from snap._compiler.ir.types import BLOCK1, CLUSTER1
from snap.prove.order.counts import Bounds, CounterKey, apart, facts_of, wider
from snap.prove.order.outline import alike, given, paths, splits, trips_of
from snap.prove.order.spoken import Speaking


class Paces(Speaking):
    def __init__(self, kernel: synced.Function):
        super().__init__(kernel)
        self.dry = False  # whether nothing but variables is looked at
        self.relations: dict[tuple, dict[tuple[CounterKey, CounterKey | None], tuple[int | None, int | None]]] = {}
        self.followed: list[CounterKey] = []
        self.barriers = {b.uid: b for b in kernel.mbarriers}
        self.splits = [[list(paths(case.body)) for case in s.cases] for s in splits(kernel.body)]
        self.roles = [role for cases in self.splits for role in cases]
        self.rounds: dict[tuple, tuple] = {}  # by loop: what is known at the top of every iteration, and at the end
        self._steps: dict[tuple, bool] = {}

    def follow(self, name: tuple, start: int) -> None:
        key = ((), name)
        if key not in self.followed:
            self.followed.append(key)
            self.values.known[key] = forms.number(start)

    def related(self, changed: list, ends: list[tuple[dict, list]]) -> None:
        changed = [key for key in self.followed if key in changed]
        paths = [(known, Bounds(facts)) for known, facts in ends] if changed else []
        for key in changed:
            same = False
            for other in self.partners(key, changed):
                lows = [bounds.least(apart(known, key, other)) for known, bounds in paths]
                highs = [bounds.most(apart(known, key, other)) for known, bounds in paths]
                low = None if None in lows else min(lows)  # type: ignore[type-var]
                high = None if None in highs else max(highs)  # type: ignore[type-var]
                same = self.bounded(key, other, low, high, same)

    def partners(self, key: CounterKey, changed: list) -> list:
        """What a counter is compared with: nothing, and every other that is known already."""
        before = changed[: changed.index(key)] if key in changed else []
        rest = [k for k in self.followed if k not in changed and k in self.values.known]
        return [None, *before, *rest]

    def bounded(self, key: CounterKey, other: CounterKey | None, low: int | None, high: int | None, same: bool) -> bool:
        """Notes it; whether the counter is some other one, and a number: already (`same`), or now."""
        if low is not None and low == high and not same:
            base = forms.ZERO if other is None else self.values.known[other]
            self.values.known[key] = forms.add(base, forms.number(low))
            return True
        for fact in facts_of(self.values.known, key, other, low, high):
            if fact[1] and fact not in self.values.facts:
                self.values.facts = [*self.values.facts, fact]
        return same

    def invariants(self, s: ir.For | ir.While, loop: tuple, head: dict) -> None:
        """By how much counters differ at the top of every iteration: what holds at first, as far as iterations keep
        it.
        """
        keys = [key for key in self.followed if key in self.changed(s)]
        keys = [key for key in keys if self.counted_by(s, key) is None]
        if not keys:
            return
        found: dict[tuple[CounterKey, CounterKey | None], tuple[int | None, int | None]] = {}
        first = Bounds(self.values.facts)
        head[trips_of(loop)] = forms.ZERO
        for k, key in enumerate(keys):
            for other in [None, trips_of(loop), *keys[:k], *(x for x in self.followed if x not in keys and x in head)]:
                x = apart(head, key, other)
                found[key, other] = (first.least(x), first.most(x))
        for trial in range(6):
            self.relations[loop] = found
            new = {pair: (low, high) for pair, (low, high) in found.items()}
            for tokens, known, facts in self.tried(s, loop, head):
                if tokens is None:
                    continue
                bounds = Bounds(facts)
                for (key, other), (low, high) in new.items():
                    if (low, high) != (None, None):
                        x = apart(known, key, other)
                        new[key, other] = wider((low, high), bounds.least(x), bounds.most(x), trial)
            if new == found:
                return
            found = new
        self.relations[loop] = {}

    def tried(self, s: ir.For | ir.While, loop: tuple, head: dict) -> list[tuple]:
        """One iteration, in which nothing but variables is looked at."""
        dry, tokens, ended, work = self.dry, self.tokens, self.ended, self.work
        self.dry, self.tokens, self.ended = True, {}, []
        self.values.known = dict(head)
        self.head(s, loop)
        self.continues.append([])
        self.breaks.append([])
        self.iteration(s, loop, [])
        found = [] if self.continues.pop() else self.ended[-1:]
        self.breaks.pop()
        unclear = not found
        self.dry, self.tokens, self.ended, self.work = dry, tokens, ended, work
        self.values.known = dict(head)
        return [({}, {}, [])] if unclear else found

    def as_counted(self, keys: list, loop: tuple) -> list[Form]:
        before, self.values.facts = self.values.facts, []
        for key in (k for k in self.followed if k in keys):
            same = False
            for (one, other), (low, high) in self.relations.get(loop, {}).items():
                if one == key and (low, high) != (None, None) and (other is None or other in self.values.known):
                    same = self.bounded(key, other, low, high, same)
        found, self.values.facts = self.values.facts, before
        return found

    def act(self, s: ir.Stmt) -> None:
        if not self.dry:
            return super().act(s)
        match s:
            case ir.Declare() | ir.Assign() | ir.For():
                super().act(s)
            case _:
                self.mbarrier(s)
                self.renew(s)

    def effect(self, s: ir.Stmt, k: object, effect: Effect) -> None:
        if not self.dry:
            super().effect(s, k, effect)

    # ---- roles ----

    def same_steps(self, uid: int, loop: tuple = ()) -> bool:
        """Whether every role that counts a variable does so in the same loops and branches, so that all end with the
        same number; and comes to the top of each iteration of a loop, which it has once, with the same number.
        """
        if (uid, loop) not in self._steps:
            agreed = CLUSTER1 if any(b.everywhere for b in self.barriers.values()) else BLOCK1
            using = [role for role in self.roles if any(given(s, uid) is not None for _, s in role)]
            self._steps[uid, loop] = alike(using, uid, set(), self.ranges, agreed, loop)
        return self._steps[uid, loop]

    def rising(self, loop: tuple) -> list[CounterKey]:
        """The counters of the program that only grow, and have one value at the top of each iteration for all who count
        them.
        """
        counts = [key for key in self.followed if isinstance(key[1], int) and key in self.counters]
        return [key for key in counts if self.same_steps(key[1], loop)]

    def iteration(self, s: ir.For | ir.While, loop: tuple, exits: list) -> None:
        top = dict(self.values.known), [*self.values.facts, *self.heads[loop]]
        super().iteration(s, loop, exits)
        if self.barriers and not self.dry:
            _, known, facts = self.ended[-1]
            self.rounds[loop] = (top, (known, facts))
