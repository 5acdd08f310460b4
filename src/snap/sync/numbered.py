"""Fills that the program numbers itself, `stage(x, k)`: are they loaded in order, and is what is used there?

Input: the stages of a pipeline in which boxes are loaded, and those in which they are used.  Output: nothing, or why not.  Rule: the loads, in the
order of the text, are fills 0, 1, 2, ...; a use of fill f comes after the load of f and before that of f + depth.  A wait for a fill that was
never loaded, or is no longer there, would never end.  Decided for numbers of the form `k + c` in loops that count by one, with guards that compare
such numbers with something the loop does not change.  Non-goals: other forms are refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from snap.diag.span import Span
from snap.ir import nodes as ir
from snap.ir.walk import bodies, statements, variables
from snap.sync.loops import targets

Sum = tuple[ir.Expr | None, int]  # something, and a number


class Unordered(Exception):
    def __init__(self, why: str, span: Span):
        self.why, self.span = why, span


@dataclass(slots=True)
class Numbered:
    """One stage: fill `loop`'s variable + `more`, or the number `more`.  low, high: what its guards say of the variable (low <= v < high)."""

    stage: ir.Partition
    loop: ir.For | None
    more: int
    low: list[Sum]
    high: list[Sum]


def check(body: ir.Body, loads: list[ir.Partition], uses: list[ir.Partition], depth: int) -> None:
    """`body`: the lifetime of the pipeline."""
    found = {id(s): _numbered(s, body) for s in (*loads, *uses)}
    around = {id(s): _deciding(s, found[id(s)].loop, body) for s in (*loads, *uses)}
    first = around[id(loads[0])]
    for s in (*loads, *uses):
        if len(around[id(s)]) != len(first) or any(a is not b for a, b in zip(around[id(s)], first)):
            raise Unordered("what decides whether it is loaded does not decide whether it is used", s.span)
    last, total = _in_order([found[id(s)] for s in loads])
    order = {id(s): k for k, s in enumerate(statements(body))}
    for s in uses:
        _there(found[id(s)], last, total, depth, order)
    if not any(_all_of_them(found[id(s)], last, total) for s in uses) and not _each_by_number([found[id(s)] for s in uses], total):
        raise Unordered("not every fill that is loaded is certainly used: nobody waits for the others", loads[-1].span)


# Every fill is used, so that its load has ended before the slot is filled again, and before the block is gone.
def _all_of_them(use: Numbered, load: Numbered, total: list[Sum]) -> bool:
    if use.loop is None or not all(base is None and n + use.more <= 0 for base, n in use.low):
        return False
    if use.loop is not load.loop and not all(base is None for base, _ in total):
        return False
    return all(any(base == b and n + use.more >= m for b, m in total) for base, n in use.high)


def _each_by_number(uses: list[Numbered], total: list[Sum]) -> bool:
    numbers = {use.more for use in uses if use.loop is None}
    return any(base is None and set(range(n)) <= numbers for base, n in total)


def _numbered(stage: ir.Partition, body: ir.Body) -> Numbered:
    path = _path(stage, body)
    loops = [s for s in path if isinstance(s, (ir.For, ir.While))]
    base, more = _sum(_value(stage.fill, body))
    if not loops:
        if base is not None:
            raise Unordered("its number is not a constant", stage.span)
        return Numbered(stage, None, more, [], [])
    loop = loops[-1]
    if len(loops) > 1:
        raise Unordered("its numbers begin again in an outer loop; without a number, `stage(x)`, they are counted on", stage.span)
    for way_out in ways_out(loop.body):
        raise Unordered("some iterations leave it early", way_out.span)
    if not isinstance(loop, ir.For) or not isinstance(loop.step, ir.Const) or loop.step.value != 1:
        raise Unordered("its loop does not count by one", loop.span)
    if not isinstance(base, ir.Read) or base.var != loop.var:
        raise Unordered("its number is not the loop's variable, plus or minus a constant", stage.span)
    low, high = [_sum(loop.start)], [_sum(loop.stop)]
    changed = {v for s in statements(loop.body) for v in ([s.var.uid] if isinstance(s, ir.Declare) else targets(s))}
    for k, s in enumerate(path):
        if isinstance(s, ir.If) and any(x is loop for x in path[:k]):
            inside = path[k + 1] if k + 1 < len(path) else stage
            guard = _guard(s.cond, loop.var, any(x is inside for x in s.then))
            if guard is None or guard[1][0] is not None and any(v.uid in changed for v in variables(guard[1][0])):
                raise Unordered("what decides whether it is filled is not a limit of the loop's variable", s.span)
            (low if guard[0] == ">=" else high).append(guard[1])
    return Numbered(stage, loop, more, low, high)


# The loads, one after the other, number 0, 1, 2, ...
def _in_order(loads: list[Numbered]) -> tuple[Numbered, list[Sum]]:
    """The last of them, and limits of how many there are."""
    expected: Sum = (None, 0)
    ends: list[Sum] = [expected]
    for k, n in enumerate(loads):
        start = (None, n.more) if n.loop is None else _plus(n.low[0], n.more)
        if len(n.low) > 1 or start != expected:
            raise Unordered("its loads do not come in the order 0, 1, 2, ...", n.stage.span)
        ends = [(None, n.more + 1)] if n.loop is None else [_plus(h, n.more) for h in n.high]
        expected = ends[0]
        if len(ends) > 1 and k < len(loads) - 1:
            raise Unordered("how many are loaded before is not known", n.stage.span)
    return loads[-1], ends


def _there(use: Numbered, load: Numbered, total: list[Sum], depth: int, order: dict[int, int]) -> None:
    if use.loop is None:
        if not all(base is None and 0 <= use.more < n <= depth for base, n in total) or order[id(use.stage)] < order[id(load.stage)]:
            raise Unordered("what is used is not certainly loaded", use.stage.span)
        return
    if not any(base is None and n + use.more >= 0 for base, n in use.low):
        raise Unordered("a fill below 0 would be used", use.stage.span)
    limits = [_plus(h, use.more) for h in use.high]
    if use.loop is load.loop:
        after = order[id(use.stage)] > order[id(load.stage)]
        ahead = load.more - use.more + after  # so many more have been loaded
        if ahead < 1:
            raise Unordered("a fill is used before it is loaded", use.stage.span)
        if ahead > depth:
            raise Unordered(f"a fill is used when the next one in its slot has been loaded: there are {depth} slots", use.stage.span)
        rest = total[1:]  # guards of the loads
    else:
        if order[id(use.stage)] < order[id(load.stage)] or not all(base is None and n <= depth for base, n in total):
            raise Unordered("it is used in another loop than it is loaded in, and there are not slots for all", use.stage.span)
        rest = total
    for base, n in rest:
        if not any(b == base and m <= n for b, m in limits):
            raise Unordered("more fills are used than are loaded, as far as one can see", use.stage.span)


# ---- expressions -----------------------------------------------------------------------------------------------------------------------------------


def _plus(x: Sum, more: int) -> Sum:
    return x[0], x[1] + more


def _sum(e: ir.Expr) -> Sum:
    match e:
        case ir.Const(value):
            return None, int(value)
        case ir.Cast(value) if e.type.bits >= value.type.bits:
            return _sum(value)
        case ir.Binary("+", left, ir.Const(n)) | ir.Binary("+", ir.Const(n), left):
            return _plus(_sum(left), int(n))
        case ir.Binary("-", left, ir.Const(n)):
            return _plus(_sum(left), -int(n))
        case _:
            return e, 0


def _guard(cond: ir.Expr, var: ir.Var, truth: bool) -> tuple[str, Sum] | None:
    """`var >= x` or `var < x`."""
    if not isinstance(cond, ir.Compare):
        return None
    op = cond.op if truth else {"<": ">=", ">=": "<", ">": "<=", "<=": ">"}.get(cond.op, "")
    left, right = _sum(cond.left), _sum(cond.right)
    if isinstance(right[0], ir.Read) and right[0].var == var:
        left, right, op = right, left, {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(op, "")
    if not isinstance(left[0], ir.Read) or left[0].var != var:
        return None
    limit = _plus(right, -left[1])
    match op:
        case "<":
            return "<", limit
        case "<=":
            return "<", _plus(limit, 1)
        case ">=":
            return ">=", limit
        case ">":
            return ">=", _plus(limit, 1)
        case _:
            return None


def _value(e: ir.Expr, body: ir.Body) -> ir.Expr:
    """What a variable that is set once, when it is declared, stands for."""
    if isinstance(e, ir.Read):
        for s in statements(body):
            if isinstance(s, ir.Declare) and s.var == e.var and s.init is not None and e.var.temp:
                return s.init
    return e


def _deciding(stage: ir.Partition, loop: ir.For | None, body: ir.Body) -> list[ir.Stmt]:
    """The branches around a stage's loop, or around the stage."""
    return [x for x in _path(stage, body) if isinstance(x, ir.If) and (loop is None or _holds(x, loop))]


def _holds(outer: ir.Stmt, inner: ir.Stmt) -> bool:
    return any(x is inner for b in bodies(outer) for x in statements(b))


def ways_out(body: ir.Body) -> list[ir.Stmt]:
    """Statements that leave this body's loop, or the function."""
    found: list[ir.Stmt] = []
    for s in body:
        if isinstance(s, (ir.Break, ir.Continue, ir.Return)):
            found.append(s)
        for inner in bodies(s):
            found += [w for w in ways_out(inner) if isinstance(w, ir.Return) or not isinstance(s, (ir.For, ir.While))]
    return found


def _path(wanted: ir.Stmt, body: ir.Body) -> list[ir.Stmt]:
    """The statements around it, outermost first."""
    for s in body:
        for inner in bodies(s):
            if any(x is wanted for x in inner):
                return [s]
            deeper = _path(wanted, inner)
            if deeper:
                return [s, *deeper]
    return []
