"""Apply views: how an array's elements are seen before its units get their parts.

Input: the tree of `view=...`, or a `View` bound outside, and the memory it is of.  Output: the index function and the
extents of what a unit of p gets.  Invariant: a view shows every element at most once, but for `windows` whose step is
below their width, which are only read; so units that select different rows of a view get different elements, as long as
they stay within its extents.  Non-goals: that they stay within them at run time, and that a number divides an extent
which is known at a launch only (what is left over is nobody's).

A view is applied to extents, of which those that nobody knows are None, and gives new extents and a function from the
new indices to the old ones.  What is applied last is asked first: `chunks(64) >> transposed()` takes `[i, c]`, makes
`[c, i]` of it, and then `c * 64 + i`.

The unit's number selects: it takes the dimensions that the view adds, at least one, the last the fastest.  With
`view=V[r, c]` the program selects by itself.  Of memory that is at p already nothing is selected: the unit sees its own
in another order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from snap._compiler.check.core import convert
from snap._compiler.check.core.bindings import Memory
from snap._compiler.check.core.lookups import units_here, where
from snap._compiler.check.core.names import resolve
from snap._compiler.check.core.short import unit_number
from snap._compiler.check.core.state import Abort, Checker
from snap._compiler.frontend import tree
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import GRID1, I32, THREAD1, Privilege
from snap.diag.error import Label
from snap.diag.source import written
from snap.diag.span import Span
from snap.record import record
from snap.surface import View, ViewWord

Index = tuple[ir.Expr, ...]
ViewExtents = tuple["ir.Expr | None", ...]


@record
class ViewStep:
    """One view: its word, its numbers, and for `mapped` the steps that each row is seen by."""

    word: str
    numbers: tuple[ir.Expr, ...]
    inner: tuple[ViewStep, ...]
    span: Span


@record
class SeenMemory:
    """Show memory through a view: its extents, and for indices below them those of the memory.  first: of what is seen,
    the first dimension is this one of the memory itself, and so are the following ones; None where that is not so.
    """

    extents: ViewExtents
    place: Callable[[Index], Index]
    first: int | None = None


# ---- reading a view -------------------------------------------------------------------------------------------------


def steps_of(c: Checker, e: tree.Expr, number: Callable[[tree.Expr], ir.Expr]) -> tuple[ViewStep, ...]:
    """The steps of a view as it is written.  number: how an argument is checked."""
    match e:
        case tree.Binary(">>", left, right):
            return (*steps_of(c, left, number), *steps_of(c, right, number))
        case tree.Call(function, arguments, keywords):
            found = resolve(c, function) if isinstance(function, (tree.Name, tree.Attribute)) else None
            if isinstance(found, ViewWord):
                return (_called(c, found, arguments, keywords, e, number),)
        case tree.Name() | tree.Attribute() | tree.Known():
            found = resolve(c, e)
            if isinstance(found, View):
                return tuple(_captured(step, e.span) for step in found.steps)
            if isinstance(found, ViewWord):
                raise _misfit(c, f"`{found.word}` is called: `{found.word}{found.signature}`", e.span)
    words = "`, `views.".join([*RULES, "split_at"])
    raise _misfit(c, "this is not a view", e.span, help=f"views are `views.{words}`, composed with `>>`")


def _called(
    c: Checker,
    found: ViewWord,
    arguments: tuple[tree.Expr, ...],
    keywords: tuple,
    e: tree.Expr,
    number: Callable[[tree.Expr], ir.Expr],
) -> ViewStep:
    word, wanted = found.word.removeprefix("views."), found.signature.count(":")
    if keywords or len(arguments) != wanted:
        raise _misfit(
            c,
            f"`{found.word}{found.signature}` takes {wanted} argument{'' if wanted == 1 else 's'} without keywords",
            e.span,
        )
    if word == "mapped":
        return ViewStep(word, (), steps_of(c, arguments[0], number), e.span)
    return ViewStep(word, tuple(number(a) for a in arguments), (), e.span)


def _captured(step: tuple[str, tuple], span: Span) -> ViewStep:
    word, numbers = step
    if word == "mapped":
        return ViewStep(word, (), tuple(_captured(inner, span) for inner in numbers[0].steps), span)
    return ViewStep(word, tuple(ir.Const(n, I32, span=span) for n in numbers), (), span)


# ---- what a view means ----------------------------------------------------------------------------------------------


def applied(
    c: Checker, steps: tuple[ViewStep, ...], memory: Memory, divisions: list[ir.Division] | None = None
) -> SeenMemory:
    """The memory as its view shows it; what the view divides is added to `divisions`."""
    name, rank = memory.handle.name, memory.rank
    extents: ViewExtents = memory.shape if memory.shape is not None else (None,) * rank
    seen = SeenMemory(extents, lambda index: index, 0 if memory.map is None else None)
    for step in steps:
        seen = _after(c, step, seen, name, memory, divisions)
    return seen


def _after(
    c: Checker, step: ViewStep, seen: SeenMemory, name: str, memory: Memory, divisions: list[ir.Division] | None = None
) -> SeenMemory:
    here, outer = _meaning(c, step), seen.place
    if len(seen.extents) < here.rank:
        raise _misfit(
            c,
            f"`views.{step.word}` is of {here.rank} dimensions, and what it sees of `{name}` has {len(seen.extents)}",
            step.span,
            labels=(Label(memory.handle.span, f"`{name}`"),),
        )
    made = here.show(Asked(c, step, name, seen.first, divisions), seen.extents)
    return SeenMemory(made.extents, lambda index: outer(made.place(index)), made.first)


def _meaning(c: Checker, step: ViewStep) -> ViewRule:
    if step.word in RULES:
        return RULES[step.word]
    why = "comes last" if step.word == "split_at" else "is not a view of one array"
    raise _misfit(c, f"`views.{step.word}` {why}", step.span)


@record
class Asked:
    """A view that is being applied: where it stands, and what it is of.  first: as of what it sees; divisions: what was
    divided so far.
    """

    c: Checker
    step: ViewStep
    name: str
    first: int | None = None
    divisions: list[ir.Division] | None = None

    def binary(self, op: str, a: ir.Expr, b: ir.Expr) -> ir.Expr:
        match op, a, b:
            case ("+", ir.Const(0), e) | ("+", e, ir.Const(0)) | ("*" | "/", e, ir.Const(1)):
                return e
        return convert.binary(op, a, b, self.step.span)

    def least(self, a: ir.Expr, b: ir.Expr) -> ir.Expr:
        if isinstance(a, ir.Const) and isinstance(b, ir.Const):
            return a if a.value <= b.value else b
        type = convert.accepted(a, b)
        return ir.Math("min", (convert.cast(a, type), convert.cast(b, type)), type, span=self.step.span)

    def const(self, value: int) -> ir.Expr:
        return ir.Const(value, I32, span=self.step.span)

    def known(self, extent: ir.Expr | None) -> ir.Expr:
        """An extent without which the view means nothing."""
        if extent is None:
            raise _misfit(
                self.c,
                f"`views.{self.step.word}` needs to know how many elements it sees of `{self.name}`",
                self.step.span,
                help=f"declare the shape, `{self.name}: ptr(T, (n,))`, or say it in the view: `views.upto(n) >> ...`",
            )
        return extent

    def positive(self, number: ir.Expr, what: str = "") -> ir.Expr:
        if isinstance(number, ir.Const) and number.value < 1:
            raise _misfit(
                self.c,
                f"`views.{self.step.word}` takes a positive number{what}, not {number.value}",
                self.step.span,
                help="`views.chunks(64)`",
            )
        return number

    def divided(self, extent: ir.Expr | None, by: ir.Expr, dimension: int = 0) -> ir.Expr | None:
        """Divide the extent by the number, without a rest as far as the text tells."""
        told = isinstance(extent, ir.Const) and isinstance(by, ir.Const)
        if self.divisions is not None and self.first is not None and not told:
            self.divisions.append(ir.Division(self.first + dimension, extent, by, span=self.step.span))
        if extent is None:
            return None
        if isinstance(extent, ir.Const) and isinstance(by, ir.Const) and extent.value % by.value:
            whole = extent.value // by.value * by.value
            raise _misfit(
                self.c,
                f"{by.value} does not divide {extent.value}: no unit would get the last {extent.value - whole} of"
                f" `{self.name}`",
                self.step.span,
                help=f"leave them out with `views.upto({whole}) >> ...`" if whole else "choose a smaller number",
            )
        return self.binary("/", extent, by)


Rule = Callable[[Asked, ViewExtents], SeenMemory]


def _chunks(a: Asked, extents: ViewExtents) -> SeenMemory:
    k = a.positive(a.step.numbers[0])
    return SeenMemory(
        (a.divided(extents[0], k), k, *extents[1:]),
        lambda i: (a.binary("+", a.binary("*", i[0], k), i[1]), *i[2:]),
    )


def _interleaved(a: Asked, extents: ViewExtents) -> SeenMemory:
    k = a.positive(a.step.numbers[0])
    return SeenMemory(
        (k, a.divided(extents[0], k), *extents[1:]),
        lambda i: (a.binary("+", a.binary("*", i[1], k), i[0]), *i[2:]),
    )


def _tiles(a: Asked, extents: ViewExtents) -> SeenMemory:
    height, width = (a.positive(n) for n in a.step.numbers)
    down, across = a.divided(extents[0], height), a.divided(extents[1], width, 1)
    return SeenMemory(
        (down, across, height, width, *extents[2:]),
        lambda i: (
            a.binary("+", a.binary("*", i[0], height), i[2]),
            a.binary("+", a.binary("*", i[1], width), i[3]),
            *i[4:],
        ),
    )


def _joined(a: Asked, extents: ViewExtents) -> SeenMemory:
    m = a.known(extents[1])
    whole = None if extents[0] is None else a.binary("*", extents[0], m)
    return SeenMemory((whole, *extents[2:]), lambda i: (a.binary("/", i[0], m), a.binary("%", i[0], m), *i[1:]))


def _transposed(a: Asked, extents: ViewExtents) -> SeenMemory:
    return SeenMemory((extents[1], extents[0], *extents[2:]), lambda i: (i[1], i[0], *i[2:]))


def _backwards(a: Asked, extents: ViewExtents) -> SeenMemory:
    last = a.binary("-", a.known(extents[0]), a.const(1))
    return SeenMemory(extents, lambda i: (a.binary("-", last, i[0]), *i[1:]))


def _upto(a: Asked, extents: ViewExtents) -> SeenMemory:
    (k,) = a.step.numbers
    _within(a, k, extents[0])
    return SeenMemory((k, *extents[1:]), lambda i: i, a.first)


def _after_first(a: Asked, extents: ViewExtents) -> SeenMemory:
    (k,) = a.step.numbers
    _within(a, k, extents[0])
    rest = None if extents[0] is None else a.binary("-", extents[0], k)
    return SeenMemory((rest, *extents[1:]), lambda i: (a.binary("+", k, i[0]), *i[1:]))


def _within(a: Asked, k: ir.Expr, extent: ir.Expr | None) -> None:
    if isinstance(k, ir.Const) and (k.value < 0 or isinstance(extent, ir.Const) and k.value > extent.value):
        there = f", which has {extent.value} there" if isinstance(extent, ir.Const) else ""
        raise _misfit(a.c, f"`views.{a.step.word}` divides `{a.name}`{there} at {k.value}", a.step.span)


def _through(outer: Callable[[Index], Index], inner: Callable[[Index], Index], index: Index) -> Index:
    return outer(inner(index))


def _mapped(a: Asked, extents: ViewExtents) -> SeenMemory:
    inner = SeenMemory(extents[1:], lambda i: i, None if a.first is None else a.first + 1)
    for step in a.step.inner:
        rule, before = _meaning(a.c, step), inner.place
        if len(inner.extents) < rule.rank:
            raise _misfit(
                a.c,
                f"`views.{step.word}` is of {rule.rank} dimensions, and a row of `{a.name}` has {len(inner.extents)}",
                step.span,
            )
        made = rule.show(Asked(a.c, step, a.name, inner.first, a.divisions), inner.extents)
        inner = SeenMemory(made.extents, partial(_through, before, made.place), made.first)
    return SeenMemory((extents[0], *inner.extents), lambda i: (i[0], *inner.place(i[1:])))


def _banded(a: Asked, extents: ViewExtents) -> SeenMemory:
    g, down, across = a.positive(a.step.numbers[0]), a.known(extents[0]), a.known(extents[1])
    band_size = a.binary("*", g, across)

    def place(i: Index) -> Index:
        top = a.binary("*", a.binary("/", i[0], band_size), g)
        inside, left = a.binary("%", i[0], band_size), a.binary("-", down, top)
        high = a.least(g, left)
        return (a.binary("+", top, a.binary("%", inside, high)), a.binary("/", inside, high), *i[1:])

    return SeenMemory((a.binary("*", down, across), *extents[2:]), place)


def _swizzled(a: Asked, extents: ViewExtents) -> SeenMemory:
    k = a.positive(a.step.numbers[0])
    if isinstance(k, ir.Const) and int(k.value) & (int(k.value) - 1):
        raise _misfit(a.c, f"`views.swizzled` takes a power of two, not {k.value}", a.step.span)
    a.divided(extents[1], k, 1)
    return SeenMemory(extents, lambda i: (i[0], a.binary("^", i[1], a.binary("%", i[0], k)), *i[2:]))


def _windows(a: Asked, extents: ViewExtents) -> SeenMemory:
    k, step = a.positive(a.step.numbers[0]), a.positive(a.step.numbers[1], " of elements, and one of steps")
    count = None if extents[0] is None else a.binary("+", a.binary("/", a.binary("-", extents[0], k), step), a.const(1))
    return SeenMemory((count, k, *extents[1:]), lambda i: (a.binary("+", a.binary("*", i[0], step), i[1]), *i[2:]))


@record
class ViewRule:
    """Say what a view does to extents and indices. rank: how many dimensions it looks at."""

    show: Rule
    rank: int


RULES: dict[str, ViewRule] = {
    "chunks": ViewRule(_chunks, 1),
    "interleaved": ViewRule(_interleaved, 1),
    "tiles": ViewRule(_tiles, 2),
    "joined": ViewRule(_joined, 2),
    "transposed": ViewRule(_transposed, 2),
    "backwards": ViewRule(_backwards, 1),
    "upto": ViewRule(_upto, 1),
    "after": ViewRule(_after_first, 1),
    "mapped": ViewRule(_mapped, 2),
    "banded": ViewRule(_banded, 2),
    "swizzled": ViewRule(_swizzled, 2),
    "windows": ViewRule(_windows, 1),
}


def overlapping(steps: tuple[ViewStep, ...]) -> ViewStep | None:
    """The step that shows an element more than once, or may."""
    for step in steps:
        if step.word == "windows":
            k, apart = step.numbers
            if not (isinstance(k, ir.Const) and isinstance(apart, ir.Const) and apart.value >= k.value):
                return step
        if (inner := overlapping(step.inner)) is not None:
            return inner
    return None


# ---- whose part is whose --------------------------------------------------------------------------------------------

Piece = tuple[tuple["ir.Var", ...], Index, "tuple[ir.Expr, ...] | None"]


def selected(
    c: Checker, e: tree.Expr, memory: Memory, p: Privilege, s: tree.With, number: Callable[[tree.Expr], ir.Expr]
) -> tuple[list[Piece], tuple[ir.Division, ...]]:
    """Select what a unit of p gets: parameters, the memory's indices for them, and the extents where all are known; and
    what the view divides.
    """
    e, chosen = (e.value, e.index) if isinstance(e, tree.Subscript) else (e, None)
    steps = steps_of(c, e, number)
    split = steps[-1] if steps[-1].word == "split_at" else None
    if bool(split) != bool(s.names) or len(s.names) > 2:
        raise two_names(c, s)
    if (step := overlapping(steps)) is not None and not memory.handle.const:
        raise _misfit(
            c,
            "windows that begin less than their width apart overlap: several units would own the same elements of"
            f" `{memory.handle.name}`",
            step.span,
            labels=(Label(memory.handle.span, "not const"),),
            help="only const memory is seen so; windows whose constant step is at least their constant width are apart",
        )
    divisions: list[ir.Division] = []
    seen = applied(c, steps[:-1] if split else steps, memory, divisions)
    added = len(seen.extents) - memory.rank
    own = memory.handle.privilege == p  # the unit has all of it already
    count = len(chosen) if chosen is not None else 0 if own else max(added, 1)
    if count > len(seen.extents):
        raise _misfit(c, f"the view shows {len(seen.extents)} dimensions, and {count} are selected", e.span)
    if chosen is None:
        _enough(c, seen.extents[:count], memory.handle.name, p, e.span)
    select = tuple(map(number, chosen)) if chosen is not None else _digits(c, seen, count, p, s, e.span)
    halves = _halves(c, split, seen, count, memory) if split else (seen,)
    return [_part(c, half, select, s) for half in halves], tuple(divisions)


# The unit's number says which place is its own: as far as constants tell, there is one for each unit.
def _enough(c: Checker, extents: ViewExtents, name: str, p: Privilege, span: Span) -> None:
    units, places = units_here(c, p), [n.value for n in extents if isinstance(n, ir.Const)]
    if units is None or not extents or len(places) < len(extents) or math.prod(map(int, places)) >= units:
        return
    have, who = math.prod(map(int, places)), "threads" if p == THREAD1 else f"units of `{p}`"
    view = written(span) or "..."
    own = f"`view={f'({view})' if '>>' in view else view}[{', '.join('ij'[: len(extents)])}]`"
    raise _misfit(
        c,
        f"the view of `{name}` has {have} place{'s' * (have != 1)}, and there are {units} {who} here",
        span,
        labels=where(c),
        help=f"choose a view with a place for each; or, where only some use one, select by an index of your own: {own}",
    )


def _part(c: Checker, seen: SeenMemory, select: Index, s: tree.With) -> Piece:
    left = seen.extents[len(select) :]
    params = tuple(c.temp(name, I32, GRID1, s.head) for name in "ijklmn"[: max(len(left), 1)])
    inner = tuple(ir.Read(var, I32, span=s.head) for var in params) if left else ()
    shape = left or (ir.Const(1, I32, span=s.head),)  # a single element is `mine[0]`
    known = tuple(extent for extent in shape if extent is not None)
    return params, seen.place((*select, *inner)), known if len(known) == len(shape) else None


def _digits(c: Checker, seen: SeenMemory, count: int, p: Privilege, s: tree.With, span: Span) -> Index:
    """The unit's number, taken apart by the extents it selects in, the last the fastest."""
    if not count:
        return ()
    asked = Asked(c, ViewStep("tiles", (), (), span), "the memory")
    _, unit = unit_number(c, s.head, p, s)
    rest: ir.Expr = ir.Read(unit.var, unit.var.type, span=span)
    digits: list[ir.Expr] = []
    for extent in reversed(seen.extents[1:count]):
        if extent is None:
            raise _misfit(
                c,
                "a unit's number is taken apart by the number of tiles in a row, which the text does not tell",
                span,
                help="select with indices of your own, `view=views.tiles(16, 16)[r, c]`, or declare the memory's shape",
            )
        digits.append(asked.binary("%", rest, extent))
        rest = asked.binary("/", rest, extent)
    return (rest, *reversed(digits))


def _halves(c: Checker, split: ViewStep, seen: SeenMemory, count: int, memory: Memory) -> tuple[SeenMemory, SeenMemory]:
    """The two parts of what a unit gets, divided along its first dimension."""
    if count >= len(seen.extents):
        raise _misfit(c, f"nothing is left of `{memory.handle.name}` to divide", split.span)
    (k,), asked, at = split.numbers, Asked(c, split, memory.handle.name), count
    _within(asked, k, seen.extents[at])
    extent = seen.extents[at]
    rest = None if extent is None else asked.binary("-", extent, k)
    right = lambda i: seen.place((*i[:at], asked.binary("+", k, i[at]), *i[at + 1 :]))  # noqa: E731
    before, behind = seen.extents[:at], seen.extents[at + 1 :]
    return SeenMemory((*before, k, *behind), seen.place), SeenMemory((*before, rest, *behind), right)


def two_names(c: Checker, s: tree.With) -> Abort:
    span = s.names[0][1].to(s.names[-1][1]) if s.names else s.name_span or s.head
    return _misfit(
        c,
        "`views.split_at` makes two parts, and no other view does" if s.names else "`views.split_at` makes two parts",
        span,
        help="`with partition(x, p=block[1], view=views.split_at(k)) as (left, right):`",
    )


# ---- two arrays handed out alike ------------------------------------------------------------------------------------


def zipped(c: Checker, call: tree.Call) -> tuple[tree.Expr, ...] | None:
    """The arrays of `partition(views.zipped(x, y), ...)`."""
    match call:
        case tree.Call(args=(tree.Call(tree.Attribute() | tree.Name() as function, arrays), *_)):
            found = resolve(c, function)
            return arrays if isinstance(found, ViewWord) and found.word == "views.zipped" else None
    return None


def unzipped(c: Checker, s: tree.With, arrays: tuple[tree.Expr, ...]) -> tree.Body:
    """One partition in the other."""
    if len(arrays) != 2 or len(s.names) != 2:
        raise _misfit(
            c,
            "`views.zipped` hands out two arrays under two names",
            s.head,
            help="`with partition(views.zipped(x, y), p=thread[1], view=views.chunks(4)) as (a, b):`",
        )
    made, call = s.body, s.call
    for array, (name, span) in reversed(list(zip(arrays, s.names))):
        one = tree.Call(call.function, (array, *call.args[1:]), call.keywords, span=call.span)
        made = (tree.With(one, name, made, span, s.head, form=s.form, span=s.span),)
    return made


def _misfit(c: Checker, message: str, span: Span, labels: tuple = (), help: str = "") -> Abort:
    return c.fail("SNAP028", message, span, "", labels, help=help or "`view=views.chunks(64) >> views.transposed()`")
