"""Check declarations and assignments: what comes to hold a value, and whether the code may give it one.

Input: the tree of a declaration or an assignment.  Output: `Declare` and `Assign` in `c.out`, and bindings.
Invariant: the value is evaluated for the privilege of what holds it, and the code's privilege is at least that.
Non-goals: shared memory (check/memory/shared.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from snap._compiler.check.core import convert
from snap._compiler.check.core.annotations import annotation
from snap._compiler.check.core.bindings import Constant, IndexFunction, Memory, Poison, RecordName, Variable
from snap._compiler.check.core.constants import constant_value
from snap._compiler.check.core.dispatch import expression
from snap._compiler.check.core.explain import write_up
from snap._compiler.check.core.known import note_value
from snap._compiler.check.core.names import word_called
from snap._compiler.check.core.operands import across, kept
from snap._compiler.check.core.privileges import privilege_of
from snap._compiler.check.core.specs import Spec, SpecKind
from snap._compiler.check.core.state import Abort, Checker, Want
from snap._compiler.check.memory.shared import declare_shared
from snap._compiler.check.memory.storage import LocalArray, storage
from snap._compiler.check.operations.arithmetic import arithmetic, cast_word, converted
from snap._compiler.check.operations.assignable import SUMMED, spelled, target_of
from snap._compiler.check.statements.initial import declare_array
from snap._compiler.frontend import tree
from snap._compiler.frontend.printer import expression as expression_text
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.hardware import THREAD_LOCAL
from snap._compiler.ir.types import THREAD1, Array, Element, Privilege, Scalar, Vector, scalar_of
from snap.diag.source import written
from snap.diag.span import Span
from snap.record import replace

Found = TypeVar("Found")


# T-Decl: P holds p, p <= P, G |- e : t @ p, G + x : t @ p |- s @ P => G |- x: t @ p = e; s @ P
# A variable is declared by code at its privilege or above, which holds units of it. Its value is evaluated for p.
def declare(c: Checker, s: tree.Declare) -> None:
    spec, written, privilege_span = annotation(c, s.annotation)
    earlier = c.scopes[-1].get(s.name)
    if earlier is not None and not isinstance(earlier, Poison):
        c.report(
            "SNAP018",
            f"`{s.name}` is already declared in this block",
            s.name_span,
            help="assign to it, or choose another name",
        )
    if isinstance(s.value, tree.Lambda):
        _declare_index_function(c, s, s.value, spec, written)
        return
    match spec.kind:
        case SpecKind.CONSTEXPR:
            if s.value is None:
                raise c.type_error(
                    f"constexpr `{s.name}` has no value",
                    s.span,
                    help=f"give it where it is declared: `{s.name}: constexpr(int) = 4`",
                )
            value = constant_value(c, s.value, f"`{s.name}`")
            type = scalar_of(spec.type)
            if not convert.implicit(value, type):
                raise c.type_error(
                    f"`{s.name}` is `{spec.type}`, and this is `{value.type}`",
                    s.value.span,
                    help="cast it, or declare the other type",
                )
            c.bind(s.name, Constant(convert.constant(value.value, type, s.span)))
        case SpecKind.SHARED | SpecKind.PIPELINE:
            declare_shared(c, s, spec, written)
        case SpecKind.POINTER | SpecKind.REF:
            raise c.type_error(
                "pointers and references are parameters; they cannot be declared, assigned or stored",
                s.span,
                help="give memory a new name with `partition`, `claim` or `tile`",
            )
        case SpecKind.VALUE:
            _declare_value(c, s, spec, written or c.privilege, privilege_span or s.name_span, implied=written is None)


# T-Index: t is an integer type, P holds p, p <= P, each index that l gives is t @ p => G |- x: t @ p = l
# What is annotated at an index function is each index that it gives: p is at least the privilege that it hands out to.
def _declare_index_function(
    c: Checker, s: tree.Declare, function: tree.Lambda, spec: Spec, p: Privilege | None
) -> None:
    if spec.kind is not SpecKind.VALUE or not isinstance(spec.type, Scalar) or not spec.type.is_integer:
        raise c.type_error(
            f"`{s.name}` is an index function, and an index is an integer",
            s.annotation.span,
            help=f"the annotation is the type of its index: `{s.name}: int @ thread[1] = lambda ...`, or none",
        )
    if p is not None and write_up(c, p, f"an index of `{s.name}`", s.annotation.span):
        p = None
    c.bind(s.name, IndexFunction(function, tuple(c.scopes), s.name_span, spec.type, p))


def _declare_value(c: Checker, s: tree.Declare, spec: Spec, p: Privilege, span: Span, implied: bool) -> None:
    var = c.var(s.name.rstrip(), spec.type, p, s.name_span)  # one that ends in a blank nobody can name
    if write_up(c, p, f"`{s.name}`", span):
        c.bind(s.name, Variable(var))
        raise Abort
    if isinstance(spec.type, Array):
        if spec.type.bytes > THREAD_LOCAL:
            raise c.type_error(
                f"`{s.name}` takes {spec.type.bytes} bytes of each thread, and a thread has at most {THREAD_LOCAL}",
                s.span,
                help="use global memory",
            )
        declare_array(c, var, spec.type, s)
        return
    value = None
    try:
        if s.value is not None:
            value = value_for(
                c,
                s.value,
                Want(p, f"`{s.name}` is one value for `{p}`", s.name_span, implied=implied),
                spec.type,
                f"`{s.name}`",
            )
    finally:
        c.bind(s.name, Variable(var, "const" if spec.const else ""))
    if value is None and spec.const:
        raise c.type_error(
            f"const `{s.name}` has no value", s.span, help=f"give it where it is declared: `{s.name}: const(int) = ...`"
        )
    note_value(c, var, value)
    _emit_declaration(c, var, value, s.span)


def _emit_declaration(c: Checker, var: ir.Var, value: ir.Expr | None, span: Span) -> None:
    if value is not None and _delivered(c, value, var.type):
        c.out[-2] = ir.Declare(var, None, span=span)
        c.out[-1] = _redirected(c.out[-1], ir.VarTarget(var, span=span))
        return
    c.out.append(ir.Declare(var, value, zero=value is None and var.privilege != THREAD1, span=span))


def _delivered(c: Checker, value: ir.Expr, type: object) -> bool:
    """Decide whether the value is a temporary that the last statement has just filled: then it can deliver where the
    value goes.
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


def value_for(c: Checker, e: tree.Expr, want: Want, type: object, what: str) -> ir.Expr:
    if isinstance(e, (tree.Name, tree.Call)) and isinstance(storage(c, e), Memory):
        raise c.type_error(
            "memory cannot be assigned, returned or stored",
            e.span,
            help="read an element, or give it a new name with `partition`, `claim` or `tile`",
        )
    return converted(c, expression(c, e, want), type, e.span, what)


# T-Assn: G |- x : t @ p may be assigned, G |- e : t @ p => G |- x = e @ P
def assign(c: Checker, s: tree.Assign) -> None:
    if isinstance(s.target, tree.Name):
        earlier = c.lookup(s.target.id)
        here = isinstance(earlier, IndexFunction) and c.scopes[-1].get(s.target.id) is earlier
        if isinstance(earlier, IndexFunction) and not here and isinstance(s.value, tree.Lambda):
            earlier.hidden = s.target.span
            here = True
        if earlier is None or here:
            _first_assignment(c, s, s.target)
            return
    mark = len(c.out)
    target, type, p = target_of(c, s.target, SUMMED if _adds(s) and c.privilege == THREAD1 else "")
    placing = c.out[mark:]  # calls in the target's subscripts come after the value, as in Python
    del c.out[mark:]
    value = value_for(c, s.value, wanted_by(s.target, p), type, spelled(s.target))
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


def _adds(s: tree.Assign) -> bool:
    """Decide whether an assignment is `x = x + v`."""
    match s.target, s.value:
        case tree.Name(name), tree.Binary("+", tree.Name(left), _):
            return name == left
    return False


def wanted_by(target: tree.Expr, p: Privilege) -> Want:
    """For whom the value of a target at p is evaluated."""
    name = spelled(target)
    return Want(p, f"{name} is one value for `{p}`" if p != THREAD1 else f"is written to {name}", target.span)


def wanted_by_new(c: Checker, name: tree.Name) -> Want:
    """For whom the value of a name is evaluated that its first assignment declares."""
    return Want(c.privilege, f"`{name.id}` is declared here, at the code's `{c.privilege}`", name.span, implied=True)


# T-Let: p is the highest privilege <= P with G |- e : t @ p, G + x : t @ p |- s @ P => G |- x = e; s @ P
# An unannotated first assignment declares with the value's type and for all that agree on the value: at the code's
# privilege or, where the value differs there, at the highest one below it that a variable has which the value reads.
def first_value(
    c: Checker, name: tree.Name, e: tree.Expr, evaluate: Callable[[Want], Found]
) -> tuple[Found, Privilege]:
    """Evaluate e, the value that declares a name, and give the privilege that it was evaluated for."""
    want = wanted_by_new(c, name)
    for p in (c.privilege, *lower) if (lower := _read_below(c, e)) else ():
        mark = len(c.errors)
        with c.trial() as worked:
            try:
                return evaluate(replace(want, privilege=p)), p
            except Abort:
                worked += [True] * (len(c.errors) == mark or c.errors[-1].code != "SNAP006")
                raise
        if worked:  # it fails for another reason, which is reported
            break
    return evaluate(want), c.privilege


def _read_below(c: Checker, e: tree.Expr) -> list[Privilege]:
    """The privileges below the code's of the variables that are read, from high to low; none where `id()` is called,
    which needs to be told whose number it is.
    """
    found: set[Privilege] = set()
    pending: list[object] = [e]
    while pending:
        part = pending.pop()
        if isinstance(part, tree.Call) and word_called(c, part) == "id":
            return []
        if isinstance(part, tree.Name):
            found.update(variable.var.privilege for variable in _variables(c, part.id))
        pending += tree.children(part)
    lower = [p for p in found if p != c.privilege and c.privilege.at_least(p) and c.place.holds(p)]
    return sorted(lower, key=lambda p: (p.level, p.n), reverse=True)


def _variables(c: Checker, name: str) -> list[Variable]:
    """The variable of that name; of a record, those of its values."""
    found = c.lookup(name)
    leaves = found.type.leaves if isinstance(found, RecordName) and not found.type.has_pointers else ()
    paths = [leaf.path for leaf in leaves]
    return [v for v in (found, *(c.lookup(f"{name}.{path}") for path in paths)) if isinstance(v, Variable)]


def _first_assignment(c: Checker, s: tree.Assign, target: tree.Name) -> None:
    name = target.id
    if isinstance(s.value, tree.Lambda):
        c.bind(name, IndexFunction(s.value, tuple(c.scopes), target.span))
        return
    if isinstance(s.value, (tree.Name, tree.Call)) and isinstance(storage(c, s.value), (Memory, LocalArray)):
        raise c.type_error(
            "memory and arrays cannot be assigned",
            s.value.span,
            help=(
                f"memory gets a new name in a scope, `with partition(..., p=thread[1]) as {name}:`, or use it directly"
            ),
        )
    if isinstance(s.value, tree.Subscript) and (level := privilege_of(c, s.value)) is not None:
        c.bind(name, level)  # a level of the user's own, `quad = thread[4]`
        return
    value, p = first_value(c, target, s.value, lambda want: expression(c, s.value, want))
    value = convert.settled(value)
    _emit_declaration(c, new_variable(c, target, value, p), value, s.span)


def new_variable(c: Checker, name: tree.Name, value: ir.Expr, p: Privilege) -> ir.Var:
    """The variable that a first assignment declares."""
    var = c.var(name.id, value.type, p, name.span)
    c.bind(name.id, Variable(var))
    c.untyped.add(var.uid)
    note_value(c, var, value)
    return var


def augment(c: Checker, s: tree.Augment) -> None:
    target, type, p = target_of(c, s.target, SUMMED if s.op == "+" and c.privilege == THREAD1 else "")
    name = spelled(s.target)
    mark = len(c.out)
    value = expression(c, s.value, wanted_by(s.target, p))
    end = len(c.out)
    (place,) = kept(c, mark, (target, p))  # the place, then what it holds, then the value
    (current,) = kept(c, mark + len(c.out) - end, (_current(place, s.target.span), p))
    c.out.append(ir.Assign(place, combined(c, s, current, value, type, name), span=s.span))


def combined(c: Checker, s: tree.Augment, current: ir.Expr, value: ir.Expr, type: Element, name: str) -> ir.Expr:
    """Combine what a target of this type holds with a value, as `op=` does."""
    if not isinstance(type, (Scalar, Vector)) or not isinstance(value.type, (Scalar, Vector)):
        raise c.type_error(
            f"`{s.op}=` works on scalars and vectors, and {name} is `{type}`",
            s.span,
            help="assign its elements one by one",
        )
    result = arithmetic(c, s.op, current, value, s.span)
    if isinstance(type, Vector) or not isinstance(result.type, Scalar):
        return converted(c, result, type, s.span, name)
    if not (type.is_integer and result.type.is_integer) and not convert.implicit(result, type):
        whole = expression_text(tree.Binary(s.op, s.target, s.value, span=s.span))
        raise c.type_error(
            f"{name} is `{type}`, and the result is `{result.type}`",
            s.span,
            "would lose precision in silence" if type.is_float else "would drop the fraction in silence",
            help=f"cast the result: `{written(s.target.span)} = {cast_word(type)}({whole})`",
        )
    return convert.cast(result, type)


def _current(target: ir.Target, span: Span) -> ir.Expr:
    """Read what a target holds now."""
    match target:
        case ir.VarTarget(var):
            return ir.Read(var, var.type, span=span)
        case ir.ElemTarget(array, index):
            return ir.Elem(array, index, array.elem, span=span)
        case ir.MemTarget(accessed):
            return ir.Load(accessed, accessed.view.elem, span=span)
        case ir.ComponentTarget(of, lane):
            vector = _current(of, span)
            return ir.Component(vector, lane, scalar_of(vector.type), span=span)
