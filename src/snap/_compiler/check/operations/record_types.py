"""Tell which record an expression is, before anything of it is evaluated.

Input: the tree of an expression.  Output: its `RecordType`, None where it is no record.  Invariant: nothing is reported
that evaluating the expression would not report.  Non-goals: its value (check/operations/records.py).
"""

from __future__ import annotations

import dataclasses

from snap._compiler.check.core.annotations import record_of
from snap._compiler.check.core.bindings import Memory
from snap._compiler.check.core.names import as_definition, resolve
from snap._compiler.check.core.records import RecordName, RecordType
from snap._compiler.check.core.state import Checker
from snap._compiler.check.memory.records import place
from snap._compiler.frontend import tree
from snap._compiler.frontend.records import is_record, is_record_value, shape_of
from snap.surface import Marker


def type_of(c: Checker, e: tree.Expr) -> RecordType | None:
    """The record that an expression is, which nothing of it is evaluated to tell; None where it is none."""
    match e:
        case tree.Name(name):
            found = c.lookup(name)
            if isinstance(found, RecordName):
                return found.type if not found.rank else None
            if found is None and is_record_value(known := c.names.get(name)):
                return record_of(c, shape_of(type(known), e.span), e.span)
            return None
        case tree.Known(RecordName() as found):
            return found.type
        case tree.Attribute() | tree.Subscript() if rooted(e):
            at = place(c, e)
            return at.type if at is not None and isinstance(at.type, RecordType) and len(at.index) == at.rank else None
        case tree.Attribute(value, name):
            inner = type_of(c, value)
            field = inner.type_of(name) if inner is not None else None
            return field if isinstance(field, RecordType) else None
        case tree.Call():
            return _called(c, e)
        case tree.Conditional(_, then, other):
            return type_of(c, then) or type_of(c, other)
    return None


def rooted(e: tree.Expr) -> bool:
    while isinstance(e, (tree.Attribute, tree.Subscript)):
        e = e.value
    return isinstance(e, (tree.Name, tree.Known))


def _called(c: Checker, e: tree.Call) -> RecordType | None:
    if isinstance(e.function, tree.Attribute) and e.function.name == "_replace":
        return type_of(c, e.function.value)
    if not isinstance(e.function, (tree.Name, tree.Attribute, tree.Known)):
        return None
    found = resolve(c, e.function) if not _of_local(c, e.function) else None
    if is_record(found):
        return record_of(c, shape_of(found, e.function.span), e.function.span) if isinstance(found, type) else None
    if found is dataclasses.replace:
        return type_of(c, e.args[0]) if e.args else None
    if isinstance(found, Marker):
        if found.word in BY_FIELD:
            return type_of(c, e.args[0]) if e.args else None
        if found.word in ATOMIC and e.args and isinstance(e.args[0], tree.Name):
            memory = c.lookup(e.args[0].id)
            return memory.record if isinstance(memory, Memory) else None
        return None
    definition = as_definition(found)
    if definition is not None and definition.records is not None and definition.records.result is not None:
        return record_of(c, definition.records.result.shape, e.span)
    return None


def _of_local(c: Checker, e: tree.Expr) -> bool:
    while isinstance(e, tree.Attribute):
        e = e.value
    return isinstance(e, tree.Name) and c.lookup(e.id) is not None


BY_FIELD = frozenset(
    f"intrinsic.{word}"
    for word in (
        *("shfl", "shfl_up", "shfl_down", "shfl_xor", "broadcast"),
        *("broadcast_block", "broadcast_cluster", "broadcast_grid"),
    )
)
ATOMIC = frozenset(f"atomic.{word}" for word in ("load", "exch", "cas"))
