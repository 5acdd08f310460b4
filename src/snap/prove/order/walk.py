"""The synchronized program, walked as threads run it, with what is known of each access behind it.

Input: a kernel of the synchronized IR.  Output: what the parts of the walk have found, each in its own tables.
Invariant: branches are met, loops are walked until nothing changes, so that what is said holds for any number of
iterations.  Non-goals: problem sizes, and which barrier should be where.

A *token* is an access, how far it lies behind us in each loop around (`LoopAges`), and its state (`order/reach.py`).
A loop's body is walked once with what is there when it begins, and then again, with the accesses of the iteration
before, of the one before that, and so on, until one iteration more changes nothing.

The walk goes through the text.  Where it is, `WalkPoint` says.  What a statement does is the matter of the parts:

  Memories    which memory a name means, and which elements an access touches
  Meetings    barriers, commits, waits and fences: who knows of what lies behind
  Paces       by how much counters differ, where paths meet and in loops
  MBarriers   waits, arrivals and loads of mbarriers, as events
  Pairs       each access, compared with those behind it
  Handovers   what one thread releases and acquires for its group
  Loops       how often a body is walked, and what holds at the top of it
"""

from __future__ import annotations

from snap._compiler.analysis.linear.forms import Form
from snap._compiler.analysis.solvers.allowance import check
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.effects import Effect, effects
from snap._compiler.ir.types import Array, Level, Privilege
from snap.prove.order.handovers import Handovers
from snap.prove.order.kinds import START
from snap.prove.order.loops import Loops
from snap.prove.order.mbarriers import MBarriers
from snap.prove.order.meetings import Meetings
from snap.prove.order.outline import in_order
from snap.prove.order.paces import End, Paces
from snap.prove.order.pairs import Memories, Pairs
from snap.prove.order.point import Tokens, WalkPoint, kept, merged, met
from snap.prove.order.reading import TooMuch, is_integer
from snap.record import record

MOST_WORK = 60_000  # statements walked, after which the kernel is too large
MOST_CALLS = 40  # one inside the other


@record
class Returned:
    """A way out of a call: what lies behind there, what is returned, what is known, and the loops around."""

    tokens: Tokens
    given: Form | None
    known: dict
    facts: list
    loops: tuple


class OrderWalk:
    """elected: how the single thread that was walked last ends."""

    def __init__(self, kernel: synced.Function):
        self.here = WalkPoint(kernel)
        self.values = self.here.values
        self.memories = Memories(self.here)
        self.meetings = Meetings(self.here)
        self.paces = Paces(self.here)
        self.mbarriers = MBarriers(self.here, self.paces, self.meetings)
        self.pairs = Pairs(self.here, self.memories, self.mbarriers)
        self.handovers = Handovers(self.here, self.pairs)
        self.loops = Loops(self.here, self.paces, self.mbarriers, self)
        self.returns: list[list[Returned]] = []
        self.elected: End = ({}, [])
        for p in kernel.params:
            if not isinstance(p, ir.MemParam):
                self.here.declare(p.var, None)

    def run(self) -> Tokens:
        """Walk the kernel; return what lies behind at its end."""
        self.returns.append([])
        self.body(self.here.kernel.body)
        ends = [way.tokens for way in self.returns.pop()]
        return kept(met([*ends, *([] if self.here.tokens is None else [self.here.tokens])]), set())

    # ---- statements ----

    def body(self, body: ir.Body) -> None:
        here = self.here
        for s in body:
            if here.tokens is None:
                return
            check()
            here.work += 1
            if here.work > MOST_WORK:
                raise TooMuch("it is too large to be followed", s.span)
            around = here.around
            if isinstance(s, (ir.Group, ir.Call, ir.Split, ir.For, ir.While)):
                here.around = (*around, (here.key(s.number), _group(s)))
            self.statement(s)
            here.around = around

    def statement(self, s: ir.Stmt) -> None:
        match s:
            case ir.If():
                self.branch(s)
            case ir.For() | ir.While():
                self.loops.loop(s)
            case ir.Break():
                self.leave(self.loops.breaks[-1])
            case ir.Continue():
                self.leave(self.loops.continues[-1])
            case ir.Return(value):
                self.leave_call(s, value)
            case ir.Group(p):
                before = self.here.at
                self.here.at = before.group(p, s.outer, s.place)
                self.body(s.body)
                self.here.at = before
            case ir.Split():
                self.split(s)
            case synced.Elect():
                self.elect(s)
            case ir.Call():
                self.call(s)
            case ir.Partition() | ir.Claim():
                self.scope(s)
            case ir.Turn():
                self.body(s.body)
            case _:
                self.act(s)

    def act(self, s: ir.Stmt) -> None:
        """Do what a statement does by itself; of a loop or a branch, what its bounds or its condition do."""
        here = self.here
        if not here.dry:
            self.access(s, self.pairs.reads(s))
        match s:
            case ir.Declare(var, init):
                here.declare(var, here.form(init) if init is not None and is_integer(var.type) else None, s.number)
                if isinstance(var.type, Array):
                    self.memories.arrays.pop((here.frame, var.uid), None)
            case ir.DeclareShared(obj, handle):
                self.memories.declare_shared(obj, handle)
            case ir.Assign(ir.VarTarget(var), value) if is_integer(var.type):
                here.declare(var, here.form(value), s.number)
            case ir.For(var):
                here.ranges[var.uid] = (s.start, s.stop, s.step)
            case _ if not here.dry:
                self.meetings.act(s)
        if not isinstance(s, ir.BoxCopy):
            self.mbarriers.act(s)
        if not here.dry:
            self.access(s, list(enumerate(effects(s))))
        if isinstance(s, ir.BoxCopy):
            self.mbarriers.act(s)
        here.renew(s)

    def access(self, s: ir.Stmt, found: list[tuple[object, Effect]]) -> None:
        for k, effect in found:
            site = self.pairs.effect(s, k, effect)
            if site is not None:
                self.handovers.access(site)

    def leave(self, ways: list[Tokens]) -> None:
        ways.append(self.here.tokens or {})
        self.here.tokens = None

    def leave_call(self, s: ir.Return, value: ir.Expr | None) -> None:
        here, values = self.here, self.values
        given = None if value is None or not is_integer(value.type) else here.form(value)
        self.act(s)
        self.returns[-1].append(Returned(here.tokens or {}, given, dict(values.known), values.facts, here.loops))
        here.tokens = None

    def scope(self, s: ir.Partition | ir.Claim) -> None:
        here = self.here
        outer, here.parts = here.parts, (*here.parts, (here.frame, s.handle.uid))
        if isinstance(s, ir.Partition) and not here.dry:
            self.access(s, self.pairs.reads(s))
        self.memories.opened(s)
        self.body(s.body)
        here.parts = outer

    # ---- branches ----

    def branch(self, s: ir.If) -> None:
        here, conditions = self.here, self.here.conditions
        here.conditions = (*conditions, (s.cond,))
        self.act(s)
        before, known, held = here.tokens, dict(self.values.known), self.values.facts
        ends: list[tuple[Tokens | None, dict, list]] = []
        for truth, body in ((True, s.then), (False, s.other)):
            if isinstance(s.cond, ir.Const) and bool(s.cond.value) is not truth:
                continue
            here.tokens, self.values.known = dict(before or {}), dict(known)
            more = here.follows(s.cond, truth)
            if any(not f[1] and f[0] < 0 for f in more):
                continue  # no thread comes here
            here.assume(*more)
            self.body(body)
            ends.append((here.tokens, self.values.known, self.values.facts))
            self.values.facts = held
        self.join(ends, ("if", s.number))
        here.conditions = conditions

    def join(self, ends: list[tuple[Tokens | None, dict, list]], where: tuple) -> None:
        """Paths meet: states that hold on both, and values that are the same on both."""
        alive = [(tokens, known, facts) for tokens, known, facts in ends if tokens is not None]
        if not alive:
            self.here.tokens = None
            return
        self.here.tokens = met(tokens for tokens, _, _ in alive)
        if len(alive) == 1:
            self.values.known, self.values.facts = alive[0][1], alive[0][2]
            return
        first = alive[0][1]
        self.values.known = dict(first)
        changed = [key for key, x in first.items() if any(known.get(key) != x for _, known, _ in alive[1:])]
        self.forget(changed, where)
        self.paces.joined(changed, [(known, facts) for _, known, facts in alive])

    def forget(self, changed: list[tuple], where: tuple) -> None:
        for key in changed:
            self.here.forget(key, (where, self.values.context))

    # ---- groups ----

    def split(self, s: ir.Split) -> None:
        """Walk the cases, each by its own threads; behind them, all know what any of them does."""
        here, values = self.here, self.values
        before, known, active, held = dict(here.tokens or {}), dict(values.known), here.active, values.facts
        mine, outer = here.at, here.role
        ends: list[Tokens] = [before]
        out: list[End] = []
        roles: list[End] = []  # of a role that one thread runs, how that thread ends
        siblings: Tokens = {}
        for nth, case in enumerate(in_order(s)):
            at, inside = mine.case(s, case)
            here.active = here.chosen(s, case, active)
            here.at, here.role = at, (*outer, (s.number, nth))
            values.known, values.facts = dict(known), [*held, *inside]
            here.tokens = {**before, **siblings}
            self.mbarriers.depth += 1
            self.body(case.body)
            found = values.facts
            here.at, here.role, here.active, values.facts = mine, outer, active, held
            if here.tokens is None:  # these threads have left; what they know, no one needs
                continue
            out.append((values.known, found))
            alone = bool(case.body) and isinstance(case.body[-1], synced.Elect)
            roles.append(self.elected if alone else out[-1])
            ends.append(here.tokens)
            siblings = merged(siblings, {k: v for k, v in here.tokens.items() if k not in before})
            before = merged(before, {k: v for k, v in here.tokens.items() if k in before})
        here.tokens = ends[0]
        for tokens in ends[1:]:
            here.tokens = merged(here.tokens, tokens)
        values.known = known
        changed = [key for key, x in known.items() if any(end.get(key, x) != x for end, _ in out)]
        self.forget(changed, ("split", s.number))
        covered = sum(here.chosen(s, case, active) for case in s.cases) if s.level is Level.THREAD else 0
        self.mbarriers.left_split(s, roles)
        self.paces.joined(changed, out if covered == active and out else [*out, (known, held)])

    def elect(self, s: synced.Elect) -> None:
        here, values = self.here, self.values
        active, outer = here.active, here.role
        here.active, _ = here.issuers(s.place)
        here.role = (*outer, s.number)
        before, known = dict(here.tokens or {}), dict(values.known)
        self.body(s.body)
        here.active, here.role = active, outer
        self.elected = dict(values.known), values.facts
        here.tokens = merged(before, here.tokens or {})
        for key, x in known.items():  # what the one thread has counted, the others have not
            if values.known.get(key) != x and not self.mbarriers.of_group(key):
                values.known[key] = x
                if isinstance(key[1], int):
                    here.forget(key, (("elect", s.number), values.context))

    # ---- calls ----

    def call(self, s: ir.Call) -> None:
        self.act(s)
        here, values = self.here, self.values
        frame, at, active = here.frame, here.at, here.active
        inner, place = (*frame, s.number), s.function.place
        if len(inner) > MOST_CALLS:
            raise TooMuch("calls are nested too deep", s.span)
        self.memories.passed(s, inner)
        for p, a in zip(s.function.params, s.args):
            if isinstance(p, ir.ValueParam):
                here.declare(p.var, here.form(a) if is_integer(p.var.type) else None, "given", inner)
        before, held = dict(values.known), values.facts
        self.returns.append([])
        here.frame, here.at = inner, at.group(place.privilege, s.place, place)
        self.body(s.function.body)
        here.frame, here.at, here.active = frame, at, active
        ends = self.returns.pop()
        if here.tokens is not None:
            ends.append(Returned(here.tokens, None, values.known, values.facts, here.loops))
        given = {end.given if end.loops == here.loops else None for end in ends}
        self.come_back(s, ends, before, held)
        one = given.pop() if len(given) == 1 else None
        if isinstance(s.target, ir.VarTarget) and one is not None:
            values.known[frame, s.target.var.uid] = one
            here.privileges[frame, s.target.var.uid] = s.target.var.privilege

    def come_back(self, s: ir.Call, ends: list[Returned], before: dict, held: list) -> None:
        """Behind a call, what is known on all ways out of it.  In a loop that a thread has returned from, what was
        known was known of an iteration.
        """
        here = self.here
        around = {*here.loops, *((START, loop) for loop in here.loops)}
        tokens = [kept(end.tokens, around) for end in ends]
        if len(ends) == 1 and ends[0].loops == here.loops:
            here.tokens, self.values.known, self.values.facts = tokens[0], ends[0].known, ends[0].facts
            return
        ways: list[tuple[Tokens | None, dict, list]] = [
            (behind, {key: x for key, x in end.known.items() if key in before}, end.facts)
            for behind, end in zip(tokens, ends)
        ]
        if any(end.loops != here.loops for end in ends):
            ways.append(({}, before, held))
        self.values.facts = held
        self.join(ways, ("call", s.number))


def _group(s: ir.Stmt) -> Privilege | None:
    """Return the group whose code a statement holds."""
    match s:
        case ir.Group(privilege):
            return privilege
        case ir.Call(function):
            return function.place.privilege
        case _:
            return None
