"""Hold the state of a walk over a kernel: what is known, and how it is recorded.

Input: the rules by which statements and expressions are walked (evaluate.py, values.py), and then what these find.
Output: `Walked` (sites.py).  Invariant: `path` holds for every thread that comes here, `vars` says what variables are
to it, and what is recorded while `dry` is zero is all that these rules have met.  Non-goals: what a statement does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeGuard

from snap._compiler.analysis.evaluate import IntegerDomain, computed
from snap._compiler.analysis.exact import kinds, logic
from snap._compiler.analysis.exact.conditions import at_least, atoms_of, both, equal, negated
from snap._compiler.analysis.exact.ladder import Ladder
from snap._compiler.analysis.exact.logic import FALSE, TRUE, Cond
from snap._compiler.analysis.exact.terms import Poly, number
from snap._compiler.analysis.solvers.allowance import check
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.effects import Effect
from snap._compiler.ir.integers import held_by
from snap._compiler.ir.launches import most_blocks
from snap._compiler.ir.synced import AnyFunction, PointKind
from snap._compiler.ir.types import GRID1, THREAD1, Level, Place, Privilege, Scalar, ScalarKind, ValueType, Vector
from snap._compiler.ir.walk import bodies
from snap._compiler.walk import sites
from snap._compiler.walk.sites import NEVER, NONE, Called, Deps, Entry, Loop, Root, Site, UnitPosition, Walked, When
from snap._compiler.walk.ways import escapes, scopes
from snap.diag.span import Span
from snap.record import record

# A call, and a variable, object or handle of its function; of an element of an array, the array's number and its own.
Key = tuple[tuple[int, ...], int | tuple[int, int]]
MOST_BYTES = 1 << 56  # of an array: more than any address reaches


@dataclass(frozen=True, slots=True)
class Components:
    """The components of a vector of integers."""

    terms: tuple[Poly, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """term: of integers a polynomial, of bools a condition, of vectors of integers their components; else None."""

    term: Poly | Cond | Components | None
    deps: Deps = NONE


OPAQUE = Value(None)


def is_bool(t: ValueType) -> TypeGuard[Scalar]:
    return isinstance(t, Scalar) and t.kind is ScalarKind.BOOL


def of_integers(t: ValueType) -> TypeGuard[Vector]:
    return isinstance(t, Vector) and t.elem.is_integer


@dataclass(frozen=True, slots=True)
class Window:
    """Elements of an array, from `start` on, row by row; None: some part of it."""

    frame: tuple[int, ...]
    var: ir.Var
    start: int | None


@dataclass(slots=True, eq=False)
class WayOut:
    """A `return`, or the end of a function that returns nothing.

    taken  the condition under which a thread that took no way out before this one in the text takes it; None in a loop,
           where that is said of an iteration
    given  what is returned
    vars   the variables there
    known  of what the path has, what guards no control flow
    """

    taken: Cond | None
    given: Value | None
    vars: dict[Key, Value]
    known: list[Cond]


@dataclass(slots=True, eq=False)
class Activation:
    """Describe a call that is walked: where its path begins, how many loops are around it, whether the walk is dry."""

    mark: int
    depth: int
    dry: int
    out: list[WayOut] = field(default_factory=list)


def _renamed(found: Walked, term: Poly, name: Poly) -> None:
    """The same number by another name."""
    for mono, k in term.terms.items():
        for known in (found.loads, found.given) if k == 1 and len(mono) == 1 and len(term.terms) == 1 else ():
            if mono[0] in known:
                known.update((atom, known[mono[0]]) for atom in name.atoms)


def agreed(of: Iterable[Poly]) -> Privilege:
    """Return the unit whose threads agree on all of these numbers."""
    per = GRID1
    for atom in atoms_of([], of):
        if not atom.defined:
            per = atom.per if per.at_least(atom.per) else per if atom.per.at_least(per) else THREAD1
    return per


@record
class LaunchFacts:
    """State what is known of a launch.  whole: by name, what a parameter or a length is a multiple of.  same: by name,
    the earlier parameter that a parameter is equal to.  ranges: by name, between which numbers a parameter is.  most:
    how many blocks there may be; None: as many as the kernel allows.
    """

    whole: Mapping[str, int] = MappingProxyType({})
    same: Mapping[str, str] = MappingProxyType({})
    ranges: Mapping[str, tuple[int, int]] = MappingProxyType({})
    most: int | None = None


NOTHING = LaunchFacts()


class WalkState:
    rules: Mapping[type, Callable[[Any, Any], object]]  # of statements, by their class
    numbers: IntegerDomain[Value]  # in which expressions are evaluated
    at: UnitPosition
    blocks: Poly
    block: Poly
    cluster: Poly | None
    thread: Poly

    def __init__(self, function: AnyFunction, ladder: Ladder, told: LaunchFacts):
        self.most = most_blocks(function) if told.most is None else told.most
        self.function, self.ladder, self.terms = function, ladder, ladder.terms
        self.whole, self.same, self.ranges = dict(told.whole), told.same, told.ranges
        for name, of in self.same.items():  # a multiple of what either is known to be one of
            self.whole[of] = math.lcm(self.whole.get(of, 1), self.whole.get(name, 1))
        self.out = Walked(self.terms)
        self.path: list[Cond] = []
        self.vars: dict[Key, Value] = {}
        self.initial: dict[Key, Value] = {}
        self.chains: dict[Key, tuple[Entry, ...]] = {}
        self.roots: dict[Key, Root] = {}
        self.refs: dict[Key, Window] = {}  # what parameters that are references are to
        self.frame: tuple[int, ...] = ()
        self.calls = 0
        self.depth = 0  # of loops with a counter
        self.dry = 0  # of walks that only look how variables change
        self.repeated = 1  # how often loops that are run out repeat what is inside
        self.activations: list[Activation] = []  # calls that are walked, the innermost last
        self.called: Called | None = None  # the call that is walked, where its function has a contract
        self.trusted = scopes(function)
        self.vouched = ""  # the reason of the `trust` around the call that is walked
        self.clock = 0
        self.around: tuple[Loop, ...] = ()  # loops with a counter
        self.unsure = False  # a thread may have left, and no condition of the path says which
        self.lives: dict[int, When] = {}  # of shared arrays, by their roots: when they came to life
        self.bare: dict[Key, When] = {}  # variables that were declared without a value, and when
        self.stored: dict[Key, Deps] = {}  # the arithmetic of all that a variable was given
        self.once: set[int] = set()  # shared arrays that are written once
        self.cells: dict[int, tuple[Site, Value]] = {}  # by their roots: what was written
        self.alone = False  # the kernel was made for the function that it calls (prove/alone.py)
        self.extents: dict[int, Poly] = {}  # of the grid, by axis, where the kernel asks for them

    def value(self, e: ir.Expr) -> Value:
        return self.numbers.of(e)

    def anything(self, t: ValueType, per: Privilege = THREAD1, name: str = "", key: object = None) -> Value:
        """Return any value of the type."""
        if computed(t):
            return Value(self.terms.base(kinds.ANY, *held_by(t), per, self.depth, name, key))
        if is_bool(t):
            return Value(negated(equal(self.terms.base(kinds.ANY, 0, 1, per, self.depth, name, key), 0)))
        if of_integers(t):
            low, high = held_by(t.elem)
            of = tuple(self.terms.base(kinds.ANY, low, high, per, self.depth, name) for _ in range(t.lanes))
            return Value(Components(of))
        return OPAQUE

    # ---- what is known ----

    @contextmanager
    def given(self, *conds: Value) -> Iterator[None]:
        mark = len(self.path)
        for c in conds:
            self.fact(c)
        yield
        del self.path[mark:]

    def fact(self, v: Value) -> None:
        """A condition that holds from here on."""
        if isinstance(v.term, tuple) and v.term != TRUE:
            self.use(v)
            self.path.append(v.term)

    def put(self, key: Key, v: Value) -> None:
        self.vars[key] = v
        if not self.dry and v.deps:
            self.stored[key] = self.stored.get(key, NONE) | v.deps

    def assign(self, var: ir.Var, v: Value) -> None:
        self.put((self.frame, var.uid), self.named(v, var.privilege, var.name))

    def named(self, v: Value, by: Privilege, name: str) -> Value:
        """Name what threads of a unit store, which the checker has shown to be one value: where the term is made of
        values that cannot be compared, it gets a name that they share.
        """
        atoms = atoms_of([], [v.term]) if isinstance(v.term, Poly) and by != THREAD1 else ()
        if isinstance(v.term, Poly) and any(atom.kind is kinds.ANY and not atom.per.at_least(by) for atom in atoms):
            low, high = v.term.span()
            term, v = v.term, Value(self.terms.base(kinds.ANY, low, high, by, self.depth, name), v.deps)
            assert isinstance(v.term, Poly)
            if any(atom.defined for atom in term.atoms) or len(term.terms) > 1:
                self.define(equal(v.term, term))
            _renamed(self.out, term, v.term)
        elif isinstance(v.term, tuple) and by != THREAD1:
            atom = self.terms.base(kinds.ANY, 0, 1, by, self.depth, name)
            if v.term not in (TRUE, FALSE):
                c = v.term
                self.define((logic.OR, both(c, equal(atom, 1)), both(negated(c), equal(atom, 0))))
                v = Value(equal(atom, 1), v.deps)
        return v

    def certain(self, c: Cond) -> bool:
        """Tell whether a condition follows from what is known here."""
        return self.ladder.follows([*self.out.facts, *self.path], c)

    def above(self, p: Poly, least: int) -> Poly:
        """The same number; where it is certain that it is so much at least, though its range does not say so, by a name
        whose range does: so a quotient needs no cases.  The name is as settled, and as shared, as the number.
        """
        low, high = self.terms.span(p)
        if low >= least or high < least or not self.certain(at_least(p, least)):
            return p
        depth = max(atom.depth for atom in atoms_of([], [p]) if not atom.defined)
        found = self.terms.base(kinds.ANY, least, high, agreed([p]), depth, key=("above", p, least))
        self.define(equal(found, p))
        return found

    def define(self, c: Cond) -> None:
        """Record what is known of all threads here, such as what a new atom is: it decides about no thread's way.  A
        guard elsewhere may say the same, and does decide: so it is written in a way that no guard is.
        """
        if c != TRUE:
            said = (logic.AND, *c[1:], TRUE) if c[0] == logic.AND else (logic.AND, c)
            self.path.append(said)
            self.out.defines.add(said)

    def use(self, v: Value) -> None:
        """An index, a guard or an extent depends on it."""
        if not self.dry:
            self.out.used |= v.deps

    def when(self) -> When:
        self.clock += 1
        return When(self.clock, self.around, not self.unsure)

    def test(self, cond: Cond, span: Span) -> None:
        """Record that threads go on by this condition."""
        if not self.dry:
            self.out.tests.append(sites.BranchTest(cond, tuple(self.path), span, self.when()))

    def meet(self, kind: PointKind, participants: Privilege, span: Span) -> None:
        if not self.dry:
            self.out.meetings.append(sites.GroupMeeting(kind, participants, tuple(self.path), span, self.when()))

    def touch(self, var: ir.Var, writes: bool, span: Any, part: int | None = None) -> None:
        """A variable is read or written."""
        key = self.frame, var.uid
        life = self.bare.get(key)
        if life is not None and not self.dry:
            self.out.locals.append(sites.Local(var, key, writes, part, tuple(self.path), span, self.when(), life))

    def read(self, var: ir.Var) -> Value:
        found = self.vars.get((self.frame, var.uid))
        if found is None:
            found = self.vars[self.frame, var.uid] = self.anything(var.type, var.privilege, var.name)
        return found

    def arithmetic(self, x: Poly, t: Scalar, span: Any) -> int:
        """Notes that it must stay in its type; what depends on that says so by the number."""
        self.out.arithmetic.append(sites.Arithmetic(x, t, tuple(self.path), span, self.vouched))
        return len(self.out.arithmetic) - 1

    def inside(self, v: Value, size: int, span: Any, name: str) -> None:
        if self.dry:
            return
        self.use(v)
        index = v.term if isinstance(v.term, Poly) else self.any_index()
        low, high = self.terms.span(index)
        if low < 0 or high >= size:
            self.out.insides.append(sites.Inside(index, size, tuple(self.path), span, name, vouched=self.vouched))

    def exact(self, x: Poly, n: int, span: Any) -> None:
        """A view of a part begins at a whole element."""
        if not self.dry and any(k % n for k in x.terms.values()):
            self.out.insides.append(sites.Inside(x, 0, tuple(self.path), span, "", n, self.vouched))

    def any_index(self) -> Poly:
        return self.terms.base(kinds.ANY, -(1 << 63), (1 << 64) - 1, THREAD1, self.depth)

    def registers(self, array: ir.ArrayRef, index: Iterable[ir.Expr], span: Any) -> list[Poly | None]:
        shape, found = (*array.around, *array.shape), []
        for i, size in zip(index, shape):
            v = self.value(i)
            self.inside(v, size, span, array.var.name)
            found.append(v.term if isinstance(v.term, Poly) else None)
        return found

    # ---- memory ----

    def shape(self, shape: Iterable[ir.Expr]) -> tuple[Poly, ...]:
        """The extents of a view: parameters are what they were when the function was entered."""
        shape = tuple(shape)
        if all(isinstance(e, ir.Const) for e in shape):
            return tuple(number(n) for n in ir.extents(shape))
        now, self.vars = self.vars, {**self.vars, **self.initial}
        found = []
        for e in shape:
            v = self.value(e)
            self.use(v)
            found.append(v.term if isinstance(v.term, Poly) else self._any_size())
        self.vars = now
        return tuple(found)

    def _any_size(self) -> Poly:
        return self.terms.base(kinds.ANY, 0, MOST_BYTES, THREAD1, self.depth)

    def count(self, target: Privilege, place: Place) -> Poly:
        total = number(1)
        for level, held in place.levels:
            if level >= target.level and level is not Level.GRID:
                if held.count is None:
                    return self._any_size()
                total = total * (self._units(level) if held.open else number(held.count))
        return self.terms.floor(total, target.n)

    def _units(self, level: Level) -> Poly:
        """Return how many units there are of the level that only the launch counts."""
        clusters = self.function.place.held(Level.CLUSTER)
        if clusters is None or level is Level.BLOCK:
            return self.blocks
        return self.terms.floor(self.blocks, self.function.place.known(Level.BLOCK))

    def access(self, e: Effect, more: Iterable[Value] = (), **options: Any) -> Site | None:
        access = e.access
        assert access is not None
        indices = [self.value(i) for i in access.index]
        block = None if access.block is None else self.value(access.block)
        root = self.roots.get((self.frame, access.view.obj.uid))
        chain = self.chains.get((self.frame, access.handle.uid))
        if root is None or chain is None:
            self.out.gave_up.append((access.span, f"`{access.handle.name}` is a name that was not followed"))
            return None
        shape = None if access.view.shape is None else self._extents(root, access.view)
        for v in (*indices, *((block,) if block is not None else ())):
            self.use(v)
        index = tuple(v.term if isinstance(v.term, Poly) else self.any_index() for v in indices)
        with self.given(*more):
            site = Site(
                e.kind,
                e.atomic,
                root,
                access.view.elem,
                shape,
                index,
                e.extent,
                e.box,
                tuple(self.path),
                chain,
                access.span,
                access.handle.name,
                None if block is None else block.term if isinstance(block.term, Poly) else self.any_index(),
                when=self.when(),
                life=self.lives.get(id(root), NEVER),
                vouched=self.vouched,
                **options,
            )
        if not self.dry:
            self.out.sites.append(site)
        return site

    def _extents(self, root: Root, view: ir.MemView) -> tuple[Poly, ...]:
        """Return the extents of a view, which ends with its memory where a launch decides how large that is."""
        assert view.shape is not None
        first, *rest = self.shape(view.shape)
        size = math.prod(rest, start=number(view.elem.bytes))
        if root.obj.extent is not None and size.value:
            first = self.terms.floor(root.bytes, size.value)
        return first, *rest

    # ---- statements ----

    def body(self, body: ir.Body) -> None:
        mark = len(self.path)
        for s in body:
            self.statement(s)
        del self.path[mark:]

    def inline(self, body: ir.Body) -> None:
        """A body whose facts stay."""
        for s in body:
            self.statement(s)

    def statement(self, s: ir.Stmt) -> None:
        check()
        if not self.dry:
            self.out.work.append(sites.WalkedStatement(s, tuple(self.path), self.when()))
        self.rules.get(type(s), self.rules[ir.Act])(self, s)
        if isinstance(s, (ir.Return, ir.Break, ir.Continue)):
            self.unsure = True
        elif not self.unsure and not isinstance(s, ir.If) and bodies(s):
            self.unsure = escapes(s)
