"""Where a walk starts: the launch, its blocks and threads, the kernel's parameters and arrays.

Input: a kernel.  Output: atoms for what a launch decides, and what every launch keeps.  Invariant: each fact holds in
every launch that is not refused before anything runs (host/arguments/validate.py).  Non-goals: `where=` (where.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from snap._compiler.analysis.exact import kinds
from snap._compiler.analysis.exact.kinds import AtomKind
from snap._compiler.analysis.exact.ladder import Ladder
from snap._compiler.analysis.exact.terms import Cond, Poly, at_least, below, equal, number
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.integers import held_by
from snap._compiler.ir.launches import MOST_BLOCKS, most_blocks
from snap._compiler.ir.types import GRID1, THREAD1, Level, Place, Privilege, Scalar
from snap._compiler.walk import cells
from snap._compiler.walk.arrays import Window
from snap._compiler.walk.sites import Arithmetic, Deps, Entry, Local, Loop, Root, Site, UnitPosition, Walked, When
from snap._compiler.walk.trusting import scopes
from snap._compiler.walk.values import Value, anything, is_int, value

# A call, and a variable, object or handle of its function; of an element of an array, the array's number and its own.
Key = tuple[tuple[int, ...], int | tuple[int, int]]
if TYPE_CHECKING:
    from snap._compiler.walk.calls import Activation
    from snap._compiler.walk.contracts import Called

MOST_BYTES = 1 << 56  # of an array: more than any address reaches


class Started:
    """whole: by name, what a parameter or a length is known to be a multiple of.  same: by name, the earlier parameter
    that a parameter is known to be equal to.  ranges: by name, between which numbers a parameter is known to be.  most:
    how many blocks there may be.
    """

    def __init__(
        self,
        function: ir.Function,
        ladder: Ladder,
        whole: dict[str, int] | None = None,
        same: dict[str, str] | None = None,
        ranges: dict[str, tuple[int, int]] | None = None,
        most: int | None = None,
    ):
        self.most = most_blocks(function) if most is None else most
        self.function, self.ladder, self.terms = function, ladder, ladder.terms
        self.whole, self.same, self.ranges = dict(whole or {}), same or {}, ranges or {}
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
        self.unsure = False  # somebody may have left, and no condition of the path says who
        self.lives: dict[int, When] = {}  # of shared arrays, by their roots: when they came to life
        self.bare: dict[Key, When] = {}  # variables that were declared without a value, and when
        self.stored: dict[Key, Deps] = {}  # the arithmetic of all that a variable was given
        self.once = cells.once(function)  # shared arrays that are written once
        self.cells: dict[int, tuple[Site, Value]] = {}  # by their roots: what was written
        self.alone = False  # the kernel stands for the function that it calls (alone.py)
        self.extents: dict[int, Poly] = {}  # of the grid, by axis, where the kernel asks for them
        self._start(function)

    # ---- the launch ----

    def _start(self, f: ir.Function) -> None:
        base = self.terms.base
        threads = f.place.known(Level.THREAD)
        clusters, blocks = f.place.held(Level.CLUSTER), f.place[Level.BLOCK]
        size = f.place.known(Level.BLOCK) if clusters is not None else 1
        counted = clusters if clusters is not None else blocks
        step = counted.count or 1
        most = self.most // size  # of blocks, or of clusters
        groups = base(kinds.GROUPS, 1, most // step, GRID1, name="groups")
        units = groups * step
        self.blocks = units * size
        self.thread = base(kinds.THREAD, 0, threads - 1, THREAD1, name="thread")
        index = {Level.THREAD: self.thread}
        top = base(
            kinds.BLOCK if clusters is None else kinds.CLUSTER, 0, most - 1, Privilege(Level.BLOCK, 1), name="block"
        )
        self.out.facts.append(below(top, units))
        if clusters is None:
            index[Level.BLOCK] = top
            self.block, self.cluster = top, None
        else:
            atom = next(iter(top.atoms))
            atom.per, atom.name = Privilege(Level.CLUSTER, 1), "cluster"
            index[Level.CLUSTER] = self.cluster = top
            rank = base(kinds.BLOCK, 0, size - 1, Privilege(Level.BLOCK, 1), name="block")
            index[Level.BLOCK] = self.block = rank
        self.at = UnitPosition(self.terms, index, f.place)
        self._parameters(f)

    def _parameters(self, f: ir.Function) -> None:
        for p in f.params:
            if isinstance(p, ir.ValueParam):
                t, name = p.var.type, p.var.name
                made = Value(self._given(name, *held_by(t))) if is_int(t) else anything(self._walk, t, GRID1, name)
                self.vars[(), p.var.uid] = self.initial[(), p.var.uid] = made
                if isinstance(made.term, Poly):
                    self.out.params[name] = made.term
        self._axes(f)
        for p in f.params:
            if isinstance(p, ir.MemParam):
                self._array(p.handle)

    def _given(self, name: str, low: int, high: int, kind: AtomKind = kinds.ANY) -> Poly:
        """A number that the launch decides."""
        known = self.out.params.get(self.same.get(name, ""))
        if known is not None:  # both types hold it
            ((mono, n),) = known.terms.items()
            mono[0].low, mono[0].high = max(mono[0].low, -(-low // n)), min(mono[0].high, high // n)
            return known
        n, (least, most) = self.whole.get(name, 1), self.ranges.get(name, (low, high))
        low, high = max(low, least), min(high, most)
        return self.terms.base(kind, -(-low // n), high // n, GRID1, name=name if n == 1 else f"{name} / {n}") * n

    def _axes(self, f: ir.Function) -> None:
        """The last parameters are extents of the grid: their product is the number of blocks."""
        if not f.axes:
            return
        for axis, p in zip(f.axes, f.params[len(f.params) - len(f.axes) :]):
            assert isinstance(p, ir.ValueParam)
            found = self.terms.base(kinds.EXTENT, 1, MOST_BLOCKS, GRID1, name=p.var.name)
            self.vars[(), p.var.uid] = self.initial[(), p.var.uid] = Value(found)
            self.out.params.pop(p.var.name, None)
            self.extents[axis] = found
        product = number(1)
        for axis in range(max(f.axes) + 1):
            if axis not in self.extents:
                self.extents[axis] = self.terms.base(kinds.EXTENT, 1, MOST_BLOCKS, GRID1, name=f"grid[{axis}]")
            product = product * self.extents[axis]
        self.out.facts.append(equal(self.blocks, product))

    def _array(self, handle: ir.Handle) -> None:
        obj = handle.obj
        self.chains[(), handle.uid] = ()
        if obj.shape is None:
            length = self._given(f"len({handle.name})", 0, MOST_BYTES // obj.elem.bytes, kinds.LENGTH)
            root = Root(handle.name, obj, None, length, length * obj.elem.bytes)
        else:
            shape, total = self._shape(obj.shape), number(obj.elem.bytes)
            for n in shape:
                self.out.facts.append(at_least(n, 0))
                total = total * n
            self.out.facts.append(at_least(number(MOST_BYTES), total))
            root = Root(handle.name, obj, shape, None, total)
        self.roots[(), obj.uid] = root
        self.out.roots[handle.name] = root

    def _shape(self, shape: Iterable[ir.Expr]) -> tuple[Poly, ...]:
        """The extents of a view: parameters are what they were when the function was entered."""
        shape = tuple(shape)
        if all(isinstance(e, ir.Const) for e in shape):
            return tuple(number(n) for n in ir.extents(shape))
        now, self.vars = self.vars, {**self.vars, **self.initial}
        found = []
        for e in shape:
            v = value(self._walk, e)
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
        """Of the level that only the launch counts."""
        clusters = self.function.place.held(Level.CLUSTER)
        if clusters is None or level is Level.BLOCK:
            return self.blocks
        return self.terms.floor(self.blocks, self.function.place.known(Level.BLOCK))

    @property
    def _walk(self) -> Any:
        """Itself, as the walk that it is a part of."""
        return self

    def use(self, v: Value) -> None:
        """An index, a guard or an extent depends on it."""
        if not self.dry:
            self.out.used |= v.deps

    def when(self) -> When:
        self.clock += 1
        return When(self.clock, self.around, not self.unsure)

    def touch(self, var: ir.Var, writes: bool, span: Any, part: int | None = None) -> None:
        """A variable is read or written."""
        key = self.frame, var.uid
        life = self.bare.get(key)
        if life is not None and not self.dry:
            self.out.locals.append(Local(var, key, writes, part, tuple(self.path), span, self.when(), life))

    def read(self, var: ir.Var) -> Value:
        found = self.vars.get((self.frame, var.uid))
        if found is None:
            found = self.vars[self.frame, var.uid] = anything(self._walk, var.type, var.privilege, var.name)
        return found

    def arithmetic(self, x: Poly, t: Scalar, span: Any) -> int:
        """Notes that it must stay in its type; what depends on that says so by the number."""
        self.out.arithmetic.append(Arithmetic(x, t, tuple(self.path), span, self.vouched))
        return len(self.out.arithmetic) - 1
