"""Which accesses must be ordered, and where a barrier can stand to do it.

Input: a typed function.  Output: marks, that is positions in the text with the group that must wait there and why; and a summary for callers.
A forward analysis carries *tokens*: accesses that may not be ordered yet with what follows.  An access that conflicts with a token marks a position between the two;
marks order tokens, so the analysis is repeated until nothing new is marked.  What is still in conflict then cannot be synchronized: SNAP020.

The rules, per object:
- Inside one lowering scope, units do not interfere (two threads that write one element: the last one wins).
- When a scope ends, its accesses count as accesses of the base: with anything that follows, they must be ordered for the base's whole unit.  Writes are
  ordered where their scope ends, reads where the next scope that writes begins.
- Direct accesses (atomics, matrix stores, `unsafe`, reads of a name that is not lowered) are ordered before the statement that conflicts, at the innermost place whose code
  contains the group.  Atomics do not conflict with atomics.
- Two objects that share bytes of shared memory are ordered where the later one is declared, or called into being.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from snap.diag.error import Diagnostic, Label, SnapError
from snap.diag.span import Span
from snap.ir import nodes as ir
from snap.ir.operations import COLLECTIVES
from snap.ir.types import BLOCK1, THREAD1, Level, Place, Privilege
from snap.ir.walk import bodies, own_expressions, walk
from snap.sync.primitive import primitive

Position = tuple[str, int]  # 'before' | 'after' | 'condition', id of a statement


@dataclass(frozen=True, slots=True)
class Token:
    """An access that may still have to be ordered.  `handle` is the name it counts for now; `point` where its scope ended (None: a direct access);
    `disjoint` the uid of the disjoint partition it was made through, if any; `ordered` the largest group that has met since."""

    obj: int
    kind: str
    handle: ir.Handle | None
    point: Position | None
    disjoint: int
    ordered: Privilege | None
    name: str = field(compare=False)
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Mark:
    participants: Privilege
    kind: str
    object: str
    reason: str
    place: Place
    first: Span
    second: Span


@dataclass(frozen=True, slots=True)
class Summary:
    """What a call does to its pointer parameters: (parameter, kind, ordered) for every access that may be the last."""

    kinds: tuple[tuple[int, str], ...]
    exits: tuple[tuple[int, str, Privilege | None], ...]


State = frozenset[Token]
WORDS = {"R": "read", "W": "written", "A": "changed by atomics"}


class Analysis:
    def __init__(self, function: ir.Function, summary_of: Callable[[ir.Function], Summary]):
        self.function, self.summary_of = function, summary_of
        self.marks: dict[Position, list[Mark]] = {}
        self.grown = False
        self.stuck: Diagnostic | None = None
        self.summary = Summary((), ())
        self.places = dict(_places(function.body, function.place))

    def run(self) -> dict[Position, list[Mark]]:
        while True:
            self.grown, self.stuck = False, None
            self.kinds: set[tuple[int, str]] = set()
            self.exits: set[Token] = set()
            self.place = self.function.place
            self.path: list[tuple[ir.Stmt, Place]] = []
            self.scopes: list[ir.Partition | ir.Claim] = []
            self.loops: list[tuple[int, list[State], list[State]]] = []
            self.ranges: dict[int, tuple[int, int]] = {}
            self.made: list[Token] = []
            self.params = {p.handle.obj.uid: i for i, p in enumerate(self.function.params) if isinstance(p, ir.MemParam)}
            end = self._body(self.function.body, frozenset())
            self.exits |= end or frozenset()
            if not self.grown:
                break
        if self.stuck is not None:
            raise SnapError(self.stuck)
        exits = {(self.params[t.obj], t.kind, t.ordered) for t in self.exits if t.obj in self.params}
        order = lambda e: (e[0], e[1], str(e[2]))  # noqa: E731
        self.summary = Summary(tuple(sorted(self.kinds)), tuple(sorted(exits, key=order)))
        return self.marks

    # ---- flow ----------------------------------------------------------------------------------------------------------------------------------

    def _body(self, body: ir.Body, state: State | None) -> State | None:
        """None: not reachable."""
        for s in body:
            if state is None:
                return None
            self.path.append((s, self.place))
            state = self._apply(("before", id(s)), state)
            state = self._statement(s, state)
            self.path.pop()
            if state is not None:
                state = self._apply(("after", id(s)), state)
        return state

    def _statement(self, s: ir.Stmt, state: State) -> State | None:
        match s:
            case ir.If(_, then, other):
                state = self._evaluate(s, state)
                start = len(self.made)
                first = self._body(then, state)
                second = self._body(other, state | self._elsewhere(start, self.place))
                after = _join(first, second)  # an arm that leaves may still be running while the other goes on
                return None if after is None else after | self._elsewhere(start, self.place)
            case ir.While(pre, _, body):
                return self._loop(s, state, pre, body)
            case ir.For():
                return self._loop(s, self._evaluate(s, state), (), s.body)
            case ir.Break() | ir.Continue():
                depth, breaks, continues = self.loops[-1]
                closed = state
                for scope in reversed(self.scopes[depth:]):
                    closed = self._apply(("after", id(scope)), self._close(scope, closed))
                (breaks if isinstance(s, ir.Break) else continues).append(closed)
                return None
            case ir.Return():
                closed = self._evaluate(s, state)
                for scope in reversed(self.scopes):
                    closed = self._apply(("after", id(scope)), self._close(scope, closed))
                self.exits |= closed
                return None
            case ir.Group():
                return self._inside(s.place, s.body, state)
            case ir.Split():
                result: State | None = state
                elsewhere: State = frozenset()
                for case in s.cases:
                    start = len(self.made)
                    result = _join(result, self._inside(case.place, case.body, state | elsewhere))
                    elsewhere |= self._elsewhere(start, case.place)
                return result
            case ir.Partition() | ir.Claim():
                self.scopes.append(s)
                inside = self._body(s.body, state)
                self.scopes.pop()
                return None if inside is None else self._close(s, inside)
            case ir.DeclareShared(obj):
                low, high = obj.offset, obj.offset + _bytes(obj)
                self.ranges[obj.uid] = (low, high)
                self._reuse(obj.uid, low, high, obj.name, s.span, state)
                return state
            case ir.Call():
                return self._call(s, state)
            case ir.Collective() if _is_barrier(s):
                return _ordered(self._evaluate(s, state), s.requires)
            case _:
                return self._evaluate(s, state)

    def _inside(self, place: Place, body: ir.Body, state: State) -> State | None:
        outer, self.place = self.place, place
        result = self._body(body, state)
        self.place = outer
        return result

    def _elsewhere(self, start: int, place: Place) -> State:
        """What was touched since `start` by code at `place` and belongs to a larger group: others of that group may be in another arm at the same time."""
        return frozenset(t for t in self.made[start:] if not place.privilege.at_least(t.handle.privilege))

    def _loop(self, s: ir.While | ir.For, state: State, pre: ir.Body, body: ir.Body) -> State | None:
        head: State = state
        while True:
            breaks: list[State] = []
            continues: list[State] = []
            self.loops.append((len(self.scopes), breaks, continues))
            test = self._body(pre, head)
            if test is not None and isinstance(s, ir.While):
                test = self._apply(("condition", id(s)), test)
                test = self._evaluate(s, test)
            back = None if test is None else self._body(body, test)
            self.loops.pop()
            grown = head
            for other in (back, *continues):
                grown = _join(grown, other)
            if grown == head:
                out = test
                for other in breaks:
                    out = _join(out, other)
                return out
            head = grown

    def _close(self, scope: ir.Partition | ir.Claim, state: State) -> State:
        """The scope's accesses become accesses of its base."""
        uid, point = scope.handle.uid, ("after", id(scope))
        out = set()
        for t in state:
            if t.handle is not None and t.handle.uid == uid:
                t = replace(t, handle=scope.base, point=point, disjoint=uid if scope.handle.disjoint else 0)
            out.add(t)
        return frozenset(out)

    def _apply(self, at: Position, state: State) -> State:
        for mark in self.marks.get(at, ()):
            state = _ordered(state, mark.participants)
        return state

    # ---- accesses ------------------------------------------------------------------------------------------------------------------------------

    def _evaluate(self, s: ir.Stmt, state: State) -> State:
        """The accesses a statement makes itself: reads first, then what it writes."""
        for top in own_expressions(s):
            for e in walk(top):
                if isinstance(e, ir.Load):
                    state = self._access("R", e.access, state)
        match s:
            case ir.Assign(target):
                inner = target.of if isinstance(target, ir.ComponentTarget) else target
                if isinstance(inner, ir.MemTarget):
                    state = self._access("W", inner.access, state)
            case ir.Collective(op, accesses=accesses):
                for a in accesses:
                    state = self._access("W" if op == "stmatrix" else "R", a, state)
            case ir.Atomic():
                state = self._access("A", s.access, state)
            case ir.Unsafe():
                for _, a in s.memory:
                    state = self._access("R", a, state)
                    if not a.handle.const:
                        state = self._access("W", a, state)
        return state

    def _access(self, kind: str, a: ir.MemAccess, state: State) -> State:
        if self._never_written(a.view.obj):
            return state
        self._conflicts(kind, a.handle, a.view.obj, a.span, state)
        self.made.append(Token(a.view.obj.uid, kind, a.handle, None, 0, None, a.handle.name, a.span))
        return state | {self.made[-1]}

    def _never_written(self, obj: ir.MemObject) -> bool:
        """A kernel's const memory is written by nobody; a device function's const parameter only not by that function."""
        return obj.const and self.function.kernel

    def _conflicts(self, kind: str, handle: ir.Handle, obj: ir.MemObject, span: Span, state: State) -> None:
        if obj.uid in self.params:
            self.kinds.add((self.params[obj.uid], kind))
        chain = _chain(handle)
        for t in sorted((t for t in state if t.obj == obj.uid), key=lambda t: (t.span.line, t.span.column, t.kind)):
            if kind == t.kind and kind in "RA":
                continue
            owner = _common(t.handle, chain)
            if t.disjoint and any(h.uid == t.disjoint for h in chain):
                owner = next(h for h in chain if h.uid == t.disjoint)
            need = owner.privilege
            if need == THREAD1 or t.ordered is not None and t.ordered.at_least(need):
                continue
            ended_here = t.point is not None and t.kind != "R" and _contains(self.places[t.point[1]], need)
            self._mark(t.point if ended_here else self._before(owner, chain, need), need, t, kind, obj.name, span)

    def _before(self, owner: ir.Handle, chain: list[ir.Handle], need: Privilege) -> Position | None:
        """Where a barrier of `need` can stand ahead of the access at hand: at the scope that lowers `owner`, else at the innermost place that holds the group."""
        for scope in self.scopes:
            if scope.base.uid == owner.uid and any(h.uid == scope.handle.uid for h in chain):
                return ("before", id(scope))
        for s, place in reversed(self.path):
            if _contains(place, need):
                return ("condition" if isinstance(s, ir.While) and s is self.path[-1][0] else "before", id(s))
        return None

    def _mark(self, at: Position | None, need: Privilege, t: Token, kind: str, name: str, span: Span) -> None:
        place = None if at is None else self.places.get(at[1])
        if place is None:
            self._cannot(need, t, kind, name, span, "the code that uses it runs below that group, and no point between the two uses belongs to the whole group")
            return
        if any(m.participants.at_least(need) for m in self.marks.get(at, ())):
            self._cannot(need, t, kind, name, span, "no point between the two uses is reached by the whole group")
            return
        chosen, why = primitive(need, place, self.function)
        if chosen is None:
            self._cannot(need, t, kind, name, span, why)
            return
        reason = f"{WORDS[t.kind]} at line {t.span.line}, {WORDS[kind]} at line {span.line}"
        marks = [m for m in self.marks.get(at, []) if not need.at_least(m.participants)]
        self.marks[at] = [*marks, Mark(need, chosen, name, reason, place, t.span, span)]
        self.grown = True

    def _cannot(self, need: Privilege, t: Token, kind: str, name: str, span: Span, why: str) -> None:
        if self.stuck is None:
            self.stuck = Diagnostic("SNAP020", f"`{name}` is {WORDS[t.kind]}, then {WORDS[kind]}, and nothing can order the two for `{need}`", span,
                                    f"{WORDS[kind]} here", (Label(t.span, f"{WORDS[t.kind]} here"),) if t.span != span else (), note=why,
                                    help=_way_out(need))

    def _reuse(self, uid: int, low: int, high: int, name: str, span: Span, state: State) -> None:
        """Bytes that another object held a moment ago."""
        for t in sorted(state, key=lambda t: (t.span.line, t.span.column)):
            held = self.ranges.get(t.obj)
            if held is None or t.obj == uid and uid >= 0 or held[1] <= low or high <= held[0] or t.ordered is not None and t.ordered.at_least(BLOCK1):
                continue
            self._mark(("before", id(self.path[-1][0])), BLOCK1, t, "W", name, span)

    def _call(self, s: ir.Call, state: State) -> State:
        state = self._evaluate(s, state)
        summary = self.summary_of(s.function)
        given = {i: (h, a.obj) for i, (h, a) in enumerate(zip(s.handles, s.args)) if h is not None}
        frame = -id(s)
        if s.function.smem:
            self.ranges[frame] = (s.smem_offset, s.smem_offset + s.function.smem)
            self._reuse(frame, *self.ranges[frame], s.function.name, s.span, state)
        for i, kind in summary.kinds:
            handle, obj = given[i]
            if not self._never_written(obj):
                self._conflicts(kind, handle, obj, s.span, state)
        added = set()
        for i, kind, ordered in summary.exits:
            handle, obj = given[i]
            if not self._never_written(obj):
                added.add(Token(obj.uid, kind, handle, ("after", id(s)), 0, ordered, handle.name, s.span))
        self.made.extend(added)
        if s.function.smem:
            added.add(Token(frame, "W", None, ("after", id(s)), 0, None, s.function.name, s.span))
        return state | added


def _join(a: State | None, b: State | None) -> State | None:
    if a is None or b is None:
        return a if b is None else b
    return a | b


def _ordered(state: State, q: Privilege) -> State:
    return frozenset(replace(t, ordered=q) if t.ordered is None or q.at_least(t.ordered) else t for t in state)


def _chain(handle: ir.Handle) -> list[ir.Handle]:
    chain = [handle]
    while chain[-1].base is not None:
        chain.append(chain[-1].base)
    return chain


def _common(a: ir.Handle, chain: list[ir.Handle]) -> ir.Handle:
    """The lowest name that both were made from."""
    uids = {h.uid for h in chain}
    return next(h for h in _chain(a) if h.uid in uids)


def _bytes(obj: ir.MemObject) -> int:
    size = obj.elem.bytes
    for n in obj.shape:
        size *= n.value
    return size


def _contains(place: Place, p: Privilege) -> bool:
    """Whether code at `place` runs whole groups of p."""
    return place.privilege.at_least(p) and place.holds(p)


def _is_barrier(s: ir.Collective) -> bool:
    return COLLECTIVES[s.op].barrier


def _places(body: ir.Body, place: Place) -> Iterator[tuple[int, Place]]:
    """The place of the code each statement stands in, by the statement's id."""
    for s in body:
        yield id(s), place
        inside = {ir.Group: lambda s: (s.place,), ir.Split: lambda s: tuple(case.place for case in s.cases)}.get(type(s))
        inner = bodies(s)
        for part, at in zip(inner, inside(s) if inside else (place,) * len(inner)):
            yield from _places(part, at)


def _way_out(need: Privilege) -> str:
    if need.level is Level.GRID:
        return ("launch cooperatively (`@requires(..., cooperative=True)`), use two kernels, or keep all uses in one partition: "
                "`with partition(x, p=thread[1], f=lambda k: k) as mine:` around the loop")
    if need.level is Level.BLOCK:
        return "require a cluster of these blocks, or use two kernels"
    return f"bring the uses apart, so that `{need}` meets between them"
