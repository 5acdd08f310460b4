"""Check control flow, and tell the kinds of assignments apart.

Input: the tree of a body.  Output: typed statements in `c.out`.  Invariant: threads of a group stay together.  A
statement that is wrong is reported and left out; checking goes on with the next.  Non-goals: what holds a value
(check/statements/assignments.py), groups, splits and memory scopes (check/statements/scopes.py).
"""

from __future__ import annotations

from snap._compiler.check.core import convert
from snap._compiler.check.core.bindings import Variable
from snap._compiler.check.core.constants import constant_int
from snap._compiler.check.core.dispatch import body, executes, expression
from snap._compiler.check.core.known import UNROLL_LIMIT, as_constant, decided_below
from snap._compiler.check.core.lookups import declares_memory
from snap._compiler.check.core.names import word_called
from snap._compiler.check.core.operands import in_order
from snap._compiler.check.core.rewrite import variables
from snap._compiler.check.core.scalars import condition, deciding
from snap._compiler.check.core.short import is_word, nested, persistent, several, shaped
from snap._compiler.check.core.state import Abort, Checker, ConstructKind, Want
from snap._compiler.check.functions.calls import call
from snap._compiler.check.memory.accesses import agreed_in
from snap._compiler.check.operations.arithmetic import cast_word
from snap._compiler.check.statements.assignments import assign, augment, declare, value_for
from snap._compiler.check.statements.declarations import declarations
from snap._compiler.check.statements.records import gives_record, return_record
from snap._compiler.check.statements.several import assign_several
from snap._compiler.check.statements.unrolled import constants_of, leave_iteration, write_out
from snap._compiler.check.statements.wholes import assign_listed, assign_whole, augment_whole, declare_listed, whole
from snap._compiler.frontend import tree
from snap._compiler.frontend.changes import leaves_early
from snap._compiler.frontend.printer import expression as expression_text
from snap._compiler.frontend.records import is_tuple
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import I32, I64, THREAD1, Privilege, Scalar, scalar_of
from snap._compiler.ir.walk import expressions, known_range, statements, window_indices
from snap.diag.error import Label
from snap.diag.source import written
from snap.diag.span import Span
from snap.diag.wording import called


@executes(tree.Block)
def _block(c: Checker, s: tree.Block, tail: bool) -> None:
    if c.definition.written:
        c.enter(s.span)
    with c.block() as out:
        for name, binding in s.declared:
            c.bind(name, binding)
        body(c, s.body, tail)
    c.out.extend(out)


@executes(tree.Evaluate)
def _evaluate(c: Checker, s: tree.Evaluate, tail: bool) -> None:
    if not isinstance(s.value, tree.Call):
        raise c.fail("SNAP017", "this statement does nothing", s.span, help="assign the value, or remove it")
    call(c, s.value, Want(THREAD1, "is not used"), used=False)


# T-Skip: => G |- pass @ P
@executes(tree.Pass)
def _pass(c: Checker, s: tree.Pass, tail: bool) -> None:
    pass


# T-Assert: G |- c : bool @ thread[1] => G |- assert c @ P
@executes(tree.Assert)
def _assert(c: Checker, s: tree.Assert, tail: bool) -> None:
    holds = condition(c, s.cond, Want(THREAD1, "is checked by each thread"))
    if not isinstance(holds, ir.Const) or not holds.value:
        c.out.append(ir.Assert(holds, s.message, span=s.span))


@executes(tree.Declare, tree.Assign, tree.Augment)
def _gives_value(c: Checker, s: tree.Declare | tree.Assign | tree.Augment, tail: bool) -> None:
    if c.records or _is_tuple(c, s):
        left = gives_record(c, s)
        if left is None:
            return
        s = left
    match s:
        case tree.Declare(value=tree.Each() as given):
            _stands_for(c, s, declare_listed(c, s, given))
        case tree.Declare():
            declare(c, s)
        case tree.Assign(_, tree.Call() | tree.Sequence() as value) if declares_memory(c, value):
            c.expanded(s, declarations(c, s))
        case tree.Assign(target, tree.Call() as call) if _gives_meaning(c, target, call):
            c.expanded(s, several(c, s, call))
        case tree.Assign(tree.Sequence()):
            assign_several(c, s)
        case tree.Assign(target, value) if (array := whole(c, target)) is not None:
            if isinstance(value, tree.Each):
                _stands_for(c, s, assign_listed(c, s, array))
            else:
                assign_whole(c, s, array)
        case tree.Assign():
            assign(c, s)
        case tree.Augment(target) if (array := whole(c, target)) is not None:
            augment_whole(c, s, array)
        case tree.Augment():
            augment(c, s)


def _is_tuple(c: Checker, s: tree.Declare | tree.Assign | tree.Augment) -> bool:
    """Decide whether a statement gives a name a tuple: `t = (a, b)`, `t: tuple[int, float] = (a, b)`."""
    if type(s) is tree.Assign and type(s.value) is tree.Sequence and type(s.target) is tree.Name:
        return c.lookup(s.target.id) is None and not declares_memory(c, s.value)
    return type(s) is tree.Declare and is_tuple(
        s.annotation.left if type(s.annotation) is tree.Binary else s.annotation
    )


def _stands_for(c: Checker, s: tree.Stmt, made: tree.Body) -> None:
    body(c, c.expanded(s, made), tail=False)


def _gives_meaning(c: Checker, target: tree.Expr, call: tree.Call) -> bool:
    """Decide whether a call names roles, or takes numbers of units apart, and so gives no value."""
    return is_word(c, call, "ids") or isinstance(target, tree.Sequence) and is_word(c, call, "roles")


# ---- control flow ---------------------------------------------------------------------------------------------------


# T-If: G |- c : bool @ P, G |- s1 @ P, G |- s2 @ P => G |- if c: s1 else: s2 @ P
@executes(tree.If)
def _if(c: Checker, s: tree.If, tail: bool) -> None:
    cond = None
    try:
        cond = condition(c, s.cond, deciding(c))
    except Abort:
        pass  # the branches are still worth checking
    if cond is not None:
        cond = as_constant(c, cond) or cond
    bodies = []
    for part in (s.then, s.other):
        with (
            c.block() as out,
            c.construct(ConstructKind.IF, s.cond.span, "if", decides=() if cond is None else (cond,)),
        ):
            if not isinstance(cond, ir.Const) or bool(cond.value) == (part is s.then):
                body(c, part, tail)
        bodies.append(tuple(out))
    # Decided by constants: the other branch is not there, and may be one that is illegal for these.
    if isinstance(cond, ir.Const):
        c.out.extend(bodies[0 if cond.value else 1])
    elif cond is not None:
        c.out.append(ir.If(cond, *bodies, span=s.span))


# T-While: G |- c : bool @ P, G |- s @ P => G |- while c: s @ P
@executes(tree.While)
def _while(c: Checker, s: tree.While, tail: bool) -> None:
    cond = None
    with c.block() as pre:
        try:
            cond = condition(c, s.cond, deciding(c))
        except Abort:
            pass
    with (
        c.block() as out,
        c.construct(
            ConstructKind.LOOP,
            s.cond.span,
            "while",
            decides=() if cond is None else (cond,),
            left_early=leaves_early(s.body),
        ),
    ):
        body(c, s.body, tail=False)
    if cond is not None:
        c.out.append(ir.While(tuple(pre), cond, tuple(out), span=s.span))


@executes(tree.For)
def _for(c: Checker, s: tree.For, tail: bool) -> None:
    if isinstance(s.iterable, tree.Call) and is_word(c, s.iterable, "strided"):
        _stands_for(c, s, persistent(c, s, s.iterable))
    elif (call := shaped(c, s.iterable)) is not None:
        _stands_for(c, s, nested(c, s, call))
    elif (items := constants_of(c, s.iterable)) is not None:
        write_out(c, s, items)
    else:
        _counted(c, s)


# T-For: G |- a, b, d : int @ P, G + i : const int @ P |- s @ P => G |- for i in range(a, b, d): s @ P
def _counted(c: Checker, s: tree.For) -> None:
    bounds, unroll = _range(c, s.iterable)
    kind = I64 if any(b.type == I64 for b in bounds) else I32
    if any(not b.is_integer or b.bits == 64 and b != I64 for b in (scalar_of(b.type) for b in bounds)):
        raise c.type_error(
            "the bounds of `range` are integers (i64 at most)", s.iterable.span, help="cast them: `range(int(n))`"
        )
    start, stop, step = (convert.cast(b, kind) for b in bounds)
    if isinstance(step, ir.Const) and step.value == 0:
        raise c.type_error(
            "the step of `range` is zero", s.iterable.span, help="a step of 1 is left out; -1 counts down"
        )
    var = c.var(s.name.rstrip(), kind, c.privilege, s.name_span)
    decides = c.ranges[var.uid] = (start, stop, step)
    values, early = known_range(start, stop, step), leaves_early(s.body)
    if s.name_span in c.written_out and values is not None:
        write_out(c, s, [ir.Const(n, kind, span=s.iterable.span) for n in values])
        return
    can = values is not None and (unroll == -1 or unroll == 0 and len(values) <= UNROLL_LIMIT)
    with (
        c.block() as out,
        c.construct(
            ConstructKind.LOOP,
            s.iterable.span,
            "for",
            decides=decides,
            var=var,
            left_early=early,
            unrolled=can and not early,
            over_constants=unroll == -1 and values is not None,
        ),
    ):
        c.bind(s.name, Variable(var, "a loop variable"))
        body(c, s.body, tail=False)
    if can and _indexes_registers(tuple(out), var):
        unroll = -1
    c.out.append(ir.For(var, start, stop, step, tuple(out), unroll, span=s.span))


def _range(c: Checker, e: tree.Expr) -> tuple[list[ir.Expr], int]:
    word = word_called(c, e)
    unroll = 0
    if isinstance(e, tree.Call) and word == "unroll":
        if not 1 <= len(e.args) <= 2 or e.keywords:
            raise c.type_error("`unroll` takes a range and a factor", e.span, help="`for i in unroll(range(8), 4):`")
        unroll = -1
        if len(e.args) == 2:
            unroll = constant_int(c, e.args[1], "the factor of `unroll`")
            if unroll < 1:
                raise c.type_error(
                    "the factor of `unroll` is positive",
                    e.args[1].span,
                    help="`unroll(range(n), 4)`; without a number all of it is written out",
                )
        e = e.args[0]
        word = word_called(c, e)
    if not isinstance(e, tree.Call) or word != "range" or not 1 <= len(e.args) <= 3 or e.keywords:
        help = "`for i in range(n):`, or `unroll(range(n), factor)`"
        if isinstance(e, tree.Sequence):
            help = f"a loop over constants is written out, one iteration for each: `unroll({expression_text(e)})`"
        if word in ("each", "one"):
            help = (
                f"`{word}` is for `with`, once for each unit: `with {expression_text(e)}{' as i' * (word == 'each')}:`"
            )
        raise c.fail("SNAP017", "a `for` loop runs over `range(...)`", e.span, help=help)

    def bound(a: tree.Expr) -> ir.Expr:
        value = expression(c, a, deciding(c))
        if not isinstance(value.type, Scalar):
            raise c.type_error("the bounds of `range` are integers", a.span, help=f"cast it: `{called('int', a.span)}`")
        return value

    bounds = in_order(c, c.privilege, bound, e.args)
    one, zero = ir.Const(1, I32, span=e.span), ir.Const(0, I32, span=e.span)
    match bounds:
        case [stop]:
            return [zero, stop, one], unroll
        case [start, stop]:
            return [start, stop, one], unroll
        case _:
            return bounds, unroll


def _indexes_registers(body: ir.Body, var: ir.Var) -> bool:
    """Decide whether a local array is indexed by something that depends on the loop variable: unrolled, it stays in
    registers.
    """
    indices: list[ir.Expr] = []
    for s in statements(body):
        indices += [i for e in expressions(s) if type(e) is ir.Elem for i in e.index]
        indices += window_indices(s)
        if isinstance(s, ir.StoreAcc):
            indices.append(s.first)
        elif isinstance(s, ir.Assign):
            target = s.target.of if isinstance(s.target, ir.ComponentTarget) else s.target
            indices += target.index if isinstance(target, ir.ElemTarget) else ()
    read = {v.uid for v in variables(*indices)}
    depends = {var.uid}
    for s in statements(body) if read and var.uid not in read else ():
        read_here = variables(s.init) if isinstance(s, ir.Declare) and s.init is not None else ()
        if isinstance(s, ir.For) or isinstance(s, ir.Declare) and any(v.uid in depends for v in read_here):
            depends.add(s.var.uid)
    return not depends.isdisjoint(read)


def _with_result(c: Checker, e: tree.Expr) -> str:
    """Say how the function declares the result that is returned."""
    type = "int"
    with c.trial():
        type = cast_word(expression(c, e, Want(THREAD1, "is returned")).type)
    head = written(c.definition.tree.head).removesuffix(":") or f"def {c.definition.tree.name}(...)"
    return f"declare it: `{head} -> {type}:`"


@executes(tree.Break)
def _break(c: Checker, s: tree.Break, tail: bool) -> None:
    if not _leave_loop(c, "break", s):
        c.out.append(ir.Break(span=s.span))


@executes(tree.Continue)
def _continue(c: Checker, s: tree.Continue, tail: bool) -> None:
    if not _leave_loop(c, "continue", s):
        c.out.append(ir.Continue(span=s.span))


# T-Leave: a loop is around, no group, case or turn between => G |- break, continue @ P
# A thread cannot leave a loop while its group stays in it.
def _leave_loop(c: Checker, word: str, s: tree.Break | tree.Continue) -> bool:
    """Decide whether the loop is left here and now: it is one that is written out, and constants decide."""
    span = s.span
    for construct in reversed(c.constructs):
        if construct.kind is ConstructKind.LOOP:
            return False
        if construct.kind is ConstructKind.COPY:
            leave_iteration(c, construct, word, s)
            return True
        if construct.kind in (ConstructKind.GROUP, ConstructKind.SPLIT, ConstructKind.TURN):
            left = "turn" if construct.kind is ConstructKind.TURN else "group"
            raise c.fail(
                "SNAP007",
                f"`{word}` would leave its {left} behind",
                span,
                f"in the middle of {construct.text}",
                (Label(construct.span, f"the {left} it would leave"),),
                note="the other threads of the enclosing group would wait for this one forever",
                help="let the whole group decide: agree on a condition, then leave outside of the group",
            )
    raise c.fail(
        "SNAP007",
        f"`{word}` is outside of a loop",
        span,
        help="put it into a loop; to leave out the rest of a body, use an `if`",
    )


# T-Return: f returns t @ q, G |- e : t @ q, no group or turn is left => G |- return e @ P
@executes(tree.Return)
def _return(c: Checker, s: tree.Return, tail: bool) -> None:
    scope = c.innermost(ConstructKind.GROUP, ConstructKind.SPLIT, ConstructKind.MEMORY) if not tail else None
    if scope is not None:
        raise c.fail(
            "SNAP007",
            "`return` would leave its group behind",
            s.span,
            f"in the middle of {scope.text}",
            (Label(scope.span, "around it"),),
            note="what follows is executed by the whole group, and needs every thread of it",
            help="put it last, or guard the rest with an `if`",
        )
    value = None
    if c.record_result is not None and s.value is not None:
        return_record(c, s.value, c.record_result, s.span)
        _reached_alike(c, c.record_result, s.span)
        if tail:
            return
    elif c.returns is None:
        if s.value is not None:
            raise c.type_error(
                f"`{c.definition.tree.name}` declares no result",
                s.value.span,
                help=("a kernel returns nothing" if c.definition.kernel else _with_result(c, s.value)),
            )
        if tail:
            return
    else:
        type, p = c.returns
        if s.value is None:
            raise c.type_error(
                f"`{c.definition.tree.name}` returns `{type} @ {p}`",
                s.span,
                "returns nothing here",
                help="`return x`, with a value of that type",
            )
        value = value_for(c, s.value, Want(p, f"the result is one value for `{p}`"), type, "the result")
        _reached_alike(c, p, s.span)
    c.out.append(ir.Return(value, span=s.span))


# Which `return` is reached is a part of the result: whatever lets a thread come to this one, or pass it by, is the same
# for all of p.
def _reached_alike(c: Checker, p: Privilege, span: Span) -> None:
    apart = decided_below(c, p, c.constructs)
    if apart is None:
        agreed_in(
            c,
            (e for construct in c.constructs for e in construct.decides),
            Want(p, f"chooses a result that is one value for `{p}`"),
        )
        return
    construct, what = apart
    name = f"`{what.var.name}`" if isinstance(what, ir.Read) else "this"
    raise c.fail(
        "SNAP006",
        f"threads of one `{p}` may reach different `return`s",
        span,
        f"the result is one value for `{p}`",
        (
            (Label(construct.span, "a `break` or `continue` in this loop may not be taken by all of them"),)
            if what is None
            else (Label(what.span, f"{name} may differ between them"),)
        ),
        note="what chooses between two results chooses between two values, even where each of them is the same for all",
        help=(
            f"let the choice be made by values at `{p}` or above, or declare the result lower: `-> ... @ {c.privilege}`"
            if p != c.privilege
            else f"let the choice be made by values at `{p}` or above, or declare the result lower"
        ),
    )
