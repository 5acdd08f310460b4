"""`unsafe`: the user's CUDA text with its {name} holes filled."""

from __future__ import annotations

import re

from snap._compiler.codegen.core import tree
from snap._compiler.codegen.core.scope import Scope
from snap._compiler.codegen.core.spelling import type_name
from snap._compiler.codegen.memory import addresses
from snap._compiler.codegen.values.expressions import lower
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import Scalar

HOLE = re.compile(r"\{\{|\}\}|\{\s*(\w+)\s*\}")


def raw(scope: Scope, s: ir.Unsafe) -> tree.Raw:
    """Values stand in parentheses, memory as a pointer to its element; `{{` and `}}` are braces."""
    holes = {name: _value(scope, value) for name, value in s.values}
    holes |= {name: addresses.address(scope, access) for name, access in s.memory}
    parts: list[str | tree.Expr] = []
    end = 0
    for match in HOLE.finditer(s.text):
        parts.append(s.text[end : match.start()])
        name = match.group(1)
        parts.append(match.group(0)[0] if name is None else holes.get(name, match.group(0)))
        end = match.end()
    return tree.Raw((*parts, s.text[end:]))


def _value(scope: Scope, value: ir.Expr) -> tree.Expr:
    lowered, type = lower(scope, value), value.type
    if isinstance(lowered, tree.Integer) and isinstance(type, Scalar) and type.bits < 32:
        return tree.Cast(type_name(scope.module, type), lowered)  # the literal alone would be an `int`
    return lowered
