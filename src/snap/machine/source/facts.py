"""Find out about a function before it runs: which variables change where, what is the same for all lanes, what is never
negative.

Input: typed or synchronized IR.  Output: answers to questions.  Invariant: every answer is safe (a value said to be
uniform is).. Non-goals: rewriting.
"""

from __future__ import annotations

from snap._compiler.analysis.syntactic import Text, first_values, natural
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.effects import accesses, effects
from snap._compiler.ir.engines import Engine
from snap._compiler.ir.types import Level, Privilege, Space
from snap._compiler.ir.walk import children, statements, walk, ways_out
from snap.machine.source.positions import Positions

GRID, BLOCK, THREAD = 0, 1, 2  # how finely a value may vary


def fineness(p: Privilege) -> int:
    return GRID if p.level is Level.GRID else THREAD if p.level is Level.THREAD else BLOCK


# ---- control flow ---------------------------------------------------------------------------------------------------


def leaves(body: ir.Body) -> bool:
    """Test whether lanes may leave the body before its end: break or continue of an enclosing loop, or return."""
    return bool(ways_out(body))


def returns(body: ir.Body) -> bool:
    return any(isinstance(s, ir.Return) for s in statements(body))


def continues(body: ir.Body) -> bool:
    return any(isinstance(s, ir.Continue) for s in ways_out(body))


# ---- variables of one function --------------------------------------------------------------------------------------


class Facts:
    """Facts about one function's variables and expressions."""

    def __init__(self, f: synced.AnyFunction):
        self.params = {p.var.uid for p in f.params if not isinstance(p, ir.MemParam)}
        self.inits = first_values(f.body)
        self.loop_vars: dict[int, ir.For] = {}
        self.unset: set[int] = set()  # declared without a value
        self.elems: dict[int, dict] = {}  # object -> the element types it is seen as
        self.multiplied = {
            p.var.uid for p in f.params if isinstance(p, ir.RefParam)
        }  # arrays that asynchronous wgmma may be using
        for s in statements(f.body):
            for e in effects(s):
                if e.var is not None and e.engine is Engine.PRODUCTS:
                    self.multiplied.add(e.var.uid)
            match s:
                case ir.Declare(var, init, zero):
                    if init is None and not zero and not var.temp:  # the compiler's own are assigned right after
                        self.unset.add(var.uid)
                case ir.For():
                    self.loop_vars[s.var.uid] = s
                case ir.Call():
                    self.multiplied.update(x.var.uid for x in s.args if isinstance(x, ir.ArrayRef))
            for a in accesses(s):
                self.elems.setdefault(a.view.obj.uid, {})[a.view.elem] = None
        self._levels: dict[int, int] = {}
        self._fixed: dict[int, bool] = {}
        self.positions = Positions(f)
        self.text = Text(lambda var: self.inits.get(var.uid), proofs=True)

    def varies(self, e: ir.Expr) -> int:
        """GRID: one value for all lanes; BLOCK: at most one a block; THREAD: anything."""
        match e:
            case ir.Const() | ir.UnitCount():
                return GRID
            case ir.Read(var):
                return self._var_varies(var)
            case ir.UnitId(target):
                return fineness(target)
            case ir.Lane():
                return THREAD
            case ir.Elem(array) | ir.ArrayValue(array):
                own = fineness(array.var.privilege)
            case ir.Load(access):
                own = GRID if access.view.obj.space is Space.GLOBAL else BLOCK
            case _:
                own = GRID
        return max((own, *map(self.varies, children(e))))

    def _var_varies(self, var: ir.Var) -> int:
        if var.uid not in self._levels:
            self._levels[var.uid] = THREAD  # what a cycle would see
            init = self.inits.get(var.uid)
            self._levels[var.uid] = fineness(var.privilege) if init is None else max(map(self.varies, init))
        return self._levels[var.uid]

    def fixed(self, e: ir.Expr) -> bool:
        """Test whether it depends only on where the lanes are: it is then the same at every launch of as many
        blocks.
        """
        if id(e) not in self._fixed:
            self._fixed[id(e)] = self._is_fixed(e)
        return self._fixed[id(e)]

    def _is_fixed(self, e: ir.Expr) -> bool:
        match e:
            case ir.Const() | ir.Lane():
                return True
            case ir.UnitId():
                return self.positions.of(e) is not None
            case ir.Read(var):
                return var.uid not in self.loop_vars and var.uid in self.inits and self.fixed(self.inits[var.uid][0])
            case ir.Binary() | ir.Unary() | ir.Compare() | ir.Cast() | ir.Math() if not getattr(e, "exact", False):
                return all(map(self.fixed, children(e)))
            case _:
                return False

    def resolved(self, e: ir.Expr) -> ir.Expr:
        """A fixed variable's expression in its place."""
        while isinstance(e, ir.Read) and e.var.uid in self.inits and e.var.uid not in self.loop_vars:
            e = self.inits[e.var.uid][0]
        return e

    def natural(self, e: ir.Expr) -> bool:
        """Certainly not negative."""
        return natural(e, self.text)

    def careful(self, e: ir.Expr) -> bool:
        """Test whether evaluating it early, or for lanes that do not ask, might fault or mean something else."""
        for part in walk(e):
            match part:
                case ir.Load() | ir.ArrayValue() | ir.Binary(exact=True):
                    return True
                case ir.UnitId():
                    if self.positions.of(part) is None:
                        return True
                case ir.Elem() | ir.Lookup():
                    if not all(isinstance(i, ir.Const) for i in part.index):
                        return True
                case ir.Read(var) if var.uid in self.unset:
                    return True
        return False

    def invariant(self, e: ir.Expr, changed: set[int]) -> bool:
        """Test whether it may be evaluated once before a loop that changes these variables."""
        return not self.careful(e) and not any(
            isinstance(p, ir.Elem) or (isinstance(p, ir.Read) and p.var.uid in changed) for p in walk(e)
        )
