"""Loops of the synchronized program: walked until one iteration more changes nothing.

Input: a loop, and what is known of each access before it.  Output: what is known behind it, whichever iteration was the
last; on the way, every pair of accesses in two iterations.  Invariant: as in `order/walk.py`.  Non-goals: as there.

How many iterations lie between two accesses matters only where an iteration changes what is known of an access.  In a
loop without any synchronization (`quiet`) none does: what is asked of the second iteration, of the third and so on are
parts of one question, with any number of iterations between, which is asked instead of them.
"""

from __future__ import annotations

from math import gcd

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.trips import loop_values
from snap._compiler.analysis.linear.values import Frame, facts
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.effects import assigned
from snap._compiler.ir.walk import statements, ways_out
from snap.prove.order.kinds import START
from snap.prove.order.outline import added_by, breaks, grown_by, leaves, quiet, synchronizes, trips_of, within
from snap.prove.order.tokens import Tokens, aged, by_site, inexact, left, met, with_age
from snap.prove.order.walk import OrderWalk

MOST_PASSES = 10  # over the body of a loop
RUN_OUT = 16  # iterations of a loop with synchronization, at most, that are walked one by one


class LoopWalk(OrderWalk):
    def __init__(self, kernel: synced.Function):
        super().__init__(kernel)
        # By statement: itself, so that its identity stays its own, and what was found.
        self._quiet: dict[int, tuple[ir.Stmt, bool]] = {}
        self._given: dict[int, tuple[ir.Stmt, set[int]]] = {}

    def quiet(self, s: ir.For | ir.While) -> bool:
        if id(s) not in self._quiet:
            self._quiet[id(s)] = s, quiet(_body(s))
        return self._quiet[id(s)][1]

    def loop(self, s: ir.For | ir.While) -> None:
        counted = loop_values(s)
        few = counted is not None and len(counted) <= RUN_OUT
        if (
            counted is not None
            and few
            and isinstance(s, ir.For)
            and any(synchronizes(x) for x in statements(s.body))
            and not leaves(s.body)
        ):
            return self.run_out(s, counted)
        loop = (self.frame, s.number, self.values.context)
        head = dict(self.values.known)
        entry = dict(self.tokens or {})
        self.breaks.append([])
        exits: list[Tokens] = []
        if isinstance(s, ir.For) and not (counted is not None and len(counted)):
            exits.append(entry)
        still = self.quiet(s)
        tokens = {(site, with_age(ages, (START, loop), 0, not still)): st for (site, ages), st in entry.items()}
        last: dict | None = None
        outer, self.loops = self.loops, (*self.loops, loop)
        self.values.loops.append(loop)
        held = self.values.facts
        self.invariants(s, loop, head)
        for n in range(MOST_PASSES + 1):
            now = by_site(tokens, loop)
            final = n == MOST_PASSES or (n == 1 if still else last is not None and now == last)
            if still and final:  # of what stands before the loop, the first pass has asked about all iterations
                tokens = {key: state for key, state in tokens.items() if any(at == loop for at, _, _ in key[1])}
                if not tokens:
                    break
            if final:
                tokens = {(site, inexact(ages, loop)): state for (site, ages), state in tokens.items()}
            last = now if n else None
            self.values.known = dict(head)
            self.head(s, loop)
            self.tokens = tokens
            self.continues.append([])
            born, self.born = self.born, self.born and n == 0
            self.iteration(s, loop, exits)
            self.born = born
            ends = [*self.continues.pop(), *([] if self.tokens is None else [self.tokens])]
            if not ends:
                break
            tokens = met({(site, aged(ages, site, loop)): st for (site, ages), st in e.items()} for e in ends)
            if isinstance(s, ir.For):
                exits.append(tokens)
            if final:
                break
        self.loops = outer
        self.values.loops.pop()
        exits += self.breaks.pop()
        self.tokens = met(left(tokens, loop) for tokens in exits) if exits else None
        self.after_loop(s, loop, head, held)

    def after_loop(self, s: ir.For | ir.While, loop: tuple, head: dict, held: list) -> None:
        """Variables that the body changes are something else now, or have been counted."""
        self.values.known, self.values.facts = head, held
        self.values.known.pop(trips_of(loop), None)
        changed = self.changed(s)
        left_early = breaks(s.body)
        for key in changed:
            before, step = self.values.known[key], self.counted_by(s, key)
            if step and not left_early and isinstance(s, ir.For):  # one number of iterations for all that is counted
                trips = self.values.iteration(("all", loop), s.var.privilege)
                self.values.known[key] = forms.add(before, trips, step)
                continue
            self.multiplied_by(s, key, ("after", loop))
            if step:
                gone = forms.subtract(self.values.known[key], before)
                self.values.facts = [*self.values.facts, gone if step > 0 else forms.times(gone, -1)]
        if not left_early:
            self.values.facts = [*self.values.facts, *self.as_counted(changed, loop)]
        if isinstance(s, ir.For):
            self.values.known.pop((self.frame, s.var.uid), None)

    def iteration(self, s: ir.For | ir.While, loop: tuple, exits: list[Tokens]) -> None:
        held = self.values.facts
        self.values.facts = [*held, *self.heads[loop]]
        if isinstance(s, ir.While):
            self.body(s.pre)
            self.act(s)
            if not (isinstance(s.cond, ir.Const) and s.cond.value) and self.tokens is not None:
                exits.append(dict(self.tokens))
            more = facts(s.cond, True, self.values, self.frame, self.at)
        else:
            self.act(s)
            more = self.bounds[loop]
        self.values.facts = [*self.values.facts, *more]
        self.body(s.body)
        self.values.known[trips_of(loop)] = forms.add(forms.unknown((forms.TRIP, loop)), forms.number(1))
        self.ended.append((self.tokens, self.values.known, self.values.facts))
        self.values.facts = held

    def head(self, s: ir.For | ir.While, loop: tuple) -> None:
        """At the top of any iteration: what the body changes is something else, or has been counted."""
        privilege = s.var.privilege if isinstance(s, ir.For) else self.at.place.privilege
        trip = self.values.iteration(loop, privilege)
        self.values.known[trips_of(loop)] = trip
        free = []
        for key in self.changed(s):
            step = self.counted_by(s, key)
            if step is not None and key in self.values.known:
                self.values.known[key] = forms.add(self.values.known[key], trip, step)
            else:
                self.multiplied_by(s, key, ("head", loop))
                free.append(key)
        self.heads[loop] = self.as_counted(free, loop)
        if isinstance(s, ir.For):
            start, stop, step_form = (self.form(e) for e in (s.start, s.stop, s.step))
            self.privileges[self.frame, s.var.uid] = s.var.privilege
            self.values.types[self.frame, s.var.uid] = s.var.type
            x = self.values.loop_variable(self.frame, s.var, start, step_form)
            self.values.known[self.frame, s.var.uid] = x
            self.bounds[loop] = within(x, stop, step_form)

    def counted_by(self, s: ir.For | ir.While, key: tuple) -> int | None:
        """By how much each iteration changes a variable, where every one changes it by as much."""
        uid = key[1]
        if key[0] != self.frame or not isinstance(uid, int):
            return None
        if any(isinstance(w, ir.Continue) for w in ways_out(s.body)):
            return None
        return grown_by(s.body, uid) or None

    def multiplied_by(self, s: ir.For | ir.While, key: tuple, where: tuple) -> None:
        """The variable is what it was, and a multiple of what iterations may add: where some of them fill four stages,
        and others none, it is known which slot comes next.
        """
        before, by = self.values.known.get(key), None
        if before is not None and key[0] == self.frame and isinstance(key[1], int):
            by = added_by(_body(s), key[1])
        self.forget(key, where)
        if by is not None and gcd(*by) > 1:
            self.values.known[key] = forms.add(before, self.values.known[key], gcd(*by))

    def run_out(self, s: ir.For, values: range) -> None:
        context = self.values.context
        self.privileges[self.frame, s.var.uid] = s.var.privilege
        for k, value in enumerate(values):
            self.values.context = (*context, (s.number, k))
            self.values.known[self.frame, s.var.uid] = forms.number(value)
            self.act(s)
            self.body(s.body)
        self.values.context = context

    def changed(self, s: ir.For | ir.While) -> list[tuple[Frame, int]]:
        """What is known, and an iteration changes."""
        if id(s) not in self._given:
            self._given[id(s)] = s, {v.uid for x in statements(_body(s)) for v in assigned(x)}
        found, ghosts = self._given[id(s)][1], self.ghosts(_body(s))
        return [key for key in self.values.known if key[0] == self.frame and key[1] in found or key in ghosts]

    def ghosts(self, body: ir.Body) -> set:
        """Counters of our own that these statements change."""
        return set()


def _body(s: ir.For | ir.While) -> ir.Body:
    """What an iteration runs."""
    return (*s.pre, *s.body) if isinstance(s, ir.While) else s.body
