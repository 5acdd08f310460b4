"""Fills that the program numbers itself, `stage(x, k)` (SNAP021): do their numbers go up, and is what is used there?

Input: a function; and of a pipeline into which boxes are loaded, the stages in which they are, and those in which they
are used.  Output: nothing, or why not.  Two rules:

  every pipeline     no number certainly goes back: not in a loop, not with an outer loop that starts it over, not from
                     one fill to the next.  A number that the text does not show is taken as it comes
  one with boxes     the loads, in the order of the text, are certainly fills 0, 1, 2, ...; a use of fill f comes after
                     the load of f and before that of f + depth.  A wait for a fill that was never loaded, or is no
                     longer there, would never end

The second is decided for numbers of the form `k + c` in loops that count by one, with guards that compare such numbers
with something the loop does not change; other forms are refused.  Non-goals: fills that the compiler counts; whether a
pipeline's stages are all counted or all numbered (check/statements/stages.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.forms import Form
from snap._compiler.analysis.linear.values import facts, form
from snap._compiler.analysis.syntactic import SameText, Text, direction, first_values, trip_of
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.effects import assigned, puts_into
from snap._compiler.ir.walk import bodies, callees, lifetimes, loop_values, statements, variables, walk, ways_out
from snap.diag.error import Diagnostic, Label, SnapError
from snap.diag.span import Span

UNUSED = (
    "load what is used and no more: where the loop may end sooner than the first fills, guard them with its limit, `if"
    " k < n:`"
)


WHY = (
    "what waits for a fill, and for its slot to be free, counts on numbers that only go up over the pipeline's lifetime"
)
LOOPS = (ir.For, ir.While)


def stages_of(obj: ir.MemObject, body: ir.Body) -> list[ir.Partition]:
    """The stages of a pipeline, in the order of the text."""
    return [
        s
        for s in statements(body)
        if isinstance(s, ir.Partition) and s.handle.origin is ir.Origin.STAGE and s.handle.obj.uid == obj.uid
    ]


class _Stage:
    """Locate a stage: the statements around it in the pipeline's lifetime, outermost first; and its fill's number as
    written.
    """

    def __init__(self, stage: ir.Partition, body: ir.Body):
        self.stage = stage
        self.around = _path(stage, body)
        self.loops = [s for s in self.around if isinstance(s, LOOPS)]
        self.number = _value(stage.number_of_fill, body)

    def arm(self, s: ir.If) -> int:
        """Find the arm of one of these statements that it is in."""
        inside = [*self.around, self.stage][self.around.index(s) + 1]
        return next(k for k, arm in enumerate((s.then, s.other)) if any(x is inside for x in arm))


# ---- every pipeline: what certainly goes back -----------------------------------------------------------------------


def refuse_going_back(function: synced.Function) -> None:
    """Raises SnapError with all fills of the function, and of those it calls, whose numbers certainly go back."""
    found: list[Diagnostic] = []
    for f in callees(function):
        if any(isinstance(s, ir.Partition) and s.fill is not None and not s.counted for s in statements(f.body)):
            text = Text(_first_value(f.body), proofs=False)
            for declared, body, _ in lifetimes(f.body):
                found += _Numbers(declared.handle, body, text, f.body).going_back()
    if found:
        raise SnapError(found[0], found[1:])


def _first_value(body: ir.Body) -> Callable[[ir.Var], tuple[ir.Expr, ...] | None]:
    values = first_values(body)
    return lambda var: values.get(var.uid)


class _Numbers:
    """The numbers of one pipeline's fills, as far as the text tells."""

    def __init__(self, pipeline: ir.Handle, body: ir.Body, text: Text, whole: ir.Body):
        self.pipeline, self.text, self.whole = pipeline, text, whole
        numbered = (s for s in stages_of(pipeline.obj, body) if not s.counted and puts_into(s.body, s.handle))
        self.fills = [_Stage(s, body) for s in numbered]

    def going_back(self) -> list[Diagnostic]:
        """At most one for each fill."""
        found = (
            self._downwards(f) or self._starting_over(f) or self._after_higher(f, k) for k, f in enumerate(self.fills)
        )
        return [one for one in found if one is not None]

    def _in_loop(self, f: _Stage, message: str, label: str, loop: ir.Stmt, there: str, help: str) -> Diagnostic:
        labels = Label(loop.span, there), Label(self.pipeline.span, "its fills count from here on")
        return Diagnostic("SNAP021", message, f.stage.span, label, labels, WHY, help)

    # In a loop that counts down, or a number that does.
    def _downwards(self, f: _Stage) -> Diagnostic | None:
        name = self.pipeline.name
        for loop in f.loops:
            if isinstance(loop, ir.For) and direction(f.number, loop.var, self.text) < 0:
                message = f"the fills of `{name}` are numbered downwards"
                help = f"number them upwards, or leave the number out: `with stage({name}) as s:`"
                return self._in_loop(f, message, "smaller in every round", loop, "of this loop", help)
        return None

    # Of two nested loops in the pipeline's lifetime, the number follows the inner one only: whatever else it reads is
    # older than the outer one, and nothing assigns it.
    def _starting_over(self, f: _Stage) -> Diagnostic | None:
        name, read = self.pipeline.name, set(variables(f.number))
        counting = {s.var for s in statements(self.whole) if isinstance(s, ir.For)}
        if read & (_changed(self.whole) - counting):
            return None
        for k, inner in enumerate(f.loops):
            if not isinstance(inner, ir.For) or inner.var not in read:
                continue
            for outer in f.loops[:k]:
                moving = {v for s in statements((outer,)) for v in assigned(s)} - counting
                if isinstance(outer, ir.For) and outer.var in read or moving & read:
                    continue
                message = f"the fills of `{name}` start over with every round of an outer loop"
                label = f"numbered by `{inner.var.name}` alone"
                help = (
                    f"number them over both loops; or take counted stages, `with stage({name}) as s:`, each around a"
                    " fill and its uses"
                )
                return self._in_loop(f, message, label, outer, "starts it over", help)
        return None

    def _after_higher(self, f: _Stage, k: int) -> Diagnostic | None:
        name = self.pipeline.name
        for earlier in self.fills[:k]:
            if _exclusive(earlier, f) or not self._lower(f, earlier):
                continue
            numbers = [self.text.of(x.number) for x in (f, earlier)]
            rises = all(map(forms.is_number, numbers)) and numbers[0][0] > numbers[1][0]  # until the next round
            return Diagnostic(
                "SNAP021",
                f"`{name}` is filled out of order: this fill comes {'before' if rises else 'after'} one with a "
                f"{'lower' if rises else 'higher'} number",
                f.stage.span,
                "in the next round of the loop, that one follows" if rises else "a lower number",
                (Label(earlier.stage.span, "a lower number" if rises else "filled here before"),),
                note=WHY,
                help=f"number the fills by the loop, or leave the number out: `with stage({name}) as s:`",
            )
        return None

    def _lower(self, f: _Stage, earlier: _Stage) -> bool:
        """Return whether its number is lower than that of `earlier`, or becomes so in the next round of a loop around
        both.
        """
        common = [loop for loop, other in zip(f.loops, earlier.loops) if loop is other]
        if not common:
            low, high = self._end(f, 0), self._end(earlier, 1)
            return low is not None and high is not None and low < high
        here, there = (self.text.of(x.number) for x in (f, earlier))
        if forms.is_number(here) and forms.is_number(there):
            return here != there
        if not isinstance(common[-1], ir.For):
            return False
        var = self.text.read((), common[-1].var)
        here, there = forms.subtract(here, var), forms.subtract(there, var)
        return forms.is_number(here) and forms.is_number(there) and here[0] < there[0]

    def _end(self, f: _Stage, end: int) -> int | None:
        """The first (end 0) or last number that a stage takes, where the text tells; a loop is taken to run twice where
        its bounds do not say.
        """
        number, moves = self.text.of(f.number)
        last: dict[object, int] = {}
        for loop in f.loops:
            if isinstance(loop, ir.For) and not any(
                isinstance(s, ir.If) and loop.var in variables(s.cond) for s in f.around
            ):
                values = loop_values(loop)
                last[trip_of(loop.var)] = 1 if values is None else len(values) - 1
        if any(last.get(atom, -1) < 0 for atom, _ in moves):
            return None
        return number + end * sum(by * last[atom] for atom, by in moves)


def _exclusive(a: _Stage, b: _Stage) -> bool:
    """Return whether they stand in different branches of one `if`."""
    common = [one for one, other in zip(a.around, b.around) if one is other]
    return bool(common) and isinstance(common[-1], ir.If) and a.arm(common[-1]) != b.arm(common[-1])


# ---- boxes: what is certainly in order ------------------------------------------------------------------------------


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
            "not every fill that is loaded is certainly used, and no thread waits for the others", left[0].span, UNUSED
        )


# Every fill is used, so that its load has ended before the slot is filled again, and before the block is gone.
def _all_of_them(use: Numbered, load: Numbered, limits: list[Form], last: tuple[Numbered, list[Form]]) -> bool:
    """All that this load loads: it stops no later than the use does."""
    if use.loop is None or not all(_at_most(x, -use.more) for x in use.low):
        return False
    if use.loop is not last[0].loop and not all(map(forms.is_number, last[1])):
        return False
    return all(_below(limits, _plus(h, use.more)) for h in use.high)


def _each_by_number(uses: list[Numbered], total: list[Form]) -> bool:
    numbers = {use.more for use in uses if use.loop is None}
    return any(forms.is_number(x) and set(range(x[0])) <= numbers for x in total)


def _below(limits: list[Form], most: Form) -> bool:
    """Return whether what is below all of these limits is certainly below that one."""
    return any(_at_most(forms.subtract(limit, most), 0) for limit in limits)


def _at_most(x: Form, n: int) -> bool:
    return forms.is_number(x) and x[0] <= n


def _numbered(stage: ir.Partition, body: ir.Body, values: SameText) -> Numbered:
    at = _Stage(stage, body)
    number = form(at.number, values, (), None)
    if not at.loops:
        if not forms.is_number(number):
            raise Unordered("its number is not a constant", stage.span)
        return Numbered(stage, None, number[0], [], [])
    loop = at.loops[-1]
    if len(at.loops) > 1:
        raise Unordered(
            "its numbers begin again in an outer loop; without a number, `stage(x)`, they are counted on", stage.span
        )
    for way_out in ways_out(loop.body):
        raise Unordered("some iterations leave it early", way_out.span)
    if not isinstance(loop, ir.For) or not isinstance(loop.step, ir.Const) or loop.step.value != 1:
        raise Unordered("its loop does not count by one", loop.span)
    more = forms.subtract(number, values.read((), loop.var))
    if not forms.is_number(more):
        raise Unordered("its number is not the loop's variable, plus or minus a constant", stage.span)
    low, high = ([form(e, values, (), None)] for e in (loop.start, loop.stop))
    inside = {s.var.uid for s in statements(loop.body) if isinstance(s, ir.Declare)}
    if not _stays(loop.stop, body, set()):
        raise Unordered("what its loop counts to is not one value as long as it lives", loop.span)
    for s in at.around[at.around.index(loop) :]:
        if isinstance(s, ir.If):
            limit = _limit(s.cond, loop.var, values)
            if limit is None or not _stays(limit, body, inside):
                raise Unordered("what decides whether it is filled is not a limit of the loop's variable", s.span)
            (known,) = facts(s.cond, at.arm(s) == 0, values, (), None)
            var = values.read((), loop.var)
            if dict(known[1])[var[1][0][0]] > 0:  # var + rest >= 0
                low.append(forms.subtract(var, known))
            else:  # rest - var >= 0
                high.append(_plus(forms.add(known, var), 1))
    return Numbered(stage, loop, more[0], low, high)


# The loads, one after the other, number 0, 1, 2, ...; where something stops one of them early, it stops those that
# follow, too.
def _in_order(loads: list[Numbered]) -> Loads:
    found: Loads = []
    expected = 0
    for n in loads:
        start = forms.number(n.more) if n.loop is None else _plus(n.low[0], n.more)
        if len(n.low) > 1 or start != forms.number(expected):
            raise Unordered("its loads are not in the order 0, 1, 2, ...", n.stage.span)
        limits = [forms.number(n.more + 1)] if n.loop is None else [_plus(h, n.more) for h in n.high]
        for before, stops in found:
            if not all(_below(limits, limit) for limit in stops if not forms.is_number(limit)):
                raise Unordered("how many are loaded before is not known", before.stage.span, UNUSED)
        found.append((n, limits))
        numbers = [limit[0] for limit in limits if forms.is_number(limit)]
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
    if not any(forms.is_number(x) and x[0] + use.more >= 0 for x in use.low):
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
            *(limit for _, limits in filled[:-1] for limit in limits if not forms.is_number(limit)),
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
    return forms.add(x, forms.number(more))


# Limits of two loops are compared, and so is what a loop began with and what its iterations ask: they must be the same
# numbers.
def _stays(e: ir.Expr, body: ir.Body, inside: set[int]) -> bool:
    """Return whether the expression has one value as long as the pipeline lives.  `inside`: what is declared anew in
    each iteration.
    """
    read = {v.uid for v in variables(e)}
    if read & inside or any(isinstance(part, ir.Load) and not part.access.handle.obj.const for part in walk(e)):
        return False
    return not any(v.uid in read for v in _changed(body))


def _changed(body: ir.Body) -> set[ir.Var]:
    """Find the variables that get more than the value that it is declared with: loop variables, too."""
    return {v for s in statements(body) if not isinstance(s, ir.Declare) for v in assigned(s)}


def _limit(cond: ir.Expr, var: ir.Var, values: SameText) -> ir.Expr | None:
    """Find what the condition compares the variable with, if it compares one that is more or less by a number
    with it.
    """
    if not isinstance(cond, ir.Compare) or cond.op in ("==", "!="):
        return None
    for e, limit in ((cond.left, cond.right), (cond.right, cond.left)):
        if var not in variables(limit) and forms.is_number(
            forms.subtract(form(e, values, (), None), values.read((), var))
        ):
            return limit
    return None


def _value(e: ir.Expr, body: ir.Body) -> ir.Expr:
    """Return what a variable that is set once, when it is declared, stands for."""
    if isinstance(e, ir.Read):
        for s in statements(body):
            if isinstance(s, ir.Declare) and s.var == e.var and s.init is not None and e.var.temp:
                return s.init
    return e


def _deciding(stage: ir.Partition, loop: ir.For | None, body: ir.Body) -> list[tuple[int, int]]:
    """The branches around a stage's loop, or around the stage: which statement, and which of its arms."""
    at = _Stage(stage, body)
    outside = at.around if loop is None else at.around[: at.around.index(loop)]
    return [(s.number, at.arm(s)) for s in outside if isinstance(s, ir.If)]


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
