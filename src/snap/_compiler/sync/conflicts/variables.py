"""Find what integer variables are, at each place of the walk: linear forms (analysis/linear/values.py).

Input: a moment of the walk.  Output: what is known after it.  A variable that a loop assigns is unknown at its top, or
follows from the number of iterations; where paths meet with different values it is unknown as well.  What the first
walk finds out is kept, and later ones are told (`Told`): they come the same way.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from snap._compiler.analysis.linear import forms, values
from snap._compiler.analysis.linear.forms import Form
from snap._compiler.analysis.linear.values import Frame, counted, is_integer
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.effects import assigned
from snap._compiler.ir.types import THREAD1, Privilege
from snap._compiler.sync.conflicts.context import Context
from snap._compiler.sync.conflicts.loops import cycle
from snap._compiler.sync.conflicts.paths import KnownForms, Paths
from snap._compiler.sync.conflicts.place import Moment, Where
from snap._compiler.sync.conflicts.tokens import Here, Token

Written = tuple[Here, tuple[int, ...]]  # a statement, each time it is written out (`Where.here`)


@dataclass(frozen=True, slots=True)
class Told:
    """Keep what the first walk has found out about each place.

    after   what is known after a statement in a loop; None: the way ends there
    top     what is known at the top of an iteration, and of the loop's own variable
    inside  where its bodies are
    gained  the gaps that every path through it crosses, of those in it
    tokens  the access that was made, or what was said
    privileges  of variables, by call and number: a later walk passes their declarations over
    """

    after: dict[Written, KnownForms | None] = field(default_factory=dict)
    top: dict[Written, tuple[KnownForms, list[Form]]] = field(default_factory=dict)
    inside: dict[tuple[Written, int], Where] = field(default_factory=dict)
    gained: dict[Written, int] = field(default_factory=dict)
    tokens: dict[tuple, Token] = field(default_factory=dict)
    privileges: dict[tuple[Frame, int], Privilege] = field(default_factory=dict)


class Variables:
    def __init__(self, context: Context, told: Told):
        self.context, self.told = context, told
        self.values = context.values
        self.privileges = told.privileges

    def at(self, where: Where, paths: Paths) -> values.Values:
        """Return what is known there."""
        self.values.known, self.values.facts, self.values.loops = paths.known, [*where.facts], [*where.loops]
        return self.values

    def form(self, e: ir.Expr, where: Where, paths: Paths) -> Form:
        return values.form(e, self.at(where, paths), where.frame, where.at)

    def facts(self, cond: ir.Expr, truth: bool, where: Where, paths: Paths) -> list[Form]:
        return values.facts(cond, truth, self.at(where, paths), where.frame, where.at)

    def parameters(self, function: synced.Function) -> KnownForms:
        known: KnownForms = {}
        for p in function.params:
            if isinstance(p, ir.ValueParam) and is_integer(p.var.type):
                self.privileges[(), p.var.uid] = p.var.privilege
                known[(), p.var.uid] = self.values.fresh((), p.var, "start")
        return known

    # ---- assignments ------------------------------------------------------------------------------------------------

    def update(self, m: Moment) -> None:
        """New values of variables."""
        match m.s:
            case ir.Declare(var, init):
                self.store(var, init, m, m.s.zero)
            case ir.Assign(ir.VarTarget(var), value):
                self.store(var, value, m)
            case ir.Act() if not isinstance(m.s, ir.Call):  # whose result is known where its callee has been walked
                for var in assigned(m.s):
                    self.store(var, None, m)

    def store(self, var: ir.Var, value: ir.Expr | None, m: Moment, zero: bool = False) -> None:
        if not is_integer(var.type):
            return
        frame = m.where.frame
        self.privileges[frame, var.uid], self.values.types[frame, var.uid] = var.privilege, var.type
        there = self.at(m.where, m.paths)
        if value is not None:
            new = values.form(value, there, frame, m.where.at)
            if var.privilege != THREAD1 and any(atom[0] == forms.ANY for atom in forms.atoms([new])):
                # what the value is, we do not know; that all threads of the unit agree, we do
                new = there.fresh(frame, var, m.s.number)
        else:
            new = forms.ZERO if zero else there.fresh(frame, var, m.s.number)
        m.paths.learn({(frame, var.uid): new})

    def bind(self, s: ir.Call, inside: Frame, m: Moment) -> None:
        """The parameters of a call."""
        bindings: KnownForms = {}
        for p, a in zip(s.function.params, s.args):
            if isinstance(p, ir.ValueParam) and is_integer(p.var.type) and not isinstance(a, (ir.ArrayRef, ir.MemView)):
                bindings[inside, p.var.uid] = self.form(a, m.where, m.paths)
                self.privileges[inside, p.var.uid] = p.var.privilege
                self.values.types[inside, p.var.uid] = p.var.type
        m.paths.learn(bindings)

    # ---- loops and joins --------------------------------------------------------------------------------------------

    def at_top(
        self, s: ir.While | ir.For, inside: Where, outside: Where, paths: Paths
    ) -> tuple[KnownForms, list[Form]]:
        """Find what variables are at the top of an iteration, and what is known of the loop's own."""
        here = outside.here(s)
        if here in self.told.top:
            return self.told.top[here]
        text, frame = self.context.loop(s), outside.frame
        bounds = [self.form(e, outside, paths) for e in (s.start, s.stop, s.step)] if isinstance(s, ir.For) else []
        known = dict(paths.known)
        learned: list[Form] = []
        there = self.at(inside, paths)
        loop = inside.loops[-1]
        for uid in text.assigned:
            if (frame, uid) in paths.known:
                known[frame, uid] = self.unknown_at_top((frame, uid), loop)
        trip = there.iteration(loop, inside.at.place.privilege) if text.growing or text.cycling else forms.ZERO
        known.update(self.counted(paths.known, s, frame, trip))
        if isinstance(s, ir.For):
            start, stop, step = bounds
            k = known[frame, s.var.uid] = there.loop_variable(frame, s.var, start, step)
            if forms.is_number(step) and step[0]:
                up = 1 if step[0] > 0 else -1
                learned = [
                    forms.times(forms.subtract(k, start), up),
                    forms.add(forms.number(-1), forms.subtract(stop, k), up),
                ]
        self.told.top[here] = known, learned
        return known, learned

    def counted(self, entry: KnownForms, s: ir.While | ir.For, frame: Frame, trip: Form) -> KnownForms:
        """Variables that follow from how many iterations came before."""
        text = self.context.loop(s)
        now: KnownForms = {}
        for uid, step in text.growing.items():
            type = self.values.types.get((frame, uid))
            if (frame, uid) in entry and is_integer(type):
                now[frame, uid] = counted(forms.add(entry[frame, uid], trip, step), type, self.values)
        for uid, steps in text.cycling.items():
            start = entry.get((frame, uid))
            value = cycle(steps, start[0], trip) if start is not None and forms.is_number(start) else None
            if value is not None:
                now[frame, uid] = value
        return now

    def unknown_at_top(self, variable: tuple[Frame, int], loop: int) -> Form:
        """A variable that the loop assigns, at the top of an iteration."""
        return self.values.unknown(self.values.unknown_of(variable, ("loop", loop)), self.privileges[variable])

    def join(self, paths: Paths, other: Paths, where: Where, meeting: int) -> None:
        """Paths meet: what they do not agree about is unknown."""
        if other.known is not paths.known:
            differ = [k for k, v in paths.known.items() if other.known.get(k) != v]
            self.at(where, paths)
            paths.learn({k: self._merged(k, meeting) for k in differ})

    def _merged(self, variable: tuple[Frame, int], meeting: int) -> Form:
        privilege = self.privileges.get(variable, THREAD1)
        return self.values.unknown(self.values.unknown_of(variable, ("join", meeting)), privilege)
