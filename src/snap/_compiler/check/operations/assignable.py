"""Check what is assigned to: variables, elements, components, and registers that an operation delivers into.

Input: the tree of a target.  Output: an `ir.Target` with its type and privilege.  Invariant: the code's privilege is at
least the target's (SNAP005), and what is read-only is no target.  Non-goals: values (check/statements/assignments.py).
"""

from __future__ import annotations

import re

from snap._compiler.check.core.bindings import IndexFunction, Memory, RoleName, Variable
from snap._compiler.check.core.explain import declared, held_here, write_up
from snap._compiler.check.core.names import resolve
from snap._compiler.check.core.records import RecordName
from snap._compiler.check.core.state import Abort, Checker, Want
from snap._compiler.check.memory.accesses import access, writable
from snap._compiler.check.memory.records import plain
from snap._compiler.check.memory.storage import LocalArray, of_one_value, storage
from snap._compiler.check.memory.tables import is_array
from snap._compiler.check.operations.arithmetic import cast_word
from snap._compiler.check.operations.expressions import COMPONENTS, array_index, not_indexed
from snap._compiler.frontend import tree
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import THREAD1, Array, Element, Privilege, Vector
from snap.diag.error import Label
from snap.diag.source import source_line
from snap.diag.span import Span


def spelled(e: tree.Expr) -> str:
    match e:
        case tree.Name(id):
            return f"`{id}`"
        case tree.Subscript(value, _):
            return f"an element of {spelled(value)}"
        case tree.Attribute(value, name):
            return f"`.{name}` of {spelled(value)}"
        case _:
            return "the target"


def _pointer(c: Checker, e: tree.Name) -> Abort:
    inside = "" if c.privilege == THREAD1 else f", in `with each(thread, {e.id}) as i:`"
    return c.type_error("pointers cannot be assigned", e.span, help=f"write its elements: `{e.id}[i] = ...`{inside}")


# T-Target: x : t @ p in G, p <= P, P holds p, x is not read-only => G |- x : t @ p may be assigned
# Code assigns variables at its own privilege or below.
def target_of(c: Checker, e: tree.Expr, also: str = "") -> tuple[ir.Target, Element, Privilege]:
    """Check a target of an assignment, and give its type and privilege.  also: what else the help says of a variable
    that this code cannot assign.
    """
    if c.records and not isinstance(e, tree.Name):
        e = plain(c, e) or e
    match e:
        case tree.Name():
            variable, type = _variable(c, e)
            assignable(c, variable, e.span, also)
            return ir.VarTarget(variable.var, span=e.span), type, variable.var.privilege
        case tree.Subscript(value, index):
            found = storage(c, value)
            if isinstance(found, Memory):
                writable(c, found, e.span)
                of_one_value(c, found, "this", e.span)
                made = access(c, found, index, Want(THREAD1, "is one thread's own index"), e.span)
                return ir.MemTarget(made, span=e.span), found.elem, THREAD1
            if isinstance(found, LocalArray):
                assignable(c, found.variable, e.span)
                p = found.ref.var.privilege
                where = array_index(
                    c, found, index, Want(p, f"chooses an element for `{p}`", found.ref.var.span), e.span
                )
                ref = found.ref
                return ir.ElemTarget(ref.whole(), (*ref.at, *where), span=e.span), ref.elem, p
            if is_array(resolve(c, value)):
                raise c.type_error("a table of constants cannot be written", e.span, help="pass the array as a pointer")
            raise c.type_error("this cannot be indexed", value.span, help=not_indexed(c, e))
        case tree.Attribute(value, name):
            of, type, p = target_of(c, value)
            if (
                isinstance(of, ir.ComponentTarget)
                or not isinstance(type, Vector)
                or COMPONENTS.get(name, 9) >= type.lanes
            ):
                raise c.type_error(
                    f"`{type}` has no component `{name}`",
                    e.span,
                    help="components are `.x`, `.y`, `.z`, `.w`, as many as the vector has",
                )
            return ir.ComponentTarget(of, COMPONENTS[name], span=e.span), type.elem, p
        case _:
            raise c.fail(
                "SNAP017",
                "this cannot be assigned to",
                e.span,
                help="assign to a variable, an element, or a component of a vector",
            )


def _variable(c: Checker, e: tree.Name) -> tuple[Variable, Element]:
    """Find the variable that a name is, and its type."""
    found = resolve(c, e)
    if isinstance(found, Memory):
        raise _pointer(c, e)
    if isinstance(found, IndexFunction):
        raise c.type_error(f"`{e.id}` is an index function of an enclosing block", e.span, help="choose another name")
    if not isinstance(found, Variable):
        what = "a role" if isinstance(found, RoleName) else "a compile-time constant"
        raise c.type_error(
            f"`{e.id}` is {what} and cannot be assigned",
            e.span,
            help="declare a variable of another name, and assign that",
        )
    if isinstance(found.var.type, Array):
        raise c.type_error(
            f"`{e.id}` is an array, and an element is wanted here",
            e.span,
            help=f"`{e.id}[i]`; as a whole it is assigned alone: `{e.id} = 0.0`, `{e.id} = [f(i) for i in range(n)]`",
        )
    return found, found.var.type


def assignable(c: Checker, found: Variable, span: Span, also: str = "") -> None:
    var = found.var
    if found.read_only:
        raise c.type_error(
            f"`{var.name}` is {found.read_only} and cannot be assigned",
            span,
            secondary=declared(var),
            help=f"declare a variable of your own: `j: {var.type} = {var.name}`",
        )
    if not held_here(c, var.privilege):
        label = Label(var.span, f"`{var.name}` is at `{var.privilege}`")
        write_up(c, var.privilege, f"`{var.name}`", span, (label,), help=_own_one(c, var) + also)


SUMMED = "; for a sum over threads, `atomic.add(out, 0, v)` into memory, or `intrinsic.reduce_add(v)` in a warp"


def _own_one(c: Checker, var: ir.Var) -> str:
    """Say how each of those who are here gets a variable of its own."""
    if var.temp or not var.privilege.at_least(c.privilege):
        return ""
    source = source_line(var.span.filename, var.span.line)[var.span.end_column :]
    begins = re.fullmatch(r"\s*(?::[^=#]*)?=\s*([\w.+-]+(?:\([\w.+, -]*\))?)\s*(?:#.*)?", source)
    name = var.name.partition(".")[0]
    whole = c.lookup(name)
    type = str(whole.type) if isinstance(whole, RecordName) else cast_word(var.type)
    of = c.privilege.level.word if c.privilege.n == 1 else f"group of {c.privilege.n} {c.privilege.level.word}s"
    return (
        f"for one of its own for each {of}, declare it so: `{name}: {type} @ {c.privilege} ="
        f" {begins.group(1) if begins else '...'}`; or assign it in code that runs with privilege"
        f" `{var.privilege}` or higher"
    )


def assignable_register(c: Checker, found: Variable, span: Span) -> None:
    """An operation may deliver each thread's own value into it."""
    assignable(c, found, span)
    if found.var.privilege != THREAD1:
        raise c.fail(
            "SNAP005",
            f"`{found.var.name}` is one value for `{found.var.privilege}`, and this delivers one for each thread",
            span,
            secondary=declared(found.var),
            help="declare it `@ thread[1]`",
        )


def register_target(c: Checker, e: tree.Expr) -> tuple[ir.Target, Element]:
    target, type, p = target_of(c, e)
    if isinstance(target, ir.MemTarget):
        raise c.type_error("this delivers into registers", e.span, help="use a local array, then store it")
    if p != THREAD1:
        raise c.fail(
            "SNAP005",
            f"{spelled(e)} is one value for `{p}`, and this delivers one for each thread",
            e.span,
            help="declare it `@ thread[1]`",
        )
    return target, type
