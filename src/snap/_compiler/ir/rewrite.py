"""Changing parts of the tree: expressions, targets, statements, bodies.

Input:      a node, and what becomes of its parts
Output:     the node with these parts in place of its own
Invariant:  where every part is the same object as before, so is the whole: whoever asks `new is old` knows whether
            anything changed, and what is known of a node by its identity stays true
Non-goals:  what changes: that is the caller's, and so is that a part fits where another one stood
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.fields import BODIES, EVALUATED, EXPRESSIONS, NODES, PLACES, Fields, holding
from snap._compiler.ir.walk import BRANCHED
from snap.record import replace

T = TypeVar("T")
Change = Callable[[Any], Any]


def changed(node: T, **parts: object) -> T:
    """The node with other parts."""
    for name, part in parts.items():
        if getattr(node, name) is not part:
            return replace(node, **parts)
    return node


def each(items: tuple[T, ...], change: Callable[[T], T]) -> tuple[T, ...]:
    """The items, each changed."""
    made = tuple(map(change, items))
    for new, old in zip(made, items):
        if new is not old:
            return made
    return items


# ---- one level down -------------------------------------------------------------------------------------------------


def with_parts(node: T, change: Change) -> T:
    """The node with each part that stands directly in it changed: nodes, also those in tuples, and bodies as wholes."""
    return _with(node, holding(node, NODES), change)


def with_expressions(node: T, change: Callable[[ir.Expr], ir.Expr]) -> T:
    """The expression or statement with each expression changed that it evaluates itself, in targets and accesses, too.
    Their own parts are for `change` to go into.
    """
    fields = holding(node, EVALUATED)
    return _with(node, fields, lambda part: _evaluated(part, change)) if fields else node


def _evaluated(part: Any, change: Callable[[ir.Expr], ir.Expr]) -> Any:
    cls = type(part)
    if cls in EXPRESSIONS:
        return change(part)
    return with_expressions(part, change) if cls in PLACES else part


def with_bodies(s: ir.Stmt, change: Callable[[ir.Body], ir.Body]) -> ir.Stmt:
    """The statement with each body changed that stands directly in it."""
    if type(s) not in BRANCHED:  # most have none
        return s
    if isinstance(s, ir.Split):
        return changed(s, cases=each(s.cases, lambda case: changed(case, body=change(case.body))))
    return changed(s, **{name: change(getattr(s, name)) for name, _ in holding(s, BODIES)})


# ---- all the way down -----------------------------------------------------------------------------------------------


def mapped(e: ir.Expr, change: Callable[[ir.Expr], ir.Expr | None]) -> ir.Expr:
    """The expression with every part exchanged for which `change` gives another one.  It is asked from the outside in,
    and not about the parts of what it gave.
    """
    new = change(e)
    return with_expressions(e, lambda part: mapped(part, change)) if new is None else new


def _with(node: T, fields: Fields, change: Change) -> T:
    made: dict[str, object] = {}
    for name, whole in fields:
        part = getattr(node, name)
        new = change(part) if whole else _item(part, change)
        if new is not part:
            made[name] = new
    return replace(node, **made) if made else node


def _item(part: object, change: Change) -> object:
    if type(part) is tuple:
        return each(part, lambda item: _item(item, change))
    return change(part) if hasattr(part, "_declared") else part
