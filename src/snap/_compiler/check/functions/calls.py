"""Check calls: words of the language that look like calls, and device functions.

Input: the tree of a call and the target of its value. Output: a pure expression, or statements in `c.out`. Device
functions are checked against their signature alone (SNAP008, SNAP015), then instantiated for what this call gives them.
Invariant: a function is instantiated once for all calls that have it alike. Non-goals: operations with a word of their
own (check/operations/).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import reduce

from snap._compiler.check.core.bindings import IndexFunction, Memory, RoleName, Variable
from snap._compiler.check.core.constants import constant_int
from snap._compiler.check.core.dispatch import CALLS, calls, evaluates
from snap._compiler.check.core.explain import group_words, held_here, write_up
from snap._compiler.check.core.foreign import of_cuda
from snap._compiler.check.core.known import note_value
from snap._compiler.check.core.lookups import level_of
from snap._compiler.check.core.names import as_definition, as_type, math_name, resolve
from snap._compiler.check.core.operands import result_for
from snap._compiler.check.core.outside import describe_object, instead_of
from snap._compiler.check.core.records import RecordName, RecordType
from snap._compiler.check.core.specs import SpecKind
from snap._compiler.check.core.state import Abort, Checker, Instance, Want
from snap._compiler.check.functions.arguments import Incoming, arguments, bound, inherit, satisfied
from snap._compiler.check.functions.function import instantiate
from snap._compiler.check.functions.inferred import constexprs_of
from snap._compiler.check.functions.records import as_written, fields_given
from snap._compiler.check.functions.signatures import Header, read_header
from snap._compiler.check.memory.storage import storage
from snap._compiler.check.operations.pure import cast_call, math_call
from snap._compiler.check.operations.record_types import type_of
from snap._compiler.check.operations.records import CALLED
from snap._compiler.frontend import tree
from snap._compiler.frontend.definition import Definition
from snap._compiler.frontend.printer import expression as expression_text
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.effects import computes
from snap._compiler.ir.hardware import GRID_DIMENSIONS, WARP
from snap._compiler.ir.operations import MATH
from snap._compiler.ir.types import BLOCK1, GRID1, I32, Level, Place, Privilege
from snap.diag.error import Diagnostic, Label, SnapError
from snap.diag.span import Span
from snap.record import replace
from snap.surface import Marker

_CALLED = (
    "a kernel calls functions with `@device(...)` or `@inline`, intrinsics (`intrinsic.shfl(...)`), types"
    " (`float(x)`) and mathematical functions (`sqrt(x)`)"
)


@evaluates(tree.Call)
def _value(c: Checker, e: tree.Call, want: Want) -> ir.Expr:
    value = call(c, e, want)
    if value is None and c.records and (type := type_of(c, e)) is not None:
        raise _a_record(c, type, e)
    if value is None:
        help = "call it on a line of its own; a function that returns a value declares it: `-> int`"
        raise c.type_error("this call returns nothing", e.span, "used as a value", help=help)
    return value


def _a_record(c: Checker, type: RecordType, e: tree.Call) -> Abort:
    text, first = expression_text(e), type.fields[0][0]
    field = f"{text}[{first}]" if type.is_tuple else f"{text}.{first}"
    return c.type_error(f"this is a `{type}`, and one value is wanted here", e.span, help=f"take a field: `{field}`")


def _record_called(c: Checker, e: tree.Call, want: Want) -> RecordName:
    """The record that a device function returns."""
    call(c, e, want, used=False)
    assert c.called_record is not None
    return c.called_record


CALLED.append(_record_called)


def call(c: Checker, e: tree.Call, want: Want, used: bool = True) -> ir.Expr | None:
    if (
        isinstance(e.function, tree.Attribute)
        and e.function.name == "view"
        and storage(c, e.function.value) is not None
    ):
        storage(c, e)
        raise c.type_error("a view is memory or an array, not a value", e.span, help="index it: `x.view(float4)[i]`")
    found = resolve(c, e.function) if isinstance(e.function, (tree.Name, tree.Attribute, tree.Known)) else None
    type = as_type(found)
    if type is not None:
        return cast_call(c, type, e, want)
    name = math_name(found)
    if name is not None:
        return math_call(c, name, e, want)
    if isinstance(found, Marker):
        return _word(c, found.word, e, want, used)
    if c.records and (made := type_of(c, e)) is not None and as_definition(found) is None:
        raise _a_record(c, made, e)
    definition = as_definition(found)
    if definition is not None:
        return device_call(c, definition, getattr(found, "bound", {}), e, want, used)
    if isinstance(found, IndexFunction):
        raise c.fail(
            "SNAP017",
            "an index function is used by `partition(..., f=...)`; it cannot be called",
            e.span,
            help="write it as a `def`, outside, with `@device(thread)` above it, or with `@inline`",
        )
    if isinstance(found, RoleName):
        raise c.fail(
            "SNAP017",
            f"`{found.name}` is a role: it belongs to a `with` statement",
            e.span,
            help=f"`with {found.name}(...):`",
        )
    word = e.function.name if isinstance(e.function, tree.Attribute) else ""
    if isinstance(found, (Variable, Memory)) or found is None:
        barrier = of_cuda("__syncthreads") if word == "sync" else None  # `grid.sync()`, as cooperative groups have it
        launched = as_definition(resolve(c, e.function.value)) if isinstance(e.function, tree.Subscript) else None
        if launched is not None and launched.kernel:
            raise _launched(c, launched, e)
        raise c.type_error(
            "`sync` is not written: barriers are inferred" if barrier else "this cannot be called",
            e.function.span,
            help=barrier[1] if barrier else _CALLED,
        )
    given = ", ".join(map(expression_text, e.args))
    raise c.type_error(
        f"this cannot be called in Snap: it is {describe_object(found)}",
        e.function.span,
        help=f"write `{word}({given})`" if word in MATH else instead_of(found, expression_text(e.function)) or _CALLED,
    )


def _word(c: Checker, word: str, e: tree.Call, want: Want, used: bool) -> ir.Expr | None:
    rule = CALLS.get(word) or CALLS.get(word.partition(".")[0])
    if rule is not None:
        return rule(c, word, e, want, used)
    raise c.type_error(
        f"`{word}(...)` belongs to an annotation", e.span, help=f"write it after a colon: `x: {word}(...)`"
    )


@calls("range", "unroll", "strided")
def _loop(c: Checker, word: str, e: tree.Call, want: Want, used: bool) -> None:
    raise c.fail("SNAP017", f"`{word}(...)` belongs to a `for` loop", e.span, help=f"`for i in {word}(...):`")


_WHOLE = {
    "roles": "`compute, load = roles(256, 128)`",
    "ids": "`i, j = ids(thread, shape=(16, 16))`",
    "registers": "`x, y = registers(float[4], float[8])`",
}


@calls(*_WHOLE)
def _right_side(c: Checker, word: str, e: tree.Call, want: Want, used: bool) -> None:
    raise c.fail("SNAP017", f"`{word}(...)` is the whole right side of an assignment", e.span, help=_WHOLE[word])


@calls("group", "partition", "claim", "stage", "turn", "each", "one")
def _scope(c: Checker, word: str, e: tree.Call, want: Want, used: bool) -> None:
    help = f"`with {expression_text(e)}{' as i' * (word == 'each')}:`, and what it is for indented below it"
    raise c.fail("SNAP017", f"`{word}(...)` belongs to a `with` statement", e.span, help=help)


@calls("split")
def _split(c: Checker, word: str, e: tree.Call, want: Want, used: bool) -> None:
    raise c.fail("SNAP017", "`split(...)` belongs to a `match` statement", e.span, help="`match split(thread):`")


@calls("divmod")
def _divmod(c: Checker, word: str, e: tree.Call, want: Want, used: bool) -> None:
    raise c.type_error("`divmod(...)` gives two values", e.span, help="`i, j = divmod(t, 8)`")


@calls("tile")
def _tile(c: Checker, word: str, e: tree.Call, want: Want, used: bool) -> None:
    raise c.type_error("a tile is memory, not a value", e.span, help="index it, or pass it to a function")


# T-Partition-Id: P holds p => G |- id() : int @ p
# `id()` is the index of the target's unit within the code's current group: 0 for the group itself.
@calls("id")
def _id(c: Checker, word: str, e: tree.Call, want: Want, used: bool) -> ir.Expr:
    if e.args or e.keywords:
        raise c.type_error(
            "`id()` takes no argument: its target says whose index it is", e.span, help="`i: int @ thread[1] = id()`"
        )
    target = c.index_privilege or want.privilege
    if not c.privilege.at_least(target) or not c.place.holds(target):
        write_up(c, target, "an index", e.span)
        raise c.poisoned()
    if target == c.privilege:
        # Nobody asks a group for its index in itself; written with `@`, in generic code, it may be meant.
        if want.implied:
            raise c.type_error(
                f"`id()` is asked for {group_words(target)} in itself, which is always 0",
                e.span,
                "no privilege says whose index is meant",
                help="say whose: `i: int @ thread[1] = id()`, where the code still holds several threads",
            )
        return ir.Const(0, I32, span=e.span)
    value = ir.UnitId(target, c.place, I32, span=e.span)
    if c.index_privilege is None:
        return value
    unit = c.remembered("unit", value, target)  # an index function may be applied where positions mean something else
    note_value(c, unit.var, value)
    return unit


# T-Count: P holds p => G |- count(p) : int @ P
# `count(p)` is how many units of p the current group has. Of its own one unit (`count(block[1])` in code of a block)
# the silent 1 is a mistake, and refused. `count(block, axis)` is an extent of the grid, as it was launched.
@calls("count")
def _count(c: Checker, word: str, e: tree.Call, want: Want, used: bool) -> ir.Expr:
    if not 1 <= len(e.args) <= 2 or e.keywords:
        help = "`count(thread[1])`; `count(block, 1)` is an extent of the grid"
        raise c.type_error("`count` takes a privilege", e.span, help=help)
    if len(e.args) == 2:
        return _extent(c, e)
    p = level_of(c, e.args[0], "count")
    if not c.privilege.at_least(p) or not c.place.holds(p):
        note = help = ""
        if p.level > c.privilege.level or p.level is c.privilege.level and p.n > c.privilege.n:
            note = f"code at `{c.privilege}` has no units of `{p}` to count; code at `{p}` has one, itself"
            help = f"ask before going down, where there are several: `n: int = count({p})`"
        write_up(c, p, "a count", e.args[0].span, note=note, help=help)
        raise c.poisoned()
    if p == c.privilege and p.n == 1:
        above = {Level.THREAD: "block", Level.GRID: ""}.get(p.level, "grid")
        raise c.type_error(
            f"this code is at `{p}`, one {p.level.word}: there is nothing to count",
            e.span,
            secondary=() if p.level is Level.GRID else (c.holding,),
            help=f"ask in the code of the {above}, where there are several: `n: int = count({p})`"
            if above
            else "write 1; of blocks and threads there are several: `count(block[1])`",
        )
    counts = [None if held.open else held.count for level, held in c.place.levels if level >= p.level]
    fixed = [count for count in counts if count is not None]
    if len(fixed) < len(counts):
        return ir.UnitCount(p, c.place, I32, span=e.span)
    return ir.Const(math.prod(fixed) // p.n, I32, span=e.span)


def _extent(c: Checker, e: tree.Call) -> ir.Expr:
    p, axis = level_of(c, e.args[0], "count"), constant_int(c, e.args[1], "the dimension")
    if p != BLOCK1 or not 0 <= axis < GRID_DIMENSIONS:
        raise c.type_error(
            f"a grid has blocks in dimensions 0, 1 and 2, and this asks for dimension {axis} of `{p}`",
            e.span,
            help="`count(block, 1)`: how many blocks there are in a row of `k[m, n]`",
        )
    if not c.definition.kernel or c.privilege.level is not Level.GRID:
        inside = "a device function" if not c.definition.kernel else f"code at `{c.privilege}`"
        raise c.type_error(
            f"the shape of the grid is asked for by the code of the grid, and this is {inside}",
            e.span,
            secondary=() if not c.definition.kernel else (c.holding,),
            help="ask where the kernel begins, and pass it on: `columns: int = count(block, 1)`",
        )
    var = c.grid_extents.get(axis)
    if var is None:
        var = c.grid_extents[axis] = c.var(f"grid_{axis}", I32, GRID1, e.span)
    return ir.Read(var, I32, span=e.span)


# ---- device functions -----------------------------------------------------------------------------------------------


def _launched(c: Checker, definition: Definition, e: tree.Call) -> Abort:
    return c.type_error(
        f"`{definition.tree.name}` is a kernel: Python launches it, and kernels do not call it",
        e.span,
        help=(
            "move what both need into a function with `@device(...)` or `@inline`; or launch one kernel after the other"
        ),
    )


# T-Function-Call: f requires Q, P satisfies Q, G |- ei : ti @ pi, f returns t @ q => G |- f(e1, ..., en) : t @ q
# The code holds what the function requires, aligned as it requires it. Arguments fit the parameters' privileges. The
# result is used for q or below.
def device_call(
    c: Checker, definition: Definition, fixed: Mapping[str, object], e: tree.Call, want: Want, used: bool
) -> ir.Expr | None:
    """`fixed`: constexprs that `.specialize(...)` has given already."""
    name = definition.tree.name
    if definition.kernel:
        raise _launched(c, definition, e)
    # By its own name Python would call this function, whatever the name was before.
    own = isinstance(e.function, tree.Name) and e.function.id == c.definition.tree.name
    if own or definition in c.program.active:
        raise c.fail("SNAP017", f"`{name}` calls itself: recursion is not Snap", e.span, help="write a loop")
    c.effects_allowed("a call", e.span)
    given = bound(c, as_written(definition), fixed, e)
    constexprs = constexprs_of(c, as_written(definition).tree.params, fixed, given, name, e.span)
    try:
        header = read_header(definition, constexprs)
    except SnapError as error:
        raise c.fail(
            error.code,
            f"`{name}` cannot be called so: {error.message}",
            e.span,
            secondary=(Label(definition.tree.head, "defined here"),),
            help="mend the call, or the requirements of the function",
        ) from None
    satisfied(c, header, e.span, name)
    before: list[ir.Stmt] = []
    after: list[ir.Stmt] = []
    record: RecordName | None = None
    if definition.records is not None:
        given, record, before, after = fields_given(c, header, given, e.span)
    together = _together(c, header, constexprs, want, e.span) if used else None
    args, handles, incoming, captured = arguments(c, header, given, e, together)
    instance = _instance(c, header, constexprs, incoming, e.span)
    function = instance.function
    args = [*args, *(ir.Read(var, var.type, span=e.span) for var in captured)]
    handles = [*handles, *(None for _ in captured)]
    inherit(c, instance, handles, e.span)
    if function.cooperative and not c.cooperative:
        raise c.fail(
            "SNAP020", f"`{name}` needs a cooperative launch", e.span, help="say so: `@requires(..., cooperative=True)`"
        )
    offset = _held_by(c, instance, definition.requires.smem or 0, e.span)
    target = value = None
    if header.returns is not None and used:
        type, q = header.returns
        help = _for_all(name, want.privilege)
        q = want.privilege if together else q
        target, value = result_for(c, f"{name}_result", name, type, q, want, e.span, help)
    c.uses_unsafe |= function.uses_unsafe
    c.out.extend(before)
    c.out.append(ir.Call(function, tuple(args), tuple(handles), target, c.place, offset, span=e.span))
    c.out.extend(after)
    c.called_record = record  # last: arguments are calls, too
    return value


def _instance(
    c: Checker, header: Header, constexprs: Mapping[str, object], incoming: Mapping[str, Incoming], span: Span
) -> Instance:
    definition = header.definition
    try:
        return instantiate(c.program, definition, constexprs, c.place, incoming)
    except SnapError as error:
        name = definition.tree.name
        c.errors.extend(_of_the_instance(err.diagnostic, name, header, constexprs, c.place, span) for err in error.all)
        raise c.poisoned() from None


# T-Pure-Call: f does nothing but compute, P satisfies Q, G |- ei : ti @ p, p <= P, f returns t @ q
#     => G |- f(e1, ..., en) : t @ p
# What such a function returns is as uniform as its arguments, whichever threads call it: it has no memory, no `id()` or
# `count()`, no collectives or atomics, and prints nothing.
def _together(c: Checker, header: Header, constexprs: Mapping[str, object], want: Want, span: Span) -> Want | None:
    """For whom the arguments are evaluated, where the result is wanted for more than the function returns it for."""
    if header.returns is None or header.returns[1].at_least(want.privilege) or not held_here(c, want.privilege):
        return None
    params = [p for p in header.params if p.spec.kind is not SpecKind.CONSTEXPR]
    if any(p.spec.kind is not SpecKind.VALUE for p in params):
        return None
    if not computes(_instance(c, header, constexprs, {}, span).function, ir.Assert):
        return None
    return replace(want, privilege=reduce(Privilege.joined, (p.privilege for p in params), want.privilege))


def _of_the_instance(
    found: Diagnostic, name: str, header: Header, constexprs: Mapping[str, object], caller: Place, span: Span
) -> Diagnostic:
    """An error in the body of a function, as one call has it: with the call, and what the call decides."""
    levels = [(p, caller.held(p.level)) for p in header.requires[1:]]
    counts = [f"`{Privilege(p.level, held.count)}`" for p, held in levels if held and held.count not in (None, p.n)]
    values = [f"`{key} = {value}`" for key, value in constexprs.items()]
    with_what = ", ".join(counts + values)
    label = Label(span, f"`{name}` is called here" + f" with {with_what}" * bool(with_what))
    return replace(found, secondary=(*found.secondary, label)) if label not in found.secondary else found


def _for_all(name: str, p: Privilege) -> str:
    """Say how one value comes of it for the whole group that calls it."""
    level = {Privilege(Level.THREAD, WARP): "warp", Privilege(p.level, 1): p.level.word}.get(p, str(p))
    return (
        f"let the group call it as one, `@device({level})` above `{name}`, or put it in place of the call by `@inline`;"
        " else declare the destination at `thread[1]`"
    )


def _held_by(c: Checker, instance: Instance, declared: int, span: Span) -> int:
    """Find where the shared memory of a called function begins; it is released when the function returns."""
    size, align = instance.function.smem, instance.smem_align
    offset = c.room(size, align) if size else c.smem_used
    c.smem_align = max(c.smem_align, align)
    c.account(offset + max(size, declared), span)
    if size:
        c.smem_left = (offset, offset + size)
    return offset
