"""Check collectives, and asynchronous copies of single elements: operations with an effect, each with a signature
(`ir/operations.py`).

Input: the tree of a call.  Output: a statement in `c.out` and the result as an expression.  Rule: the class holds the
group an operation requires, with its alignment (SNAP016); arguments are evaluated for the privileges its signature
names; the result has the privilege its signature gives.  Non-goals: operations with operands of their own kind
(check/operations/matrices.py, check/operations/tensor.py), atomics.
"""

from __future__ import annotations

import difflib

from snap._compiler.check.core import convert
from snap._compiler.check.core.constants import constant_int
from snap._compiler.check.core.dispatch import calls
from snap._compiler.check.core.explain import opened
from snap._compiler.check.core.operands import kept, result_for
from snap._compiler.check.core.scalars import choosing, condition, scalar
from snap._compiler.check.core.state import HOLDERS, PER_THREAD, Checker, ConstructKind, Want
from snap._compiler.check.memory.accesses import own_memory, writable
from snap._compiler.check.memory.storage import element_argument
from snap._compiler.check.operations.barriers import barrier_of_code, of_code
from snap._compiler.check.operations.boxes import box_copy
from snap._compiler.check.operations.expressions import has_effect
from snap._compiler.check.operations.hints import eviction
from snap._compiler.check.operations.matrices import ldmatrix, mma, stmatrix
from snap._compiler.check.operations.pure import math_call
from snap._compiler.frontend import tree
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.hardware import COPIED, PARTS, REGISTER_UNIT, SET_REGISTERS, SHUFFLE_WIDTHS, SLEEP
from snap._compiler.ir.operations import ALIASES, COLLECTIVES, MATH, CollectiveOp, ResultOf, SyncHalf, neutral
from snap._compiler.ir.types import (
    BLOCK1,
    BOOL,
    CLUSTER1,
    F32,
    GRID1,
    I32,
    THREAD1,
    U32,
    Held,
    Level,
    Privilege,
    ScalarKind,
    Space,
    meets_alone,
    scalar_of,
)
from snap.diag.span import Span
from snap.diag.wording import called, counted

NANOSLEEP = "`intrinsic.nanosleep(100)`, in a loop that waits: each thread rests for about 100 ns before it looks again"


@calls("intrinsic")
def _intrinsic(c: Checker, word: str, e: tree.Call, want: Want, used: bool) -> ir.Expr | None:
    name = word.partition(".")[2]
    if name in MATH:
        return math_call(c, name, e, want)
    op = COLLECTIVES.get(ALIASES.get(name, name))
    if op is None:
        close = difflib.get_close_matches(name.replace("sum", "add"), (*COLLECTIVES, *ALIASES), n=1)
        help = f"did you mean `intrinsic.{close[0]}`? " if close else ""
        help += f"collectives: {', '.join(COLLECTIVES)}"
        raise c.type_error(f"there is no intrinsic `{name}`", e.function.span, help=help)
    op = allowed(c, op, e.span)
    own = {"mma": mma, "ldmatrix": ldmatrix, "stmatrix": stmatrix, "setmaxnreg": _setmaxnreg}.get(name)
    return _plain(c, op, e, want) if own is None else own(c, op, e)


# T-Collective: op requires p, P holds p, aligned, all of p get here together => G |- op(...) @ P
# A collective is executed only where the class holds its group, aligned, and where no thread of the group can have
# taken another path. Where the class holds fewer threads than a warp, a part of the warp is the group, if the
# operation has masks.
def allowed(c: Checker, op: CollectiveOp, span: Span) -> CollectiveOp:
    """The operation as the group executes it that it stands in."""
    c.effects_allowed("a collective", span)
    around = c.innermost(ConstructKind.CONDITIONAL, ConstructKind.LOOP, *HOLDERS)
    if around is not None and around.kind is ConstructKind.CONDITIONAL:
        raise c.fail(
            "SNAP017",
            f"`{op.name}` is inside `and`, `or` or `if-else`, where some threads may not reach it",
            span,
            help="use an `if` statement, or compute it first",
        )
    if op.own:
        op = of_code(c, op, span)
    held = c.place.held(op.requires.level)
    if op.parts and held is not None and held.count in PARTS:
        part = Privilege(Level.THREAD, held.count, held.stride)
        op = op.by(part) if meets_alone(part) else op
    need = op.requires
    if held is None or not held.divides_into(need):
        raise c.fail(
            "SNAP016",
            f"`{op.name}` is executed by {need} together, and this code holds {c.place}",
            span,
            f"needs `{need}`",
            (c.holding,),
            note="executed by fewer threads it is undefined, or hangs",
            help=_way_out(c, op, held),
        )
    if not held.aligned_to(need.n):
        raise c.fail(
            "SNAP016",
            f"`{op.name}` needs `{need}` aligned to {need.n}, and these groups start at multiples of {held.align} only",
            span,
            f"needs `{need}`",
            (c.holding,),
            help=f"open a group that starts at multiples of {need.n}, `with group({need}):`, or make cases as large",
        )
    if op.requires == GRID1 and not c.cooperative:
        raise c.fail(
            "SNAP020",
            f"`{op.name}` is a barrier of the whole grid, which needs a cooperative launch",
            span,
            help="say so: `@kernel(..., cooperative=True)`, or `@requires(..., cooperative=True)`",
        )
    return op


def _way_out(c: Checker, op: CollectiveOp, held: Held | None) -> str:
    need = op.requires
    if need == CLUSTER1 and c.constructs[0].place is not None and c.constructs[0].place.held(Level.CLUSTER) is None:
        return "there are no clusters here: `@kernel(threads=256, cluster=2)`, or `@requires(grid[1], cluster[1], ...)`"
    count = 0 if held is None else held.count or 0
    if held is not None and held.stride is not None:
        what = f"`{Privilege(Level.THREAD, count, held.stride)}` are parts of several warps"
        return f"{what}, which only memory connects: let them write to shared memory, and read it after that scope"
    divides = [n for n in PARTS if count % n == 0 and held is not None and held.aligned_to(n)]
    if op.parts and count and divides:
        return (
            f"parts of a warp are 2, 4, 8 or 16 threads: `with group(thread[{divides[-1]}]):` divides these {count};"
            f" whole warps would take a multiple of {need.n}"
        )
    if op.name in ("syncwarp", "syncthreads", "sync_cluster", "sync_grid"):
        by_hand = f"call it from code at privilege `{need}`"
        if c.place.privilege != THREAD1:
            by_hand = f"write `intrinsic.sync()`, a barrier of `{c.place.privilege}` here; or {by_hand}"
        return (
            "leave it out: barriers are inferred, where an `each`, `partition` or `claim` ends; so end that scope"
            f" before this line, and begin another. By hand, {by_hand}"
        )
    if count < need.n:
        return f"call it from code at privilege `{need}`{opened(need)}, before going down to `{c.privilege}`"
    return f"`{need}` must divide the {need.level.word}s: require a multiple of {need.n}"


def _plain(c: Checker, op: CollectiveOp, e: tree.Call, want: Want) -> ir.Expr | None:
    options = dict(e.keywords)
    attrs: list[tuple[str, object]] = []
    if op.name.startswith("shfl") and "width" in options:
        width = constant_int(c, options.pop("width"), "`width`")
        if op.requires.stride is not None:
            raise c.type_error(
                f"`width=` is a number of neighbors, and the lanes of `{op.requires}` are at a stride",
                e.span,
                help="leave it out, or open a smaller group around the shuffle",
            )
        if width not in SHUFFLE_WIDTHS:
            raise c.type_error(
                "a shuffle's width is 2, 4, 8, 16 or 32",
                e.span,
                help="`width=16`; or open a group of that size, `with group(thread[16]):`, and leave `width=` out",
            )
        if width > op.requires.n:
            raise c.type_error(
                f"a width of {width} reaches beyond the {op.requires.n} threads that shuffle here",
                e.span,
                help=f"leave `width=` out: it is {op.requires.n} here",
            )
        attrs.append(("width", width))
    if op.name.startswith("broadcast") and "source" in options:
        attrs.append(("source", _source(c, op, options.pop("source"), e.span)))
    if op.half is not SyncHalf.BOTH:
        attrs.append(("barrier", barrier_of_code(c)))
    where = options.pop("where", None) if op.name.startswith("reduce_") else None
    if options or len(e.args) != len(op.args):
        help = "join the two conditions: `v > 3 and c`" if "where" in options and op.result == BOOL else ""
        raise c.type_error(
            f"`{op.name}` takes {counted(len(op.args), 'argument')}"
            + (f" and no `{next(iter(options))}`" if options else ""),
            e.span,
            help=help,
        )
    returns, args = op.returns, list[ir.Expr]()
    for i, (argument, privilege) in enumerate(zip(e.args, op.args)):
        value, mark = None, len(c.out)
        if op.name == "shfl" and i == 1 and not attrs:
            with c.trial() as uniform:
                value = scalar(c, argument, Want(op.requires, ""))
            returns = op.requires if uniform else THREAD1
        if where is not None:
            value = _of_some(c, op, argument, where)
        elif value is None:
            same = Want(privilege, f"must be the same for {op.requires}", agree=True)
            value = scalar(c, argument, PER_THREAD if privilege == THREAD1 else same)
        args = [*kept(c, mark, *zip(args, op.args)), _typed_argument(c, op, i, value, argument.span)]
    target: tuple[ir.Target, ...] = ()
    value = None
    if op.result is not None:
        type = args[0].type if op.result is ResultOf.FIRST else op.result
        into, value = result_for(c, op.name, f"intrinsic.{op.name}", type, returns, want, e.span)
        target = (into,)
    c.out.append(ir.Collective(op.name, op.requires, c.place, target, tuple(args), attrs=tuple(attrs), span=e.span))
    return value


# The thread whose value all are given is there in every launch: of the blocks of a grid, those that are promised.
def _source(c: Checker, op: CollectiveOp, given: tree.Expr, span: Span) -> int:
    source = constant_int(c, given, "`source`")
    threads = c.place[Level.THREAD].count
    if threads is not None and op.requires != BLOCK1:
        at_most = c.place[Level.BLOCK].count
        held = c.place.held(Level.CLUSTER)
        clusters = 1 if op.requires == CLUSTER1 or held is None else held.count or 1
        threads = None if at_most is None else threads * at_most * clusters
    if source < 0 or threads is not None and source >= threads:
        none = f"there is no thread {source} in this {op.requires.level.word}"
        if op.requires == GRID1 and source > 0:
            none = f"a launch may have no thread {source}"
        raise c.type_error(
            none, span, help=f"give one of 0 to {threads - 1}, which every launch has" if threads else ""
        )
    return source


# A lane for which the condition does not hold contributes what changes nothing, and does not evaluate its value.
def _of_some(c: Checker, op: CollectiveOp, argument: tree.Expr, where: tree.Expr) -> ir.Expr:
    """`argument if where else neutral`: by an `if` where the value contains a call."""
    called = has_effect(c, argument)
    cond = condition(c, where, choosing(c, PER_THREAD) if called else PER_THREAD)
    with c.block() as body, c.construct(ConstructKind.CONDITIONAL, argument.span, ""):
        value = _typed_argument(c, op, 0, scalar(c, argument, PER_THREAD), argument.span)
    type = scalar_of(value.type)
    nothing = ir.Const(neutral(op.name.removeprefix("reduce_"), type), type, span=where.span)
    if not called:
        c.out.extend(body)
        return ir.Select(cond, value, nothing, type, span=argument.span)
    result = c.temp("chosen", value.type, THREAD1, argument.span)
    given, none = (ir.Assign(ir.VarTarget(result, span=argument.span), v, span=argument.span) for v in (value, nothing))
    c.out.append(ir.Declare(result, None, span=argument.span))
    c.out.append(ir.If(cond, (*body, given), (none,), span=argument.span))
    return ir.Read(result, value.type, span=argument.span)


def _typed_argument(c: Checker, op: CollectiveOp, i: int, value: ir.Expr, span: Span) -> ir.Expr:
    if op.votes:
        return convert.cast(value, BOOL)
    if op.name.startswith("shfl") and i == 1:
        if not convert.is_integer(value):
            raise c.type_error("a lane is an integer", span, help=f"cast it: `{called('int', span)}`")
        return convert.cast(value, I32)
    value, type = convert.settled(value), scalar_of(value.type)
    if op.name in ("reduce_and", "reduce_or", "reduce_xor") and not type.is_integer:
        raise c.type_error(
            f"`{op.name}` takes integers, not `{type}`",
            span,
            help="`reduce_add`, `reduce_min` and `reduce_max` take floats",
        )
    if op.name.startswith("reduce_") and type == BOOL:
        return convert.cast(value, I32)
    if op.name.startswith("match") and type.bits < 32:
        return convert.cast(value, I32 if not type.is_float else F32)
    return value


def _setmaxnreg(c: Checker, op: CollectiveOp, e: tree.Call) -> None:
    if len(e.args) != 1 or e.keywords:
        raise c.type_error("`setmaxnreg` takes the number of registers", e.span, help="`intrinsic.setmaxnreg(240)`")
    places = [construct.place for construct in c.constructs if construct.place is not None]
    strided = next((place for place in places if place[Level.THREAD].stride is not None), None)
    if strided is not None:
        raise c.fail(
            "SNAP016",
            f"`setmaxnreg` is for roles, whose threads follow one another, and those of `{strided.privilege}` do not",
            e.span,
            secondary=(c.holding,),
            help="call it outside of the groups at a stride: `roles(256, 128, registers=(232, 40))`",
        )
    n = constant_int(c, e.args[0], "the number of registers")
    least, most = SET_REGISTERS
    if not least <= n <= most or n % REGISTER_UNIT:
        raise c.type_error(
            f"a thread can have {least}, {least + REGISTER_UNIT}, ... {most} registers, a multiple of {REGISTER_UNIT},"
            f" not {n}",
            e.args[0].span,
            help="`registers=(232, 40)` of `roles`, or `intrinsic.setmaxnreg(232)`",
        )
    c.out.append(ir.Collective("setmaxnreg", op.requires, c.place, (), (), attrs=(("n", n),), span=e.span))


# How long a thread rests is its own matter.  What is said beyond the most that the hardware takes counts as that, and
# what is below 0 as 0; of a constant it is an error, since it is not what was meant.
@calls("intrinsic.nanosleep")
def _nanosleep(c: Checker, word: str, e: tree.Call, want: Want, used: bool) -> None:
    c.effects_allowed("a sleep", e.span)
    if len(e.args) != 1 or e.keywords:
        raise c.type_error("`intrinsic.nanosleep` takes how long, in nanoseconds", e.span, help=NANOSLEEP)
    value = scalar(c, e.args[0], PER_THREAD)
    type = scalar_of(value.type)
    if not type.is_integer:
        raise c.type_error(
            f"`intrinsic.nanosleep` takes nanoseconds, an integer, not `{type}`", e.args[0].span, help=NANOSLEEP
        )
    if isinstance(value, ir.Const) and not 0 <= value.value <= SLEEP:
        raise c.type_error(
            f"a thread sleeps for 0 to {SLEEP} nanoseconds at a time, not {value.value}",
            e.args[0].span,
            note="it sleeps about so long, or up to twice as long: no time that a program can count on",
            help="sleep for less, in the loop that looks again: `while atomic.load(ready, i) == 0:"
            " intrinsic.nanosleep(100)`",
        )
    signed, short = type.kind is ScalarKind.INT, type.bits < I32.bits
    type = I32 if short else type
    value = convert.cast(value, type)
    for name, end, reached in (("max", 0, signed), ("min", SLEEP, not short)):
        if reached and not isinstance(value, ir.Const):
            value = ir.Math(name, (value, ir.Const(end, type, span=e.span)), type, span=e.span)
    c.out.append(ir.Sleep(convert.cast(value, U32), span=e.span))


# ---- asynchronous copies ------------------------------------------------------------------------------------------


# T-Async-Memcpy: x[i] : t shared, may be assigned, G |- y[j] : t @ thread[1] global
#     => G |- async_copy(x[i], y[j]) @ P
# An element of global memory is copied into shared memory that this thread may write. The compiler waits until it has
# arrived.
@calls("async_copy")
def _async_copy(c: Checker, word: str, e: tree.Call, want: Want, used: bool) -> None:
    if "at" in dict(e.keywords):
        box_copy(c, e)
        return
    c.effects_allowed("a copy", e.span)
    options = dict(e.keywords)
    where, first, l2 = options.pop("valid", None), options.pop("elements", None), eviction(c, options)
    if len(e.args) != 2 or options:
        raise c.type_error(
            (
                "`async_copy` takes where to and where from"
                if len(e.args) != 2
                else f"`{next(iter(options))}=` is an option of TMA copies, which have `at=`"
            ),
            e.span,
            help=(
                "cp.async of an element: `async_copy(mine[i], x[j])`, zero where it is not `valid=j < n`, of a vector"
                " the first `elements=n - 4 * j`; a TMA box: `async_copy(tile, a, at=(i, j))`"
            ),
        )
    to, target = element_argument(c, e.args[0], PER_THREAD, "`async_copy`")
    writable(c, to, e.args[0].span)
    mark = len(c.out)
    source_memory, source = element_argument(c, e.args[1], PER_THREAD, "`async_copy`")
    (target,) = kept(c, mark, (target, THREAD1))
    if to.handle.obj.space is Space.GLOBAL or source_memory.handle.obj.space is Space.SHARED:
        raise c.type_error(
            "`async_copy` of an element goes from global to shared memory",
            e.span,
            help="`async_copy(mine[i], x[j])`: shared memory first, then global memory; the other way is an assignment",
        )
    if to.elem != source_memory.elem or to.elem.bytes not in COPIED:
        raise c.type_error(
            f"`async_copy` moves equal elements of 4, 8 or 16 bytes, not `{source_memory.elem}` to `{to.elem}`",
            e.span,
            help="view both as a vector: `x.view(float4)[i]`",
        )
    own_memory(c, target, "`async_copy`")
    if where is not None and first is not None:
        raise c.type_error(
            "`valid=` and `elements=` both say what is read",
            first.span,
            help="`elements=` alone: where it is 0 or less, nothing is read (`elements=n - i if c else 0`)",
        )
    mark, valid, elements = len(c.out), None, None
    if where is not None:
        valid = condition(c, where, PER_THREAD)
    elif first is not None:
        elements = _read_elements(c, source, first)
    target, source = kept(c, mark, (target, THREAD1), (source, THREAD1))
    c.out.append(ir.AsyncCopy(target, source, valid, l2, elements, span=e.span))


# How many elements of the array itself are read, from 0 to all that the copied element consists of; what is said beyond
# either end counts as that end, so that `n - 4 * i` is right everywhere.
def _read_elements(c: Checker, source: ir.MemAccess, e: tree.Expr) -> ir.Expr:
    own, copied = source.view.obj.elem, source.view.elem
    all_of_it, rest = divmod(copied.bytes, own.bytes)
    if rest or not all_of_it:
        raise c.type_error(
            f"`elements=` counts elements of `{source.handle.name}`, `{own}`, and a `{copied}` is not made of them",
            e.span,
            help="say with `valid=` whether the element is read",
        )
    value = scalar(c, e, PER_THREAD)
    type = scalar_of(value.type)
    if not type.is_integer:
        raise c.type_error(
            f"`elements=` is how many elements of `{source.handle.name}` are read, an integer, not `{value.type}`",
            e.span,
            help="`valid=` takes a condition" if value.type == BOOL else f"`elements=n - {all_of_it} * i`",
        )
    type = I32 if type.bits < I32.bits else type
    value = convert.cast(value, type)
    for name, end in (("min", all_of_it), ("max", 0)):
        value = ir.Math(name, (value, ir.Const(end, type, span=e.span)), type, span=e.span)
    return convert.cast(value, I32)
