"""The graph of accesses: which pairs must be ordered, and at which gaps of the text a barrier would do it.

Input: a typed kernel (or a device function on its own).  Output: edges.  A forward walk, calls entered, carries
*tokens*: accesses that happened and may still be in conflict with what follows, each with the gaps between statements
that every path since has crossed. An access in conflict with a token (accesses.py) makes an edge whose candidates are
those gaps.  Loops are walked again with what came around, until nothing new does; what an iteration computed is renamed
when it ends.  Only loops that make the first fills of buffers taken in turn are walked iteration by iteration.
"""

from __future__ import annotations

from collections.abc import Callable

from snap.analysis import linear
from snap.analysis.linear import Atom, Form
from snap.analysis.overlap import Footprint, before, older
from snap.analysis.values import Frame, called, facts, form, is_integer, wrapped
from snap.diag.error import Diagnostic, SnapError
from snap.ir import nodes as ir
from snap.ir import synced
from snap.ir.operations import COLLECTIVES
from snap.ir.types import BLOCK1, CLUSTER1, THREAD1, Kind, Level, Place, Privilege
from snap.ir.walk import statements
from snap.sync.accesses import Accesses
from snap.sync.arrays import bytes_of
from snap.sync.loops import assigned, copies_in_turn, cycle, cycling, few, growing, turns, writes
from snap.sync.publish import ACQUIRED
from snap.sync.tokens import Edge, Gap, Name, State, Token, altered

MOST_LOOPS = 10


class Graph(Accesses):
    """The walk."""

    def run(self) -> list[Edge]:
        known: dict[tuple[Frame, int], Form] = {}
        for p in self.function.params:
            match p:
                case ir.MemParam(handle):
                    self._declare(handle, ((), handle.obj.uid), None)
                case ir.ValueParam(var) if is_integer(var.type):
                    self.assigned_privileges[((), var.uid)] = var.privilege
                    known[((), var.uid)] = self.values.fresh((), var, "start")
        end = self._body(self.function.body, State({}, known))
        if end is not None and self.function.body:
            self._exit(end, self.function.body[-1])
        self._widen()
        return list(self.edges.values())

    def _widen(self) -> None:
        """A group that only some of a block's threads can form (128 of 192) meets in code of its own; where there is
        none in between, all wait.
        """
        threads = self.overlap.threads
        for edge in self.edges.values():
            p = edge.participants
            if threads and p.level is Level.THREAD and threads % p.n:
                here = (gap.place for gap in self.gaps.values() if edge.candidates >> gap.number & 1)
                if not any(place.privilege.at_least(p) and place.holds(p) for place in here):
                    edge.participants = BLOCK1

    def _exit(self, state: State, last: ir.Stmt) -> None:
        """A kernel ends, here or at a `return` on the way.  Shared memory goes with its block: what reads it from
        outside must have read it.
        """
        if not self.function.kernel:
            return
        for obj, held in state.tokens.items():
            for t in held.values():
                b = Token(
                    (self.frame, last.number, "end"),
                    "W",
                    (),
                    t.footprint,
                    (),
                    None,
                    name=t.name,
                    span=last.span,
                    crossed=0,
                    since=0,
                )
                crossed = state.since(t)
                if t.engine == "bulk" and t.kind == "S" or t.engine == "wgmma" and t.kind == "C":
                    self._edge(t, b, THREAD1, crossed, obj)
                elif obj in self.remote and t.site[1] in self.remote[obj]:
                    self._edge(t, b, self.function.place.grouped(CLUSTER1).privilege, crossed, obj)

    # ---- flow -------------------------------------------------------------------------------------------------------

    def _cross(self, kind: str, s: ir.Stmt, state: State) -> None:
        key = (self.frame, kind, s.number)
        gap = self.gaps.get(key)
        if gap is None:
            gap = self.gaps[key] = Gap(len(self.gaps), key, self.at.place, self.depth - self.once, self.depth)
        state.crossed |= 1 << gap.number
        self.last_gap = gap.number
        if self.plan is not None and gap.number in self.plan.barriers:
            state.each_copy(lambda t: altered(t, waited={**t.waited, gap.number: t.commits}))

    def _committed(self, state: State, depth: int) -> None:
        """The statements opened since `depth` end: after some of them copies are committed."""
        ended = 0 if self.plan is None else sum(here in self.plan.commits for here in self.path[depth:])
        if ended:
            state.each_copy(lambda t: altered(t, commits=t.commits + ended), "copy")

    def _body(self, body: ir.Body, state: State | None) -> State | None:
        """None: not reachable."""
        for s in body:
            if state is None:
                return None
            # Walked again, a statement is passed over where nothing that came around reaches it; what variables are
            # after it, the first walk told.
            here, crossed = (self.frame, s.number), state.crossed
            if (self.again or self.plan is not None) and self._bare(s):
                self._cross("before", s, state)
            elif not self.again or any(state.tokens.values()):
                self._cross("before", s, state)
                self.path.append(here)
                state = self._statement(s, state)
                if state is not None:
                    self._committed(state, len(self.path) - 1)
                self.path.pop()
            if self.again:
                known = self.known_after[here, self.turns]
                if known is None:
                    return None
                if state is None:  # the ways out that the statement has were not gone: nothing came there
                    state = State({}, known, crossed)
                state.share(known)
            elif self.depth:
                self.known_after[here, self.turns] = None if state is None else state.shared()
        if state is not None and body:
            self._cross("after", body[-1], state)
        return state

    def _statement(self, s: ir.Stmt, state: State) -> State | None:
        for uid in self.woven.passes.get(s.number, ()):
            state.hand_on((self.frame, uid), uid in self.woven.coming_back, uid in self.reused)
        for uid in self.woven.lands.get(s.number, ()):
            held = state.tokens.get((self.frame, uid), {})
            state.put((self.frame, uid), {key: t for key, t in held.items() if t.engine != "load"})
        match s:
            case ir.If():
                return self._if(s, state)
            case ir.While():
                return self._loop(s, state, None)
            case ir.For():
                self._evaluate(s, state)
                return self._loop(s, state, s.var)
            case ir.Break() | ir.Continue():
                depth, breaks, continues, statements_open = self.loops[-1]
                left = self._leave(state, depth)
                self._committed(left, statements_open)
                (breaks if isinstance(s, ir.Break) else continues).append(left)
                return None
            case ir.Return():
                self._evaluate(s, state)
                left = self._leave(
                    state,
                    next((k for k, (f, _) in enumerate(self.scopes) if len(f) >= len(self.frame)), len(self.scopes)),
                )
                self._committed(left, next(k for k, (f, _) in enumerate(self.path) if len(f) >= len(self.frame)))
                self.returns[-1].append(left)
                if not self.frame:
                    self._exit(left, s)
                return None
            case synced.Elect():
                return self._body(s.body, state)
            case ir.Group():
                index = self.at.index[s.privilege.level] if s.privilege.level is not Level.GRID else linear.ZERO
                held = s.outer.held(s.privilege.level)
                if held.open or held.count != s.privilege.n:
                    index = linear.remainder(index, s.privilege.n)
                with self._region(s.place):
                    return self._inside(s.privilege.level, index, s.place, s.body, state, [])
            case ir.Split():
                return self._split(s, state)
            case ir.Partition() | ir.Claim():
                obj = self.objects[(self.frame, s.handle.obj.uid)]
                self._declare(s.handle, obj, self._chain(s.base), isinstance(s, ir.Claim))
                if isinstance(s, ir.Partition) and s.counted and s.handle.obj.uid not in self.nested_stages:
                    state.next_fill(obj, s.handle.obj.depth)
                self.scopes.append((self.frame, s))
                inside = self._body(s.body, state)
                self.scopes.pop()
                if inside is not None:
                    self._close(self.frame, s, inside)
                return inside
            case ir.DeclareShared():
                self._declare(s.handle, (self.frame, s.obj.uid), None)
                self.shared[(self.frame, s.obj.uid)] = s
                self.depths[(self.frame, s.obj.uid)] = s.obj.depth
                if s.obj.uid not in self.woven.counted_on:
                    state.recount((self.frame, s.obj.uid), s.obj.depth)
                low = self.frame_offset + s.obj.offset
                self.ranges[(self.frame, s.obj.uid)] = (low, low + bytes_of(s.obj))
                self._reused((self.frame, s.obj.uid), s, state)
                return state
            case ir.Call():
                return self._call(s, state)
            case synced.AsyncCommit(engine):

                def mine(t):
                    return t.role == self.role and (
                        t.issuer is None or s.place is None or t.issuer == s.place.privilege
                    )

                state.each_copy(
                    lambda t: t if not mine(t) else altered(t, commits=t.commits + 1, early=state.since(t)), engine
                )
                return state
            case synced.Sync(point) if point.uid in self.unsettled:
                return state
            case synced.Sync(point):
                for engine, younger in point.waits:
                    state.covered(engine, younger, self.role)
                return state
            case synced.BarrierWait(barrier):
                for uid in self.woven.awaited.get(barrier.uid, ()):
                    self._arrived((self.frame, uid), s, state)
                return state
            case ir.Collective() if COLLECTIVES[s.op].barrier:
                self._evaluate(s, state)
                self._met(state, s.requires)
                return state
            case _:
                self._evaluate(s, state)
                self._update(s, state)
                return state

    def _if(self, s: ir.If, state: State) -> State | None:
        self._evaluate(s, state)
        results = []
        known = (
            facts(s.cond, True, self._values(state), self.frame, self.at),
            facts(s.cond, False, self._values(state), self.frame, self.at),
        )
        for part, learned in zip((s.then, s.other), known):
            mark = len(self.facts)
            self.facts += learned
            results.append(self._body(part, state.copy()))
            del self.facts[mark:]
        return self._join(results, s.number)

    def _split(self, s: ir.Split, state: State) -> State | None:
        results: list[State | None] = [state]  # the units beyond the last case
        before = len(self.siblings)
        outermost = s.level is Level.THREAD and s.outer.top > Level.THREAD
        for case in s.cases:
            role = self.role
            if outermost and not case.rest:
                self.role = (case.offset, case.size)
            index = linear.subtract(self.at.index[s.level], linear.number(case.offset))
            learned = [index]
            if case.rest:
                index = linear.remainder(index, case.size)
            else:
                learned.append(linear.subtract(linear.number(case.size - 1), index))
            self.regions.append((case.place, {}))
            self.splits += 1
            results.append(self._inside(s.level, index, case.place, case.body, state.copy(), learned))
            self.splits -= 1
            self.siblings.append(self.regions.pop())
            self.role = role
        del self.siblings[before:]
        if outermost:  # what a role did before is as its own threads know it, who have come through its case
            for case, end in zip(s.cases, results[1:]):
                if end is not None and not case.rest:
                    for other in results:
                        if other is not None and other is not end:
                            other.without_role((case.offset, case.size))
        return self._join(results, s.number)

    def _inside(
        self, level: Level, index: Form, place: Place, body: ir.Body, state: State, learned: list[Form]
    ) -> State | None:
        outer, mark = self.at, len(self.facts)
        self.at = outer.entered(level, index, place)
        self.facts += learned
        result = self._body(body, state)
        self.at = outer
        del self.facts[mark:]
        return result

    def _loop(self, s: ir.While | ir.For, state: State, var: ir.Var | None) -> State | None:
        loop = self.numbers.setdefault((self.frame, s.number), len(self.numbers))  # each call of a function counts anew
        entry_known = state.shared()
        if self._text_of(s)[3]:
            if few(s) is not None:
                return self._one_by_one(s, state, loop)
            self.turning.add(loop)
            state.begin(loop)
        only_reads = var is not None and not writes(s.body, self.writes)
        head = state
        mark = len(self.facts)
        known_at_top, learned = self._top(s, state, loop)
        self.depth += 1
        values = turns(s)
        once = (
            values is not None and len(values) <= 1
        )  # a loop of one iteration is none, when it comes to what is done how often
        self.once += once
        if self.depth > MOST_LOOPS:
            raise SnapError(
                Diagnostic(
                    "SNAP017",
                    f"loops are nested more than {MOST_LOOPS} deep, calls included",
                    s.span,
                    help="use one loop and divide its counter",
                )
            )
        # The first walk makes the accesses of the loop, and all that follows from them.  What it brings back to the top
        # that has not been there before goes around once more, alone: accesses are in conflict pair by pair, so that
        # others would only be found in conflict again. Where a copy has come by a new way it goes around as what all
        # ways have in common (`absorb`): that decides which barrier waits for it.
        first = not self.again
        news = head
        after: State | None = None
        ends: list[State] | None = [] if values else None
        breaks: list[State] = []
        touched = self._touched()
        while True:
            self.values.loops.append(loop)
            current = news.copy()
            current.share(known_at_top)
            continues: list[State] = []
            self.loops.append((len(self.scopes), breaks, continues, len(self.path)))
            if var is not None:
                self.facts += learned
                back = self._body(s.body, current)
            else:
                test = self._body(s.pre, current)
                if test is not None:
                    self._cross("condition", s, test)
                    self._evaluate(s, test)
                    self.facts += facts(s.cond, True, self._values(test), self.frame, self.at)
                    after = self._join([after, test.copy()], s.number)
                back = None if test is None else self._body(s.body, test)
            self.loops.pop()
            self.values.loops.pop()
            del self.facts[mark:]
            news = State({}, entry_known, head.crossed)
            for end in (back, *continues):
                if end is not None:
                    self._age(end, loop)
                    head.absorb(end, news)
                    if ends is not None:
                        ends.append(end)
            if (
                not news.tokens or only_reads
            ):  # then nothing in there can be in conflict with what another iteration did
                break
            if first:
                if self.plan is None:
                    self._at_once_around(touched)
                self.again = True
        self.again = not first
        self.depth -= 1
        self.once -= once
        if var is not None:
            after = head
            after.share(known_at_top)
            if ends is not None:  # it is certain that it runs: what each way through it has ended does not come past it
                after.keep(ends)
        out = self._join([after, *breaks], s.number)
        if out is not None:
            out.forget_ages(loop)
        return out

    def _top(self, s: ir.While | ir.For, state: State, loop: int) -> tuple[dict[tuple[Frame, int], Form], list[Form]]:
        """What variables are at the top of an iteration, and what is known of the loop's own."""
        here = (self.frame, s.number), self.turns
        if self.again:
            return self.known_at_top[here]
        assigned_here, growing_here, cycling_here, _ = self._text_of(s)
        known = dict(state.known)
        learned: list[Form] = []
        bounds = (
            [form(e, self._values(state), self.frame, self.at) for e in (s.start, s.stop, s.step)]
            if isinstance(s, ir.For)
            else []
        )
        self.values.loops.append(loop)
        for key in ((self.frame, uid) for uid in assigned_here):
            if key in state.known:
                known[key] = self._again(key, loop)
        turn = self.values.turns(loop, self.at.place.privilege) if growing_here or cycling_here else linear.ZERO
        known.update(self._counting(state.known, s, turn))
        if isinstance(s, ir.For):
            start, stop, step = bounds
            k = known[self.frame, s.var.uid] = self.values.loop_variable(self.frame, s.var, start, step)
            if linear.is_number(step) and step[0]:
                up = 1 if step[0] > 0 else -1
                learned = [
                    linear.times(linear.subtract(k, start), up),
                    linear.add(linear.number(-1), linear.subtract(stop, k), up),
                ]
        self.values.loops.pop()
        self.known_at_top[here] = known, learned
        return known, learned

    def _counting(
        self, entry: dict[tuple[Frame, int], Form], s: ir.While | ir.For, turn: Form
    ) -> dict[tuple[Frame, int], Form]:
        """Variables that follow from how many iterations came before."""
        _, grown, cycling_here, _ = self._text_of(s)
        found: dict[tuple[Frame, int], Form] = {}
        for uid, step in grown.items():
            if (self.frame, uid) in entry:
                found[self.frame, uid] = self._wrapping(linear.add(entry[self.frame, uid], turn, step), uid)
        for uid, steps in cycling_here.items():
            start = entry.get((self.frame, uid))
            now = cycle(steps, start[0], turn) if start is not None and linear.is_number(start) else None
            if now is not None:
                found[self.frame, uid] = now
        return found

    def _text_of(self, s: ir.While | ir.For) -> tuple[set[int], dict[int, int], dict[int, ir.Body], bool]:
        """What a loop assigns, what grows, what comes around, and whether it copies to buffers in turn."""
        found = self.memo.loop_texts.get(s.number)
        if found is None:
            grown, around = growing(s), cycling(s)
            found = self.memo.loop_texts[s.number] = (
                assigned(s),
                grown,
                around,
                self.copies and copies_in_turn(s, (*grown, *around)),
            )
        return found

    def _bare(self, s: ir.Stmt) -> bool:
        """Whether it is a loop in which nothing happens that matters where it is walked again: arithmetic on a thread's
        own values.  (That no barrier stands in there is why: it would not order anything.)
        """
        if not isinstance(s, ir.For):
            return False
        found = self.memo.bare.get(s.number)
        if found is None:
            found = self.memo.bare[s.number] = all(self._arithmetic(inner) for inner in statements((s,)))
        return found

    def _arithmetic(self, s: ir.Stmt) -> bool:
        match s:
            case ir.For() | ir.If() | ir.Declare():
                pass
            case ir.Assign(ir.VarTarget(var)) if is_integer(var.type):
                return False
            case ir.Assign(
                ir.VarTarget() | ir.ElemTarget() | ir.ComponentTarget(ir.VarTarget() | ir.ElemTarget()) as target
            ):
                if not isinstance(target, ir.VarTarget) and self.multiplies:
                    return False
            case _:
                return False
        registers = () if self.multiplies else (ir.Elem, ir.ArrayValue)
        return all(isinstance(part, registers) for part in self._reading(s))

    # As if it were written out: so each fill is told from the others, and how many copies have been begun since each.
    def _one_by_one(self, s: ir.For, state: State, loop: int) -> State | None:
        values = few(s)
        written = [(self.frame, uid) for uid in self._text_of(s)[0] if (self.frame, uid) in state.known]
        entry_known, crossed, around = state.shared(), state.crossed, self.turns
        breaks: list[State] = []
        current: State | None = state
        self.depth += 1
        for turn in range(len(values) + 1):
            self.values.loops.append(loop)
            current.learn({key: self._again(key, loop) for key in written})
            current.learn(self._counting(entry_known, s, linear.number(turn)))
            if turn == len(values):
                self.values.loops.pop()
                break
            current.learn({(self.frame, s.var.uid): linear.number(values[turn])})
            continues: list[State] = []
            self.turns = (*around, turn)
            self.loops.append((len(self.scopes), breaks, continues, len(self.path)))
            back = self._body(s.body, current)
            self.loops.pop()
            self.values.loops.pop()
            current = None
            for end in (back, *continues):
                if end is not None:
                    self._age(end, loop, counted=False)
                    current = current or State({}, entry_known, crossed)
                    current.absorb(end)
            if current is None:
                break
        self.depth -= 1
        self.turns = around
        return self._join([current, *breaks], s.number)

    def _wrapping(self, x: Form, uid: int) -> Form:
        """What a variable is that has been counted up to x."""
        type = self.values.types[self.frame, uid]
        return wrapped(x, type, self.values) if type.kind is Kind.UINT else x

    def _again(self, key: tuple[Frame, int], loop: int) -> Form:
        """A variable that the loop assigns, at the top of an iteration."""
        return self.values.unknown(("var", key[0], key[1], ("loop", loop)), self.assigned_privileges[key])

    # ---- states -----------------------------------------------------------------------------------------------------

    def _join(self, states: list[State | None], where: int) -> State | None:
        reached = [s for s in states if s is not None]
        if not reached:
            return None
        result = reached[0]
        for other in reached[1:]:
            result.absorb(other)
            if other.known is not result.known and not self.again:  # again, the first walk has told
                differ = [k for k, v in result.known.items() if other.known.get(k) != v]
                result.learn({k: self._merged(k, where) for k in differ})
        return result

    def _merged(self, key: tuple[Frame, int], where: int) -> Form:
        return self.values.unknown(("var", key[0], key[1], ("join", where)), self.assigned_privileges.get(key, THREAD1))

    def _age(self, state: State, loop: int, counted: bool = True) -> None:
        """An iteration ends.  counted: it matters how many ago something was done."""
        change = self.values.aged(loop)
        begun = before(loop) if loop in self.turning else None

        def later(t: Token) -> Token:
            # What was made outside knows nothing of this iteration: it comes here after the end of one of a loop around
            # both, which renamed that.
            footprint = self._aged(t.footprint, loop, change) if loop in t.born else t.footprint
            if footprint is not t.footprint:
                t = altered(t, footprint=footprint)
            if begun is not None and t.ages:
                ages = tuple((at, older(n, t.aging) if at == begun else n) for at, n in t.ages)
                t = t if ages == t.ages else altered(t, ages=ages)
            if counted and t.aging and loop in t.born and (t.engine == "copy" or loop == t.born[-1]):
                # Of an earlier iteration of a loop around this one: how often this one has turned since tells nothing
                # about its counter then.
                around = t.born[: t.born.index(loop)]
                if not any(at in around for at, _ in t.ages):
                    ages = ((loop, older(dict(t.ages).get(loop, 0), t.aging)),)
                    t = t if ages == t.ages else altered(t, ages=ages)
            return t

        for obj in state.tokens:
            state.regrouped(obj, later)

    def _aged(self, f: Footprint, loop: int, change: Callable[[Atom], Atom | None]) -> Footprint:
        """Tokens share their footprints, and pass here again and again."""
        found = self.memo.aged.get((loop, f))
        if found is None:
            parts = (self.memo.renaming(forms, change, (loop,)) for forms in (f.shape, f.index, f.facts))
            found = self.memo.aged[loop, f] = self.memo.footprint(f.elem, *parts)
        return found

    def _leave(self, state: State, depth: int) -> State:
        """Out of the scopes opened since: their accesses become their bases'."""
        left = state.copy()
        for frame, scope in reversed(self.scopes[depth:]):
            self._close(frame, scope, left)
        return left

    def _close(self, frame: Frame, scope: ir.Partition | ir.Claim, state: State) -> None:
        key = (frame, scope.handle.uid)
        obj = self.objects[(frame, scope.handle.obj.uid)]

        def outside(t: Token) -> Token:
            if key not in t.names:
                return t
            k = t.names.index(key)
            return altered(
                t, names=t.names[k + 1 :], disjoint=(*t.disjoint, key) if scope.handle.disjoint else t.disjoint
            )

        if obj in state.tokens:
            state.regrouped(obj, outside)
        for acquired in state.tokens.keys() & ACQUIRED.values():
            state.regrouped(
                acquired,
                lambda t: altered(t, names=tuple(name for name in t.names if name != key)) if key in t.names else t,
            )

    def _met(self, state: State, group: Privilege) -> None:
        """A barrier of the user's: tokens are ordered for that group."""
        for obj in state.tokens:
            state.regrouped(
                obj, lambda t: altered(t, ordered=group) if t.ordered is None or group.at_least(t.ordered) else t
            )

    def _update(self, s: ir.Stmt, state: State) -> None:
        """New values of variables."""
        if self.again:  # the first walk has told
            return
        match s:
            case ir.Declare(var, init):
                self._store(var, None if init is None else init, s, state, s.zero)
            case ir.Assign(ir.VarTarget(var), value):
                self._store(var, value, s, state, False)
            case ir.Collective(targets=targets):
                for t in targets:
                    if isinstance(t, ir.VarTarget):
                        self._store(t.var, None, s, state, False)
            case ir.Atomic(target=ir.VarTarget(var)) | ir.Unsafe(target=ir.VarTarget(var)):
                self._store(var, None, s, state, False)

    def _store(self, var: ir.Var, value: ir.Expr | None, s: ir.Stmt, state: State, zero: bool) -> None:
        if not is_integer(var.type):
            return
        key = (self.frame, var.uid)
        self.assigned_privileges[key], self.values.types[key] = var.privilege, var.type
        if value is not None:
            new = form(value, self._values(state), self.frame, self.at)
            if var.privilege != THREAD1 and any(atom[0] == "any" for atom in linear.atoms([new])):
                new = self.values.fresh(
                    self.frame, var, s.number
                )  # what the value is, we do not know; that all threads of the unit agree, we do
        else:
            new = linear.ZERO if zero else self.values.fresh(self.frame, var, s.number)
        state.learn({key: new})

    def _call(self, s: ir.Call, state: State) -> State | None:
        self._evaluate(s, state)
        outer = self.frame, self.at, self.frame_offset
        inner = called(self.frame, s.number)
        values = self._values(state)
        bindings = []
        for p, a, handle in zip(s.function.params, s.args, s.handles):
            match p:
                case ir.ValueParam(var) if is_integer(var.type):
                    bindings.append(((inner, var.uid), var, form(a, values, self.frame, self.at)))
                case ir.MemParam(callee):
                    chain = self._chain(handle)
                    self.objects[(inner, callee.obj.uid)] = self.objects[(self.frame, a.obj.uid)]
                    key = (inner, callee.uid)
                    self.names[key] = (Name(key, callee.privilege), *chain)
        for key, var, _ in bindings:
            self.assigned_privileges[key], self.values.types[key] = var.privilege, var.type
        state.learn({key: value for key, _, value in bindings})
        top = s.function.place.top
        index = self.at.index[top] if top is not Level.GRID else linear.ZERO
        held, required = s.place.held(top), s.function.place.held(top)
        if top is not Level.GRID and (held is None or held.open or held.count != required.count):
            index = linear.remainder(index, required.count)
        self.frame, self.frame_offset = inner, self.frame_offset + s.smem_offset
        self.at = self.at.entered(top, index, s.function.place)
        self.returns.append([])
        with self._region(s.function.place):
            end = self._body(s.function.body, state)
        returned = self.returns.pop()
        self.frame, self.at, self.frame_offset = outer
        result = self._join([end, *returned], s.number) if returned else end
        if result is not None and isinstance(s.target, ir.VarTarget):
            self._store(s.target.var, None, s, result, False)
        return result
