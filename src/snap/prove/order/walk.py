"""The synchronized program, walked as threads run it, with what is known of each access behind it.

Input: a kernel of the synchronized IR.  Output: for every access, each earlier one together with its state
(`order/reach.py`) on every path between the two; `order/acts.py` says what statements do, and compares.  Invariant:
branches are met, loops are walked until nothing changes, so that what is said holds for any number of iterations.
Non-goals: problem sizes, and which barrier should stand where.

A *token* is an access, how far it lies behind us in each loop around (`Ages`), and its state.  A loop's body is walked
once with what is there when it begins, and then again, with the accesses of the iteration before, of the one before
that, and so on, until one iteration more changes nothing.
"""

from __future__ import annotations

from typing import Any

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.forms import Form
from snap._compiler.analysis.linear.values import Frame, Position, called, facts, form, is_integer
from snap._compiler.analysis.solvers.allowance import check
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.types import THREAD1, Level, Privilege
from snap._compiler.ir.walk import statements
from snap.prove.order.kinds import START
from snap.prove.order.outline import bits
from snap.prove.order.tokens import Tokens, kept, merged, met
from snap.prove.order.values import Known, TooMuch
from snap.record import record

MOST_WORK = 60_000  # statements walked, after which the kernel is too large


@record
class Returned:
    """A way out of a call: what lies behind there, what is returned, what is known, and the loops around."""

    tokens: Tokens
    given: Form | None
    known: dict
    facts: list
    loops: tuple


class OrderWalk:
    """The part that goes through the text; `order/loops.py` has the loops, `Acts` the rest."""

    def __init__(self, kernel: synced.Function):
        self.kernel = kernel
        self.values: Any = Known()  # whose variables are the program's, and counters of ours
        threads = kernel.place.held(Level.THREAD)
        if threads is None or threads.count is None:
            raise TooMuch("how many threads it has is not known")
        self.threads = threads.count
        self.values.threads = self.threads
        self.tokens: Tokens | None = {}
        self.active = (1 << self.threads) - 1
        self.role: tuple = ()  # the cases and single threads whose text this is, outermost first
        self.loops: tuple = ()
        self.frame: Frame = ()
        self.frames: dict[Frame, int] = {(): 0}  # where the shared memory of each call begins
        self.breaks: list[list[Tokens]] = []
        self.continues: list[list[Tokens]] = []
        self.returns: list[list[Returned]] = []
        self.work = 0
        self.born = True  # whether accesses are met for the first time: not in a later pass over a loop
        self.privileges = {}
        self.naturals = set()
        self.elected: tuple[dict, list] = ({}, [])
        self.bounds: dict[tuple, list[Form]] = {}
        self.heads: dict[tuple, list[Form]] = {}
        self.ended: list[tuple] = []  # iterations: what was known at the end of each
        index = {
            Level.GRID: forms.ZERO,
            Level.CLUSTER: forms.unknown((forms.CLUSTER,)),
            Level.BLOCK: forms.unknown((forms.BLOCK,)),
            Level.THREAD: forms.unknown((forms.THREAD,)),
        }
        self.at = Position(index, kernel.place)

    # ---- statements ----

    def body(self, body: ir.Body) -> None:
        for s in body:
            if self.tokens is None:
                return
            check()
            self.work += 1
            if self.work > MOST_WORK:
                raise TooMuch("it is too large to be followed", s.span)
            self.statement(s)

    def statement(self, s: ir.Stmt) -> None:
        match s:
            case ir.If():
                self.branch(s)
            case ir.For() | ir.While():
                self.loop(s)
            case ir.Break():
                self.breaks[-1].append(self.tokens or {})
                self.tokens = None
            case ir.Continue():
                self.continues[-1].append(self.tokens or {})
                self.tokens = None
            case ir.Return(value):
                given = None if value is None or not is_integer(value.type) else self.form(value)
                self.act(s)
                self.returns[-1].append(
                    Returned(self.tokens or {}, given, dict(self.values.known), self.values.facts, self.loops)
                )
                self.tokens = None
            case ir.Group():
                self.inside(self.at.grouped(s), s.body)
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
        raise NotImplementedError

    def scope(self, s: ir.Partition | ir.Claim) -> None:
        raise NotImplementedError

    def inside(self, at: Position, body: ir.Body) -> None:
        before, self.at = self.at, at
        self.body(body)
        self.at = before

    def form(self, e: ir.Expr) -> Form:
        return form(e, self.values, self.frame, self.at)

    # ---- branches ----

    def branch(self, s: ir.If) -> None:
        self.act(s)  # what the condition reads
        before, known = self.tokens, dict(self.values.known)
        ends: list[tuple[Tokens | None, dict, list]] = []
        for truth, body in ((True, s.then), (False, s.other)):
            if isinstance(s.cond, ir.Const) and bool(s.cond.value) is not truth:
                continue
            self.tokens = dict(before or {})
            self.values.known = dict(known)
            held = self.values.facts
            more = facts(s.cond, truth, self.values, self.frame, self.at)
            if any(not f[1] and f[0] < 0 for f in more):
                continue  # nobody comes here
            self.values.facts = [*held, *more]
            self.body(body)
            ends.append((self.tokens, self.values.known, self.values.facts))
            self.values.facts = held
        self.join(ends, ("if", s.number))

    def join(self, ends: list[tuple[Tokens | None, dict, list]], where: tuple) -> None:
        """Where paths meet: states that hold on both, and values that are the same on both."""
        alive = [(tokens, known, facts) for tokens, known, facts in ends if tokens is not None]
        if not alive:
            self.tokens = None
            return
        self.tokens = met(tokens for tokens, _, _ in alive)
        if len(alive) == 1:
            self.values.known, self.values.facts = alive[0][1], alive[0][2]
            return
        first = alive[0][1]
        self.values.known = dict(first)
        changed = [key for key, x in first.items() if any(known.get(key) != x for _, known, _ in alive[1:])]
        for key in changed:
            self.forget(key, (where, self.values.context))
        self.related(changed, [(known, facts) for _, known, facts in alive])

    def related(self, changed: list, ends: list[tuple[dict, list]]) -> None:
        """For who follows how far counters are apart."""

    def invariants(self, s: ir.For | ir.While, loop: tuple, head: dict) -> None:
        """The same, of loops: what holds at the top of every iteration."""

    def as_counted(self, keys: list, loop: tuple) -> list[Form]:
        """What is known of these variables at the top of an iteration, or behind the loop."""
        return []

    def forget(self, key: tuple[Frame, int], where: object) -> None:
        """A variable has a value of which only its type is known."""
        atom = self.values.unknown_of(key, where)
        if key in self.naturals:
            self.values.counts.add(atom)
        self.values.known[key] = self.values.unknown(atom, self.privileges.get(key, THREAD1))

    privileges: dict[tuple[Frame, int], Privilege]
    naturals: set[tuple[Frame, int]]  # variables that begin with no negative number, and only grow

    # ---- groups ----

    def relative(self, at: Position, t: int) -> int | None:
        """The index of a thread in its group."""
        try:
            return forms.value(at.index[Level.THREAD], {(forms.THREAD,): t})
        except KeyError:
            return None

    def split(self, s: ir.Split) -> None:
        before, known, active = dict(self.tokens or {}), dict(self.values.known), self.active
        held = self.values.facts
        ends: list[Tokens] = [before]
        out: list[tuple[dict, list]] = []
        roles: list[tuple[dict, list]] = []  # of a role that one thread runs, how that thread ends
        siblings: Tokens = {}
        outer = self.role
        for case in self.in_order(s):
            at, inside = self.at.case(s, case)
            self.role = (*outer, (s.number, case.offset))
            self.active = self.chosen(s, case, active)
            self.values.known = dict(known)
            self.values.facts = [*held, *inside]
            self.tokens = {**before, **siblings}
            mine = self.at
            self.at = at
            self.entered_case(s, case, siblings)
            self.body(case.body)
            self.at, self.role = mine, outer
            found = self.values.facts
            self.active, self.values.facts = active, held
            if self.tokens is None:  # these threads have left; what they know, nobody needs
                continue
            out.append((self.values.known, found))
            alone = bool(case.body) and isinstance(case.body[-1], synced.Elect)
            roles.append(self.elected if alone else out[-1])
            ends.append(self.tokens)
            left = self.without_loops(case.body, self.tokens)
            siblings = merged(siblings, {k: v for k, v in left.items() if k not in before})
            before = merged(before, {k: v for k, v in left.items() if k in before})
        self.tokens = ends[0]
        for tokens in ends[1:]:
            self.tokens = merged(self.tokens, tokens)
        self.values.known = known
        changed = [key for key, x in known.items() if any(end.get(key, x) != x for end, _ in out)]
        for key in changed:
            self.forget(key, (("split", s.number), self.values.context))
        covered = sum(self.chosen(s, case, active) for case in s.cases) if s.level is Level.THREAD else 0
        self.left_split(s, roles)
        self.related(changed, out if covered == active and out else [*out, (known, held)])

    def left_split(self, s: ir.Split, ends: list[tuple[dict, list]]) -> None:
        """For who follows roles."""

    def entered_case(self, s: ir.Split, case: ir.Case, siblings: Tokens) -> None:
        """For who follows roles."""

    def in_order(self, s: ir.Split) -> list[ir.Case]:
        """Cases in which threads only arrive at a barrier stand before those in which others wait for them."""
        needs = {}
        for k, case in enumerate(s.cases):
            parts = [
                x for x in statements(case.body) if isinstance(x, synced.Sync) and x.part is not synced.SyncHalf.BOTH
            ]
            needs[k] = (
                {x.point.uid for x in parts if x.part is synced.SyncHalf.WAIT},
                {x.point.uid for x in parts if x.part is synced.SyncHalf.ARRIVE},
            )
        left, order = list(range(len(s.cases))), []
        while left:
            free = [k for k in left if not any(needs[k][0] & needs[j][1] for j in left if j != k)]
            chosen = free[0] if free else left[0]
            order.append(chosen)
            left.remove(chosen)
        return [s.cases[k] for k in order]

    def without_loops(self, body: ir.Body, tokens: Tokens) -> Tokens:
        """Arrivals in a loop are of one iteration, which another role knows nothing of."""
        looped = frozenset(
            x.point.uid
            for loop in statements(body)
            if isinstance(loop, (ir.For, ir.While))
            for x in statements((loop,))
            if isinstance(x, synced.Sync)
        )
        return {k: v.without_arrivals(looped) for k, v in tokens.items()}

    def chosen(self, s: ir.Split, case: ir.Case, active: int) -> int:
        if s.level is not Level.THREAD:
            return active
        found = 0
        for t in bits(active):
            i = self.relative(self.at, t)
            if i is None:
                raise TooMuch("who takes this branch is not known", s.span)
            if case.offset <= i and (case.rest or i < case.offset + case.size):
                found |= 1 << t
        return found

    def issuers(self, place: object, every_block: bool = False) -> tuple[int, list[Form]]:
        """The threads that issue for their groups, among those that are here; what holds of the blocks they are in."""
        found, zero = 0, []
        for level, held in place.levels:  # type: ignore[attr-defined]
            if level in (Level.GRID, Level.THREAD) or every_block:
                continue
            index = self.at.index[level]
            zero.append(index if held.count is None or held.open else forms.remainder(index, held.count))
        count = place.held(Level.THREAD).count  # type: ignore[attr-defined]
        for t in bits(self.active):
            i = self.relative(self.at, t)
            if i is None:
                raise TooMuch("who issues this is not known")
            if i % (count or self.threads) == 0:
                found |= 1 << t
        return found, zero

    def elect(self, s: synced.Elect) -> None:
        active = self.active
        self.active, _ = self.issuers(s.place)
        before, known = dict(self.tokens or {}), dict(self.values.known)
        outer, self.role = self.role, (*self.role, s.number)
        self.body(s.body)
        self.active, self.role = active, outer
        self.elected = dict(self.values.known), self.values.facts
        self.tokens = merged(before, self.tokens or {})
        for key, x in known.items():  # what the one thread has counted, the others have not
            if self.values.known.get(key) != x and not self.of_all(key):
                self.values.known[key] = x
                if isinstance(key[1], int):
                    self.forget(key, (("elect", s.number), self.values.context))

    def of_all(self, key: tuple) -> bool:
        """Whether a counter is kept for the group, whoever of it counts."""
        return False

    # ---- calls ----

    def call(self, s: ir.Call) -> None:
        self.act(s)
        inner = called(self.frame, s.number)
        callee = s.function
        if len(inner) > 40:
            raise TooMuch("calls are nested too deep", s.span)
        for p, a, handle in zip(callee.params, s.args, s.handles):
            self.bind(p, a, handle, inner)
        frame, at, active = self.frame, self.at, self.active
        before, held = dict(self.values.known), self.values.facts
        self.frames[inner] = self.frames[frame] + s.smem_offset
        self.returns.append([])
        self.frame, self.at = inner, self.at.called(s)
        self.body(callee.body)
        self.frame, self.at, self.active = frame, at, active
        ends = self.returns.pop()
        if self.tokens is not None:
            ends.append(Returned(self.tokens, None, self.values.known, self.values.facts, self.loops))
        given = {end.given if end.loops == self.loops else None for end in ends}
        self.come_back(s, ends, before, held)
        if isinstance(s.target, ir.VarTarget) and len(given) == 1 and None not in given:
            self.values.known[frame, s.target.var.uid] = next(iter(given))
            self.privileges[frame, s.target.var.uid] = s.target.var.privilege

    def come_back(self, s: ir.Call, ends: list[Returned], before: dict, held: list) -> None:
        """Behind a call: what is known on all ways out of it.  In a loop that a thread has returned from, what was
        known was known of an iteration.
        """
        around = {*self.loops, *((START, loop) for loop in self.loops)}
        tokens = [kept(end.tokens, around) for end in ends]
        if len(ends) == 1 and ends[0].loops == self.loops:
            self.tokens, self.values.known, self.values.facts = tokens[0], ends[0].known, ends[0].facts
            return
        ways: list[tuple[Tokens | None, dict, list]] = [
            (behind, {key: x for key, x in end.known.items() if key in before}, end.facts)
            for behind, end in zip(tokens, ends)
        ]
        if any(end.loops != self.loops for end in ends):
            ways.append(({}, before, held))
        self.values.facts = held
        self.join(ways, ("call", s.number))

    def loop(self, s: ir.For | ir.While) -> None:
        raise NotImplementedError

    def bind(self, p: ir.Param, a: object, handle: ir.Handle | None, inner: Frame) -> None:
        raise NotImplementedError
