"""Verify that a program between two passes is what the compiler's own rules say it is.

Input: a typed or a synchronized function, and the pass that made it.  Output: nothing, or `BrokenIR`, which names the
pass, the invariant (invariants.py) and the place.  It runs where `SNAP_VERIFY` is set in the environment, as the tests
do.  Non-goals: everything that no row of the table says.
"""

from __future__ import annotations

from typing import Any

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.depth import deep
from snap._compiler.ir.invariants import EVERY, ROWS, Around, Invariant, Mentioned
from snap._compiler.ir.printer import line
from snap._compiler.ir.synced import Stage
from snap._compiler.ir.walk import bodies, callees, children, own_expressions
from snap.diag.span import Span


class BrokenIR(AssertionError):
    """The compiler has made a program that breaks its own rules."""


def verify(name: str, function: ir.AnyFunction, stage: Stage) -> None:
    """One program, once."""
    Verifier().after(name, function, stage)


class Verifier:
    """Looks at one program after each pass.  What was found right of an expression, or of a statement alone, is not
    asked again: passes keep the parts that they do not change.
    """

    def __init__(self) -> None:
        self.right: dict[int, ir.Expr] = {}  # by identity, which holding them keeps
        self.facts: dict[int, tuple[ir.Stmt, Mentioned]] = {}
        self.last: ir.AnyFunction | None = None
        self.name, self.stage = "", Stage.TYPED
        self.mbarriers: frozenset[int] = frozenset()
        self.functions: dict[int, ir.AnyFunction] = {}  # of this program, by number

    def after(self, name: str, function: ir.AnyFunction, stage: Stage) -> None:
        """`name`: of the pass that made the program."""
        if function is self.last:
            return
        self.last, self.name, self.stage, self.functions = function, name, stage, {function.uid: function}
        if isinstance(function, synced.Function):
            self.mbarriers = frozenset(b.uid for b in function.mbarriers)
        with deep():
            for one in callees(function):
                self._function(one)

    def _ask(self, rows: list[Invariant], one: Any, span: Span, *around: Around, shown: Any = None) -> None:
        for row in rows:
            wrong = row.broken(one, *around)
            if wrong:
                shown = one if shown is None else shown
                text = f": `{line(shown)}`" if type(shown) in EVERY else f", `{shown.name}`"
                raise BrokenIR(
                    f"internal error: after the pass `{self.name}`, the program breaks the invariant `{row.name}`"
                    f" ({row.says}) at {span.filename}:{span.line}{text}: {wrong}"
                )

    def _function(self, f: ir.AnyFunction) -> None:
        around = Around(f, self.stage, self.mbarriers, self.functions)
        for p in f.params:
            match p:
                case ir.MemParam(handle):
                    around.known |= {handle.uid, handle.obj.uid}
                case ir.ValueParam(var) | ir.RefParam(var):
                    around.known.add(var.uid)
        self._ask(ROWS[type(f)][1], f, f.span, around)
        self._body(f.body, around)

    def _body(self, body: ir.Body, around: Around) -> set[int]:
        """Verify a body; what it declares is known until its end."""
        before = around.known
        around.known = set(before)
        for s in body:
            self._statement(s, around)
        inside, around.known = around.known, before
        return inside

    def _statement(self, s: ir.Stmt, around: Around) -> None:
        before = around.known
        if isinstance(s, ir.While):  # what comes before the condition is in its scope, and in the body's
            around.path.append(s)
            around.known = self._body(s.pre, around)
            around.path.pop()
        around.facts = self._facts(s)
        self._ask(ROWS[type(s)][1], s, s.span, around)
        new = {one.uid for one in around.facts.declares}
        if isinstance(s, (ir.Declare, ir.DeclareShared)):
            around.known |= new
            return
        inner = bodies(s)
        if not inner:
            return
        around.known = around.known | new
        around.path.append(s)
        place = around.place
        if isinstance(s, ir.Split):
            for case in s.cases:
                around.place = case.place
                around.path.append(case)
                self._body(case.body, around)
                around.path.pop()
        else:
            around.place = s.place if isinstance(s, ir.Group) else place
            for body in (s.body,) if isinstance(s, ir.While) else inner:
                self._body(body, around)
        around.place, around.known = place, before
        around.path.pop()

    def _facts(self, s: ir.Stmt) -> Mentioned:
        if id(s) not in self.facts:
            for e in own_expressions(s):
                self._expression(e, s)
            self._ask(ROWS[type(s)][0], s, s.span)
            self.facts[id(s)] = s, Mentioned(s)
        return self.facts[id(s)][1]

    def _expression(self, e: ir.Expr, s: ir.Stmt) -> None:
        if id(e) not in self.right:
            for part in children(e):
                self._expression(part, s)
            self._ask(ROWS[type(e)][0], e, e.span, shown=s)
            self.right[id(e)] = e
