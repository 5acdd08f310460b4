"""From the typed IR into the type of the synchronized one.

Input: a typed function.  Output: the same statements in a `synced.Function`, what it calls included; no synchronization
is in it yet.  Invariant: calls of one function call one function.
"""

from __future__ import annotations

from dataclasses import fields, replace

from snap.ir import nodes as ir
from snap.ir import synced
from snap.ir.walk import statements, with_bodies


def begin(function: ir.Function, known: dict[int, synced.Function] | None = None) -> synced.Function:
    known = {} if known is None else known
    found = known.get(id(function))
    if found is None:
        same = {part.name: getattr(function, part.name) for part in fields(ir.Function)}
        found = known[id(function)] = synced.Function(**{**same, "body": _body(function.body, known)})
    return found


def _body(body: ir.Body, known: dict[int, synced.Function]) -> ir.Body:
    if not any(isinstance(s, ir.Call) for s in statements(body)):
        return body

    def statement(s: ir.Stmt) -> ir.Stmt:
        if isinstance(s, ir.Call):
            return replace(s, function=begin(s.function, known))
        return with_bodies(s, lambda inner: _body(inner, known))

    return tuple(map(statement, body))
