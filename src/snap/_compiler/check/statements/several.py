"""Check tuple assignments: `a, b = b, a`, `i, j = divmod(t, 8)`, `lo, hi = pair`.

Input: the tree of an assignment to several targets.  Output: `Declare` and `Assign` in `c.out`, one for each target.
Invariant: as in Python, all values are read before the first target is written, and the targets are written from left
to right, each one's subscripts evaluated just before: a value that an earlier target's assignment may change is kept in
a temporary, and no other.  Non-goals: `roles(...)` and `ids(...)`, which give names a meaning (check/core/short.py).
"""

from __future__ import annotations

from functools import reduce

from snap._compiler.check.core import convert
from snap._compiler.check.core.bindings import IndexFunction
from snap._compiler.check.core.dispatch import expression
from snap._compiler.check.core.names import word_called
from snap._compiler.check.core.operands import kept, may_change
from snap._compiler.check.core.scalars import scalars
from snap._compiler.check.core.state import Abort, Checker, Want
from snap._compiler.check.operations.arithmetic import arithmetic, converted
from snap._compiler.check.operations.assignable import spelled, target_of
from snap._compiler.check.statements.assignments import first_value, new_variable, value_for, wanted_by, wanted_by_new
from snap._compiler.frontend import tree
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.effects import assigned
from snap._compiler.ir.types import Element, Privilege, Vector
from snap._compiler.ir.walk import walk
from snap.diag.span import Span
from snap.record import record, replace


@record
class Wanted:
    """Describe a target: its type, and for whom its value is evaluated. new: a name that the value declares, with its
    type.
    """

    target: tree.Expr
    new: tree.Name | None
    type: Element | None
    want: Want
    written: bool = False  # for whom it is, and nothing is to be found out


def assign_several(c: Checker, s: tree.Assign, p: Privilege | None = None) -> list[ir.Expr]:
    """p: of the names, which are all new, where that is written.  Output: the values."""
    targets = s.target.items if isinstance(s.target, tree.Sequence) else (s.target,)
    wanted = [_wanted(c, target) for target in targets]
    if p is not None:
        wanted = [replace(_at(w, p), written=True) for w in wanted]
    names = [w.target.id for w in wanted if isinstance(w.target, tree.Name)]
    for name in (name for k, name in enumerate(names) if name in names[:k]):
        raise c.type_error(f"`{name}` is assigned twice here", s.target.span, help="assign to it once")
    values = _values(c, s, wanted)
    mark = len(c.out)
    ends = [_stored(c, w, value, s.span) for w, value in zip(wanted, values)]
    kept_in_turn(c, mark, list(zip(ends, (w.want.privilege for w in wanted))))
    return values


def kept_in_turn(c: Checker, mark: int, ends: list[tuple[int, Privilege]]) -> None:
    """Keep each value of the statements from `mark` on, which write targets, as it was before the earlier targets were
    written.  ends: how many statements there are after each target, and for whom its value is.
    """
    made = c.out[mark:]
    del c.out[mark:]
    for end, p in ends:
        at = end - mark - 1
        made[at] = _kept(c, made[:at], made[at], p)
    c.out.extend(made)


# ---- the left side --------------------------------------------------------------------------------------------------


def _is_new(c: Checker, name: tree.Name) -> bool:
    return c.lookup(name.id) is None or isinstance(c.scopes[-1].get(name.id), IndexFunction)


def _wanted(c: Checker, e: tree.Expr) -> Wanted:
    if isinstance(e, tree.Name) and _is_new(c, e):
        return Wanted(e, e, None, wanted_by_new(c, e))
    mark, errors = len(c.out), len(c.errors)
    _, type, p = target_of(c, e)
    del c.out[mark:]  # its subscripts are evaluated when it is written
    if len(c.errors) > errors:
        raise Abort
    return Wanted(e, None, type, wanted_by(e, p))


def _stored(c: Checker, w: Wanted, value: ir.Expr, span: Span) -> int:
    """Writes one target; output: how many statements there are then."""
    if w.new is not None:
        c.out.append(ir.Declare(new_variable(c, w.new, value, w.want.privilege), value, span=span))
    else:
        target, _, _ = target_of(c, w.target)
        c.out.append(ir.Assign(target, value, span=span))
    return len(c.out)


def _kept(c: Checker, before: list[ir.Stmt], s: ir.Stmt, p: Privilege) -> ir.Stmt:
    """The statement with its value, one for p, as it was before these others, which write earlier targets."""
    value = s.init if isinstance(s, ir.Declare) else s.value if isinstance(s, ir.Assign) else None
    if value is None or not any(_changes(c, one, part) for one in before for part in walk(value)):
        return s
    read = c.remembered("before", value, p)
    return replace(s, init=read) if isinstance(s, ir.Declare) else replace(s, value=read)


def _changes(c: Checker, s: ir.Stmt, part: ir.Expr) -> bool:
    return isinstance(part, ir.Read) and part.var in assigned(s) or may_change(c, s, part)


# ---- the right side -------------------------------------------------------------------------------------------------


def _values(c: Checker, s: tree.Assign, wanted: list[Wanted]) -> list[ir.Expr]:
    """One value for each target, evaluated from left to right.  Of names that are new, `wanted` comes to have the
    privilege.
    """
    if isinstance(s.value, tree.Sequence):
        _as_many(c, s, len(wanted), len(s.value.items), "value")
        values: list[ir.Expr] = []
        for k, item in enumerate(s.value.items):
            mark = len(c.out)
            wanted[k], value = _value(c, wanted[k], item)
            values = [*kept(c, mark, *((v, w.want.privilege) for v, w in zip(values, wanted))), value]
        return values
    first = wanted[0].new
    if first is not None and all(w.new is not None for w in wanted):
        parts, p = first_value(c, first, s.value, lambda want: _parts(c, s, len(wanted), want))
        wanted[:] = [_at(w, p) for w in wanted]
    else:
        joined = reduce(Privilege.joined, (w.want.privilege for w in wanted))
        parts = _parts(c, s, len(wanted), replace(wanted[0].want, privilege=joined))
    return [_fitting(c, w, part, s.value.span) for w, part in zip(wanted, parts)]


def _parts(c: Checker, s: tree.Assign, count: int, want: Want) -> list[ir.Expr]:
    """Give each target its part of the one value on the right."""
    if isinstance(s.value, tree.Call) and word_called(c, s.value) == "divmod":
        _as_many(c, s, count, 2, "value")
        return _divided(c, s.value, want)
    return _components(c, s, count, want)


def _at(w: Wanted, p: Privilege) -> Wanted:
    return replace(w, want=replace(w.want, privilege=p))


def _value(c: Checker, w: Wanted, e: tree.Expr) -> tuple[Wanted, ir.Expr]:
    if w.new is None:
        return w, value_for(c, e, w.want, w.type, spelled(w.target))
    if w.written:
        return w, convert.settled(expression(c, e, w.want))
    value, p = first_value(c, w.new, e, lambda want: expression(c, e, want))
    return _at(w, p), convert.settled(value)


def _fitting(c: Checker, w: Wanted, value: ir.Expr, span: Span) -> ir.Expr:
    return convert.settled(value) if w.type is None else converted(c, value, w.type, span, spelled(w.target))


def _as_many(c: Checker, s: tree.Assign, targets: int, values: int, what: str) -> None:
    if targets != values:
        raise c.type_error(
            f"{targets} target{'s' * (targets != 1)}, and {values} {what}{'s' * (values != 1)}",
            s.span,
            help="`a, b = b, a`",
        )


def _divided(c: Checker, e: tree.Call, want: Want) -> list[ir.Expr]:
    """Quotient and remainder, as `//` and `%` give them; both operands are evaluated once."""
    if len(e.args) != 2 or e.keywords:
        raise c.type_error("`divmod` takes two integers", e.span, help="`i, j = divmod(t, 8)`")
    given = scalars(c, want, *e.args)
    if not all(map(convert.is_integer, given)):
        raise c.type_error("`divmod` takes integers", e.span, help="write `floor(x / y)` and `fmod(x, y)`")
    a, b = (_once(c, value, want.privilege) for value in given)
    return [arithmetic(c, op, a, b, e.span) for op in ("//", "%")]


def _once(c: Checker, value: ir.Expr, p: Privilege) -> ir.Expr:
    return value if isinstance(value, (ir.Const, ir.Read)) else c.remembered("part", value, p)


def _components(c: Checker, s: tree.Assign, count: int, want: Want) -> list[ir.Expr]:
    """The components of a vector."""
    value = expression(c, s.value, want)
    if not isinstance(value.type, Vector):
        raise c.type_error(
            f"one value, of type `{value.type}`, for {count} targets",
            s.value.span,
            help="as many values as targets, `a, b = b, a`, or a vector with as many components",
        )
    elem = value.type.elem
    _as_many(c, s, count, value.type.lanes, "component")
    value = _once(c, value, want.privilege)
    return [ir.Component(value, k, elem, span=s.value.span) for k in range(count)]
