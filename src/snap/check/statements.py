"""Statements: declarations, assignments, control flow.

Input: the tree of a body.  Output: typed statements in `c.out`.  Invariant: data flows from high privileges to low
ones, and threads of a group stay together. A statement that is wrong is reported and left out; checking goes on with
the next.  Non-goals: groups, splits and memory scopes (check/scopes.py).
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

from snap.check import convert
from snap.check.annotations import Spec, annotation, constant_int, constant_value
from snap.check.calls import call
from snap.check.explain import declared, write_up
from snap.check.expressions import COMPONENTS, arithmetic, array_index, condition, converted, deciding, expression
from snap.check.known import decided_below, divisor, leaves_early, note_value
from snap.check.memory import LocalArray, access, agreed_in, storage, writable
from snap.check.names import resolve
from snap.check.operands import across, in_order, kept
from snap.check.shared import declare_shared
from snap.check.state import Abort, Constant, IndexFunction, Memory, Poison, State, Variable, Want
from snap.diag.error import Label
from snap.diag.span import Span
from snap.frontend import tree
from snap.ir import nodes as ir
from snap.ir.hardware import THREAD_LOCAL
from snap.ir.types import I32, I64, THREAD1, Array, Element, Privilege, Scalar, Vector
from snap.surface import Marker

UNROLL_LIMIT = 512  # constant loops over registers beyond this are left to the compiler


def body(c: State, statements: tree.Body, tail: bool = True) -> None:
    """`tail`: nothing of the function follows these statements, so a `return` at their end leaves nobody behind."""
    for k, s in enumerate(statements):
        try:
            statement(c, s, tail and k == len(statements) - 1)
        except Abort:
            _poison(c, s)


def _poison(c: State, s: tree.Stmt) -> None:
    """A name whose declaration failed is not reported as unknown later."""
    match s:
        case tree.Declare(name) if not isinstance(c.scopes[-1].get(name), (Variable, Memory, Constant)):
            c.bind(name, Poison())
        case tree.Assign(tree.Name(name)) if c.lookup(name) is None:
            c.bind(name, Poison())


def statement(c: State, s: tree.Stmt, tail: bool) -> None:
    from snap.check.scopes import split_statement, with_statement

    match s:
        case tree.Declare():
            _declare(c, s)
        case tree.Assign():
            _assign(c, s)
        case tree.Augment():
            _augment(c, s)
        case tree.If():
            _if(c, s, tail)
        case tree.While():
            _while(c, s)
        case tree.For():
            _for(c, s)
        case tree.With():
            with_statement(c, s, tail)
        case tree.Match():
            split_statement(c, s, tail)
        case tree.Evaluate(value):
            if not isinstance(value, tree.Call):
                raise c.fail("SNAP017", "this statement does nothing", s.span, help="assign the value, or remove it")
            call(c, value, Want(THREAD1, "is not used"), used=False)
        case tree.Pass():
            pass
        case tree.Break():
            _leave_loop(c, "break", s.span)
            c.out.append(ir.Break(span=s.span))
        case tree.Continue():
            _leave_loop(c, "continue", s.span)
            c.out.append(ir.Continue(span=s.span))
        case tree.Return():
            _return(c, s, tail)
        case tree.Assert(cond, message):
            c.out.append(
                ir.Assert(condition(c, cond, Want(THREAD1, "is checked by each thread")), message, span=s.span)
            )
        case _:
            raise TypeError(type(s).__name__)


# ---- declarations ---------------------------------------------------------------------------------------------------


# T-Decl, mended: code ⊒ p, p well-formed here; the value is evaluated for p.
def _declare(c: State, s: tree.Declare) -> None:
    if isinstance(s.value, tree.Lambda):
        c.bind(s.name, IndexFunction(s.value, tuple(c.scopes)))
        return
    spec, written, privilege_span = annotation(c, s.annotation)
    earlier = c.scopes[-1].get(s.name)
    if earlier is not None and not isinstance(earlier, Poison):
        c.report(
            "SNAP018",
            f"`{s.name}` is already declared in this block",
            s.name_span,
            help="assign to it, or choose another name",
        )
    match spec.kind:
        case "constexpr":
            if s.value is None:
                raise c.type_error(f"constexpr `{s.name}` has no value", s.span)
            value = constant_value(c, s.value, f"`{s.name}`")
            if not convert.implicit(value, spec.type):
                raise c.type_error(f"`{s.name}` is `{spec.type}`, and this is `{value.type}`", s.value.span)
            c.bind(s.name, Constant(convert.constant(value.value, spec.type, s.span)))
        case "shared" | "pipeline":
            declare_shared(c, s, spec, written)
        case "pointer" | "ref":
            raise c.type_error(
                "pointers and references are parameters; they cannot be declared, assigned or stored",
                s.span,
                help="give memory a new name with `partition`, `claim` or `tile`",
            )
        case "value":
            _declare_value(c, s, spec, written or c.privilege, privilege_span or s.name_span, implied=written is None)


def _declare_value(c: State, s: tree.Declare, spec: Spec, p: Privilege, span: Span, implied: bool) -> None:
    var = c.var(s.name, spec.type, p, s.name_span)
    if write_up(c, p, f"`{s.name}`", span):
        c.bind(s.name, Variable(var))
        raise Abort
    if isinstance(spec.type, Array):
        c.bind(s.name, Variable(var))
        if spec.type.bytes > THREAD_LOCAL:
            raise c.type_error(
                f"`{s.name}` takes {spec.type.bytes} bytes of each thread, and a thread has at most {THREAD_LOCAL}",
                s.span,
                help="use global memory",
            )
        if s.value is not None:
            raise c.type_error("a local array starts at zero; it is assigned element by element", s.value.span)
        c.out.append(ir.Declare(var, None, zero=True, span=s.span))
        return
    value = None
    try:
        if s.value is not None:
            value = _value(
                c,
                s.value,
                Want(p, f"`{s.name}` is one value for `{p}`", s.name_span, implied=implied),
                spec.type,
                f"`{s.name}`",
            )
    finally:
        c.bind(s.name, Variable(var, "const" if spec.const else ""))
    if value is None and spec.const:
        raise c.type_error(f"const `{s.name}` has no value", s.span)
    note_value(c, var, value)
    _emit_declaration(c, var, value, s.span)


def _emit_declaration(c: State, var: ir.Var, value: ir.Expr | None, span: Span) -> None:
    if value is not None and _delivered(c, value, var.type):
        c.out[-2] = ir.Declare(var, None, span=span)
        c.out[-1] = _redirected(c.out[-1], ir.VarTarget(var, span=span))
        return
    c.out.append(ir.Declare(var, value, zero=value is None and var.privilege != THREAD1, span=span))


def _delivered(c: State, value: ir.Expr, type: object) -> bool:
    """Whether the value is a temporary that the last statement has just filled: then it can deliver where the value
    goes.
    """
    if not isinstance(value, ir.Read) or not value.var.temp or value.type != type or len(c.out) < 2:
        return False
    match c.out[-1]:
        case (
            ir.Collective(targets=(ir.VarTarget(var),))
            | ir.Atomic(target=ir.VarTarget(var))
            | ir.Unsafe(target=ir.VarTarget(var))
            | ir.Call(target=ir.VarTarget(var))
        ):
            return var == value.var and isinstance(c.out[-2], ir.Declare) and c.out[-2].var == var
    return False


def _redirected(s: ir.Stmt, target: ir.Target) -> ir.Stmt:
    return replace(s, targets=(target,)) if isinstance(s, ir.Collective) else replace(s, target=target)


def _value(c: State, e: tree.Expr, want: Want, type: object, what: str) -> ir.Expr:
    if isinstance(e, (tree.Name, tree.Call)) and isinstance(storage(c, e), Memory):
        raise c.type_error(
            "memory cannot be assigned, returned or stored",
            e.span,
            help="read an element, or give it a new name with `partition`, `claim` or `tile`",
        )
    return converted(c, expression(c, e, want), type, e.span, what)


# ---- assignment -----------------------------------------------------------------------------------------------------


def _assign(c: State, s: tree.Assign) -> None:
    if isinstance(s.target, tree.Name) and (
        c.lookup(s.target.id) is None or isinstance(c.scopes[-1].get(s.target.id), IndexFunction)
    ):
        _first_assignment(c, s)
        return
    mark = len(c.out)
    target, type, p = _target(c, s.target)
    placing = c.out[mark:]  # calls in the target's subscripts come after the value, as in Python
    del c.out[mark:]
    name = _spelled(s.target)
    value = _value(
        c,
        s.value,
        Want(p, f"{name} is one value for `{p}`" if p != THREAD1 else f"is written to {name}", s.target.span),
        type,
        name,
    )
    if placing:
        value = across(c, value, p, placing)
        c.out.extend(placing)
    if c.errors and c.errors[-1].span == s.target.span:
        return
    if isinstance(target, ir.VarTarget) and _delivered(c, value, target.var.type):
        delivered = c.out.pop()
        c.out[-1] = _redirected(delivered, target)
        return
    c.out.append(ir.Assign(target, value, span=s.span))


# An unannotated first assignment declares at the code's privilege.
def _first_assignment(c: State, s: tree.Assign) -> None:
    name = s.target.id
    if isinstance(s.value, tree.Lambda):
        c.bind(name, IndexFunction(s.value, tuple(c.scopes)))
        return
    if isinstance(s.value, (tree.Name, tree.Call)) and isinstance(storage(c, s.value), (Memory, LocalArray)):
        raise c.type_error(
            "memory and arrays cannot be assigned",
            s.value.span,
            help=(
                f"memory gets a new name in a scope, `with partition(..., p=thread[1]) as {name}:`, or use it directly"
            ),
        )
    value = expression(
        c,
        s.value,
        Want(c.privilege, f"`{name}` is declared here, at the code's `{c.privilege}`", s.target.span, implied=True),
    )
    if convert.is_weak(value):
        value = convert.cast(value, value.type)
    var = c.var(name, value.type, c.privilege, s.target.span)
    c.bind(name, Variable(var))
    note_value(c, var, value)
    _emit_declaration(c, var, value, s.span)


def _augment(c: State, s: tree.Augment) -> None:
    target, type, p = _target(c, s.target)
    name = _spelled(s.target)
    want = Want(p, f"{name} is one value for `{p}`" if p != THREAD1 else f"is written to {name}", s.target.span)
    mark = len(c.out)
    value = expression(c, s.value, want)
    end = len(c.out)
    (target,) = kept(c, mark, (target, p))  # the place, then what it holds, then the value
    (current,) = kept(c, mark + len(c.out) - end, (_current(c, target, type, s.target, p), p))
    if not isinstance(type, Scalar) or not isinstance(value.type, Scalar):
        raise c.type_error(f"`{s.op}=` works on scalars, and {name} is `{type}`", s.span)
    result = arithmetic(c, s.op, current, value, s.span)
    if not (type.is_integer and result.type.is_integer) and not convert.implicit(result, type):
        raise c.type_error(
            f"{name} is `{type}`, and the result is `{result.type}`",
            s.span,
            "would lose precision in silence" if type.is_float else "would drop the fraction in silence",
            help="cast the right-hand side",
        )
    c.out.append(ir.Assign(target, convert.cast(result, type), span=s.span))


def _current(c: State, target: ir.Target, type: Element, e: tree.Expr, p: Privilege) -> ir.Expr:
    """The value a target holds now."""
    match target:
        case ir.VarTarget(var):
            return ir.Read(var, type, span=e.span)
        case ir.ElemTarget(array, index):
            return ir.Elem(array, index, type, span=e.span)
        case ir.MemTarget(accessed):
            return ir.Load(accessed, type, span=e.span)
        case ir.ComponentTarget(of, lane):
            inner = {
                ir.VarTarget: lambda: of.var.type,
                ir.ElemTarget: lambda: of.array.elem,
                ir.MemTarget: lambda: of.access.view.elem,
            }[of.__class__]()
            return ir.Component(_current(c, of, inner, e, p), lane, type, span=e.span)
        case _:
            raise TypeError(target.__class__.__name__)


def _spelled(e: tree.Expr) -> str:
    match e:
        case tree.Name(id):
            return f"`{id}`"
        case tree.Subscript(value, _):
            return f"an element of {_spelled(value)}"
        case tree.Attribute(value, name):
            return f"`.{name}` of {_spelled(value)}"
        case _:
            return "the target"


# T-Assn, mended: code ⊒ the destination's privilege (write down).
def _target(c: State, e: tree.Expr) -> tuple[ir.Target, Element, Privilege]:
    match e:
        case tree.Name(id):
            found = resolve(c, e)
            if isinstance(found, Memory):
                raise c.type_error("pointers cannot be assigned", e.span, help=f"write an element: `{id}[...] = ...`")
            if isinstance(found, IndexFunction):
                raise c.type_error(
                    f"`{id}` is an index function of an enclosing block", e.span, help="choose another name"
                )
            if not isinstance(found, Variable):
                raise c.type_error(f"`{id}` is a compile-time constant and cannot be assigned", e.span)
            if isinstance(found.var.type, Array):
                raise c.type_error(f"`{id}` is an array; it is assigned element by element", e.span)
            _assignable(c, found, e.span)
            return ir.VarTarget(found.var, span=e.span), found.var.type, found.var.privilege
        case tree.Subscript(value, index):
            found = storage(c, value)
            if isinstance(found, Memory):
                writable(c, found, e.span)
                made = access(c, found, index, Want(THREAD1, "is one thread's own index"), e.span)
                return ir.MemTarget(made, span=e.span), found.elem, THREAD1
            if isinstance(found, LocalArray):
                _assignable(c, found.variable, e.span)
                p = found.ref.var.privilege
                where = array_index(
                    c, found, index, Want(p, f"chooses an element for `{p}`", found.ref.var.span), e.span
                )
                return ir.ElemTarget(found.ref, where, span=e.span), found.ref.elem, p
            raise c.type_error("this cannot be indexed", value.span, help="memory and local arrays can")
        case tree.Attribute(value, name):
            of, type, p = _target(c, value)
            if not isinstance(type, Vector) or COMPONENTS.get(name, 9) >= type.lanes:
                raise c.type_error(f"`{type}` has no component `{name}`", e.span)
            return ir.ComponentTarget(of, COMPONENTS[name], span=e.span), type.elem, p
        case _:
            raise c.fail(
                "SNAP017",
                "this cannot be assigned to",
                e.span,
                help="assign to a variable, an element, or a component of a vector",
            )


def _assignable(c: State, found: Variable, span: Span) -> None:
    var = found.var
    if found.read_only:
        raise c.type_error(f"`{var.name}` is {found.read_only} and cannot be assigned", span, secondary=declared(var))
    write_up(c, var.privilege, f"`{var.name}`", span, (Label(var.span, f"`{var.name}` is at `{var.privilege}`"),))


def assignable_register(c: State, found: Variable, span: Span) -> bool:
    """Whether an operation may deliver each thread's own value into it."""
    _assignable(c, found, span)
    if found.var.privilege != THREAD1:
        raise c.fail(
            "SNAP005",
            f"`{found.var.name}` is one value for `{found.var.privilege}`, and this delivers one for each thread",
            span,
            secondary=declared(found.var),
            help="declare it `@ thread[1]`",
        )
    return True


def register_target(c: State, e: tree.Expr) -> tuple[ir.Target, Element]:
    target, type, p = _target(c, e)
    if isinstance(target, ir.MemTarget):
        raise c.type_error("this delivers into registers", e.span, help="use a local array, then store it")
    if p != THREAD1:
        raise c.fail(
            "SNAP005",
            f"{_spelled(e)} is one value for `{p}`, and this delivers one for each thread",
            e.span,
            help="declare it `@ thread[1]`",
        )
    return target, type


# ---- control flow ---------------------------------------------------------------------------------------------------


def _if(c: State, s: tree.If, tail: bool) -> None:
    cond = None
    try:
        cond = condition(c, s.cond, deciding(c))
    except Abort:
        pass  # the branches are still worth checking
    bodies = []
    for part in (s.then, s.other):
        with c.block() as out, c.frame("if", s.cond.span, "if", decides=() if cond is None else (cond,)):
            if not isinstance(cond, ir.Const) or bool(cond.value) == (part is s.then):
                body(c, part, tail)
        bodies.append(tuple(out))
    if isinstance(
        cond, ir.Const
    ):  # decided by constants: the other branch is not there, and may be one that is illegal for these
        c.out.extend(bodies[0 if cond.value else 1])
    elif cond is not None:
        c.out.append(ir.If(cond, *bodies, span=s.span))


def _while(c: State, s: tree.While) -> None:
    cond = None
    with c.block() as pre:
        try:
            cond = condition(c, s.cond, deciding(c))
        except Abort:
            pass
    with (
        c.block() as out,
        c.frame("loop", s.cond.span, "while", decides=() if cond is None else (cond,), left_early=leaves_early(s.body)),
    ):
        body(c, s.body, tail=False)
    if cond is not None:
        c.out.append(ir.While(tuple(pre), cond, tuple(out), span=s.span))


def _for(c: State, s: tree.For) -> None:
    bounds, unroll = _range(c, s.iterable)
    kind = I64 if any(b.type == I64 for b in bounds) else I32
    if any(not b.type.is_integer or b.type.bits == 64 and b.type != I64 for b in bounds):
        raise c.type_error("the bounds of `range` are integers (i64 at most)", s.iterable.span)
    start, stop, step = (convert.cast(b, kind) for b in bounds)
    if isinstance(step, ir.Const) and step.value == 0:
        raise c.type_error("the step of `range` is zero", s.iterable.span)
    var = c.var(s.name, kind, c.privilege, s.name_span)
    c.ranges[var.uid] = (start, stop, step)
    c.multiples[var.uid] = math.gcd(divisor(c, start), divisor(c, step))
    with (
        c.block() as out,
        c.frame("loop", s.iterable.span, "for", decides=(start, stop, step), var=var, left_early=leaves_early(s.body)),
    ):
        c.bind(s.name, Variable(var, "a loop variable"))
        body(c, s.body, tail=False)
    if unroll == 0 and all(isinstance(b, ir.Const) for b in (start, stop, step)):
        trips = len(range(start.value, stop.value, step.value))
        if trips <= UNROLL_LIMIT and _indexes_registers(tuple(out), var):
            unroll = -1
    c.out.append(ir.For(var, start, stop, step, tuple(out), unroll, span=s.span))


def _range(c: State, e: tree.Expr) -> tuple[list[ir.Expr], int]:
    found = resolve(c, e.function) if isinstance(e, tree.Call) else None
    word = found.word if isinstance(found, Marker) else "range" if found is range else None
    unroll = 0
    if word == "unroll":
        if not 1 <= len(e.args) <= 2 or e.keywords:
            raise c.type_error("`unroll` takes a range and a factor", e.span, help="`for i in unroll(range(8), 4):`")
        unroll = -1
        if len(e.args) == 2:
            unroll = constant_int(c, e.args[1], "the factor of `unroll`")
            if unroll < 1:
                raise c.type_error("the factor of `unroll` is positive", e.args[1].span)
        e = e.args[0]
        found = resolve(c, e.function) if isinstance(e, tree.Call) else None
        word = found.word if isinstance(found, Marker) else "range" if found is range else None
    if word != "range" or not 1 <= len(e.args) <= 3 or e.keywords:
        raise c.fail(
            "SNAP017",
            "a `for` loop runs over `range(...)`",
            e.span,
            help="`for i in range(n):`, or `unroll(range(n), factor)`",
        )

    def bound(a: tree.Expr) -> ir.Expr:
        value = expression(c, a, deciding(c))
        if not isinstance(value.type, Scalar):
            raise c.type_error("the bounds of `range` are integers", a.span)
        return value

    bounds = in_order(c, c.privilege, *(partial(bound, a) for a in e.args))
    one, zero = ir.Const(1, I32, span=e.span), ir.Const(0, I32, span=e.span)
    match bounds:
        case [stop]:
            return [zero, stop, one], unroll
        case [start, stop]:
            return [start, stop, one], unroll
        case _:
            return bounds, unroll


def _indexes_registers(body: ir.Body, var: ir.Var) -> bool:
    """Whether a local array is indexed by something that depends on the loop variable: unrolled, it stays in
    registers.
    """
    from snap.check.rewrite import variables
    from snap.ir.walk import expressions, statements

    depends = {var.uid}
    for s in statements(body):
        if isinstance(s, (ir.Declare, ir.For)):
            sources = [
                e for e in ((s.init,) if isinstance(s, ir.Declare) else (s.start, s.stop, s.step)) if e is not None
            ]
            if isinstance(s, ir.For) or any(v.uid in depends for e in sources for v in variables(e)):
                depends.add(s.var.uid)
    for s in statements(body):
        for e in expressions(s):
            if isinstance(e, ir.Elem) and any(v.uid in depends for i in e.index for v in variables(i)):
                return True
        if isinstance(s, ir.StoreAcc) and any(v.uid in depends for v in variables(s.first)):
            return True
        if isinstance(s, ir.Assign):
            target = s.target.of if isinstance(s.target, ir.ComponentTarget) else s.target
            if isinstance(target, ir.ElemTarget) and any(v.uid in depends for i in target.index for v in variables(i)):
                return True
    return False


# A thread cannot leave its group behind.
def _leave_loop(c: State, word: str, span: Span) -> None:
    for frame in reversed(c.frames):
        if frame.kind == "loop":
            return
        if frame.kind in ("group", "split", "turn"):
            raise c.fail(
                "SNAP007",
                f"`{word}` would leave its {'turn' if frame.kind == 'turn' else 'group'} behind",
                span,
                f"in the middle of {frame.text}",
                (Label(frame.span, f"the {'turn' if frame.kind == 'turn' else 'group'} it would leave"),),
                note="the other threads of the enclosing group would wait for this one forever",
                help="let the whole group decide: agree on a condition, then leave outside of the group",
            )
    raise c.fail("SNAP007", f"`{word}` stands outside of a loop", span)


def _return(c: State, s: tree.Return, tail: bool) -> None:
    scope = c.innermost("group", "split", "memory") if not tail else None
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
    if c.returns is None:
        if s.value is not None:
            raise c.type_error(
                f"`{c.definition.tree.name}` declares no result",
                s.value.span,
                help=(
                    "a kernel returns nothing"
                    if c.definition.kind == "global"
                    else f"declare it: `def {c.definition.tree.name}(...) -> int @ {c.privilege}:`"
                ),
            )
        if tail:
            return
    else:
        type, p = c.returns
        if s.value is None:
            raise c.type_error(f"`{c.definition.tree.name}` returns `{type} @ {p}`", s.span, "returns nothing here")
        value = _value(c, s.value, Want(p, f"the result is one value for `{p}`"), type, "the result")
        _reached_alike(c, p, s.span)
    c.out.append(ir.Return(value, span=s.span))


# Which `return` is reached is a part of the result: whatever lets a thread come to this one, or pass it by, is the same
# for all of p.
def _reached_alike(c: State, p: Privilege, span: Span) -> None:
    apart = decided_below(c, p, c.frames)
    if apart is None:
        agreed_in(
            c,
            (e for frame in c.frames for e in frame.decides),
            Want(p, f"chooses a result that is one value for `{p}`"),
        )
        return
    frame, what = apart
    name = f"`{what.var.name}`" if isinstance(what, ir.Read) else "this"
    raise c.fail(
        "SNAP006",
        f"threads of one `{p}` may come to different `return`s",
        span,
        f"the result is one value for `{p}`",
        (
            (Label(frame.span, "a `break` or `continue` in this loop may not be taken by all of them"),)
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
