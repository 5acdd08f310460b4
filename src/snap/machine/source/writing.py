"""Python source of one function, as it is written: lines, names, objects it refers to, positions.

Input: a function of the IR.  Output: text.  Invariant: equal texts of values computed once have one name.  Non-goals:
expressions (expressions.py), statements (statements.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.strides import GroupShape, IndexArithmetic, Stride
from snap._compiler.ir.types import Array, Element, Level, Place, Privilege, Scalar
from snap.machine.lanes import numbers
from snap.machine.lanes.lanes import FaultSite
from snap.machine.source.facts import Facts
from snap.machine.source.positions import Chain

Step: TypeAlias = "Callable[[Writing, Any], None]"
PartClaim = tuple[Any, Privilege, Privilege]  # of a disjoint partition: what it is, its units, the scope
SignedTerms = list[tuple[str, ir.Expr]]  # of a sum, each with its sign
SOURCE: IndexArithmetic[str] = IndexArithmetic(
    lambda x, n: f"({x} // np.int32({n}))",
    lambda x, n: f"({x} % np.int32({n}))",
    lambda x, n: f"({x} * np.int32({n}))",
    lambda x, y: f"({x} + {y})",
)
_ENTRY = {
    Level.CLUSTER: "rc",
    Level.BLOCK: "rb",
    Level.THREAD: "rt",
}  # the parameters that hold the indices at a function's start


class Writing:
    """The state of one function being emitted."""

    def __init__(
        self,
        f: synced.AnyFunction,
        functions: dict[int, str],
        namespace: dict[str, object],
        stepwise: bool,
        waiting: set[int],
        own_way: dict[int, Privilege],
        speaks: bool,
        steps: Mapping[type, Step],
        counted: bool = False,
    ):
        """waiting: loops that end by what others do; own_way: statements that each thread, or each such part of
        a warp, runs on its own (schedule/spinning.py).  speaks: whether it is of interest what comes before a release,
        or after an acquire (schedule/spoken.py).  steps: what writes each kind of statement.  counted: whether what is
        executed is counted (counting.py).
        """
        self.function, self.functions, self.namespace, self.stepwise = f, functions, namespace, stepwise
        self.speaks, self.steps, self.counted = speaks, steps, counted
        self.waiting, self.own_way = waiting, own_way
        self.declared: dict[int, str] = {}
        self.flow = 0  # the arm or loop body being emitted
        self.flows = 0
        self.declared_in: dict[int, int] = {}
        self.loops: list[str] = []  # for each open loop, where lanes that `continue` are kept
        self.single_return = False
        self.given: frozenset[str] = frozenset()
        self.facts = Facts(f)
        self.prologue: list[str] = []
        self.lines: list[str] = []
        self.depth = 1
        self.mask = "None" if f.kernel else "m"
        self.names = 0
        self.hoisted: dict[int, str] = {}
        self.alive: list[ir.Expr] = []  # nodes that were made on the way
        self.prepared: dict[int, tuple[str, list[SignedTerms]]] = {}
        self.interned: dict[object, str] = {}
        self.relative = self.facts.positions.start
        self.claims: dict[int, tuple[PartClaim, ...]] = {}
        self.borrowed: dict[int, str] = {}

    @property
    def prepares(self) -> bool:
        """Tell whether one access may stand for many, its index checked once: not where each is logged or counted."""
        return not self.stepwise and not self.counted

    # ---- writing ----

    def emit(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def indented(self, head: str):
        self.emit(head)
        self.depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.emit("pass")
        self.depth -= 1

    def fresh(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def bind(self, text: str, stem: str = "t") -> str:
        name = self.fresh(stem)
        self.emit(f"{name} = {text}")
        return name

    def intern(self, value: object, key: object, stem: str) -> str:
        """A name for an object that the generated code refers to."""
        if key not in self.interned:
            name = f"{stem}{len(self.namespace)}"
            self.namespace[name] = value
            self.interned[key] = name
        return self.interned[key]

    def site(self, span, name: str) -> str:
        return self.intern(FaultSite(span, name), ("site", span, name), "S")

    def fault_site(self, span, name: str) -> FaultSite:
        """The object that `site` names."""
        found = self.namespace[self.site(span, name)]
        assert isinstance(found, FaultSite)
        return found

    def type(self, t: Element | Array) -> str:
        return self.intern(t, ("type", t), "E")

    def once(self, text: str, stem: str) -> str:
        """A value computed at the function's start; a kernel keeps it for later launches of as many blocks.

        The text says all there is to know of it: it is made of constants, of where the function was entered, and of
        other such values.  So equal texts have one name, and nothing else is compared: a description could forget an
        ingredient.
        """
        key = ("once", text)
        if key not in self.interned:
            name = self.interned[key] = self.fresh(stem)
            if self.function.kernel:
                self.prologue += [
                    f"    {name} = C.memo.get({name!r})",
                    f"    if {name} is None:",
                    f"        {name} = C.memo[{name!r}] = {text}",
                ]
            else:
                self.prologue.append(f"    {name} = {text}")
        return self.interned[key]

    def variable(self, var: ir.Var) -> str:
        return f"v{var.uid}_{var.name}" if var.name.isidentifier() and var.name.isascii() else f"v{var.uid}"

    # ---- positions ----

    def held(self, place: Place, level: Level) -> str | int:
        held = place[level]
        if held.open:
            return "(C.blocks // C.launch.blocks_per_cluster)" if level is Level.CLUSTER else "C.blocks"
        return "C.threads" if held.count is None else held.count

    def position(self, level: Level, chain: Chain) -> str:
        """The index at `level` after entering the groups and split cases of `chain`."""
        if not chain:
            return _ENTRY[level]
        parent = self.position(level, chain[:-1])
        op, n, *stride = chain[-1]
        if stride:
            return self.once(GroupShape(n, Stride(*stride)).member(parent, SOURCE), "r")
        return self.once(f"{parent} {'%' if op == 'group' else '-'} np.int32({n})", "r")

    def issuer(self, place: Place, every_block: bool = False) -> str:
        """Bind the lanes that issue for their group: the first thread of each; or of each block."""
        parts = []
        for level, held in place.levels:
            if level is Level.GRID or (every_block and level is not Level.THREAD):
                continue
            at = self.position(level, self.relative[level])
            within = f" % np.int32({held.count})" if held.count is not None and not held.open else ""
            parts.append(f"({at}{within} == np.int32(0))")
        first = self.once(" & ".join(parts), "k")
        return self.bind(f"narrow({self.mask}, {first})", "m")

    def unit_id(self, e: ir.UnitId) -> str:
        relative = self.facts.positions.of(e) or self.relative
        text = None
        for level, _ in e.place.levels:
            if level < e.target.level:
                break
            if level is Level.GRID:
                continue
            at = self.position(level, relative[level])
            text = at if text is None else f"({text} * np.int32({self.held(e.place, level)}) + {at})"
        if text is None:
            text = "np.int32(0)"
        elif e.target.n > 1:
            text = e.place.shape(e.target).number(text, SOURCE, e.place.units(e.target.level))
        return self.once(f"{text}.astype({self.dtype(e.type)})", "u")

    def unit_count(self, e: ir.UnitCount) -> str:
        factors = [
            str(self.held(e.place, level))
            for level, _ in e.place.levels
            if level >= e.target.level and level is not Level.GRID
        ]
        return self.once(f"{self.dtype(e.type)}(({' * '.join(factors) or '1'}) // {e.target.n})", "u")

    def dtype(self, t: Scalar) -> str:
        return "np." + numbers.REGISTER[t].__name__
