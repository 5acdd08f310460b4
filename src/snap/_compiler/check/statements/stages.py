"""Check stages of a pipeline, and turns.

Input: the tree of `with stage(...)` or `with turn()`.  Output: a `Partition` with a fill, or a `Turn`.  Invariant: the
stages of a pipeline are all counted or all numbered, numbers that the text shows are not negative, and a counted stage
that is used is filled (SNAP021); all units reach a turn equally often.  Non-goals: whether numbers come in order
(sync/pipelines/numbered.py, over the whole kernel); when a slot is free, who waits for whom (sync/).
"""

from __future__ import annotations

from snap._compiler.check.core import convert
from snap._compiler.check.core.bindings import IndexMap, Memory, Pipeline, StageUse
from snap._compiler.check.core.dispatch import body, opens
from snap._compiler.check.core.explain import declared
from snap._compiler.check.core.known import decided_below
from snap._compiler.check.core.names import resolve
from snap._compiler.check.core.scalars import scalar
from snap._compiler.check.core.state import Abort, Checker, Construct, ConstructKind, NotOpened, Want
from snap._compiler.check.memory.accesses import mapped
from snap._compiler.check.memory.shared import across
from snap._compiler.frontend import tree
from snap._compiler.frontend.changes import assigned_names
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.effects import looks_at, puts_into
from snap._compiler.ir.hardware import WARP
from snap._compiler.ir.types import BLOCK1, GRID1, I32, Level, Place, Privilege
from snap.diag.error import Label
from snap.diag.span import Span
from snap.diag.wording import called


# T-Stage: x : pipeline(t, n) @ p, p <= P, G + y : t @ p |- s @ P => G |- with stage(x, k) as y: s @ P
# A stage is one slot of a pipeline, fill number modulo the depth, at the pipeline's privilege.
@opens("stage")
def _stage(c: Checker, s: tree.With, tail: bool) -> None:
    args = s.call.args
    found = resolve(c, args[0]) if args and isinstance(args[0], tree.Name) else None
    if not isinstance(found, Pipeline) or len(args) > 2 or s.call.keywords or s.name is None:
        raise c.not_opened(
            "SNAP018",
            "`stage` takes a pipeline, maybe the number of a fill, and gives a name",
            s.head,
            help="`with stage(tiles) as t:`, `with stage(tiles, k) as t:`",
        )
    base = found.memory.handle
    if not c.privilege.at_least(base.privilege):
        raise c.not_opened(
            "SNAP005",
            f"`{base.name}` is at `{base.privilege}`, above this code's `{c.privilege}`: its stages cannot be taken"
            " here",
            s.head,
            secondary=declared(base),
            help=f"take the stage in code of the whole {base.privilege.level.word}, and split or group inside it",
        )
    try:
        fill = _fill(c, found, args, s)
    except Abort:
        raise NotOpened from None
    _counted_or_numbered(c, found, StageUse(len(args) == 1, s.head))
    moves = isinstance(fill, ir.Read) and fill.var.name in set(assigned_names(s.body))
    if moves or not isinstance(fill, (ir.Read, ir.Const)):
        fill = c.remembered(f"{s.name}_fill", fill, base.privilege, s.head)
    depth = ir.Const(found.depth, I32, span=s.head)
    number = convert.cast(convert.binary("%", fill, depth, s.head), I32)
    slot = c.remembered(f"{s.name}_slot", number, base.privilege, s.head)
    handle = ir.Handle(
        c.program.uid(), s.name, base.obj, base.privilege, False, ir.Origin.STAGE, base, span=s.name_span or s.head
    )
    shape = (found.memory.shape or ())[1:]
    params = tuple(c.temp(f"k{i}", I32, GRID1, s.head) for i in range(len(shape)))
    results = (slot, *(ir.Read(p, I32, span=s.head) for p in params))
    map = IndexMap(params, mapped(found.memory, results))
    memory = Memory(handle, found.memory.view, map, shape, record=found.memory.record)
    if found.blocks is not None:
        memory = across(c, memory, found.blocks, s.head)
    refused = len(c.errors)
    with c.block() as out, c.construct(ConstructKind.MEMORY, s.head, f"a stage of `{base.name}`"):
        c.bind(s.name, memory)
        body(c, s.body, tail)
    if len(args) == 1 and len(c.errors) == refused:
        _is_filled(c, base.name, handle, tuple(out), s.head)
    c.out.append(ir.Partition(base, handle, c.place, tuple(out), fill, len(args) == 1, span=s.head))


def _fill(c: Checker, pipeline: Pipeline, args: tuple[tree.Expr, ...], s: tree.With) -> ir.Expr:
    """The number of the fill: the one given, else the next of the pipeline's lifetime."""
    p = pipeline.memory.handle.privilege
    if len(args) == 2:
        value = scalar(c, args[1], Want(p, f"names one fill for `{p}`", agree=True))
        if not convert.is_integer(value):
            raise c.type_error(
                "the number of a fill is an integer", args[1].span, help=f"cast it: `{called('int', args[1].span)}`"
            )
        if isinstance(value, ir.Const) and value.value < 0:
            raise c.fail(
                "SNAP021",
                f"fills are numbered from 0, and this is {value.value}",
                args[1].span,
                help="`with stage(t, k) as s:` with k from 0 on",
            )
        return convert.settled(value)
    count = ir.Read(pipeline.fills, I32, span=s.head)
    number = c.remembered(f"{s.name}_fill", count, p, s.head)
    following = convert.binary("+", count, ir.Const(1, I32, span=s.head), s.head)
    c.out.append(ir.Assign(ir.VarTarget(pipeline.fills, span=s.head), following, span=s.head))
    return number


# The next fill is the one after those counted, whatever numbers were named in between.
def _counted_or_numbered(c: Checker, pipeline: Pipeline, use: StageUse) -> None:
    other = next((u for u in pipeline.stages if u.counted != use.counted), None)
    name = pipeline.memory.handle.name
    if other is not None:
        here, there = (
            ("counts on", "names the fill's number")
            if use.counted
            else ("names the fill's number", "takes the next fill")
        )
        c.report(
            "SNAP021",
            f"stages of `{name}` are taken both in turn and by number",
            use.span,
            f"{here} here",
            (Label(other.span, f"{there} here"),),
            note="the next fill is the one after those counted, whatever numbers were named in between",
            help=f"name the number everywhere, `stage({name}, k)`, or nowhere",
        )
    pipeline.stages.append(use)


# Each counted stage is a new fill: what it contains is to be put there first.
def _is_filled(c: Checker, name: str, handle: ir.Handle, inside: ir.Body, span: Span) -> None:
    if looks_at(inside, handle) and not puts_into(inside, handle):
        c.report(
            "SNAP021",
            f"nothing is put into this stage of `{name}`",
            span,
            "the next fill, which stays empty",
            note=f"`with stage({name})` is the next fill each time, around what fills it and what uses it",
            help=f"use it where it is filled; or name the fill, `stage({name}, k)`, in every stage of `{name}`",
        )


def _turn_help(place: Place) -> str:
    """Say what is missing between the grid and the turn: a block, a group of threads in it, or both."""
    threads = "`with group(warp):`, or another group of whole warps, around the turn: its units take turns"
    if place.top is Level.THREAD:
        return "open `with group(block[1]):` around the group whose units take turns"
    if place.privilege == BLOCK1:
        return f"open {threads}"
    return f"open `with group(block[1]):`, and in it {threads}"


# T-Turn: P = (block[1])/p, p is whole warps, every p gets here equally often, G |- s @ P => G |- with turn(): s @ P
# The units of the group around, within one block, run the body one after another. Each of them must reach it, and as
# often as the others.
@opens("turn")
def _turn(c: Checker, s: tree.With, tail: bool) -> None:
    if s.call.args or s.call.keywords or s.name is not None:
        raise c.not_opened("SNAP018", "`turn` takes nothing, and gives no name", s.head, help="`with turn():`")
    outer = _takers(c, s.head)
    place = c.place
    with c.block() as out, c.construct(ConstructKind.TURN, s.head, "this turn"):
        body(c, s.body, tail=False)
    c.out.append(ir.Turn(outer, place, tuple(out), span=s.head))


def _takers(c: Checker, span: Span) -> Place:
    """Find what is divided into the groups that take turns: they are made of whole warps of one block, and reach the
    turn equally often.
    """
    around = c.innermost(ConstructKind.TURN)
    if around is not None:
        raise c.not_opened(
            "SNAP020",
            "a turn inside of a turn",
            span,
            "the units would wait for one another here",
            (Label(around.span, "only one of them is inside this turn"),),
            help="leave the outer turn first",
        )
    construct = c.holder
    k = c.constructs.index(construct)
    outer = c.constructs[max(k - 1, 0)].place
    if construct.kind is not ConstructKind.GROUP:
        raise c.not_opened(
            "SNAP020",
            "turns are taken by the groups of a `group(...)`, and there is none around this",
            span,
            secondary=(Label(construct.span, "this is around it"),),
            help="`with group(warpgroup):` around it; its warpgroups then run the body one at a time",
        )
    several = [level for level, held in outer.levels if level >= Level.BLOCK and (held.count != 1 or held.open)]
    held = c.place[Level.THREAD]
    if several or c.place.top is not Level.THREAD:
        raise c.not_opened(
            "SNAP020",
            "only groups of threads of one block can take turns"
            + (", and here the block acts as one" if c.privilege == BLOCK1 else ""),
            span,
            secondary=(Label(construct.span, f"divides {outer}"),),
            note="blocks do not know when another one is done",
            help=_turn_help(c.place),
        )
    if held.stride is not None or outer[Level.THREAD].stride is not None:
        raise c.not_opened(
            "SNAP020",
            f"groups at a stride cannot take turns: other groups lie between the threads of `{c.privilege}`",
            span,
            secondary=(Label(construct.span, "the groups are made here"),),
            help=f"`with group({Privilege(Level.THREAD, held.count or WARP)}):`, whose threads are neighbors",
        )
    if held.count is None or held.count % WARP or not held.aligned_to(WARP):
        raise c.not_opened(
            "SNAP020",
            f"groups of {held.count} threads cannot take turns: whole warps can",
            span,
            secondary=(Label(construct.span, "the groups are made here"),),
            note="threads of one warp have one barrier between them, and would wait for themselves",
            help="`with group(warp):` or `with group(warpgroup):`",
        )
    _equally_often(c, outer, c.constructs[k + 1 :], span)
    return outer


def _equally_often(c: Checker, outer: Place, constructs: list[Construct], span: Span) -> None:
    apart = decided_below(c, outer.privilege, constructs)
    if apart is not None:
        way, what = apart
        name = what.var.name if isinstance(what, ir.Read) else ""
        raise c.not_opened(
            "SNAP020",
            "some groups may reach this turn more often than others",
            span,
            "each group waits here for the one before it",
            (
                Label(
                    way.span if what is None else what.span,
                    f"`{name}` may differ between them"
                    if name
                    else "may differ between them"
                    if what is not None
                    else "a `break` or `continue` in this loop may be one group's own",
                ),
            ),
            note="the others would wait forever for a group that does not arrive",
            help=f"let what decides be the same for `{outer.privilege}`, or put the `{way.text}` inside of the turn",
        )
