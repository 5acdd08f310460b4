"""Follow what one thread of a launch is certain to do, where the launch's own numbers are known.

Input: a kernel in typed IR, the number of blocks, where a thread stands at each level, and the values of parameters.
Output: the accesses to the kernel's arrays that this thread comes to, told one after the other.  Invariant: what is
told is proved, but for what is assumed of every run: that loops end, and that nothing stops the thread before, neither
an assertion nor a fault.  What depends on memory, on floats or on other threads is unknown, and what an unknown
condition decides is not told; of a loop, the first iteration is.  Non-goals: finding all accesses; the values of
expressions (analysis/concrete.py); many threads at once (machine/).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum, auto
from math import prod

from snap._compiler.analysis.concrete import Number, value
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.effects import assigned, elements
from snap._compiler.ir.strides import NUMBERS
from snap._compiler.ir.types import Level, Place, Scalar
from snap._compiler.ir.walk import children, own_expressions, statements

AccessTold = Callable[[int, ir.MemAccess], None]  # which array, and how it is accessed


class ThreadEnd(Enum):
    """Tell where a thread is after a body."""

    ON = auto()  # it goes on
    LEFT = auto()  # it has left the iteration
    GONE = auto()  # it has returned
    UNSURE = auto()  # it may be elsewhere


ON, LEFT, GONE, UNSURE = ThreadEnd


def follow(
    function: ir.Function,
    blocks: int,
    at: dict[Level, int],
    values: dict[int, Number],
    arrays: dict[int, int],
    told: AccessTold,
    patience: Iterator[int],
) -> bool:
    """values: of parameters, by their uid.  arrays: what the caller calls the memory of parameters, by its uid.
    patience: one of it for every statement that is followed.  False where it has ended: then not all was told.
    """
    try:
        _Thread(blocks, at, arrays, dict(values), told, patience).body(function.body)
    except _Enough:
        return False
    return True


class _Enough(Exception):
    pass


class _Thread:
    """One thread in one function.

    at      its index at each level, in the current group
    arrays  what the function's pointers are: by their uid, what the caller calls them; shared memory is not among them
    values  what is known of the variables
    patience  one of it for every statement that is followed, of all threads
    """

    def __init__(
        self,
        blocks: int,
        at: dict[Level, int],
        arrays: dict[int, int],
        values: dict[int, Number],
        told: AccessTold,
        patience: Iterator[int],
    ):
        self.blocks, self.at, self.arrays, self.values = blocks, at, arrays, values
        self.told, self.patience = told, patience

    # ---- statements ----

    def body(self, body: ir.Body) -> ThreadEnd:
        for s in body:
            if next(self.patience, None) is None:
                raise _Enough
            end = self.statement(s)
            if end is not ON:
                return end
        return ON

    def statement(self, s: ir.Stmt) -> ThreadEnd:
        match s:
            case ir.If(cond, then, other):
                self.expression(cond)
                chosen = self.truth(cond)
                return self.skipped(s) if chosen is None else self.body(then if chosen else other)
            case ir.While(pre, cond, body):
                self.body(pre)
                self.expression(cond)
                return self.loop(s, self.truth(cond), body)
            case ir.For(var, start, stop, step, body):
                bounds = [self.value(e) for e in (start, stop, step)]
                known = [n for n in bounds if n is not None]
                runs = None if len(known) < 3 else bool(range(*known)) if known[2] else False
                self.evaluated(s)
                self.keep(var, bounds[0])
                return self.loop(s, runs, body)
            case ir.Group(privilege, outer, body=body):
                member = outer.shape(privilege).member(self.at.get(privilege.level, 0), NUMBERS)
                return self.inside(privilege.level, member, body)
            case ir.Split():
                return self.split(s)
            case ir.Partition(body=body) | ir.Claim(body=body) | ir.Turn(body=body):
                self.evaluated(s)
                return self.body(body)
            case ir.Return():
                self.evaluated(s)
                return GONE
            case ir.Break() | ir.Continue():
                return LEFT
            case ir.Call():
                self.evaluated(s)
                self.call(s)
            case _:
                self.evaluated(s)
        self.assigned(s)
        return ON

    def loop(self, s: ir.While | ir.For, runs: bool | None, body: ir.Body) -> ThreadEnd:
        if runs is None:
            return self.skipped(s)
        end = self.body(body) if runs else ON
        if not runs or end is GONE:
            return end
        self.forget(s)
        return UNSURE if any(isinstance(inner, ir.Return) for inner in statements(body)) else ON

    def skipped(self, s: ir.Stmt) -> ThreadEnd:
        """Nobody knows whether, or how often, the thread goes in here."""
        self.forget(s)
        leaves = ir.Return if isinstance(s, (ir.While, ir.For)) else (ir.Return, ir.Break, ir.Continue)
        return UNSURE if any(isinstance(inner, leaves) for inner in statements((s,))) else ON

    def split(self, s: ir.Split) -> ThreadEnd:
        index = self.at[s.level]
        for case in s.cases:
            within = index - case.offset
            if 0 <= within and (case.rest or within < case.size):
                return self.inside(s.level, within % case.size, case.body)
        return ON

    def inside(self, level: Level, index: int, body: ir.Body) -> ThreadEnd:
        outside, self.at = self.at, {**self.at, level: index}
        end = self.body(body)
        self.at = outside
        return end

    def call(self, s: ir.Call) -> None:
        place, values, arrays = s.function.place, {}, {}
        for param, arg in zip(s.function.params, s.args):
            match param:
                case ir.ValueParam(var) if not isinstance(arg, (ir.ArrayRef, ir.MemView)):
                    known = self.value(arg)
                    if known is not None:
                        values[var.uid] = known
                case ir.MemParam(handle) if isinstance(arg, ir.MemView) and arg.obj.uid in self.arrays:
                    arrays[handle.obj.uid] = self.arrays[arg.obj.uid]
        count = place[place.top].count
        at = self.at if place.top is Level.GRID or count is None else {**self.at, place.top: self.at[place.top] % count}
        _Thread(self.blocks, at, arrays, values, self.told, self.patience).body(s.function.body)

    # ---- what is accessed ----

    def evaluated(self, s: ir.Stmt) -> None:
        for e in own_expressions(s):
            self.expression(e)
        spared = s.source if isinstance(s, ir.AsyncCopy) and not self.reads(s) else None
        for access in elements(s):
            if access is not spared:
                self.accessed(access)

    def reads(self, s: ir.AsyncCopy) -> bool:
        """Test whether it certainly reads its source."""
        if s.elements is not None:
            return bool(self.value(s.elements))
        return s.valid is None or bool(self.truth(s.valid))

    def expression(self, e: ir.Expr) -> None:
        match e:
            case ir.Select(cond, then, other):
                self.expression(cond)
                chosen = self.truth(cond)
                if chosen is not None:
                    self.expression(then if chosen else other)
            case ir.Logical(op, left, right):
                self.expression(left)
                if self.truth(left) is (op == "and"):
                    self.expression(right)
            case _:
                if isinstance(e, ir.Load):
                    self.accessed(e.access)
                for part in children(e):
                    self.expression(part)

    def accessed(self, access: ir.MemAccess) -> None:
        array = self.arrays.get(access.view.obj.uid)
        if array is not None:
            self.told(array, access)

    # ---- what is known of variables ----

    def assigned(self, s: ir.Stmt) -> None:
        match s:
            case ir.Declare(var, None, zero):
                self.keep(var, 0 if zero else None)
            case ir.Declare(var, init):
                self.keep(var, None if init is None else self.value(init))
            case ir.Assign(ir.VarTarget(var), value):
                self.keep(var, self.value(value))
            case _:
                self.forget(s)

    def keep(self, var: ir.Var, value: Number | None) -> None:
        if value is None or not isinstance(var.type, Scalar) or var.type.is_float:
            self.values.pop(var.uid, None)
        else:
            self.values[var.uid] = value

    def forget(self, s: ir.Stmt) -> None:
        """Whatever the statement, or one inside it, may assign."""
        for inner in statements((s,)):
            for var in assigned(inner):
                self.values.pop(var.uid, None)

    def value(self, e: ir.Expr) -> Number | None:
        return value(e, self.known)

    def known(self, e: ir.Expr) -> Number | None:
        match e:
            case ir.Read(var):
                return self.values.get(var.uid)
            case ir.UnitId(target, place):
                return place.shape(target).number(self.index(target.level, place), NUMBERS)
            case ir.UnitCount(target, place):
                return prod(self.held(place, level) for level in _down_to(target.level, place)) // target.n
            case _:
                return None

    def truth(self, cond: ir.Expr) -> bool | None:
        known = self.value(cond)
        return None if known is None else bool(known)

    def index(self, target: Level, place: Place) -> int:
        """Return the thread's index among the units of the level in the current group."""
        index = 0
        for level in _down_to(target, place):
            index = index * self.held(place, level) + self.at[level]
        return index

    def held(self, place: Place, level: Level) -> int:
        """Units of the level for each unit above it; how many there are in the grid, only the launch knows."""
        if not place[level].open:
            return place.known(level)
        return self.blocks // place.known(Level.BLOCK) if level is Level.CLUSTER else self.blocks


def _down_to(target: Level, place: Place) -> Iterable[Level]:
    return (level for level, _ in place.levels if level >= target and level is not Level.GRID)
