"""From the typed IR into the type of the synchronized one.

Input: a typed function.  Output: the same statements in a `synced.Function`, what it calls included, each with
its number (`snap._compiler.ir.numbering`); no synchronization is in it yet.  Invariant: calls of one function call one
function.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cache

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.numbering import Numbers, with_numbers


def number_statements(function: ir.Function, numbers: Numbers) -> synced.Function:
    return with_numbers(function, numbers, _synced)


def _synced(function: ir.Function, body: ir.Body) -> synced.Function:
    return synced.Function(**{name: getattr(function, name) for name in _kept()}, body=body)


@cache
def _kept() -> tuple[str, ...]:
    """List the fields that both have but the body: `watched` is for the reference alone."""
    both = {part.name for part in fields(synced.Function)}
    return tuple(part.name for part in fields(ir.Function) if part.name in both and part.name != "body")
