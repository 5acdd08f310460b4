"""Check expressions, each evaluated for a target.

Input: a tree expression and a `Want`.  Output: a typed, pure expression; calls, collectives and atomics inside it have
become statements in `c.out`, in the order they were written.  Invariant: every leaf is at the target's privilege or
above (SNAP006).  Non-goals: statements, declarations.
"""

from __future__ import annotations

from snap._compiler.check.core import convert
from snap._compiler.check.core.bindings import Constant, IndexFunction, Memory, Pipeline, RoleName, Variable
from snap._compiler.check.core.dispatch import evaluates, expression
from snap._compiler.check.core.explain import declared, read_down
from snap._compiler.check.core.names import TOO_LONG, as_definition, constant_of, resolve
from snap._compiler.check.core.operands import kept
from snap._compiler.check.core.outside import describe_object, instead_of
from snap._compiler.check.core.records import RecordName, RecordType
from snap._compiler.check.core.scalars import choosing, condition, deciding, number, numbers, scalar
from snap._compiler.check.core.state import Abort, Checker, ConstructKind, Want
from snap._compiler.check.memory.accesses import indices, load
from snap._compiler.check.memory.records import place, plain, taken
from snap._compiler.check.memory.storage import LocalArray, inside, no_pipeline, storage
from snap._compiler.check.memory.tables import element as table_element
from snap._compiler.check.memory.tables import is_array
from snap._compiler.check.operations.arithmetic import arithmetic, cast_word, compared
from snap._compiler.frontend import tree
from snap._compiler.frontend.printer import expression as expression_text
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.operations import MATH
from snap._compiler.ir.types import BOOL, THREAD1, Array, Element, Privilege, Scalar, Vector, scalar_of
from snap.diag.source import written
from snap.diag.span import Span
from snap.diag.wording import called, counted, shown
from snap.surface import LevelName, Marker, element_of

_TEXTS = 'text is for `print`, `assert`, `trust` and options, such as `order="acquire"`'
COMPONENTS = {"x": 0, "y": 1, "z": 2, "w": 3}


# T-Int, T-Float, T-Bool: a literal n of type t => G |- n : t @ p
@evaluates(tree.Number)
def _number(c: Checker, e: tree.Number, want: Want) -> ir.Expr:
    const = convert.literal(e.value, e.span)
    if const is None:
        raise c.type_error(f"no integer type holds {shown(e.value)}", e.span, help=TOO_LONG)
    return const


@evaluates(tree.Text)
def _text(c: Checker, e: tree.Text, want: Want) -> ir.Expr:
    number = e.value.lower().strip("+-") in ("inf", "infinity", "nan")
    help = "write `math.inf`, `-math.inf` or `math.nan`, with `import math`" if number else _TEXTS
    raise c.fail("SNAP017", "text is not a value in Snap", e.span, help=help)


@evaluates(tree.Known)
def _known(c: Checker, e: tree.Known, want: Want) -> ir.Expr:
    if isinstance(e.value, Variable):
        return ir.Read(e.value.var, e.value.var.type, span=e.span)
    raise c.type_error(
        f"`{e.text}` is not a value: it is {describe_object(e.value)}", e.span, help="write a number, or a variable"
    )


# T-Cmp: G |- a : t @ p, G |- b : u @ p, t and u meet => G |- a < b : bool @ p
@evaluates(tree.Compare)
def _compare(c: Checker, e: tree.Compare, want: Want) -> ir.Expr:
    if e.op in ("==", "!=") and (same := _one_type(c, e)) is not None:
        return ir.Const(same == (e.op == "=="), BOOL, span=e.span)
    first, second = numbers(c, want, e.left, e.right)
    return compared(c, e.op, first, second, e.span)


# T-Same-Type: t and u are types => G |- t == u : bool, a constant
def _one_type(c: Checker, e: tree.Compare) -> bool | None:
    """Decide whether two types are one; None where a side is no type."""
    names = (tree.Name, tree.Attribute, tree.Known)
    if not isinstance(e.left, names) or not isinstance(e.right, names):
        return None
    left, right = (element_of(resolve(c, side)) for side in (e.left, e.right))
    return None if left is None or right is None else left == right


@evaluates(tree.Lambda)
def _lambda(c: Checker, e: tree.Lambda, want: Want) -> ir.Expr:
    raise c.fail(
        "SNAP017",
        "a lambda is an index function, not a value",
        e.span,
        help="give it to `partition(..., f=...)`",
    )


@evaluates(tree.Sequence, tree.Each)
def _no_value(c: Checker, e: tree.Sequence | tree.Each, want: Want) -> ir.Expr:
    if isinstance(e, tree.Sequence):
        name = written(want.head) if want.implied and want.head is not None else "x"
        whole = all(isinstance(item, tree.Number) and type(item.value) is int for item in e.items)
        own = "" if c.privilege == THREAD1 else " @ thread[1]"
        items = ", ".join(map(expression_text, e.items))
        declared = f"{name}: {'int' if whole and e.items else 'float'}[{len(e.items) or 4}]{own}"
        help = f"declare a local array: `{declared}{f' = [{items}]' * bool(items)}`"
        if not e.listed and e.items:
            help = (
                f"give the tuple a name, and take its values by number: `t = {expression_text(e)}`, `t[0]`; or {help}"
            )
            raise c.type_error("this is a tuple, and one value is wanted here", e.span, help=help)
        what = "lists" if e.listed else "empty tuples"
        raise c.fail("SNAP017", f"{what} are not values in Snap", e.span, help=help)
    help = "declare the array, with its type: `x: float[4] = [f(i) for i in range(4)]`"
    raise c.fail("SNAP017", "a list is not a value: it gives a local array its elements", e.span, help=help)


def _is_record(c: Checker, what: str, type: RecordType, span: Span) -> Abort:
    text = written(span)
    fields = ", ".join(f"`{text}[{name}]`" if type.is_tuple else f"`{text}.{name}`" for name, _ in type.fields)
    return c.type_error(
        f"{what} is a `{type}`, and one value is wanted here",
        span,
        help=f"take one of its fields: {fields}; records are assigned, given to functions, shuffled and returned",
    )


def _field(c: Checker, e: tree.Expr) -> tree.Expr:
    """Give what a field stands for, which is no record itself; the expression where it is no field."""
    e = taken(c, e)
    at = place(c, e)
    if at is not None and at.path and isinstance(at.type, RecordType):
        raise _is_record(c, f"`{at.spelled}`", at.type, e.span)
    return plain(c, e) or e


# T-Inlined: G |- e : t @ p, G + x : t @ p |- v : u @ p => G |- let x = e in v : u @ p
@evaluates(tree.Let)
def _let(c: Checker, e: tree.Let, want: Want) -> ir.Expr:
    c.effects_allowed("the call of an inlined function", e.span)
    for name, given in e.given:
        value = convert.settled(expression(c, given, want))
        c.bind(name, Variable(c.remembered(name, value, want.privilege, given.span).var))
    return expression(c, e.value, want)


# ---- leaves ---------------------------------------------------------------------------------------------------------


# T-Var: x : t @ q in G, p <= q => G |- x : t @ p
# A variable is read for a target at its own privilege or below. The paper reads at exactly q.
@evaluates(tree.Name)
def _name(c: Checker, e: tree.Name, want: Want) -> ir.Expr:
    found = resolve(c, e)
    match found:
        case Variable(var):
            if isinstance(var.type, Array):
                raise c.type_error(
                    f"`{var.name}` is an array; index it", e.span, secondary=declared(var), help=f"`{var.name}[i]`"
                )
            if not var.privilege.at_least(want.privilege):
                raise read_down(c, f"`{e.id}`", var.privilege, var.span, want, e.span)
            return ir.Read(var, var.type, span=e.span)
        case Memory():
            raise c.type_error(f"`{e.id}` is memory, not a value", e.span, help=f"read an element: `{e.id}[...]`")
        case Pipeline():
            raise c.type_error(f"`{e.id}` is a pipeline, not a value", e.span, help=f"`with stage({e.id}) as s:`")
        case RecordName(type):
            raise _is_record(c, f"`{e.id}`", type, e.span)
        case RoleName():
            raise c.type_error(f"`{e.id}` is a role, not a value", e.span, help=f"`with {e.id}(memory):`")
        case IndexFunction():
            raise c.type_error(
                f"`{e.id}` is an index function, not a value", e.span, help=f"give it to `partition(..., f={e.id})`"
            )
    if is_array(found):
        raise c.type_error(
            f"`{e.id}` is a table of constants, not a value", e.span, help=f"read an element: `{e.id}[i]`"
        )
    const = constant_of(c, found, e.span)
    if const is None:
        raise c.type_error(
            f"`{e.id}` is not a value: it is {describe_object(found)}",
            e.span,
            help=instead_of(found, e.id)
            or "numbers, bools, privileges and types can be taken from outside, and lambdas for `f=`; arrays are passed"
            " as pointers",
        )
    return const


@evaluates(tree.Attribute)
def _attribute(c: Checker, e: tree.Attribute, want: Want) -> ir.Expr:
    if c.records and (field := _field(c, e)) is not e:
        return expression(c, field, want)
    found = resolve(c, e)
    if found is not None:
        const = constant_of(c, found, e.span)
        if const is None:
            raise c.type_error(
                f"this is not a value: it is {describe_object(found)}",
                e.span,
                help=instead_of(found, expression_text(e)) or "write a number, a variable, or an element of memory",
            )
        return const
    if (
        isinstance(e.value, tree.Name)
        and isinstance(resolve(c, e.value), (Memory, Variable))
        and e.name not in COMPONENTS
    ):
        help = "vectors have .x .y .z .w; memory and arrays have .view(type)"
        raise c.type_error(f"`{e.value.id}` has no attribute `{e.name}`", e.span, help=sizes_help(e) or help)
    value = expression(c, e.value, want)
    if isinstance(value.type, Vector) and COMPONENTS.get(e.name, 9) < value.type.lanes:
        return ir.Component(value, COMPONENTS[e.name], value.type.elem, span=e.span)
    raise c.type_error(f"`{value.type}` has no attribute `{e.name}`", e.span, help="vectors have .x .y .z .w")


# T-Elem: x : t[n] @ q in G, p <= q, G |- i : int @ p => G |- x[i] : t @ p
# A local array is read as a variable is. Memory is read by T-Arr-Access (check/memory/accesses.py).
@evaluates(tree.Subscript)
def _subscript(c: Checker, e: tree.Subscript, want: Want) -> ir.Expr:
    if c.records and (field := _field(c, e)) is not e:
        return expression(c, field, want)
    found = storage(c, e.value, want.privilege)
    if isinstance(found, Memory) and found.record is not None:
        raise _is_record(c, f"an element of `{found.handle.name}`", found.record, e.span)
    if isinstance(found, Memory):
        return load(c, found, e.index, want, e.span)
    if isinstance(found, LocalArray):
        var = found.ref.var
        if c.no_calls:
            raise c.type_error(f"{c.no_calls} cannot read an array", e.span, help="read it into a variable first")
        if not var.privilege.at_least(want.privilege):
            if len(e.index) < len(found.ref.shape):
                raise c.type_error(
                    f"`{var.name}` with {len(e.index)} of its {len(found.ref.shape)} indices is a window of registers,"
                    " not a value",
                    e.span,
                    help=f"an inlined function takes the array and the index, `f({var.name}, k)`, and writes `a[k, i]`",
                )
            raise read_down(
                c, f"`{var.name}[...]`" if want.agree else f"`{var.name}`", var.privilege, var.span, want, e.span
            )
        return found.ref.element(array_index(c, found, e.index, want, e.span), e.span)
    if isinstance(e.value, (tree.Name, tree.Attribute)):
        no_pipeline(c, e.value, "`[...]`")
        base = resolve(c, e.value)
        if is_array(base):
            return table_element(c, base, e, want)
        if isinstance(base, LevelName):
            raise c.type_error(
                "a privilege is not a value",
                e.span,
                help="ask for an index with `id()`, for a number with `count(...)`",
            )
        if base is not None and not isinstance(base, (Variable, Constant)):
            raise c.type_error(
                f"this cannot be indexed: it is {describe_object(base)}",
                e.value.span,
                help=instead_of(base, expression_text(e.value))
                or "arrays are passed to a kernel as pointers: `x: ptr(float)`",
            )
    raise c.type_error("this cannot be indexed", e.value.span, help=not_indexed(c, e))


def sizes_help(e: tree.Expr) -> str:
    """Say how a kernel learns what NumPy has as an attribute of an array."""
    match e:
        case tree.Attribute(value, "shape" | "size" | "ndim" | "T" | "dtype" as name):
            if name == "T":
                return "write the indices in the other order"
            if name == "dtype":
                return "the type of the elements is the one declared"
            text = expression_text(value)
            return f"pass the sizes as parameters; `{text}: ptr(float, (M, N))` names them, and a launch checks them"
    return ""


def not_indexed(c: Checker, e: tree.Subscript) -> str:
    """Say what to write where something is indexed that is neither memory nor an array."""
    match e.value:
        case tree.Attribute():
            if help := sizes_help(e.value):
                return help
        case tree.Binary("+", left, right) if storage(c, left) is not None:
            index = f"{expression_text(right, 5)} + {', '.join(expression_text(i, 5) for i in e.index)}"
            return f"memory has no addresses to compute with: write `{expression_text(left)}[{index}]`"
    return "memory and local arrays are indexed; a value is used as it is"


def array_index(
    c: Checker, array: LocalArray, items: tuple[tree.Expr, ...], want: Want, span: Span
) -> tuple[ir.Expr, ...]:
    if len(items) != len(array.ref.shape):
        raise c.type_error(
            f"{array.spelled} takes {counted(len(array.ref.shape), 'index')}, not {len(items)}",
            span,
            help=(
                "rows of a local array are operands of `mma`, `wgmma` and functions, not values"
                if len(items) < len(array.ref.shape)
                else ""
            ),
        )
    index = indices(c, items, want)
    inside(c, array.ref.var, index, array.ref.shape, items)
    return index


# ---- operators ------------------------------------------------------------------------------------------------------


# T-Uop: G |- a : t @ p, t has op => G |- op a : t @ p
@evaluates(tree.Unary)
def _unary(c: Checker, e: tree.Unary, want: Want) -> ir.Expr:
    op, operand = e.op, e.value
    if op == "not":
        return convert.unary("not", condition(c, operand, want), e.span)
    value = number(c, operand, want)
    if op == "~" and scalar_of(value.type).is_float:
        raise c.type_error(
            f"`~` takes an integer, not `{value.type}`",
            e.span,
            help="`not` negates a condition; the bits of a float are `intrinsic.bitcast(x, u32)`",
        )
    if isinstance(value.type, Vector):
        return value if op == "+" else ir.Unary(op, value, value.type, span=e.span)
    if op == "+":
        return value if convert.is_weak(value) else convert.cast(value, convert.promoted(scalar_of(value.type)))
    return convert.unary(op, value, e.span)


# T-Bop: G |- a : t @ p, G |- b : u @ p, t and u meet in v => G |- a op b : v @ p
@evaluates(tree.Binary)
def _binary(c: Checker, e: tree.Binary, want: Want) -> ir.Expr:
    first, second = numbers(c, want, e.left, e.right)
    return arithmetic(c, e.op, first, second, e.span, e.digit)


def has_effect(c: Checker, e: object) -> bool:
    """Decide whether an expression contains something that becomes a statement: a call, a collective, an atomic,
    `unsafe`.
    """
    match e:
        case tree.Call(function, args, keywords):
            with c.trial() as known:
                found = resolve(c, function)
            if not known:  # reported when the call itself is checked
                return True
            if as_definition(found) is not None:
                return True
            if (
                isinstance(found, Marker)
                and found.word.split(".")[0] in ("intrinsic", "atomic", "unsafe")
                and not is_pure_intrinsic(found.word)
            ):
                return True
            return any(has_effect(c, a) for a in (*args, *(v for _, v in keywords)))
        case tree.Unary(_, value) | tree.Attribute(value, _):
            return has_effect(c, value)
        case tree.Binary(_, left, right) | tree.Compare(_, left, right) | tree.Logical(_, left, right):
            return has_effect(c, left) or has_effect(c, right)
        case tree.Chain(_, operands):
            return any(has_effect(c, part) for part in operands)
        case tree.Conditional(cond, then, other):
            return any(has_effect(c, part) for part in (cond, then, other))
        case tree.Subscript(value, index):
            return has_effect(c, value) or any(has_effect(c, i) for i in index)
        case tree.Let():
            return True
        case _:
            return False


def is_pure_intrinsic(word: str) -> bool:
    name = word.partition(".")[2]
    return word.startswith("intrinsic.") and (name in MATH or name == "bitcast")


def _linked(c: Checker, e: tree.Chain, at: int, want: Want) -> Want:
    """For whom an operand of a chain is evaluated: it decides control flow where a call comes two operands on, or
    later.
    """
    return deciding(c) if any(has_effect(c, part) for part in e.operands[at + 2 :]) else want


@evaluates(tree.Chain)
def _compares(c: Checker, e: tree.Chain, want: Want) -> ir.Expr:
    return _chain(c, scalar(c, e.operands[0], _linked(c, e, 0, want)), e, 0, want)


# `a < b < c` is `a < b and b < c`, with b evaluated once, and c only where a < b.
def _chain(c: Checker, left: ir.Expr, e: tree.Chain, at: int, want: Want) -> ir.Expr:
    """The comparisons from operand number `at` on, whose value is `left`."""
    mark = len(c.out)
    right = scalar(c, e.operands[at + 1], _linked(c, e, at + 1, want) if at + 2 < len(e.operands) else want)
    (left,) = kept(c, mark, (left, _linked(c, e, at, want).privilege))
    span = e.operands[at].span.to(e.operands[at + 1].span)
    test = compared(c, e.ops[at], left, right, span)
    if at + 2 == len(e.operands):
        return test
    if not any(has_effect(c, part) for part in e.operands[at + 2 :]):
        rest = _chain(c, right, e, at + 1, want)
        if isinstance(test, ir.Const):
            return rest if test.value else test
        return ir.Logical("and", test, rest, BOOL, span=e.span)
    result, test = _decided(c, "both", test, _linked(c, e, at, want).privilege, want, e.span)
    with c.block() as body, _conditionally(c):
        rest = _chain(c, right, e, at + 1, want)
        body.append(ir.Assign(ir.VarTarget(result, span=e.span), rest, span=e.span))
    c.out.append(ir.If(test, tuple(body), (), span=e.span))
    return ir.Read(result, BOOL, span=e.span)


def _decided(
    c: Checker, name: str, value: ir.Expr, agreed: Privilege, want: Want, span: Span
) -> tuple[ir.Var, ir.Expr]:
    """A variable for the result of `and` or `or`, which starts as the left side's value, and what decides about the
    right side: one value for all who decide, although the result may differ between them.
    """
    decides = None
    if want.privilege != agreed:
        decides = c.temp(name, BOOL, agreed, span)
        c.out.append(ir.Declare(decides, value, span=span))
        value = ir.Read(decides, BOOL, span=span)
    result = c.temp(name, BOOL, want.privilege, span)
    c.out.append(ir.Declare(result, value, span=span))
    return result, ir.Read(decides or result, BOOL, span=span)


# T-Logical: G |- a : bool @ p, G |- b : bool @ p => G |- a and b : bool @ p
# `and`, `or` and `if-else` are C's: where the operand that may be skipped contains a call, the choice is control
# flow, and a is evaluated as T-If demands.
@evaluates(tree.Logical)
def _logical(c: Checker, e: tree.Logical, want: Want) -> ir.Expr:
    if not has_effect(c, e.right):
        left, right = condition(c, e.left, want), condition(c, e.right, want)
        if isinstance(left, ir.Const):
            return right if left.value == (e.op == "and") else left
        return ir.Logical(e.op, left, right, BOOL, span=e.span)
    left = condition(c, e.left, choosing(c, want))
    name = "either" if e.op == "or" else "both"
    result, test = _decided(c, name, left, choosing(c, want).privilege, want, e.span)
    if e.op == "or":
        test = convert.unary("not", test, e.span)
    body = _branch_value(c, e.right, want, result, lambda v: convert.cast(v, BOOL), e.span)
    c.out.append(ir.If(test, body, (), span=e.span))
    return ir.Read(result, BOOL, span=e.span)


# T-Select: G |- c : bool @ p, G |- a : t @ p, G |- b : t @ p => G |- a if c else b : t @ p
@evaluates(tree.Conditional)
def _conditional(c: Checker, e: tree.Conditional, want: Want) -> ir.Expr:
    if not has_effect(c, e.then) and not has_effect(c, e.other):
        cond = condition(c, e.cond, want)
        then, other = expression(c, e.then, want), expression(c, e.other, want)
        then, other, type = _unify(c, then, other, e.span)
        if isinstance(cond, ir.Const):
            return then if cond.value else other
        return ir.Select(cond, then, other, type, span=e.span)
    cond = condition(c, e.cond, choosing(c, want))
    branches = []
    for part in (e.then, e.other):
        with c.block() as body, _conditionally(c):
            branches.append((body, expression(c, part, want)))
    (then_body, then), (other_body, other) = branches
    then, other, type = _unify(c, then, other, e.span)
    then, other = convert.settled(then), convert.settled(other)
    result = c.temp("chosen", type, want.privilege, e.span)
    c.out.append(ir.Declare(result, None, span=e.span))
    for body, value in ((then_body, then), (other_body, other)):
        body.append(ir.Assign(ir.VarTarget(result, span=e.span), value, span=e.span))
    c.out.append(ir.If(cond, tuple(then_body), tuple(other_body), span=e.span))
    return ir.Read(result, result.type, span=e.span)


def _branch_value(c: Checker, e: tree.Expr, want: Want, result: ir.Var, adapt, span: Span) -> ir.Body:
    with c.block() as body, _conditionally(c):
        value = adapt(scalar(c, e, want))
        body.append(ir.Assign(ir.VarTarget(result, span=span), value, span=span))
    return tuple(body)


def _conditionally(c: Checker):
    return c.construct(ConstructKind.CONDITIONAL, c.definition.tree.span, "")


def _unify(c: Checker, a: ir.Expr, b: ir.Expr, span: Span) -> tuple[ir.Expr, ir.Expr, Element]:
    """Give both sides of a choice one type."""
    if isinstance(a.type, Scalar) and isinstance(b.type, Scalar):
        if a.type == b.type and (a.type == BOOL or not convert.is_weak(a) and not convert.is_weak(b)):
            return a, b, a.type
        type = convert.common_type(a, b)
        if type is not None:
            free = convert.is_weak(a) and convert.is_weak(b)
            seen_as = convert.weakly if free else convert.cast
            return seen_as(a, type), seen_as(b, type), type
    elif isinstance(a.type, Vector) and a.type == b.type:
        return a, b, a.type
    help = f"cast one of them: `{called(cast_word(a.type), b.span)}`"
    raise c.type_error(f"the two sides of `if-else` are `{a.type}` and `{b.type}`", span, help=help)
