"""Fills that the program numbers itself, `stage(x, k)`: are they loaded in order, and is what is used there?

Input: the stages of a pipeline in which boxes are loaded, and those in which they are used.  Output: nothing, or why
not.  Rule: the loads, in the order of the text, are fills 0, 1, 2, ...; a use of fill f comes after the load of f and
before that of f + depth.  A wait for a fill that was never loaded, or is no longer there, would never end.  Decided for
numbers of the form `k + c` in loops that count by one, with guards that compare such numbers with something the loop
does not change.  Non-goals: other forms are refused; a fill whose number certainly goes back,
or starts over with an outer loop, does not come here: the checker has refused it (check/order.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from snap.analysis import linear
from snap.analysis.linear import Form
from snap.analysis.text import SameText
from snap.analysis.values import facts, form
from snap.diag.span import Span
from snap.ir import nodes as ir
from snap.ir.effects import assigned
from snap.ir.walk import bodies, statements, variables, walk, ways_out

UNUSED = (
    "load what is used and no more: where the loop may end sooner than the first fills, guard them with its limit, `if"
    " k < n:`"
)


class Unordered(Exception):
    def __init__(self, why: str, span: Span, help: str = ""):
        self.why, self.span, self.help = why, span, help


@dataclass(slots=True)
class Numbered:
    """One stage: fill `loop`'s variable + `more`, or the number `more`.  low, high: what its guards say of the variable
    (low <= v < high).
    """

    stage: ir.Partition
    loop: ir.For | None
    more: int
    low: list[Form]
    high: list[Form]


Loads = list[
    tuple[Numbered, list[Form]]
]  # in the order of the text, each with what its numbers are below; the first says where its loop ends


def check(body: ir.Body, loads: list[ir.Partition], uses: list[ir.Partition], depth: int) -> None:
    """`body`: the lifetime of the pipeline."""
    values = SameText()
    found = {s.number: _numbered(s, body, values) for s in (*loads, *uses)}
    around = {s.number: _deciding(s, found[s.number].loop, body) for s in (*loads, *uses)}
    first = around[loads[0].number]
    for s in (*loads, *uses):
        if around[s.number] != first:
            raise Unordered("what decides whether it is loaded does not decide whether it is used", s.span)
    filled = _in_order([found[s.number] for s in loads])
    for s in uses:
        _there(found[s.number], filled, depth)
    used = [found[s.number] for s in uses]
    left = [n.stage for n, limits in filled if not any(_all_of_them(use, n, limits, filled[-1]) for use in used)]
    if left and not _each_by_number(used, filled[-1][1]):
        raise Unordered(
            "not every fill that is loaded is certainly used: nobody waits for the others", left[0].span, UNUSED
        )


# Every fill is used, so that its load has ended before the slot is filled again, and before the block is gone.
def _all_of_them(use: Numbered, load: Numbered, limits: list[Form], last: tuple[Numbered, list[Form]]) -> bool:
    """All that this load loads: it stops no later than the use does."""
    if use.loop is None or not all(_at_most(x, -use.more) for x in use.low):
        return False
    if use.loop is not last[0].loop and not all(map(linear.is_number, last[1])):
        return False
    return all(_below(limits, _plus(h, use.more)) for h in use.high)


def _each_by_number(uses: list[Numbered], total: list[Form]) -> bool:
    numbers = {use.more for use in uses if use.loop is None}
    return any(linear.is_number(x) and set(range(x[0])) <= numbers for x in total)


def _below(limits: list[Form], most: Form) -> bool:
    """Whether what is below all of these limits is certainly below that one."""
    return any(_at_most(linear.subtract(limit, most), 0) for limit in limits)


def _at_most(x: Form, n: int) -> bool:
    return linear.is_number(x) and x[0] <= n


def _numbered(stage: ir.Partition, body: ir.Body, values: SameText) -> Numbered:
    path = _path(stage, body)
    loops = [s for s in path if isinstance(s, (ir.For, ir.While))]
    number = form(_value(stage.fill, body), values, (), None)
    if not loops:
        if not linear.is_number(number):
            raise Unordered("its number is not a constant", stage.span)
        return Numbered(stage, None, number[0], [], [])
    loop = loops[-1]
    if len(loops) > 1:
        raise Unordered(
            "its numbers begin again in an outer loop; without a number, `stage(x)`, they are counted on", stage.span
        )
    for way_out in ways_out(loop.body):
        raise Unordered("some iterations leave it early", way_out.span)
    if not isinstance(loop, ir.For) or not isinstance(loop.step, ir.Const) or loop.step.value != 1:
        raise Unordered("its loop does not count by one", loop.span)
    more = linear.subtract(number, values.read((), loop.var))
    if not linear.is_number(more):
        raise Unordered("its number is not the loop's variable, plus or minus a constant", stage.span)
    low, high = ([form(e, values, (), None)] for e in (loop.start, loop.stop))
    inside = {s.var.uid for s in statements(loop.body) if isinstance(s, ir.Declare)}
    if not _stays(loop.stop, body, set()):
        raise Unordered("what its loop counts to is not one value as long as it lives", loop.span)
    for k, s in enumerate(path):
        if isinstance(s, ir.If) and any(x is loop for x in path[:k]):
            limit = _limit(s.cond, loop.var, values)
            if limit is None or not _stays(limit, body, inside):
                raise Unordered("what decides whether it is filled is not a limit of the loop's variable", s.span)
            (known,) = facts(s.cond, _arm(s, [*path[k + 1 :], stage]) == 0, values, (), None)
            var = values.read((), loop.var)
            if dict(known[1])[var[1][0][0]] > 0:  # var + rest >= 0
                low.append(linear.subtract(var, known))
            else:  # rest - var >= 0
                high.append(_plus(linear.add(known, var), 1))
    return Numbered(stage, loop, more[0], low, high)


# The loads, one after the other, number 0, 1, 2, ...; where something stops one of them early, it stops those that
# follow, too.
def _in_order(loads: list[Numbered]) -> Loads:
    found: Loads = []
    expected = 0
    for n in loads:
        start = linear.number(n.more) if n.loop is None else _plus(n.low[0], n.more)
        if len(n.low) > 1 or start != linear.number(expected):
            raise Unordered("its loads are not in the order 0, 1, 2, ...", n.stage.span)
        limits = [linear.number(n.more + 1)] if n.loop is None else [_plus(h, n.more) for h in n.high]
        for before, stops in found:
            if not all(_below(limits, limit) for limit in stops if not linear.is_number(limit)):
                raise Unordered("how many are loaded before is not known", before.stage.span, UNUSED)
        found.append((n, limits))
        numbers = [limit[0] for limit in limits if linear.is_number(limit)]
        if not numbers and n is not loads[-1]:
            raise Unordered("how many are loaded before is not known", n.stage.span)
        expected = max(expected, min(numbers, default=0))
    return found


def _there(use: Numbered, filled: Loads, depth: int) -> None:
    load, total = filled[-1]
    if use.loop is None:
        if (
            not all(0 <= use.more and _at_most(x, depth) and use.more < x[0] for x in total)
            or use.stage.number < load.stage.number
        ):
            raise Unordered("what is used is not certainly loaded", use.stage.span)
        return
    if not any(linear.is_number(x) and x[0] + use.more >= 0 for x in use.low):
        raise Unordered("a fill below 0 would be used", use.stage.span)
    if use.loop is load.loop:
        after = use.stage.number > load.stage.number
        ahead = load.more - use.more + after  # so many more have been loaded
        if ahead < 1:
            raise Unordered("a fill is used before it is loaded", use.stage.span)
        if ahead > depth:
            raise Unordered(
                f"a fill is used when the next one in its slot has been loaded: there are {depth} slots",
                use.stage.span,
                f"give the pipeline {ahead} slots, or use the old fill before the new one is loaded",
            )
        rest = [
            *total[1:],
            *(limit for _, limits in filled[:-1] for limit in limits if not linear.is_number(limit)),
        ]  # guards of the loads
    else:
        if use.stage.number < load.stage.number or not all(_at_most(x, depth) for x in total):
            raise Unordered(
                "it is used in another loop than it is loaded in, and there are not slots for all", use.stage.span
            )
        rest = total
    if not all(_below([_plus(h, use.more) for h in use.high], limit) for limit in rest):
        raise Unordered("more fills are used than are loaded, as far as one can see", use.stage.span)


# ---- expressions ----------------------------------------------------------------------------------------------------


def _plus(x: Form, more: int) -> Form:
    return linear.add(x, linear.number(more))


# Limits of two loops are compared, and so is what a loop began with and what its iterations ask: they must be the same
# numbers.
def _stays(e: ir.Expr, body: ir.Body, inside: set[int]) -> bool:
    """Whether the expression has one value as long as the pipeline lives.  `inside`: what is declared anew in each
    iteration.
    """
    read = {v.uid for v in variables(e)}
    if read & inside or any(isinstance(part, ir.Load) and not part.access.handle.obj.const for part in walk(e)):
        return False
    return not any(v.uid in read for s in statements(body) if not isinstance(s, ir.Declare) for v in assigned(s))


def _limit(cond: ir.Expr, var: ir.Var, values: SameText) -> ir.Expr | None:
    """What the condition compares the variable with, if it compares one that is more or less by a number with it."""
    if not isinstance(cond, ir.Compare) or cond.op in ("==", "!="):
        return None
    for e, limit in ((cond.left, cond.right), (cond.right, cond.left)):
        if var not in variables(limit) and linear.is_number(
            linear.subtract(form(e, values, (), None), values.read((), var))
        ):
            return limit
    return None


def _value(e: ir.Expr, body: ir.Body) -> ir.Expr:
    """What a variable that is set once, when it is declared, stands for."""
    if isinstance(e, ir.Read):
        for s in statements(body):
            if isinstance(s, ir.Declare) and s.var == e.var and s.init is not None and e.var.temp:
                return s.init
    return e


def _deciding(stage: ir.Partition, loop: ir.For | None, body: ir.Body) -> list[tuple[int, int]]:
    """The branches around a stage's loop, or around the stage: which statement, and which of its arms."""
    path = [*_path(stage, body), stage]
    return [
        (x.number, _arm(x, path[k + 1 :]))
        for k, x in enumerate(path)
        if isinstance(x, ir.If) and (loop is None or _holds(x, loop))
    ]


def _arm(s: ir.If, inside: list[ir.Stmt]) -> int:
    """Which arm what follows on the path stands in."""
    return next(k for k, arm in enumerate((s.then, s.other)) if any(x is inside[0] for x in arm))


def _holds(outer: ir.Stmt, inner: ir.Stmt) -> bool:
    return any(x is inner for b in bodies(outer) for x in statements(b))


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
