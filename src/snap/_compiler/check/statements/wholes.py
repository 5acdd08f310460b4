"""Assign local arrays as a whole: `x = y`, `x = 0.0`, `x = [f(i) for i in range(n)]`, `x += y`, `x *= a`.

Input: the tree of an assignment whose target is a local array, or a window of one; or of a declaration whose first
value is a comprehension.  Output: loops over the elements, unrolled, in `c.out`, or the statements that a comprehension
stands for.  Invariant: as in Python the right side is evaluated before the array changes: one value for all elements
once, and a list that reads the array which it is assigned to in another array.  Non-goals: expressions of arrays: what
is computed are elements.
"""

from __future__ import annotations

from snap._compiler.check.core import convert
from snap._compiler.check.core.annotations import annotation
from snap._compiler.check.core.constants import constant_int
from snap._compiler.check.core.dispatch import expression
from snap._compiler.check.core.names import word_called
from snap._compiler.check.core.specs import SpecKind
from snap._compiler.check.core.state import Checker, Want
from snap._compiler.check.memory.storage import LocalArray, fixed_registers, is_local, storage
from snap._compiler.check.operations.assignable import assignable
from snap._compiler.check.operations.fragments import agree
from snap._compiler.check.statements.assignments import combined, wanted_by
from snap._compiler.check.statements.conversions import converts, made_a, operand
from snap._compiler.check.statements.initial import declared_list, each_element, element_value, once
from snap._compiler.frontend import tree
from snap._compiler.frontend.forms import FormPlace, privilege_node, word_node
from snap._compiler.frontend.names import used_names
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import Array, Element, Vector
from snap.diag.span import Span
from snap.surface import TypeName

EXAMPLE = "`x: float[4] = [f(i) for i in range(4)]`; of two dimensions, a list of lists"
VALUES = "values "  # nobody can write this name


def whole(c: Checker, e: tree.Expr) -> LocalArray | None:
    """The local array, or the window of one, that a target is; None where it is something else."""
    named = isinstance(e, (tree.Name, tree.Subscript)) or c.records and isinstance(e, tree.Attribute)
    found = storage(c, e) if named and is_local(c, e) else None
    return found if isinstance(found, LocalArray) else None


def assign_whole(c: Checker, s: tree.Assign, array: LocalArray) -> None:
    to = _target(c, array, s.target)
    want = wanted_by(s.target, to.var.privilege)
    if isinstance(s.value, tree.Sequence):
        type = Array(to.elem, to.shape)
        values = c.temp("values", type, to.var.privilege, s.value.span)
        c.out.append(declared_list(c, values, type, s.value, want))
        value: ir.ArrayRef | ir.Expr = ir.ArrayRef(values, to.elem, to.shape)
    else:
        if converts(c, s.value):
            c.out.append(made_a(c, to, array.fragment, s.value, want))
            return
        value = element_value(c, to, s.value, want, array.fragment)
    c.out.append(each_element(c, to, value, s.span))


def augment_whole(c: Checker, s: tree.Augment, array: LocalArray) -> None:
    to = _target(c, array, s.target)
    want = wanted_by(s.target, to.var.privilege)
    other = operand(c, s.value, want)
    if other is not None and other.ref.shape != to.shape:
        raise c.type_error(
            f"{array.spelled} is `{Array(to.elem, to.shape)}`, and this is `{Array(other.ref.elem, other.ref.shape)}`",
            s.value.span,
            help="both have one shape, element by element; or one value for all elements",
        )
    if other is not None:
        agree(c, array.fragment, array.spelled, other, s.value.span)
    value = other.ref if other is not None else once(c, _one_value(c, s.value, to.elem, want), want)
    name = f"an element of {array.spelled}"
    c.out.append(each_element(c, to, value, s.span, lambda held, given: combined(c, s, held, given, to.elem, name)))


def _one_value(c: Checker, e: tree.Expr, elem: Element, want: Want) -> ir.Expr:
    """Evaluate the value that meets every element. A choice of numbers takes the elements' type, as it does where it
    meets one.
    """
    value = expression(c, e, want)
    kind = elem.elem if isinstance(elem, Vector) else elem
    free = convert.is_weak(value) and not isinstance(value, ir.Const) and kind.is_float
    return convert.cast(value, kind) if free else value


def _target(c: Checker, array: LocalArray, e: tree.Expr) -> ir.ArrayRef:
    assignable(c, array.variable, e.span)
    return fixed_registers(c, array, "an assignment")


# ---- comprehensions -------------------------------------------------------------------------------------------------


def declare_listed(c: Checker, s: tree.Declare, given: tree.Each) -> tree.Body:
    """`x: T[n] = [e for i in range(n)]`: what it stands for."""
    spec, _, _ = annotation(c, s.annotation)
    if spec.kind is not SpecKind.VALUE or not isinstance(spec.type, Array):
        raise c.type_error("a list gives a local array its elements", given.span, help=EXAMPLE)
    if s.name in used_names(given):
        raise c.type_error(
            f"`{s.name}` is declared here, and is not there yet", given.span, help="give one of them another name"
        )
    filled = _filled(c, tree.Name(s.name, span=s.name_span), (), given, spec.type.shape, spec.type)
    return tree.Declare(s.name, s.annotation, None, s.name_span, span=s.span), filled


def assign_listed(c: Checker, s: tree.Assign, array: LocalArray) -> tree.Body:
    """`x = [e for i in range(n)]`: what it stands for."""
    type, span = Array(array.ref.elem, array.ref.shape), s.value.span
    if array.ref.var.name not in used_names(s.value):
        return (_filled(c, s.target, (), s.value, type.shape, type),)
    elements = tree.Known(TypeName(type.elem), str(type.elem), span=span)
    extents = tuple(tree.Number(n, span=span) for n in type.shape)
    at = privilege_node(array.ref.var.privilege, FormPlace(s.span, s.value))
    written = tree.Binary("@", tree.Subscript(elements, extents, span=span), at, span=span)
    values = tree.Name(VALUES, span=span)
    declared = tree.Declare(VALUES, written, None, span, span=s.span)
    filled = _filled(c, values, (), s.value, type.shape, type)
    return (tree.Block((declared, filled, tree.Assign(s.target, values, span=s.span)), span=s.span),)


def _filled(
    c: Checker, to: tree.Expr, at: tuple[tree.Expr, ...], e: tree.Expr, shape: tuple[int, ...], type: Array
) -> tree.Stmt:
    """The statement that gives the elements below these indices their values."""
    if not shape:
        return tree.Assign(tree.Subscript(to, at, span=to.span), e, span=e.span)
    if isinstance(e, tree.Sequence):
        _as_many(c, len(e.items), shape[0], type, e.span)
        numbers = (tree.Number(k, span=e.span) for k in range(len(e.items)))
        rows = tuple(_filled(c, to, (*at, k), item, shape[1:], type) for k, item in zip(numbers, e.items))
        return tree.Block(rows, span=e.span)
    if not isinstance(e, tree.Each):
        raise c.type_error(f"a list for `{type}` has lists as its items, one for each row", e.span, help=EXAMPLE)
    ((name, over),) = e.clauses
    if not isinstance(over, tree.Call) or word_called(c, over) != "range" or len(over.args) != 1 or over.keywords:
        raise c.type_error("the elements of a list are counted by `range(n)`", over.span, help=EXAMPLE)
    _as_many(c, constant_int(c, over.args[0], "the number of a list's elements"), shape[0], type, over.span)
    if name in used_names(tree.Sequence((to, *at), span=e.span)):
        raise c.type_error(f"`{name}` is another index or array already", e.span, help="choose another name")
    trips = tree.Call(word_node("unroll", over.span), (over,), (), span=over.span)
    inner = _filled(c, to, (*at, tree.Name(name, span=e.span)), e.value, shape[1:], type)
    return tree.For(name, trips, (inner,), over.span, span=e.span)


def _as_many(c: Checker, given: int, wanted: int, type: Array, span: Span) -> None:
    if given != wanted:
        raise c.type_error(f"a list for `{type}` has {wanted} items here, and this has {given}", span, help=EXAMPLE)


__all__ = ["assign_listed", "assign_whole", "augment_whole", "declare_listed", "whole"]
