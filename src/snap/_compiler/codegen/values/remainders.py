"""Counters whose remainders are asked for: the remainder is counted along, instead of divided for again and again.

Input:      a synchronized kernel
Output:     the same kernel.  For each variable that begins with a number and is only ever increased by one, and of
            which `% n` or `/ n` is asked somewhere for a constant n, there are two more variables: they hold the
            remainder and the quotient, and are brought up to date wherever the counter is increased.  A variable that
            is declared as a copy of the counter has copies of both.  A counter that nobody else asks for is gone
Invariant:  every expression has the value it had, as long as the counter stays in its type
Non-goals:  counters of called functions; other strides

The example that made it necessary: a pipeline of 6 slots is used by slot `fill % 6` and phase `fill / 6`, by whoever
multiplies in every step.  Between the end of one wgmma and the start of the next, both divisions, by multiplication
with a reciprocal, stood in a row.  Counted along, a step of a 128 x 128 tile takes 524 cycles on an H200 instead of 582.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.effects import effects
from snap._compiler.ir.rewrite import changed, mapped, with_bodies, with_expressions
from snap._compiler.ir.types import BOOL, I32
from snap._compiler.ir.walk import children, expressions, own_expressions, statements
from snap.record import record


@record
class Quotient:
    """`var / by`, or with "%" what is left over."""

    var: ir.Var
    by: int
    op: str


DivisorsAsked = dict[int, dict[str, None]]  # by divisor: the operations, "%" and "/", of which the result is wanted


def counted_along(kernel: synced.Function) -> synced.Function:
    if not any(map(_increased, statements(kernel.body))):
        return kernel  # most have no counter
    counters = _counters(kernel.body)
    wanted: dict[int, DivisorsAsked] = {}  # by counter
    for found in _quotients(kernel.body) if counters else ():
        if found.var.uid in counters:
            wanted.setdefault(counters[found.var.uid], {}).setdefault(found.by, {})[found.op] = None
    if not wanted:
        return kernel
    gone = wanted.keys() - {counters[uid] for uid in _read_besides(kernel.body, counters) if uid in counters}
    return changed(kernel, body=_Along(counters, wanted, gone, count(_highest(kernel) + 1)).body(kernel.body))


# ---- which ----------------------------------------------------------------------------------------------------------


def _counters(body: ir.Body) -> dict[int, int]:
    """Find, by variable, the counter whose value it has: itself, or the one that it is a copy of.  Each role has the
    declarations that it needs, so one may stand in several places; all of them say the same.
    """
    below = statements(body)
    begun: dict[int, set[int | None]] = {}  # by variable: of which it is a copy; None: a number
    moved: set[int] = set()  # what is changed in another way than by increasing it
    increased: dict[int, None] = {}
    for s in below:
        counter = _increased(s)
        if type(s) is ir.Declare:
            begun.setdefault(s.var.uid, set()).add(_begins(s))
        elif counter is not None:
            increased[counter.uid] = None
        else:
            moved |= {e.var.uid for e in effects(s) if e.var is not None and e.kind.writes}
    counters = {uid: uid for uid in increased if begun.get(uid) == {None} and uid not in moved}
    for uid, of in begun.items():
        if len(of) == 1 and not of.isdisjoint(counters) and uid not in increased and uid not in moved:
            counters[uid] = next(one for one in of if one is not None)
    return counters


def _begins(s: ir.Declare) -> int | None:
    """The variable of which it is a copy, None where it begins with a number that is not negative, -1 for all else."""
    match s.init:
        case ir.Const(value) if s.var.type == I32 and value >= 0:
            return None
        case ir.Read(var) if s.var.type == I32:
            return var.uid
    return -1


def _increased(s: ir.Stmt) -> ir.Var | None:
    """The variable that is increased by one."""
    if type(s) is not ir.Assign:
        return None
    match s:
        case ir.Assign(ir.VarTarget(var), ir.Binary("+", ir.Read(same), ir.Const(1))):
            return var if var.uid == same.uid and var.type == I32 else None
    return None


def _quotients(body: ir.Body) -> Iterator[Quotient]:
    return (found for s in statements(body) for e in expressions(s) if (found := _quotient(e)))


def _quotient(e: ir.Expr) -> Quotient | None:
    """Return what an expression is if it divides a variable by a constant; else None."""
    if type(e) is not ir.Binary:
        return None
    match e:
        case ir.Binary("%" | "/" | "mod" | "//" as op, ir.Read(var), ir.Const(int(n))) if var.type == I32 and n > 1:
            return Quotient(var, n, {"mod": "%", "//": "/"}.get(op, op))  # a counter is never negative
    return None


def _read_besides(body: ir.Body, counters: dict[int, int]) -> set[int]:
    """The variables that are read for something else than increasing, copying or dividing a counter."""
    found: set[int] = set()
    for s in statements(body):
        copies = type(s) is ir.Declare and s.var.uid in counters
        if type(s) is not ir.Partition and not copies and _increased(s) is None:  # a stage's number is for analyses
            found |= {var.uid for var in _read(own_expressions(s))}
    return found


def _read(parts: Iterable[ir.Expr]) -> Iterator[ir.Var]:
    for e in parts:
        if type(e) is ir.Read:
            yield e.var
        elif _quotient(e) is None:
            yield from _read(children(e))


def _highest(kernel: synced.Function) -> int:
    declared = [s.var.uid for s in statements(kernel.body) if isinstance(s, (ir.Declare, ir.For))]
    return max((*declared, *(p.var.uid for p in kernel.params if not isinstance(p, ir.MemParam))), default=0)


# ---- into the text --------------------------------------------------------------------------------------------------

NAMES = {"%": "mod", "/": "div"}


class _Along:
    """counters: as of `_counters`; wanted: by counter; gone: counters that are left out; uids: new ones.  parts: by
    variable, divisor and operation, the variable that holds the result.
    """

    def __init__(self, counters: dict[int, int], wanted: dict[int, DivisorsAsked], gone: set[int], uids: Iterator[int]):
        self.counters, self.wanted, self.gone, self.uids = counters, wanted, gone, uids
        self.parts: dict[tuple[int, int, str], ir.Var] = {}

    def body(self, body: ir.Body) -> ir.Body:
        made: list[ir.Stmt] = []
        for s in body:
            counter = _increased(s)
            declared = type(s) is ir.Declare and s.var.uid in self.counters
            named = s.var.uid if type(s) is ir.Declare else None if counter is None else counter.uid
            if named is None or self.counters.get(named) not in self.gone:
                own = with_expressions(s, self._mapped) if any(map(_quotient, expressions(s))) else s
                made.append(with_bodies(own, self.body))
            if type(s) is ir.Declare and declared:
                made += self._declared(s)
            elif counter is not None:
                made += self._increased(s, counter)
        return tuple(made)

    def _mapped(self, e: ir.Expr) -> ir.Expr:
        return mapped(e, self._counted)

    def _counted(self, e: ir.Expr) -> ir.Expr | None:
        found = _quotient(e)
        if found is None or found.var.uid not in self.counters:
            return None
        return ir.Read(self._part(found.var, found.by, found.op), I32, span=e.span)

    def _part(self, var: ir.Var, n: int, op: str) -> ir.Var:
        key = var.uid, n, op
        if key not in self.parts:
            name = f"{var.name}_{NAMES[op]}_{n}"
            self.parts[key] = ir.Var(next(self.uids), name, I32, var.privilege, True, span=var.span)
        return self.parts[key]

    def _declared(self, s: ir.Declare) -> Iterator[ir.Stmt]:
        for n, ops in self.wanted.get(self.counters[s.var.uid], {}).items():
            for op in ("%", *(op for op in ops if op == "/")):
                match s.init:
                    case ir.Read(var):
                        begin: ir.Expr = ir.Read(self._part(var, n, op), I32, span=s.span)
                    case ir.Const(int(value)):
                        begin = ir.Const(value % n if op == "%" else value // n, I32, span=s.span)
                    case _:
                        raise TypeError(type(s.init).__name__)
                yield ir.Declare(self._part(s.var, n, op), begin, span=s.span)

    def _increased(self, s: ir.Stmt, var: ir.Var) -> Iterator[ir.Stmt]:
        for n, ops in self.wanted.get(var.uid, {}).items():
            zero, one, last = (ir.Const(value, I32, span=s.span) for value in (0, 1, n - 1))
            remainder = self._part(var, n, "%")
            now = ir.Read(remainder, I32, span=s.span)
            full = ir.Compare("==", now, last, BOOL, span=s.span)
            if "/" in ops:
                quotient = self._part(var, n, "/")
                up = ir.Select(full, one, zero, I32, span=s.span)
                value = ir.Binary("+", ir.Read(quotient, I32, span=s.span), up, I32, span=s.span)
                yield ir.Assign(ir.VarTarget(quotient, span=s.span), value, span=s.span)
            following = ir.Select(full, zero, ir.Binary("+", now, one, I32, span=s.span), I32, span=s.span)
            yield ir.Assign(ir.VarTarget(remainder, span=s.span), following, span=s.span)
