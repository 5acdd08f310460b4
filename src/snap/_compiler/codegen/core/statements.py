"""IR statements -> CUDA statements.

Input:      the body of a function in synchronized IR, and the scope it starts in
Output:     CUDA statements that do the same in the same order
Invariant:  a scope of the IR becomes braces, unless it declares nothing or ends where its parent ends; no name hides
            another.  A temporary that is read once, by the next statement, stands where it is read
Non-goals:  where barriers stand; optimization beyond that
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from snap._compiler.codegen.core import flow, issue, tree
from snap._compiler.codegen.core.positions import ZERO, LevelIndex, enter, within
from snap._compiler.codegen.core.results import consumed_by, consumer_of, declaration, merged, result, store
from snap._compiler.codegen.core.scope import Scope
from snap._compiler.codegen.core.spelling import integer, type_name
from snap._compiler.codegen.core.targets import reads_target, target_lvalue
from snap._compiler.codegen.hopper import accumulators, boxes, mbarriers, tensor
from snap._compiler.codegen.memory import copies, hints
from snap._compiler.codegen.threads import barriers, collectives, printing
from snap._compiler.codegen.threads.unsafe import raw
from snap._compiler.codegen.values.expressions import invariant, lower, positive, stored
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.engines import Engine, Wait
from snap._compiler.ir.synced import PointKind
from snap._compiler.ir.types import Level, Scalar, as_element, as_scalar
from snap._compiler.ir.walk import target_type
from snap.record import replace

AUGMENTED = frozenset("+ - * / % << >> & | ^".split())


def body(scope: Scope, statements: ir.Body) -> list[tree.Stmt]:
    """The statements of a scope whose names are already open."""
    statements = issue.gathered(scope, statements)
    out: list[tree.Stmt] = []
    at = 0
    moved: tree.Expr | None = None  # an effect that the next statement is to contain
    while at < len(statements):
        value = merged(scope, statements, at)
        if value is not None:
            var, expression = value
            at += 2
            if consumer_of(scope, var, statements[at : at + 1]):
                moved = scope.state.inline[var.uid] = expression
            else:
                out.append(declaration(scope, var, expression))
                scope.module.written(out[-1:], statements[at - 1].span)
            continue
        at += 1
        made = statement(scope, statements[at - 1], last=at == len(statements))
        if moved is not None and not made:
            made = [tree.Evaluate(moved)]
        if scope.state.in_flight.unnamed:
            made += accumulators.written(scope, statements[at - 1])
        scope.module.written(made, statements[at - 1].span)
        out += made
        moved = None
    return out


def block(scope: Scope, statements: ir.Body) -> tuple[tree.Stmt, ...]:
    """The statements of a new scope, as the body of something with braces."""
    scope.state.namer.open()
    out = body(scope, statements)
    scope.state.namer.close()
    return tuple(out)


# Instructions, and the mbarriers that count what is asynchronous.
INSTRUCTIONS: dict[type, Callable[[Scope, Any], list[tree.Stmt]]] = {
    **dict.fromkeys((ir.BoxCopy, synced.CountedLoad), boxes.copy),
    ir.BoxPrefetch: boxes.prefetch,
    ir.Sleep: lambda scope, s: [tree.Evaluate(tree.Call("__nanosleep", (lower(scope, s.nanoseconds),)))],
    ir.Prefetch: hints.prefetch,
    **dict.fromkeys((ir.Wgmma, synced.FencedWgmma), tensor.multiply),
    ir.StoreAcc: tensor.store,
    synced.MBarrierWait: mbarriers.wait,
    synced.MBarrierArrive: mbarriers.arrive,
    synced.MBarrierExpect: mbarriers.expect,
}
COMMITS = {
    Engine.COPIES: lambda scope: [copies.commit(scope)],
    Engine.BOXES: boxes.commit,
    Engine.PRODUCTS: tensor.commit,
}


def statement(scope: Scope, s: ir.Stmt, last: bool) -> list[tree.Stmt]:
    usage = scope.state.usage
    match s:
        case ir.Declare(var):
            if usage.unused(var):
                return []
            return [
                _declare(scope, s),
                *(accumulators.declared(scope, var) if var.uid in usage.wgmma_registers else []),
            ]
        case ir.DeclareShared(obj):
            return [_shared(scope, obj)] if usage.objects[obj.uid] else []
        case ir.Assign(target) if usage.ignored(target):
            return []
        case ir.Assign(target, value):
            return [_assign(scope, target, value)]
        case ir.If(cond, then, other):
            return _if(_where(scope, flow.branch(scope.place, cond)), cond, then, other)
        case ir.While():
            return [_while(_where(scope, flow.loop(scope.place, s)), s)]
        case ir.For():
            return _for(_where(scope, flow.loop(scope.place, s)), s)
        case ir.Break():
            return [tree.Break()]
        case ir.Continue():
            return [tree.Continue()]
        case ir.Return(value):
            return [*scope.state.leave, tree.Return(None if value is None else _returned(scope, value))]
        case ir.Print():
            return printing.line(scope, s)
        case ir.Assert():
            return [printing.assertion(scope, s)]
        case ir.Group(privilege, _, place, inner):
            position = within(scope.positions, scope.place, privilege)
            return _inner(scope, place, privilege.level, position, inner, last)
        case ir.Split():
            return _split(scope, s, last)
        case ir.Partition(body=inner) | ir.Claim(body=inner):
            return _spliced(block(scope, inner), last)
        case synced.Sync(place=place):
            return _sync(replace(scope, place=place), s)
        case ir.AsyncCopy():
            return [copies.copy(scope, s)]
        case synced.Elect(_, inner):
            made = block(replace(scope, elected=True, whole=False), inner)
            return issue.only(issue.acting_thread(scope, inner), *made) if made else []
        case ir.Collective() | ir.Atomic() | ir.Call() | ir.Unsafe():
            return _effect(scope, s)
        case synced.AsyncCommit(engine):
            return COMMITS[engine](scope)
        case _:
            return INSTRUCTIONS[type(s)](scope, s)


def _where(scope: Scope, whole: bool) -> Scope:
    """The scope of a body that all lanes of a warp run where `whole` says so, and those that run this do."""
    return scope if whole or not scope.whole else replace(scope, whole=False)


# ---- simple statements ----------------------------------------------------------------------------------------------


def _declare(scope: Scope, s: ir.Declare) -> tree.Stmt:
    made = declaration(scope, s.var, None if s.init is None else lower(scope, s.init), zero=s.zero)
    if s.var.uid in scope.state.constants and s.init is not None and positive(scope, s.init):
        scope.state.positive.add(s.var.uid)
    return made


def _shared(scope: Scope, obj: ir.MemObject) -> tree.Stmt:
    state = scope.state
    state.module.swizzled |= bool(obj.swizzle)
    name = state.objects[obj.uid] = state.namer.user(obj.name)
    pointer = f"{type_name(state.module, obj.elem)}*"
    start = state.shared_base(obj.offset) if obj.extent is None else state.shared_at_launch(obj)
    return tree.Declare(f"{pointer} const", name, tree.Reinterpret(pointer, start), const=True)


def _assign(scope: Scope, target: ir.Target, value: ir.Expr) -> tree.Stmt:
    type = target_type(target)
    if isinstance(target, ir.MemTarget) and (target.cache or target.l2):
        made = store(scope, lower(scope, value), type)
        return hints.store(scope, target, made, type_name(scope.module, as_element(type)))
    place = target_lvalue(scope, target)
    if (
        isinstance(value, ir.Binary)
        and isinstance(value.type, Scalar)
        and value.op in AUGMENTED
        and reads_target(target, value.left)
        and not (value.op == "%" and value.type.is_float)
    ):
        return tree.Assign(place, f"{value.op}=", lower(scope, value.right))
    return accumulators.assign(scope, target, store(scope, lower(scope, value), type))


def _sync(scope: Scope, s: synced.Sync) -> list[tree.Stmt]:
    """Lower a synchronization point.  Threads that only wait at a barrier have nothing to wait for before it."""
    point = s.point
    before: list[tree.Stmt] = []
    if s.part is not synced.SyncHalf.WAIT:
        for wait, younger in point.waits:
            match wait:
                case Wait.COPIES:
                    before += copies.wait(scope, younger)
                case Wait.PRODUCTS:
                    before += accumulators.wait(scope, s, younger)
                case Wait.BOXES | Wait.BOXES_READ:
                    before += boxes.wait(scope, younger, wait is Wait.BOXES_READ)
        before += mbarriers.fence(scope, point.fence)
    return [
        barriers.comment(point),
        *before,
        *([] if point.kind == PointKind.THREAD else [barriers.at(scope, point, s.part)]),
    ]


def _returned(scope: Scope, value: ir.Expr) -> tree.Expr:
    return stored(lower(scope, value), type_name(scope.module, as_element(scope.state.function.returns)))


def _effect(scope: Scope, s: ir.Collective | ir.Atomic | ir.Call | ir.Unsafe) -> list[tree.Stmt]:
    if isinstance(s, ir.Unsafe) and s.type is None:
        return [tree.RawStatement(raw(scope, s))]
    if isinstance(s, ir.Collective):
        expression = collectives.value(scope, s)
        if expression is None:
            return [collectives.statement(scope, s)]
        target = s.targets[0] if s.targets else None
    else:
        expression, target = result(scope, s), s.target
    if target is None or scope.state.usage.ignored(target):
        return [tree.Evaluate(expression)]
    return [accumulators.assign(scope, target, store(scope, expression, target_type(target)))]


# ---- control flow ---------------------------------------------------------------------------------------------------


def _if(scope: Scope, cond: ir.Expr, then: ir.Body, other: ir.Body) -> list[tree.Stmt]:
    test = lower(scope, cond)
    yes, no = block(scope, then), block(scope, other)
    if not yes and not no:
        return []
    return [tree.If(test, yes, no)] if yes else [tree.If(tree.Unary("!", test), no)]


def _while(scope: Scope, s: ir.While) -> tree.Stmt:
    if not s.pre:
        return tree.While(lower(scope, s.cond), block(scope, s.body))
    found = merged(scope, s.pre, 0) if len(s.pre) == 2 else None
    if found is not None and consumed_by(scope, found[0], s.cond):
        scope.state.inline[found[0].uid] = found[1]
        return tree.While(lower(scope, s.cond), block(scope, s.body))
    scope.state.namer.open()
    before = body(scope, s.pre) if found is None else [declaration(scope, *found)]
    leave = tree.If(tree.Unary("!", lower(scope, s.cond)), (tree.Break(),))
    inner = body(scope, s.body)
    scope.state.namer.close()
    return tree.While(tree.Literal("true"), (*before, leave, *inner))


def _for(scope: Scope, s: ir.For) -> list[tree.Stmt]:
    """Python's range.  Bounds that could change during the loop are kept in constants of their own."""
    if isinstance(s.step, ir.Const) and s.step.value == 0:
        return []
    state, type = scope.state, as_scalar(s.var.type)
    spelled = type_name(scope.module, type)
    before: list[tree.Stmt] = []

    def kept(e: ir.Expr, word: str) -> tree.Expr:
        if invariant(scope, e):
            return lower(scope, e)
        name = state.namer.own(f"{s.var.name}_{word}")
        before.append(tree.Declare(spelled, name, stored(lower(scope, e), spelled), const=True))
        return tree.Name(name)

    start, stop, step = stored(lower(scope, s.start), spelled), kept(s.stop, "stop"), kept(s.step, "step")
    state.namer.open()
    name = state.variables[s.var.uid] = state.namer.user(s.var.name)
    state.constants.add(s.var.uid)
    inner = body(scope, s.body)
    state.namer.close()
    variable = tree.Name(name)
    unroll = None if s.unroll == 0 else max(s.unroll, 0)
    if scope.elected and unroll is None:
        unroll = 1  # one thread that issues for others gains nothing from more registers, and often has few
    more = _continues(variable, stop, step, type, upward=positive(scope, s.step))
    return [*before, tree.For(spelled, name, start, more, _advance(variable, step, type), tuple(inner), unroll)]


def _continues(variable: tree.Expr, stop: tree.Expr, step: tree.Expr, type: Scalar, upward: bool) -> tree.Expr:
    up, down = tree.Binary("<", variable, stop), tree.Binary(">", variable, stop)
    if upward or isinstance(step, tree.Integer):
        return up if upward else down
    zero = integer(0, type)
    return tree.Ternary(tree.Binary(">", step, zero), up, tree.Binary("&&", tree.Binary("<", step, zero), down))


def _advance(variable: tree.Expr, step: tree.Expr, type: Scalar) -> tree.Stmt:
    if isinstance(step, tree.Integer):
        if abs(step.value) == 1:
            return tree.Assign(variable, "+=" if step.value > 0 else "-=", tree.Integer(1))
        if step.value < 0:
            return tree.Assign(variable, "-=", integer(-step.value, type))
    return tree.Assign(variable, "+=", step)


# ---- places ---------------------------------------------------------------------------------------------------------


def _spliced(inner: tuple[tree.Stmt, ...], last: bool) -> list[tree.Stmt]:
    """The statements themselves where their scope needs no braces."""
    if last or not any(isinstance(s, tree.Declare) for s in inner):
        return list(inner)
    return [tree.Block(inner)]


def _inner(scope: Scope, place, level: Level, position: LevelIndex, statements: ir.Body, last: bool) -> list[tree.Stmt]:
    return _spliced(_placed(scope, place, level, position, statements), last)


def _placed(scope: Scope, place, level: Level, position: LevelIndex, statements: ir.Body) -> tuple[tree.Stmt, ...]:
    """A body that runs under another place; its index is declared first if it is worth a name."""
    namer, role = scope.state.namer, issue.of_one_thread(statements)
    inside = Scope(scope.state, place, enter(scope.positions, place, level, position), scope.elected, role, scope.whole)
    namer.open()
    new = position is not scope.positions[level]
    if new:
        position.reserve(namer, level.word)
    out = body(inside, statements)
    before = position.settle() if new else []
    namer.close()
    return (*before, *out)


def _split(scope: Scope, s: ir.Split, last: bool) -> list[tree.Stmt]:
    """An if-else chain on the index; cases that do nothing are left out."""
    index = scope.positions[s.level]
    held = scope.place[s.level]
    total = None if held.open else held.count
    arms: list[tuple[tree.Expr | None, tuple[tree.Stmt, ...]]] = []
    below = 0  # the chain so far has taken all units below this, or none of those in question
    for case in s.cases:
        position = ZERO if case.size == 1 else index.sharded(case.offset)
        if case.rest:
            position = position.grouped(case.size)
        inner = _placed(_where(scope, flow.case(s, case)), case.place, s.level, position, case.body)
        if not inner:
            continue
        end = None if case.rest else case.offset + case.size
        tests = []
        if case.offset > below:
            tests.append(tree.Binary(">=", index.use(signed=False), tree.Integer(case.offset)))
        if end is not None and end != total:
            first = end == 1 and case.offset == 0
            tests.append(
                tree.Binary("==" if first else "<", index.use(signed=False), tree.Integer(0 if first else end))
            )
        arms.append((tree.Binary("&&", *tests) if len(tests) == 2 else tests[0] if tests else None, inner))
        below = end if end is not None and case.offset <= below else below
    if arms and arms[0][0] is None:
        return _spliced(arms[0][1], last)
    chain: tuple[tree.Stmt, ...] = ()
    for test, inner in reversed(arms):
        chain = inner if test is None else (tree.If(test, inner, chain),)
    return list(chain)
