"""Loops of the synchronized program: walked until one iteration more changes nothing.

Input: a loop, and what is known of each access before it.  Output: what is known behind it, whichever iteration was the
last; on the way, every pair of accesses in two iterations.  Invariant: as in `order/walk.py`.  Non-goals: as there.

How many iterations lie between two accesses matters only where an iteration changes what is known of an access.  In a
loop without any synchronization (`quiet`) none does: what is asked of the second iteration, of the third and so on are
parts of one question, with any number of iterations between, which is asked instead of them.
"""

from __future__ import annotations

from math import gcd
from typing import Any

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.forms import Form
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.effects import assigned
from snap._compiler.ir.walk import loop_values, statements, ways_out
from snap.prove.order.kinds import START
from snap.prove.order.mbarriers import MBarriers
from snap.prove.order.outline import added_by, breaks, grown_by, leaves, quiet, synchronizes, trips_of, within
from snap.prove.order.paces import End, Paces
from snap.prove.order.point import Tokens, WalkPoint, aged, by_site, inexact, left, met
from snap.prove.order.reading import VariableName

MOST_PASSES = 10  # over the body of a loop
RUN_OUT = 16  # iterations of a loop with synchronization, at most, that are walked one by one
LoopStatement = ir.For | ir.While


class Loops:
    """breaks, continues: of the loops around, what lies behind at each.  bounds, heads: by loop, what is known of its
    variable, and of counters at the top of an iteration.  rounds: what is known there, and at the end of an iteration.
    ended: iterations that were walked, each with what was known at its end.  steps: the walk itself, for `body` and
    `act`.
    """

    def __init__(self, here: WalkPoint, paces: Paces, mbarriers: MBarriers, steps: Any):
        self.here, self.values, self.steps = here, here.values, steps
        self.paces, self.mbarriers = paces, mbarriers
        self.breaks: list[list[Tokens]] = []
        self.continues: list[list[Tokens]] = []
        self.bounds: dict[tuple, list[Form]] = {}
        self.heads: dict[tuple, list[Form]] = {}
        self.rounds: dict[tuple, tuple[End, End]] = {}
        self.ended: list[tuple[Tokens | None, dict, list]] = []
        # By statement: itself, so that its identity stays its own, and what was found.
        self._quiet: dict[int, tuple[ir.Stmt, bool]] = {}
        self._given: dict[int, tuple[ir.Stmt, set[int]]] = {}

    def quiet(self, s: LoopStatement) -> bool:
        if id(s) not in self._quiet:
            self._quiet[id(s)] = s, quiet(_body(s))
        return self._quiet[id(s)][1]

    def loop(self, s: LoopStatement) -> None:
        here, conditions = self.here, self.here.conditions
        if isinstance(s, ir.For):
            here.ranges[s.var.uid] = (s.start, s.stop, s.step)
        here.conditions = (*conditions, (s.start, s.stop, s.step) if isinstance(s, ir.For) else (s.cond,))
        counted = loop_values(s)
        few = counted is not None and len(counted) <= RUN_OUT
        synced_ = any(synchronizes(x) for x in statements(s.body))
        if isinstance(s, ir.For) and counted is not None and few and synced_ and not leaves(s.body):
            self.run_out(s, counted)
        else:
            self.until_still(s, counted is not None and len(counted) > 0)
        here.conditions = conditions

    def until_still(self, s: LoopStatement, entered: bool) -> None:
        """Walk a loop; entered: whether it is known to have an iteration."""
        here, values = self.here, self.values
        loop = here.key(s.number)
        head, entry = dict(values.known), dict(here.tokens or {})
        self.breaks.append([])
        exits: list[Tokens] = [entry] if isinstance(s, ir.For) and not entered else []
        still = self.quiet(s)
        tokens = {(site, (*ages, ((START, loop), 0, not still))): st for (site, ages), st in entry.items()}
        last: dict | None = None
        outer, here.loops = here.loops, (*here.loops, loop)
        values.loops.append(loop)
        held = values.facts
        changed = self.changed(s)
        keys = [key for key in self.paces.followed if key in changed and self.counted_by(s, key) is None]
        self.paces.invariants(keys, loop, head, lambda head: self.tried(s, loop, head))
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
            ends = self.passed(s, loop, head, tokens, exits, first=n == 0)
            ends += [] if here.tokens is None else [here.tokens]
            if not ends:
                break
            tokens = met({(site, aged(ages, loop)): st for (site, ages), st in e.items()} for e in ends)
            if isinstance(s, ir.For):
                exits.append(tokens)
            if final:
                break
        here.loops = outer
        values.loops.pop()
        exits += self.breaks.pop()
        here.tokens = met(left(tokens, loop) for tokens in exits) if exits else None
        self.after(s, loop, head, held)

    def passed(
        self, s: LoopStatement, loop: tuple, head: dict, tokens: Tokens, exits: list[Tokens], first: bool
    ) -> list:
        """Walk the body once more; return what lies behind at each `continue`."""
        here = self.here
        self.values.known = dict(head)
        self.head(s, loop)
        here.tokens = tokens
        self.continues.append([])
        born, here.born = here.born, here.born and first
        self.iteration(s, loop, exits)
        here.born = born
        return self.continues.pop()

    def tried(self, s: LoopStatement, loop: tuple, head: dict) -> list[tuple]:
        """Walk one iteration, in which nothing but variables is followed; return its ends."""
        here = self.here
        outer = here.dry, here.tokens, here.work, self.ended
        here.dry, self.ended = True, []
        self.breaks.append([])
        left_early = self.passed(s, loop, head, {}, [], first=True)
        self.breaks.pop()
        found = [] if left_early else self.ended[-1:]
        here.dry, here.tokens, here.work, self.ended = outer
        self.values.known = dict(head)
        return found or [({}, {}, [])]

    def after(self, s: LoopStatement, loop: tuple, head: dict, held: list) -> None:
        """Variables that the body changes are something else now, or have been counted."""
        values = self.values
        values.known, values.facts = head, held
        values.known.pop(trips_of(loop), None)
        changed = self.changed(s)
        left_early = breaks(s.body)
        for key in changed:
            before, step = values.known[key], self.counted_by(s, key)
            if step and not left_early and isinstance(s, ir.For):  # one number of iterations for all that is counted
                trips = values.iteration(("all", loop), s.var.privilege)
                values.known[key] = forms.add(before, trips, step)
                continue
            self.multiplied_by(s, key, ("after", loop))
            if step:
                gone = forms.subtract(values.known[key], before)
                self.here.assume(gone if step > 0 else forms.times(gone, -1))
        if not left_early:
            self.here.assume(*self.paces.as_counted(changed, loop))
        if isinstance(s, ir.For):
            values.known.pop((self.here.frame, s.var.uid), None)

    def iteration(self, s: LoopStatement, loop: tuple, exits: list[Tokens]) -> None:
        here, values = self.here, self.values
        held = values.facts
        here.assume(*self.heads[loop])
        top = dict(values.known), values.facts
        if isinstance(s, ir.While):
            self.steps.body(s.pre)
            self.steps.act(s)
            if not (isinstance(s.cond, ir.Const) and s.cond.value) and here.tokens is not None:
                exits.append(dict(here.tokens))
            more = here.follows(s.cond, True)
        else:
            self.steps.act(s)
            more = self.bounds[loop]
        here.assume(*more)
        self.steps.body(s.body)
        values.known[trips_of(loop)] = forms.add(forms.unknown((forms.TRIP, loop)), forms.number(1))
        self.ended.append((here.tokens, values.known, values.facts))
        if not here.dry:
            self.rounds[loop] = top, (values.known, values.facts)
        values.facts = held

    def head(self, s: LoopStatement, loop: tuple) -> None:
        """At the top of any iteration, what the body changes is something else, or has been counted."""
        here, values = self.here, self.values
        privilege = s.var.privilege if isinstance(s, ir.For) else here.at.place.privilege
        trip = values.iteration(loop, privilege)
        values.known[trips_of(loop)] = trip
        free = []
        for key in self.changed(s):
            step = self.counted_by(s, key)
            if step is not None and key in values.known:
                values.known[key] = forms.add(values.known[key], trip, step)
            else:
                self.multiplied_by(s, key, ("head", loop))
                free.append(key)
        self.heads[loop] = self.paces.as_counted(free, loop)
        if isinstance(s, ir.For):
            start, stop, step_form = (here.form(e) for e in (s.start, s.stop, s.step))
            here.privileges[here.frame, s.var.uid] = s.var.privilege
            values.types[here.frame, s.var.uid] = s.var.type
            x = values.loop_variable(here.frame, s.var, start, step_form)
            values.known[here.frame, s.var.uid] = x
            self.bounds[loop] = within(x, stop, step_form)
        here.tops[loop] = here.grown()

    def counted_by(self, s: LoopStatement, key: tuple) -> int | None:
        """Return by how much each iteration changes a variable, where every one changes it by as much."""
        uid = key[1]
        if key[0] != self.here.frame or not isinstance(uid, int):
            return None
        if any(isinstance(w, ir.Continue) for w in ways_out(s.body)):
            return None
        return grown_by(s.body, uid) or None

    def multiplied_by(self, s: LoopStatement, key: tuple, where: tuple) -> None:
        """The variable is what it was, and a multiple of what iterations may add: where some of them fill four stages,
        and others none, it is known which slot comes next.
        """
        before, by = self.values.known.get(key), None
        if before is not None and key[0] == self.here.frame and isinstance(key[1], int):
            by = added_by(_body(s), key[1])
        self.here.forget(key, where)
        if before is not None and by is not None and gcd(*by) > 1:
            self.values.known[key] = forms.add(before, self.values.known[key], gcd(*by))

    def run_out(self, s: ir.For, values: range) -> None:
        """Walk the iterations one by one."""
        here, context = self.here, self.values.context
        here.privileges[here.frame, s.var.uid] = s.var.privilege
        for k, value in enumerate(values):
            self.values.context = (*context, (s.number, k))
            self.values.known[here.frame, s.var.uid] = forms.number(value)
            self.steps.act(s)
            self.steps.body(s.body)
        self.values.context = context

    def changed(self, s: LoopStatement) -> list[VariableName]:
        """Return what is known, and an iteration changes."""
        if id(s) not in self._given:
            self._given[id(s)] = s, {v.uid for x in statements(_body(s)) for v in assigned(x)}
        found, ours = self._given[id(s)][1], self.mbarriers.counted(_body(s))
        return [key for key in self.values.known if key[0] == self.here.frame and key[1] in found or key in ours]


def _body(s: LoopStatement) -> ir.Body:
    """Return what an iteration runs."""
    return (*s.pre, *s.body) if isinstance(s, ir.While) else s.body
